//! How fast the pure half is, beside `kafka-protocol` decoding the same messages.
//!
//! `cargo bench --no-default-features --bench decoder` measures all; a word behind it (`-- tape`) only what has it in its
//! name. `docs/performance.md` tells what the groups are and what came out.

#[path = "../tests/support/load.rs"]
mod load;
#[path = "../tests/support/work.rs"]
mod work;

use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BatchSize, Throughput};
use kafka_protocol::messages::{BrokerRegistrationRequest, BrokerRegistrationResponse, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::Decodable;
use kraft::dissect::{Look, Pdu, Summary, dissect};
use kraft::dump;
use kraft::pairing::{ConnectionId, Sighting};
use kraft::recognize::Side;
use kraft::schema::Direction;
use kraft::tape::Tape;
use load::{REQUEST_BYTES, REQUEST_HEADER, RESPONSE_BYTES, RESPONSE_HEADER, VERSION};
use rustix::time::{ClockId, clock_gettime};
use work::{Exchange, to_tape};

type Criterion = criterion::Criterion<CpuTime>;
type Group<'c> = criterion::BenchmarkGroup<'c, CpuTime>;

/// Pairs of a conversation that is measured as a whole.
const PAIRS: i32 = 10_000;
/// Connections that they go over.
const CONNECTIONS: usize = 10;
/// Requests that wait for their answer at a time, in the two conversations that are compared.
const OUTSTANDING: [i32; 2] = [1, 1000];

fn main() {
    let mut criterion = criterion::Criterion::default()
        .with_measurement(CpuTime)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    tape(&mut criterion);
    kafka_protocol(&mut criterion);
    text(&mut criterion);
    conversation(&mut criterion);
    criterion.final_summary();
}

/// The time that this thread has run, in nanoseconds: what others do on the machine stays out.
struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }

    fn end(&self, start: Duration) -> Duration {
        self.start() - start
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        value.as_nanos() as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        static WALL: WallTime = WallTime;
        WALL.formatter()
    }
}

/// Bytes to tape: header and body, the tape reused.
fn tape(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tape");
    let mut tape = Tape::new();
    for (name, direction, bytes) in messages() {
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(name, |bencher| bencher.iter(|| to_tape(direction, black_box(&bytes), &mut tape)));
    }
    group.finish();
}

/// The same messages as structs of `kafka-protocol`: header and body, as its users do it.
fn kafka_protocol(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("kafka-protocol");
    let (request, response) = (Bytes::from(load::request()), Bytes::from(load::response()));
    group.throughput(Throughput::Bytes(REQUEST_BYTES as u64));
    group.bench_function("request", |bencher| {
        bencher.iter(|| decode::<RequestHeader, BrokerRegistrationRequest>(black_box(&request), REQUEST_HEADER));
    });
    group.throughput(Throughput::Bytes(RESPONSE_BYTES as u64));
    group.bench_function("response", |bencher| {
        bencher.iter(|| decode::<ResponseHeader, BrokerRegistrationResponse>(black_box(&response), RESPONSE_HEADER));
    });
    group.finish();
}

fn decode<Header: Decodable, Body: Decodable>(message: &Bytes, header_version: i16) -> (Header, Body) {
    let mut bytes = message.slice(4..);
    let header = Header::decode(&mut bytes, header_version).expect("kafka-protocol wrote it");
    let body = Body::decode(&mut bytes, VERSION).expect("kafka-protocol wrote it");
    (header, body)
}

/// Tape to text: the line of the Info column, and the whole object tree.
fn text(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("text");
    for (name, direction, bytes) in messages() {
        let (tape, summary) = dissected(direction);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        let pdu = pdu(&bytes, direction);
        write(&mut group, &format!("info/{name}"), |out| summary.write_info(pdu.captured, black_box(&tape), out));
        write(&mut group, &format!("tree/{name}"), |out| dump::tree(&pdu, black_box(&tape), &summary, out));
    }
    group.finish();
}

fn write(group: &mut Group, name: &str, write: impl Fn(&mut String)) {
    let mut out = String::new();
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            out.clear();
            write(&mut out);
        });
    });
}

/// Framing, decoding, pairing and rules over a whole conversation, as the plugin does it on its first pass; and one more
/// look at its messages, as on later passes.
fn conversation(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("conversation");
    group.throughput(Throughput::Bytes(PAIRS as u64 * (REQUEST_BYTES + RESPONSE_BYTES) as u64));
    group.sample_size(20);
    for outstanding in OUTSTANDING {
        group.bench_function(format!("first pass, {outstanding} outstanding"), |bencher| {
            bencher.iter_batched(exchange, |exchange| converse(exchange, outstanding), BatchSize::PerIteration);
        });
    }
    group.throughput(Throughput::Bytes(REQUEST_BYTES as u64));
    group.sample_size(100);
    let mut exchange = converse(exchange(), 1);
    let (again, bytes) = (exchange.ask(PAIRS), load::request());
    let pdu = Pdu {
        sighting: exchange.history.sighting(again.id.expect("it is recorded")).expect("so"),
        ..pdu(&bytes, Direction::Request)
    };
    let Exchange { history, tape, .. } = &mut exchange;
    group.bench_function("request again", |bencher| {
        bencher.iter(|| dissect(black_box(&pdu), Look::Again(again.id), history, tape));
    });
    group.finish();
}

fn exchange() -> Exchange {
    Exchange::new(CONNECTIONS, &load::request(), &load::response())
}

/// All requests and their answers, each answer so many requests later.
fn converse(mut exchange: Exchange, outstanding: i32) -> Exchange {
    for number in 0..PAIRS + outstanding - 1 {
        if number < PAIRS {
            exchange.ask(number);
        }
        if number + 1 >= outstanding {
            exchange.answer(number + 1 - outstanding);
        }
    }
    exchange
}

fn messages() -> [(&'static str, Direction, Vec<u8>); 2] {
    [("request", Direction::Request, load::request()), ("response", Direction::Response, load::response())]
}

/// A message that is dissected in its place in a conversation.
fn dissected(direction: Direction) -> (Tape, Summary) {
    let mut exchange = exchange();
    let asked = exchange.ask(1);
    let summary = if direction == Direction::Request { asked } else { exchange.answer(1) };
    (exchange.tape, summary)
}

fn pdu(bytes: &[u8], direction: Direction) -> Pdu<'_> {
    Pdu {
        captured: bytes,
        length: bytes.len() as u32,
        sighting: Sighting { frame: 1, time_ns: 0 },
        connection: ConnectionId(0),
        sender: if direction == Direction::Request { Side::A } else { Side::B },
        server: Some(Side::B),
        source: 1,
        destination: 0,
        is_local: false,
        stray: false,
    }
}
