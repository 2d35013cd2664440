//! One PDU on its own: an input is two bytes that say which API and version a response is of, one that says how the PDU
//! stands in its capture, and the PDU without its size prefix.

use kraft::dissect::{Look, Pdu, dissect};
use kraft::pairing::{History, Sighting};
use kraft::recognize::Side;
use kraft::tape::Tape;

use super::sound::{show, sound};

/// It is an answer.
pub const RESPONSE: u8 = 1;
/// More was sent than captured.
pub const CUT: u8 = 2;
/// Its size prefix is its own first four bytes.
pub const UNSIZED: u8 = 4;

/// Bytes that are sent, but not captured, of a PDU that is cut.
const MISSING: u32 = 40;

/// Dissects a PDU, looks again, and shows it in all ways if `shown`.
///
/// # Panics
/// If something that must hold does not.
pub fn try_out(input: &[u8], shown: bool) {
    let Some((&[key, version, flags], rest)) = input.split_first_chunk() else { return };
    let mut captured = Vec::with_capacity(rest.len() + 4);
    let missing = if flags & CUT == 0 { 0 } else { MISSING };
    if flags & UNSIZED == 0 {
        captured.extend((rest.len() as u32 + missing).to_be_bytes());
    }
    captured.extend(rest);
    let length = captured.len() as u32 + missing;
    let (mut history, mut tape, mut text) = (History::new(), Tape::new(), String::new());
    let is_response = flags & RESPONSE != 0;
    let sender = if is_response { Side::B } else { Side::A };
    let pdu = Pdu {
        captured: &captured,
        length,
        sighting: Sighting { frame: 2, time_ns: 2 },
        connection: history.connect(),
        sender,
        server: Some(Side::B),
        source: 1,
        destination: 2,
        is_local: false,
        stray: false,
    };
    if let (true, Some(id)) = (is_response, captured.get(4..8)) {
        let asked = [&[0, 0, 0, 10, 0, key, 0, version], id, &[0, 0]].concat();
        let request = Pdu { captured: &asked, length: 14, sender: Side::A, ..pdu };
        dissect(&request, Look::First, &mut history, &mut tape);
    }
    let first = dissect(&pdu, Look::First, &mut history, &mut tape);
    sound(&pdu, &tape);
    if shown {
        show(&pdu, &tape, &first, &history, &mut text);
    }
    let events = tape.events().to_vec();
    let again = dissect(&pdu, Look::Again(first.id), &mut history, &mut tape);
    assert_eq!(tape.events(), events, "another look shows something else");
    assert_eq!((first.api, first.nature, first.time_ns), (again.api, again.nature, again.time_ns));
}
