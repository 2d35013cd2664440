//! One PDU from bytes to meaning: header, API and version, body, pairing. The only way in: what Wireshark shows and what the
//! offline tests check come from the same function and the same tape.

use std::fmt::Write;

use crate::decode::{Stopped, decode, undecoded};
use crate::pairing::{ConnectionId, Heading, History, PduId, Sighting};
use crate::recognize::{Likeness, Side, direction, request_likeness};
use crate::schema::{Api, Direction, Message, api, header, names};
use crate::tape::{Event, Tape, Value, View};
use crate::wire::{Fault, Halt, Reader};

/// One PDU and where it was found.
#[derive(Clone, Copy, Debug)]
pub struct Pdu<'a> {
    /// Its captured bytes, from the size prefix on.
    pub captured: &'a [u8],
    /// Bytes it took on the wire: 4 and what the size prefix says, or up to the end of the segment when that is
    /// implausible.
    pub length: u32,
    /// The frame that completes it.
    pub sighting: Sighting,
    /// The connection it belongs to.
    pub connection: ConnectionId,
    /// The end that sent it.
    pub sender: Side,
    /// The end whose port says that it is the server, if one does.
    pub server: Option<Side>,
}

/// Whether a PDU is seen for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// On the first pass over the capture, in which every PDU comes once and in order: it is recorded.
    First,
    /// Later, in any order: under the number that it was given on the first pass, if that is known.
    Again(Option<PduId>),
}

/// What a PDU is, next to the events on its tape.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// Its number, to look at it again with. `None` where a later look does not know it.
    pub id: Option<PduId>,
    /// Which way it goes.
    pub direction: Direction,
    /// API key and version: from the header of a request, from the request of a response.
    pub api: Option<(i16, i16)>,
    /// The message whose fields are on the tape, if the body was decoded.
    pub body: Option<&'static Message>,
    /// The version the body was decoded in.
    pub body_version: i16,
    /// The PDU that it answers, or that answers it. On the first pass a request does not know its answer yet.
    pub partner: Option<Sighting>,
    /// From request to response in nanoseconds, on a response.
    pub time_ns: Option<i64>,
}

/// Dissects one PDU. On the first look it is recorded in `history`; later looks only read there.
pub fn dissect(pdu: &Pdu, look: Look, history: &mut History, tape: &mut Tape) -> Summary {
    tape.clear();
    let mut reader = Reader::new(pdu.captured, pdu.length);
    let framed = frame(&mut reader, tape);
    let (id, direction, api) = place(pdu, look, framed, history);
    let partner = id.and_then(|id| history.partner(id));
    let time_ns = id.filter(|_| direction == Direction::Response).and_then(|id| history.response_time_ns(id));
    let (body, body_version) = if framed { message(direction, api, &mut reader, pdu, tape) } else { (None, 0) };
    if !matches!(tape.stop(), Some(stop) if matches!(stop.why, Halt::NotCaptured { .. })) {
        // A body without schema, what follows the message, or what follows a fault.
        undecoded(&mut reader, tape);
    }
    Summary { id, direction, api, body, body_version, partner, time_ns }
}

/// The place of a PDU in its conversation: its number, which way it goes, its API key and version.
fn place(pdu: &Pdu, look: Look, framed: bool, history: &mut History) -> (Option<PduId>, Direction, Option<(i16, i16)>) {
    let known = match look {
        Look::First => None,
        Look::Again(id) => id.filter(|id| history.sighting(*id).is_some_and(|first| first.frame == pdu.sighting.frame)),
    };
    let direction = known.and_then(|id| history.direction(id)).unwrap_or_else(|| way(pdu, look, history));
    let heading = heading(direction, if framed { pdu.captured } else { &[] });
    let id = match look {
        Look::First => Some(history.record(pdu.connection, pdu.sighting, heading)),
        Look::Again(_) => known,
    };
    let api = match direction {
        Direction::Request => heading.api,
        Direction::Response => id.and_then(|id| history.answered_api(id)),
    };
    (id, direction, api)
}

/// Which way a PDU goes. The first request that leaves no doubt settles it for its connection.
fn way(pdu: &Pdu, look: Look, history: &mut History) -> Direction {
    let client = history.client(pdu.connection);
    let likeness = if client.is_some() { Likeness::None } else { request_likeness(pdu.captured, pdu.length) };
    if likeness == Likeness::Strong && look == Look::First {
        history.learn_client(pdu.connection, pdu.sender);
    }
    direction(pdu.sender, client, pdu.server, likeness)
}

/// What the header tells, as far as it was captured.
fn heading(direction: Direction, captured: &[u8]) -> Heading {
    let word = |at| Some(i32::from_be_bytes(*captured.get(at..)?.first_chunk()?));
    match direction {
        Direction::Request => {
            Heading { direction, api: word(4).map(|word| ((word >> 16) as i16, word as i16)), correlation_id: word(8) }
        }
        Direction::Response => Heading { direction, api: None, correlation_id: word(4) },
    }
}

