//! One PDU from bytes to meaning: header, API and version, body, pairing. The only way in: what Wireshark shows and what the
//! offline tests check come from the same function and the same tape.

use crate::decode::{Stopped, decode, undecoded};
use crate::findings;
use crate::pairing::{ConnectionId, Heading, History, Nature, PduId, Sighting};
use crate::recognize::{Likeness, Side, direction, request_likeness};
use crate::register::Address;
use crate::rule::{Case, Facts};
use crate::schema::{Api, Direction, Message, api, header, names};
use crate::tape::{Event, Firsts, Tape, Value, View};
use crate::wire::{Fault, Halt, Reader, write_number};

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
    /// The address of the sender; only good for telling addresses apart.
    pub source: Address,
    /// The address of the receiver.
    pub destination: Address,
    /// Whether both are on the same machine, by a loopback address.
    pub is_local: bool,
    /// On the first look: framing is lost, so that these bytes belong to nobody knows which message.
    pub stray: bool,
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
    /// What kind of bytes they are.
    pub nature: Nature,
    /// API key and version: from the header of a request, from the request of a response.
    pub api: Option<(i16, i16)>,
    /// The message whose fields are on the tape, if the body was decoded.
    pub body: Option<&'static Message>,
    /// The version the body was decoded in.
    pub body_version: i16,
    /// The request that a response answers.
    pub request: Option<PduId>,
    /// The PDU that it answers, or that answers it. On the first pass a request does not know its answer yet.
    pub partner: Option<Sighting>,
    /// From request to response in nanoseconds, on a response.
    pub time_ns: Option<i64>,
}

/// Dissects one PDU. On the first look it is recorded in `history`; later looks only read there.
pub fn dissect(pdu: &Pdu, look: Look, history: &mut History, tape: &mut Tape) -> Summary {
    tape.clear();
    let mut reader = Reader::new(pdu.captured, pdu.length);
    let mut summary = place(pdu, look, history);
    if summary.nature == Nature::Stray {
        tape.note(header::UNDECODED, 0, pdu.length, Fault::Unframed);
    } else if !frame(&mut reader, tape) {
        if look == Look::First {
            history.lose_framing(pdu.connection, pdu.sender);
        }
    } else if summary.nature == Nature::Message {
        (summary.body, summary.body_version) = message(&summary, &mut reader, pdu, tape);
    }
    if !matches!(tape.stop(), Some(stop) if matches!(stop.why, Halt::NotCaptured { .. })) {
        // A body without schema, what follows the message, or what follows a fault.
        undecoded(&mut reader, tape);
    }
    if look == Look::First {
        consider(&summary, pdu, history, tape);
    }
    summary
}

/// Lets the rules of the message look at it, and the register learn from it.
fn consider(summary: &Summary, pdu: &Pdu, history: &mut History, tape: &Tape) {
    let (Some(message), Some(id)) = (summary.body, summary.id) else { return };
    let view = View::new(tape.events(), pdu.captured, message.id);
    let firsts = Firsts::of(&view);
    let facts = Facts {
        message: view.indexed(&firsts),
        version: summary.body_version,
        id,
        sighting: pdu.sighting,
        connection: pdu.connection,
        client: if summary.direction == Direction::Request { pdu.source } else { pdu.destination },
        is_local: pdu.is_local,
        is_whole: tape.stop().is_none(),
        request: summary.request,
    };
    if let Some(broker) = broker_named(message, &facts) {
        history.set_named_broker(id, broker);
    }
    let subject = message.subject.and_then(|subject| subject(&facts, &history.register));
    let case = Case::new(facts, &history.register, subject);
    let suspicions = findings::look(message.checks, message.id, &case, &mut history.findings);
    if let Some(learn) = message.learn {
        learn(&facts, &mut history.register, suspicions);
    }
}

/// The broker that a request names.
fn broker_named(message: &Message, facts: &Facts) -> Option<i32> {
    facts.message.int(message.broker_id?)?.try_into().ok()
}

/// The place of a PDU in its conversation: its number, which way it goes, its API key and version, its partner.
fn place(pdu: &Pdu, look: Look, history: &mut History) -> Summary {
    let known = match look {
        Look::First => None,
        Look::Again(id) => id.filter(|id| history.sighting(*id).is_some_and(|first| first.frame == pdu.sighting.frame)),
    };
    let direction = known.and_then(|id| history.direction(id)).unwrap_or_else(|| way(pdu, look, history));
    let nature = known.and_then(|id| history.nature(id)).unwrap_or_else(|| nature(pdu, direction, history));
    let heading = heading(direction, nature, pdu);
    let id = match look {
        Look::First => Some(history.record(pdu.connection, pdu.sighting, heading)),
        Look::Again(_) => known,
    };
    let api = match direction {
        Direction::Request => heading.api,
        Direction::Response => id.and_then(|id| history.answered_api(id)),
    };
    if look == Look::First {
        watch_sasl(pdu, direction, nature, api, history);
    }
    let partner = id.and_then(|id| history.partner(id));
    let request = id.filter(|_| direction == Direction::Response).and_then(|id| history.partner_id(id));
    let time_ns = id.filter(|_| direction == Direction::Response).and_then(|id| history.response_time_ns(id));
    Summary { id, direction, nature, api, body: None, body_version: 0, request, partner, time_ns }
}

