//! The first bytes of a connection: an input is two bytes that say how many more were sent than captured, and the segment.

use kraft::recognize::{opens_connection, request_likeness};
use kraft::tape::Tape;

use super::tiling::tiled;

/// The largest size prefix that is plausible.
const MAX_SIZE: u32 = 100 << 20;

/// Asks whether the bytes open a connection.
///
/// # Panics
/// If the answer depends on what was asked before, or is yes for no bytes.
pub fn try_out(input: &[u8]) {
    let Some((missing, captured)) = input.split_first_chunk() else { return };
    let length = captured.len() as u32 + u32::from(u16::from_be_bytes(*missing));
    let mut tape = Tape::new();
    let opens = opens_connection(captured, length, MAX_SIZE, &mut tape);
    assert!(!opens || !captured.is_empty(), "nothing opens a connection");
    tiled_or_empty(&tape);
    assert_eq!(opens, opens_connection(captured, length, MAX_SIZE, &mut tape), "it depends on what was asked before");
    request_likeness(captured, length);
    for max_size in [0, 1000, u32::MAX] {
        opens_connection(captured, length, max_size, &mut tape);
    }
}

/// The tape of the last request that was tried, which begins behind the size prefix.
fn tiled_or_empty(tape: &Tape) {
    use kraft::tape::Event;
    if tape.is_empty() {
        return;
    }
    let size = Event::Leaf { field: kraft::schema::header::SIZE, at: 0, len: 4, value: kraft::tape::Value::Int(0) };
    tiled(&[&[size], tape.events()].concat());
}
