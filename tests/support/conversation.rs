//! A whole capture through [`kraft::dissect`], as Wireshark does it: every PDU once in order, then again.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::iter;
use std::net::SocketAddr;
use std::path::Path;

use kraft::dissect::{Look, Pdu, Summary, dissect};
use kraft::pairing::{ConnectionId, History, Sighting};
use kraft::recognize::Side;
use kraft::tape::Tape;

use super::reader;

/// The port of the controllers in all captures.
const CONTROLLER_PORT: u16 = 9093;

/// What a capture holds.
pub struct Conversation {
    /// All PDUs in the order of delivery, as a later look shows them: requests know their answers.
    pub talk: Vec<Said>,
    /// What is remembered of them.
    pub history: History,
}

/// One PDU of a capture, dissected.
pub struct Said {
    /// The PDU as it was read.
    pub read: reader::Pdu,
    /// What it consists of.
    pub tape: Tape,
    /// What it is.
    pub summary: Summary,
}

/// Dissects a capture file.
pub fn conversation(path: &Path) -> Conversation {
    let pdus = reader::read(path, &[CONTROLLER_PORT]).unwrap_or_else(|error| panic!("{error}")).pdus;
    let mut conversation = Conversation { talk: Vec::new(), history: remembering_nothing_of(&pdus) };
    let history = &mut conversation.history;
    let firsts: Vec<Summary> = pdus.iter().map(|read| look(read, Look::First, history, &mut Tape::new())).collect();
    for (read, first) in iter::zip(pdus, firsts) {
        let mut tape = Tape::new();
        let summary = look(&read, Look::Again(first.id), history, &mut tape);
        conversation.talk.push(Said { read, tape, summary });
    }
    conversation
}

/// A history that knows the connections of these PDUs and nothing else.
pub fn remembering_nothing_of<'a>(pdus: impl IntoIterator<Item = &'a reader::Pdu>) -> History {
    let mut history = History::new();
    let connections = pdus.into_iter().map(|pdu| pdu.stream + 1).max().unwrap_or(0);
    for _ in 0..connections {
        history.connect();
    }
    history
}

/// Dissects a PDU.
pub fn look(read: &reader::Pdu, look: Look, history: &mut History, tape: &mut Tape) -> Summary {
    dissect(&as_sent(read), look, history, tape)
}

/// A PDU as `dissect` takes it.
pub fn as_sent(read: &reader::Pdu) -> Pdu<'_> {
    Pdu {
        captured: &read.bytes,
        length: read.length,
        sighting: Sighting { frame: read.frame, time_ns: read.time_ns },
        connection: ConnectionId(read.stream),
        sender: side(read.source, read.destination),
        server: server(read),
        source: address(read.source),
        destination: address(read.destination),
        is_local: read.source.ip().is_loopback() && read.destination.ip().is_loopback(),
        stray: false,
    }
}

/// A number that tells addresses apart.
fn address(of: SocketAddr) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.ip().hash(&mut hasher);
    hasher.finish()
}

/// Side A is the end with the lower port, or with the lower address if both have the same.
fn side(of: SocketAddr, other: SocketAddr) -> Side {
    let rank = |end: SocketAddr| (end.port(), end.ip());
    if rank(of) < rank(other) { Side::A } else { Side::B }
}

fn server(read: &reader::Pdu) -> Option<Side> {
    let (source, destination) = (read.source, read.destination);
    match (source.port() == CONTROLLER_PORT, destination.port() == CONTROLLER_PORT) {
        (true, false) => Some(side(source, destination)),
        (false, true) => Some(side(destination, source)),
        _ => None,
    }
}
