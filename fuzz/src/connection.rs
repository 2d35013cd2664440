//! Whole connections, as TCP and Wireshark hand them over: an input is a list of segments, each of them three bytes that say
//! how it stands in the capture, and its bytes.
//!
//! What Wireshark does between TCP and a PDU (`tcp_dissect_pdus`, and `dissect_segment` of `src/epan/shim.c`) is done here
//! in the same way: a PDU that its segment does not hold is put together from those that follow.

use kraft::dissect::{Look, Pdu, Summary, dissect};
use kraft::framing::Segment;
use kraft::pairing::{ConnectionId, History, PduId, Sighting};
use kraft::recognize::{Side, opens_connection};
use kraft::tape::{Event, Tape};

use super::sound::{show, sound};
use super::told::told;

/// The server sends it.
pub const FROM_SERVER: u8 = 1;
/// Bytes before it were never captured.
pub const GAP: u8 = 2;
/// Its last bytes were sent, but not captured.
pub const CUT: u8 = 4;
/// It is of another connection.
pub const OTHER: u8 = 8;
/// Much time has passed.
pub const LATER: u8 = 16;
/// It begins a connection that heuristics look at.
pub const OPENS: u8 = 32;
/// What TCP kept for the PDU at hand is given up: the rest never came.
pub const GIVE_UP: u8 = 64;
/// As seen inside TLS: without sequence numbers.
pub const NO_SEQUENCE: u8 = 128;

/// The largest size prefix that is plausible.
const MAX_SIZE: u32 = 100 << 20;
/// Bytes that a gap or a cut takes.
const LOST: u32 = 37;
/// How long nothing happens, in nanoseconds.
const PAUSE_NS: i64 = 7_000_000_000;
/// Bytes of the size prefix.
const SIZE_PREFIX: usize = 4;

/// The bytes of an input that holds these segments: how each stands in the capture, and its bytes.
pub fn input<'a>(segments: impl IntoIterator<Item = (u8, &'a [u8])>) -> Vec<u8> {
    let mut input = Vec::new();
    for (flags, bytes) in segments {
        for bytes in bytes.chunks(usize::from(u16::MAX)) {
            input.push(flags);
            input.extend((bytes.len() as u16).to_be_bytes());
            input.extend(bytes);
        }
    }
    input
}

/// One direction of a connection.
#[derive(Default)]
struct Flow {
    next_seq: u32,
    /// The beginning of a PDU that is not whole yet, and its sequence number.
    pending: Vec<u8>,
    since: u32,
}

/// A PDU as it was seen first.
struct Seen {
    captured: Vec<u8>,
    about: Pdu<'static>,
    summary: Summary,
    events: Vec<Event>,
}

struct Capture {
    history: History,
    tape: Tape,
    connections: [ConnectionId; 2],
    flows: [[Flow; 2]; 2],
    time_ns: i64,
    frame: u32,
    seen: Vec<Seen>,
}

/// Dissects all segments, looks at all PDUs again, backwards, and reads all that is said of them; shows each of them in all
/// ways if `shown`.
///
/// # Panics
/// If something that must hold does not.
pub fn try_out(input: &[u8], shown: bool) {
    let mut history = History::new();
    let connections = [history.connect(), history.connect()];
    let (tape, flows) = (Tape::new(), Default::default());
    let mut capture = Capture { history, tape, connections, flows, time_ns: 0, frame: 0, seen: Vec::new() };
    let mut rest = input;
    while let Some((&[flags, l0, l1], after)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_be_bytes([l0, l1])).min(after.len());
        let (bytes, after) = after.split_at(len);
        capture.segment(flags, bytes);
        rest = after;
    }
    capture.look_again(shown);
}

