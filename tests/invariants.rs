//! What holds for every tape, whatever the bytes: those of all captures, all their beginnings, and damaged copies of them.

mod support {
    pub mod conversation;
    pub mod corpus;
    pub mod damage;
    pub mod random;
    pub mod reader;
    pub mod tiling;
}

use std::iter;

use kraft::decode::MAX_EVENTS;
use kraft::dissect::{Look, Pdu, Summary, dissect};
use kraft::dump;
use kraft::schema::{Direction, header};
use kraft::tape::{Event, Tape};
use kraft::wire::Halt;
use support::conversation::{Conversation, Said, as_sent, conversation, look, remembering_nothing_of};
use support::corpus::{captures, name};
use support::damage::damaged;
use support::random::Random;
use support::reader;
use support::tiling::tiled;

/// Events that a byte can give at most: an unknown tagged field of two bytes gives an open, three leaves, a note that its tag
/// is out of order, and a close.
const EVENTS_PER_BYTE: usize = 3;
/// Events that belong to no byte: what frames the message, a note where decoding stops, and what is shown raw.
const EVENTS_PER_PDU: usize = 8;
/// Events of one element and of all that is open around it: the limit is looked at before each element.
const EVENTS_OVER_LIMIT: usize = 32;

/// PDUs up to this length are cut at every byte, longer ones at some bytes only.
const CUT_EVERYWHERE: usize = 2000;
/// Damaged copies.
const ROUNDS: u32 = 30_000;

#[test]
fn every_pdu_of_every_capture_gives_a_sound_tape() {
    for capture in captures() {
        for Said { read, tape, .. } in conversation(&capture).talk {
            sound(&as_sent(&read), &tape);
        }
    }
}

#[test]
fn every_look_at_a_pdu_gives_the_same_tape() {
    for capture in captures() {
        let Conversation { talk, mut history } = conversation(&capture);
        let mut anew = remembering_nothing_of(talk.iter().map(|said| &said.read));
        let mut tape = Tape::new();
        for Said { read, tape: later, .. } in &talk {
            look(read, Look::First, &mut anew, &mut tape);
            assert_eq!(tape.events(), later.events(), "{} frame {}, first look", name(&capture), read.frame);
        }
        for Said { read, tape: before, summary } in talk.iter().rev() {
            look(read, Look::Again(summary.id), &mut history, &mut tape);
            assert_eq!(tape.events(), before.events(), "{} frame {}, backwards", name(&capture), read.frame);
        }
    }
}

/// The tape of a PDU that was captured up to some byte is the beginning of the tape of the whole, where only the lengths of
/// what stays open differ. Then may follow one raw leaf up to the end of what was captured, then what is open closes.
#[test]
fn every_beginning_of_a_pdu_gives_the_beginning_of_its_tape() {
    for capture in captures() {
        let Conversation { talk, mut history } = conversation(&capture);
        for said in &talk {
            let again = Look::Again(said.summary.id);
            for cut in cuts(said.read.bytes.len()) {
                let whole = as_sent(&said.read);
                let pdu = Pdu { captured: &whole.captured[..cut], ..whole };
                let mut tape = Tape::new();
                dissect(&pdu, again, &mut history, &mut tape);
                sound(&pdu, &tape);
                begins(tape.events(), said.tape.events(), cut as u32);
            }
        }
    }
}

#[test]
fn damaged_pdus_give_sound_tapes_and_can_be_shown() {
    let mut random = Random::new();
    let originals: Vec<Said> = captures().iter().flat_map(|capture| conversation(capture).talk).collect();
    for _ in 0..ROUNDS {
        let said = &originals[random.below(originals.len())];
        let (bytes, length) = damaged(&said.read.bytes, &said.tape, &mut random);
        let read = reader::Pdu { bytes, length, ..said.read.clone() };
        let (tape, summary) = alone(&read, &said.summary);
        sound(&as_sent(&read), &tape);
        show(&as_sent(&read), &tape, &summary);
    }
}

#[test]
fn a_flood_of_tagged_fields_gives_a_limited_number_of_events() {
    // Every pair of zeros is a tagged field: tag 0, size 0.
    let tape = flooded("003e0004 00000000 0000 ffffffff0f");
    assert!(tape.events().len() > MAX_EVENTS, "only {} events", tape.events().len());
}