/// Whether a PDU is a message. While SASL tokens are exchanged, only what a client surely sends as a request, or what is
/// waited for as an answer, is one.
fn nature(pdu: &Pdu, direction: Direction, history: &History) -> Nature {
    if pdu.stray {
        return Nature::Stray;
    }
    let is_message = !history.sasl_tokens(pdu.connection)
        || match direction {
            Direction::Request => request_likeness(pdu.captured, pdu.length) == Likeness::Strong,
            Direction::Response => word(pdu.captured, 4).is_some_and(|id| history.awaits(pdu.connection, id)),
        };
    if is_message { Nature::Message } else { Nature::SaslToken }
}

/// Notes where raw SASL tokens begin (an accepted SaslHandshake v0) and where they end (the next request).
fn watch_sasl(pdu: &Pdu, direction: Direction, nature: Nature, api: Option<(i16, i16)>, history: &mut History) {
    if nature != Nature::Message {
        return;
    }
    match (direction, api) {
        (Direction::Request, _) if history.sasl_tokens(pdu.connection) => {
            history.set_sasl_tokens(pdu.connection, false);
        }
        (Direction::Response, Some((key, version))) => {
            let follow = names::api_key(key).is_some_and(|api| api.raw_tokens_follow.has(version));
            // The response begins with its error code, behind size prefix and correlation id.
            if follow && pdu.captured.get(8..10) == Some(&[0, 0]) {
                history.set_sasl_tokens(pdu.connection, true);
            }
        }
        _ => {}
    }
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

/// What the header tells, as far as it was captured. Behind a size prefix that cannot be right there is none.
fn heading(direction: Direction, nature: Nature, pdu: &Pdu) -> Heading {
    let framed = word(pdu.captured, 0).is_some_and(|size| i64::from(size) + 4 == i64::from(pdu.length));
    let captured = if framed && nature == Nature::Message { pdu.captured } else { &[] };
    let (api, correlation_id) = match direction {
        Direction::Request => (word(captured, 4).map(|word| ((word >> 16) as i16, word as i16)), word(captured, 8)),
        Direction::Response => (None, word(captured, 4)),
    };
    Heading { direction, correlation_id, api, nature }
}

fn word(captured: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(*captured.get(at..)?.first_chunk()?))
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
fn message(summary: &Summary, reader: &mut Reader, pdu: &Pdu, tape: &mut Tape) -> (Option<&'static Message>, i16) {
    let direction = summary.direction;
    let (key, version) = summary.api.unwrap_or((-1, -1));
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
    let known = message.versions.has(version);
    let refused = direction == Direction::Response
        && (!known || api.refuses_in_oldest)
        && refusal(api, reader, pdu, tape).is_ok();
    if refused {
        return (Some(message), message.versions.first);
    }
    if !known {
        if direction == Direction::Request {
            let Message { versions, .. } = message;
            let fault = Fault::UnknownVersion { version, first: versions.first, last: versions.last };
            tape.note(header::API_VERSION, 6, 2, fault);
        }
        return (None, 0);
    }
    if decode(message, version, reader, tape).is_ok() && reader.left() > 0 {
        let count = reader.left();
        tape.note(header::UNDECODED, reader.pos(), count, Fault::TrailingBytes { count });
    }
    (Some(message), version)
}

const UNSUPPORTED_VERSION: i64 = names::code("UNSUPPORTED_VERSION");

/// A server that does not know the version of a request can only answer it in the oldest layout, with error 35. The answer
/// is read so if it fits to the last byte.
fn refusal(api: &'static Api, reader: &mut Reader, pdu: &Pdu, tape: &mut Tape) -> Result<(), Stopped> {
    let message = &api.response;
    let (events, at, oldest) = (tape.len(), reader.pos(), message.versions.first);
    let fits = decode(message, oldest, reader, tape).is_ok() && reader.left() == 0;
    let error = View::new(&tape.events()[events..], pdu.captured, message.id).int(api.error_code);
    if fits && error == Some(UNSUPPORTED_VERSION) {
        return Ok(());
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
        match self.nature {
            Nature::Message => self.write_message_info(pdu, tape, out),
            Nature::SaslToken => out.push_str("SASL token"),
            Nature::Stray => out.push_str("Bytes outside of any known message"),
        }
    }

    fn write_message_info(&self, pdu: &[u8], tape: &Tape, out: &mut String) {
        if let Some((key, version)) = self.api {
            match self.api_name() {
                Some(name) => out.push_str(name),
                None => {
                    out.push_str("API key ");
                    write_number(key, out);
                }
            }
            out.push_str(" v");
            write_number(version, out);
            out.push(' ');
        }
        out.push_str(match self.direction {
            Direction::Request => "Request",
            Direction::Response => "Response",
        });
        if self.direction == Direction::Response && self.api.is_none() {
            out.push_str(", its request was not captured");
        }
        if let Some((body, info)) = self.body.and_then(|body| Some((body, body.root.label?))) {
            info(&View::new(tape.events(), pdu, body.id), out);
        }
        if tape.notes().any(|event| matches!(event, Event::Note { fault: Fault::FrameLength { .. }, .. })) {
            out.push_str(", framing lost");
        }
    }
}
