//! Does a work so many times, for those who count instructions (`tests/cost.rs`, callgrind).
//!
//! `kraft-work request|response|pair TIMES REQUEST RESPONSE`: the last two are files, each with one message.

#[path = "../../tests/support/work.rs"]
mod work;

use std::hint::black_box;
use std::{env, fs};

use kraft::schema::Direction;
use kraft::tape::Tape;
use work::{Exchange, to_tape};

/// Connections that pairs go over.
const CONNECTIONS: usize = 10;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [what, times, request, response] = &arguments[..] else { panic!("usage: see the source") };
    let read = |path| fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let (request, response) = (read(request), read(response));
    let times = times.parse().expect("how many times");
    match &**what {
        "request" => decode(Direction::Request, &request, times),
        "response" => decode(Direction::Response, &response, times),
        "pair" => converse(&request, &response, times),
        _ => panic!("no such work"),
    }
}

fn decode(direction: Direction, bytes: &[u8], times: i32) {
    let mut tape = Tape::new();
    for _ in 0..times {
        to_tape(direction, black_box(bytes), &mut tape);
        black_box(&tape);
    }
}

fn converse(request: &[u8], response: &[u8], times: i32) {
    let mut exchange = Exchange::new(CONNECTIONS, request, response);
    for number in 0..times {
        exchange.ask(number);
        exchange.answer(number);
        black_box(&exchange.tape);
    }
}