#[test]
fn a_flood_of_elements_gives_a_limited_number_of_events() {
    // Seven zeros are a listener: null for its name and host, port 0, protocol 0, no tagged fields.
    let tape = flooded("003e0004 00000000 0000 00 00000001 01 00000000000000000000000000000000 8080801e");
    assert!(tape.events().len() > MAX_EVENTS, "only {} events", tape.events().len());
}

/// Checks all that must hold for the tape of a PDU on its own.
fn sound(pdu: &Pdu, tape: &Tape) {
    let (captured, events) = (pdu.captured.len() as u32, tape.events());
    let end = tiled(events);
    match tape.stop().map(|stop| (stop.at, stop.why)) {
        Some((at, Halt::NotCaptured { needs })) => {
            assert_eq!(end, at, "what was decoded does not end where it stopped");
            assert!(at <= captured && captured < at + needs, "{needs} bytes at {at} were captured");
        }
        _ => assert_eq!(end, captured, "what was decoded does not end with what was captured"),
    }
    let limit = EVENTS_PER_PDU + EVENTS_PER_BYTE * captured as usize;
    let limit = limit.min(MAX_EVENTS + EVENTS_OVER_LIMIT);
    assert!(events.len() <= limit, "{} events of {captured} bytes", events.len());
    for event in events {
        if let Event::Note { at, len, .. } = *event {
            assert!(at + len <= pdu.length, "{event:?} is not inside the PDU");
        }
    }
}

/// Where a PDU of that length is cut.
fn cuts(len: usize) -> impl Iterator<Item = usize> {
    let step = 1 + len / CUT_EVERYWHERE * 7;
    (0..len).step_by(step)
}

fn begins(cut: &[Event], whole: &[Event], captured: u32) {
    let same = iter::zip(cut, whole).take_while(|(cut, whole)| lengthless(cut) == lengthless(whole)).count();
    let is_raw =
        |event: &Event| matches!(*event, Event::Leaf { field: header::UNDECODED, at, len, .. } if at + len == captured);
    let rest = match &cut[same..] {
        [raw, rest @ ..] if is_raw(raw) => rest,
        rest => rest,
    };
    assert!(rest.iter().all(|event| *event == Event::Close), "of {captured} bytes: {rest:?}");
}

/// An event without the length of something opened.
fn lengthless(event: &Event) -> Event {
    match *event {
        Event::Open { field, at, prefix, count, .. } => Event::Open { field, at, len: 0, prefix, count, events: 0 },
        other => other,
    }
}

/// Dissects a PDU as if nothing else had been captured but, for a response, the header of its request.
fn alone(read: &reader::Pdu, original: &Summary) -> (Tape, Summary) {
    let (mut history, mut tape) = (remembering_nothing_of([read]), Tape::new());
    if let (Direction::Response, Some((key, version)), Some(id)) =
        (original.direction, original.api, read.bytes.get(4..8))
    {
        let bytes = [&[0, 0, 0, 10][..], &key.to_be_bytes(), &version.to_be_bytes(), id, &[0, 0]].concat();
        let (source, destination, length) = (read.destination, read.source, bytes.len() as u32);
        let request = reader::Pdu { bytes, length, source, destination, ..read.clone() };
        look(&request, Look::First, &mut history, &mut tape);
    }
    let summary = look(read, Look::First, &mut history, &mut tape);
    (tape, summary)
}

fn show(pdu: &Pdu, tape: &Tape, summary: &Summary) {
    let mut text = String::new();
    summary.write_info(pdu.captured, tape, &mut text);
    dump::tree(pdu, tape, summary, &mut text);
    assert!(!text.is_empty());
}

/// The tape of a request of 100 MiB, the most that Kafka accepts by default: it begins so, all else is zeros.
fn flooded(beginning: &str) -> Tape {
    let beginning = data_encoding::HEXLOWER.decode(beginning.replace(' ', "").as_bytes()).expect("bytes in hex");
    let size = 100 << 20;
    let mut captured = vec![0; 4 + size];
    captured[..4].copy_from_slice(&(size as u32).to_be_bytes());
    captured[4..4 + beginning.len()].copy_from_slice(&beginning);
    let read = reader::Pdu {
        frame: 1,
        time_ns: 0,
        stream: 0,
        source: ([127, 0, 0, 1], 40000).into(),
        destination: ([127, 0, 0, 1], 9093).into(),
        stream_offset: 0,
        length: captured.len() as u32,
        bytes: captured,
        framing: reader::Framing::Intact,
    };
    let mut tape = Tape::new();
    look(&read, Look::First, &mut remembering_nothing_of([&read]), &mut tape);
    sound(&as_sent(&read), &tape);
    tape
}
