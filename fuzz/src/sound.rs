//! What holds for the tape of every PDU, whatever its bytes.

use kraft::decode::MAX_EVENTS;
use kraft::dissect::{Pdu, Summary};
use kraft::dump;
use kraft::pairing::History;
use kraft::tally::Tally;
use kraft::tape::{Event, Tape};
use kraft::wire::Halt;

use super::tiling::tiled;

/// Events that a byte can give at most.
const EVENTS_PER_BYTE: usize = 3;
/// Events that belong to no byte.
const EVENTS_PER_PDU: usize = 8;
/// Events of one element and of all that is open around it.
const EVENTS_OVER_LIMIT: usize = 32;

/// Checks the tape of a PDU.
///
/// # Panics
/// If it is not sound.
pub fn sound(pdu: &Pdu, tape: &Tape) {
    let (captured, events) = (pdu.captured.len() as u32, tape.events());
    let end = tiled(events);
    match tape.stop().map(|stop| (stop.at, stop.why)) {
        Some((at, Halt::NotCaptured { needs })) => {
            assert_eq!(end, at, "what was decoded does not end where it stopped");
            assert!(at <= captured && captured < at + needs, "{needs} bytes at {at} were captured");
            assert!(at + needs <= pdu.length, "{needs} bytes at {at} were never sent");
        }
        _ => assert_eq!(end, captured, "what was decoded does not end with what was captured"),
    }
    let limit = EVENTS_PER_PDU + EVENTS_PER_BYTE * captured as usize;
    let limit = limit.min(MAX_EVENTS + EVENTS_OVER_LIMIT);
    assert!(events.len() <= limit, "{} events of {captured} bytes", events.len());
    for event in events {
        if let Event::Note { at, len, .. } = *event {
            assert!(at.checked_add(len).is_some_and(|end| end <= pdu.length), "{event:?} is not inside the PDU");
        }
    }
}

/// Inputs of which one is shown.
const SHOWN_EVERY: u8 = 64;

/// Whether the PDUs of an input are shown, which takes most of the time. It goes by all bytes, so that no input that is shown
/// has only descendants that are.
pub fn is_shown(input: &[u8]) -> bool {
    input.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) % SHOWN_EVERY == 0
}

/// Shows a PDU in all ways in which it can be shown.
///
/// # Panics
/// If nothing is shown.
pub fn show(pdu: &Pdu, tape: &Tape, summary: &Summary, history: &History, text: &mut String) {
    text.clear();
    summary.write_info(pdu.captured, tape, text);
    assert!(!text.is_empty(), "a PDU without a line");
    dump::tree(pdu, tape, summary, text);
    let mut rows = 0;
    Tally::of(summary, pdu.captured, tape, history).count(history, &mut |_, _| rows += 1);
    assert!(rows > 0, "a PDU that counts as nothing");
}