impl Capture {
    fn segment(&mut self, flags: u8, bytes: &[u8]) {
        self.frame += 1;
        self.time_ns += if flags & LATER == 0 { 1_000_000 } else { PAUSE_NS };
        let (connection, side) = (usize::from(flags & OTHER != 0), flags & FROM_SERVER);
        let sender = if side == 0 { Side::A } else { Side::B };
        let flow = &mut self.flows[connection][usize::from(side)];
        if flags & (GIVE_UP | GAP) != 0 {
            flow.pending.clear();
        }
        if flags & GAP != 0 {
            flow.next_seq = flow.next_seq.wrapping_add(LOST);
        }
        if flow.pending.is_empty() {
            flow.since = flow.next_seq;
        }
        let missing = if flags & CUT == 0 { 0 } else { LOST };
        flow.next_seq = flow.next_seq.wrapping_add(bytes.len() as u32 + missing);
        let mut captured = std::mem::take(&mut flow.pending);
        captured.extend(bytes);
        if captured.is_empty() {
            return;
        }
        let sequence = (flags & NO_SEQUENCE == 0).then_some((flow.since, flow.next_seq));
        let length = captured.len() as u32 + missing;
        let segment = Segment { captured: &captured, length, sequence, max_size: MAX_SIZE };
        let connection_id = self.connections[connection];
        if flags & OPENS != 0 && opens_connection(&captured, length, MAX_SIZE, &mut self.tape) {
            self.history.learn_client(connection_id, sender);
        }
        let about = Pdu {
            captured: &[],
            length: 0,
            sighting: Sighting { frame: self.frame, time_ns: self.time_ns },
            connection: connection_id,
            sender,
            server: (flags & OPENS == 0).then_some(Side::B),
            source: u64::from(flags & (OTHER | FROM_SERVER)),
            destination: 1,
            is_local: false,
            stray: false,
        };
        if !self.history.begins_pdu(connection_id, sender, &segment) {
            self.pdu(&captured, Pdu { length, stray: true, ..about });
            return;
        }
        let pending = self.pdus(&captured, missing, about);
        let flow = &mut self.flows[connection][usize::from(side)];
        flow.since = flow.next_seq.wrapping_sub(pending.len() as u32);
        flow.pending = pending;
    }

    /// Dissects the PDUs that a segment begins with; gives the beginning of the last one, if that is not whole.
    fn pdus(&mut self, captured: &[u8], missing: u32, about: Pdu<'static>) -> Vec<u8> {
        let mut at = 0;
        let length = captured.len() + missing as usize;
        while at < length {
            let rest = captured.get(at..).unwrap_or_default();
            let left = (length - at) as u32;
            let size = rest.first_chunk::<SIZE_PREFIX>().map(|size| u32::from_be_bytes(*size));
            let pdu_length = match size {
                Some(size) if size <= MAX_SIZE => SIZE_PREFIX as u32 + size,
                Some(_) => left,
                // Epan has no size to ask for, and gives up on the segment or waits for more.
                None if missing > 0 => return Vec::new(),
                None => return rest.to_vec(),
            };
            if pdu_length > left && missing == 0 {
                return rest.to_vec();
            }
            let here = rest.len().min(pdu_length as usize);
            // Of a PDU that goes on after its segment, epan still tells the whole length.
            self.pdu(&rest[..here], Pdu { length: pdu_length, ..about });
            at += pdu_length as usize;
        }
        Vec::new()
    }

    fn pdu(&mut self, captured: &[u8], about: Pdu<'static>) {
        let pdu = Pdu { captured, ..about };
        let summary = dissect(&pdu, Look::First, &mut self.history, &mut self.tape);
        sound(&pdu, &self.tape);
        let events = self.tape.events().to_vec();
        self.seen.push(Seen { captured: captured.to_vec(), about, summary, events });
    }

    fn look_again(&mut self, shown: bool) {
        let mut text = String::new();
        for (i, Seen { captured, about, summary: first, events }) in self.seen.iter().enumerate().rev() {
            assert_eq!(first.id, Some(PduId(i as u32)), "PDUs are numbered in order");
            let pdu = Pdu { captured, ..*about };
            let again = dissect(&pdu, Look::Again(first.id), &mut self.history, &mut self.tape);
            assert_eq!(self.tape.events(), events, "another look shows something else");
            let of = |summary: &Summary| (summary.id, summary.api, summary.nature, summary.request, summary.time_ns);
            assert_eq!(of(first), of(&again), "another look knows something else");
            if shown {
                show(&pdu, &self.tape, &again, &self.history, &mut text);
            }
            for told in told(&self.history, PduId(i as u32)) {
                assert!(!told.text.is_empty(), "{told}");
                let end = told.place.at.checked_add(told.place.len);
                assert!(end.is_some_and(|end| end as usize <= captured.len()), "{told} is not about the PDU");
                assert!(told.evidence.is_none_or(|(_, frame)| frame <= self.frame), "{told}");
            }
        }
    }
}
