//! Conversations that never took place: messages as an independent encoder (kafka-protocol) writes them, dissected in order
//! as Wireshark does it, and what is said of them.

use bytes::BytesMut;
use kafka_protocol::messages::{RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Encodable, HeaderVersion, Request};
use kraft::dissect::{Look, Pdu, Summary, dissect};
use kraft::pairing::{ConnectionId, History, Sighting};
use kraft::recognize::Side;
use kraft::register::Address;
use kraft::tape::{Event, Place, Tape};

use super::told::{Told, told};

/// The machine of the controller.
pub const CONTROLLER: Address = 0;
/// A machine of a broker.
pub const HOST_1: Address = 1;
/// Another one.
pub const HOST_2: Address = 2;

/// When conversations begin, in nanoseconds since 1970.
const BEGINNING_NS: i64 = 1_700_000_000_000_000_000;

/// A conversation in the making. Every message has a frame of its own, the first of them 1; time stands still but for
/// [`Talk::pause`].
pub struct Talk {
    /// What is remembered of it.
    pub history: History,
    /// All messages so far.
    pub said: Vec<Said>,
    lines: Vec<Connection>,
    time_ns: i64,
}

/// A connection of a client to the controller.
#[derive(Clone, Copy)]
pub struct Line(usize);

/// What is known of a line: who the client is, and what it asked last.
struct Connection {
    id: ConnectionId,
    client: Address,
    correlation_id: i32,
    version: i16,
}

/// One message, as it was dissected at first.
pub struct Said {
    /// The bytes that were captured.
    pub bytes: Vec<u8>,
    /// What they consist of.
    pub tape: Tape,
    /// What they are.
    pub summary: Summary,
    /// All else that `dissect` is told.
    about: Pdu<'static>,
}

impl Talk {
    /// Silence.
    pub fn new() -> Talk {
        Talk { history: History::new(), said: Vec::new(), lines: Vec::new(), time_ns: BEGINNING_NS }
    }

    /// A connection from a machine.
    pub fn connect(&mut self, client: Address) -> Line {
        let id = self.history.connect();
        self.lines.push(Connection { id, client, correlation_id: -1, version: 0 });
        Line(self.lines.len() - 1)
    }

    /// Nobody says anything for a time.
    pub fn pause(&mut self, milliseconds: i64) {
        self.time_ns += milliseconds * 1_000_000;
    }

    /// A request.
    pub fn ask<R: Request>(&mut self, line: Line, version: i16, request: &R) {
        self.ask_with(line, version, request, |bytes| bytes);
    }

    /// A request that is another one than its encoder made of it.
    pub fn ask_with<R: Request>(&mut self, line: Line, version: i16, request: &R, change: impl Fn(Vec<u8>) -> Vec<u8>) {
        let bytes = change(self.request(line, version, request));
        self.hear(line, bytes);
    }

    /// Bytes of the client.
    pub fn hear(&mut self, line: Line, bytes: Vec<u8>) {
        self.put(bytes, self.about(line, Side::A));
    }

    /// A request of which the capture holds only the beginning that `cut` leaves of it.
    pub fn ask_cut<R: Request>(&mut self, line: Line, version: i16, request: &R, cut: impl Fn(&[u8]) -> &[u8]) {
        let bytes = self.request(line, version, request);
        self.put(cut(&bytes).to_vec(), Pdu { length: bytes.len() as u32, ..self.about(line, Side::A) });
    }

    /// The answer to the last request of the line, in the version of that.
    pub fn answer<R: Encodable + HeaderVersion>(&mut self, line: Line, response: &R) {
        self.answer_in(line, self.lines[line.0].version, response);
    }

    /// The answer to the last request of the line, in another version.
    pub fn answer_in<R: Encodable + HeaderVersion>(&mut self, line: Line, version: i16, response: &R) {
        let header = ResponseHeader::default().with_correlation_id(self.lines[line.0].correlation_id);
        let bytes = framed(&header, R::header_version(version), response, version);
        self.put(bytes, self.about(line, Side::B));
    }

    /// Bytes of the client of which nobody knows to which message they belong.
    pub fn stray(&mut self, line: Line, bytes: Vec<u8>) {
        self.put(bytes, Pdu { stray: true, ..self.about(line, Side::A) });
    }

    /// What is said of a message: of its bytes, and by its rules.
    pub fn told(&self, said: &Said) -> Vec<Told> {
        let id = said.summary.id.expect("every message is recorded");
        said.tape.events().iter().filter_map(of_the_bytes).chain(told(&self.history, id)).collect()
    }

    /// Looks again at the message at this place.
    pub fn look_again(&mut self, index: usize) {
        let Said { bytes, summary, about, .. } = &self.said[index];
        dissect(&Pdu { captured: bytes, ..*about }, Look::Again(summary.id), &mut self.history, &mut Tape::new());
    }

    fn request<R: Request>(&mut self, line: Line, version: i16, request: &R) -> Vec<u8> {
        let connection = &mut self.lines[line.0];
        connection.correlation_id += 1;
        connection.version = version;
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(connection.correlation_id)
            .with_client_id(Some("broker".into()));
        framed(&header, R::header_version(version), request, version)
    }

    /// The next message of a line, without its bytes and its length.
    fn about(&self, line: Line, sender: Side) -> Pdu<'static> {
        let Connection { id, client, .. } = self.lines[line.0];
        let (source, destination) = if sender == Side::A { (client, CONTROLLER) } else { (CONTROLLER, client) };
        Pdu {
            captured: &[],
            length: 0,
            sighting: Sighting { frame: self.said.len() as u32 + 1, time_ns: self.time_ns },
            connection: id,
            sender,
            server: Some(Side::B),
            source,
            destination,
            is_local: client == CONTROLLER,
            stray: false,
        }
    }

    /// Puts bytes on the line; they are all that was sent, unless `about` has a length already.
    fn put(&mut self, bytes: Vec<u8>, about: Pdu<'static>) {
        let about = Pdu { length: about.length.max(bytes.len() as u32), ..about };
        let mut tape = Tape::new();
        let summary = dissect(&Pdu { captured: &bytes, ..about }, Look::First, &mut self.history, &mut tape);
        self.said.push(Said { bytes, tape, summary, about });
    }
}

/// A header and a body as one PDU.
fn framed(header: &impl Encodable, header_version: i16, body: &impl Encodable, version: i16) -> Vec<u8> {
    let mut message = BytesMut::new();
    header.encode(&mut message, header_version).expect("kafka-protocol encodes every header");
    body.encode(&mut message, version).expect("kafka-protocol encodes every message of its version");
    [&(message.len() as u32).to_be_bytes()[..], &message].concat()
}

/// What the decoder says of the bytes.
fn of_the_bytes(event: &Event) -> Option<Told> {
    match *event {
        Event::Note { at, len, fault, .. } => {
            Some(Told { rule: fault.rule(), text: fault.to_string(), place: Place { at, len }, evidence: None })
        }
        _ => None,
    }
}