/// The size prefix; false where it cannot be right, so that nothing after it has a place.
fn frame(reader: &mut Reader, tape: &mut Tape) -> bool {
    let mark = tape.open(header::FRAME.field_id(0), 0, 0, 0);
    let framed = match reader.array() {
        Ok(bytes) => {
            let size = i32::from_be_bytes(bytes);
            tape.leaf(header::SIZE, 0, 4, Value::Int(i64::from(size)));
            let plausible = size >= 0 && size as u32 == reader.left();
            if !plausible {
                let fault = Fault::FrameLength { size };
                tape.note(header::SIZE, 0, 4, fault);
                tape.stopped(0, Halt::Fault(fault));
            }
            plausible
        }
        Err(halt) => {
            tape.stopped(0, halt);
            false
        }
    };
    tape.close(mark, reader.pos());
    framed
}

/// Header and body.
fn message(
    direction: Direction,
    key_and_version: Option<(i16, i16)>,
    reader: &mut Reader,
    pdu: &Pdu,
    tape: &mut Tape,
) -> (Option<&'static Message>, i16) {
    let (key, version) = key_and_version.unwrap_or((-1, -1));
    let done = match direction {
        Direction::Request => decode(&header::REQUEST, header::request_version(key, version), reader, tape),
        Direction::Response => decode(&header::RESPONSE, header::response_version(key, version), reader, tape),
    };
    match api(key) {
        Some(api) if done.is_ok() => body(api, direction, version, reader, pdu, tape),
        _ => (None, 0),
    }
}

fn body(
    api: &'static Api,
    direction: Direction,
    version: i16,
    reader: &mut Reader,
    pdu: &Pdu,
    tape: &mut Tape,
) -> (Option<&'static Message>, i16) {
    let message = api.message(direction);
    if message.versions.has(version) {
        if decode(message, version, reader, tape).is_ok() && reader.left() > 0 {
            let count = reader.left();
            tape.note(header::UNDECODED, reader.pos(), count, Fault::TrailingBytes { count });
        }
        return (Some(message), version);
    }
    match direction {
        Direction::Request => {
            let Message { versions, .. } = message;
            let fault = Fault::UnknownVersion { version, first: versions.first, last: versions.last };
            tape.note(header::API_VERSION, 6, 2, fault);
            (None, 0)
        }
        Direction::Response => match refusal(api, reader, pdu, tape) {
            Ok(version) => (Some(message), version),
            Err(Stopped) => (None, 0),
        },
    }
}

/// Kafka's error code of that name.
const UNSUPPORTED_VERSION: i64 = 35;

/// A server that does not know the version of a request can only answer it in the oldest layout, with error 35. The answer
/// to a version that does not exist is read so if it fits to the last byte.
fn refusal(api: &'static Api, reader: &mut Reader, pdu: &Pdu, tape: &mut Tape) -> Result<i16, Stopped> {
    let message = &api.response;
    let (events, at, oldest) = (tape.len(), reader.pos(), message.versions.first);
    let fits = decode(message, oldest, reader, tape).is_ok() && reader.left() == 0;
    let error = View::new(&tape.events()[events..], pdu.captured, message.id).int(api.error_code);
    if fits && error == Some(UNSUPPORTED_VERSION) {
        return Ok(oldest);
    }
    tape.rewind(events);
    reader.rewind(at);
    Err(Stopped)
}

impl Summary {
    /// Kafka's name of the API, if the key is known.
    pub fn api_name(&self) -> Option<&'static str> {
        names::api_key(self.api?.0).map(|api| api.name)
    }

    /// One line that says what the PDU is: API, version, direction, then what identifies the message.
    pub fn write_info(&self, pdu: &[u8], tape: &Tape, out: &mut String) {
        let _ = match (self.api, self.api_name()) {
            (Some((_, version)), Some(name)) => write!(out, "{name} v{version} "),
            (Some((key, version)), None) => write!(out, "API key {key} v{version} "),
            (None, _) => Ok(()),
        };
        out.push_str(match self.direction {
            Direction::Request => "Request",
            Direction::Response => "Response",
        });
        if self.direction == Direction::Response && self.api.is_none() {
            out.push_str(", its request was not captured");
        }
        if let Some(body) = self.body {
            if let Some(info) = body.root.label {
                info(&View::new(tape.events(), pdu, body.id), out);
            }
        }
        if tape.events().iter().any(|event| matches!(event, Event::Note { fault: Fault::FrameLength { .. }, .. })) {
            out.push_str(", framing lost");
        }
    }
}
