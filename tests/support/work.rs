//! The work that is measured: messages to tape, and whole conversations as the plugin takes them on its first pass. Uses
//! nothing but the crate, so that a program of the pure half alone can do it, too.

use kraft::decode::decode;
use kraft::dissect::{Look, Pdu, Summary, dissect};
use kraft::framing::Segment;
use kraft::pairing::{ConnectionId, History, Sighting};
use kraft::recognize::Side;
use kraft::schema::{Direction, broker_registration, header};
use kraft::tape::Tape;
use kraft::wire::Reader;

/// Bytes of the size prefix.
const SIZE_PREFIX: u64 = 4;
/// The default of the preference `kraft.max_message_size`.
const MAX_SIZE: u32 = 100 * 1024 * 1024;
/// Where a load begins, in nanoseconds since 1970, and what lies between two messages.
const BEGINNING_NS: i64 = 1_760_000_000_000_000_000;
const PAUSE_NS: i64 = 100_000;

/// Where in a request its correlation id and its broker id stand; in a response, correlation id, error code and epoch. The
/// client id of the request has eight bytes.
const REQUEST_PLACES: [usize; 2] = [8, 23];
const RESPONSE_PLACES: [usize; 3] = [4, 13, 15];
/// What a broker is answered that may not register: DUPLICATE_BROKER_REGISTRATION. One of ten is.
const REFUSED: i16 = 101;
/// Brokers that register in turn.
const BROKERS: i32 = 1000;

/// Header and body of a registration (v4) or of its answer, onto a tape that is reused.
///
/// # Panics
/// If the bytes are not a whole message.
pub fn to_tape(direction: Direction, bytes: &[u8], tape: &mut Tape) {
    tape.clear();
    let mut reader = Reader::new(bytes, bytes.len() as u32);
    let (head, version) = match direction {
        Direction::Request => (&header::REQUEST, 2),
        Direction::Response => (&header::RESPONSE, 1),
    };
    let size = reader.bytes(SIZE_PREFIX);
    let head = decode(head, version, &mut reader, tape);
    let body = decode(broker_registration::API.message(direction), 4, &mut reader, tape);
    assert!(size.is_ok() && head.is_ok() && body.is_ok() && reader.left() == 0, "a whole message");
}

/// A controller and those that register with it.
pub struct Exchange {
    /// What is remembered of it.
    pub history: History,
    /// The message that was dissected last.
    pub tape: Tape,
    connections: Vec<Connection>,
    request: Vec<u8>,
    response: Vec<u8>,
    frame: u32,
}

struct Connection {
    id: ConnectionId,
    /// The TCP sequence numbers of what comes next, by sender.
    next: [u32; 2],
}

impl Exchange {
    /// So many connections. What goes over them are copies of these two messages, with other numbers in them.
    pub fn new(connections: usize, request: &[u8], response: &[u8]) -> Exchange {
        let mut history = History::new();
        let connections = (0..connections).map(|_| Connection { id: history.connect(), next: [1, 1] }).collect();
        let (request, response) = (request.to_vec(), response.to_vec());
        Exchange { history, tape: Tape::new(), connections, request, response, frame: 0 }
    }

    /// The request number `number`. They go over the connections in turn.
    pub fn ask(&mut self, number: i32) -> Summary {
        let [correlation, broker] = REQUEST_PLACES;
        put(&mut self.request, correlation, number.to_be_bytes());
        put(&mut self.request, broker, (number % BROKERS).to_be_bytes());
        self.hear(number, Side::A)
    }

    /// The answer to the request number `number`.
    pub fn answer(&mut self, number: i32) -> Summary {
        let [correlation, error, epoch] = RESPONSE_PLACES;
        let code = if number % 10 == 0 { REFUSED } else { 0 };
        put(&mut self.response, correlation, number.to_be_bytes());
        put(&mut self.response, error, code.to_be_bytes());
        put(&mut self.response, epoch, (100_000 + i64::from(number)).to_be_bytes());
        self.hear(number, Side::B)
    }

    /// What the plugin does with a segment that holds one message.
    fn hear(&mut self, number: i32, sender: Side) -> Summary {
        let turn = number as usize % self.connections.len();
        let Connection { id, next } = &mut self.connections[turn];
        let captured = if sender == Side::A { &*self.request } else { &*self.response };
        let length = captured.len() as u32;
        let first = next[sender as usize];
        next[sender as usize] = first.wrapping_add(length);
        let sequence = Some((first, next[sender as usize]));
        let begins = self.history.begins_pdu(*id, sender, &Segment { captured, length, sequence, max_size: MAX_SIZE });
        self.frame += 1;
        let pdu = Pdu {
            captured,
            length,
            sighting: Sighting { frame: self.frame, time_ns: BEGINNING_NS + i64::from(self.frame) * PAUSE_NS },
            connection: *id,
            sender,
            server: Some(Side::B),
            source: address(turn, sender),
            destination: address(turn, if sender == Side::A { Side::B } else { Side::A }),
            is_local: false,
            stray: !begins,
        };
        dissect(&pdu, Look::First, &mut self.history, &mut self.tape)
    }
}

/// Brokers have an address each, the controller has one.
fn address(connection: usize, side: Side) -> u64 {
    if side == Side::A { connection as u64 + 1 } else { 0 }
}

fn put<const N: usize>(message: &mut [u8], at: usize, value: [u8; N]) {
    message[at..at + N].copy_from_slice(&value);
}
