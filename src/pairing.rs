//! What is remembered of a capture: its connections, a small record of every PDU, and which response answers which request.
//!
//! Kafka ties a response to its request by the correlation id alone, per connection. An id may be used again once it has
//! been answered, or when its answer was never captured; so a response belongs to the newest unanswered request with its id.
//!
//! A PDU is recorded once, on the first pass over the capture; every later look at it goes by its [`PduId`].

use foldhash::HashMap;

use crate::framing::{Flow, Segment};
pub use crate::pdu::{ConnectionId, PduId, Sighting};
use crate::recognize::Side;
use crate::register::Register;
use crate::rule::Finding;
use crate::schema::Direction;

/// What kind of bytes they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// A request or a response.
    Message,
    /// What follows a SaslHandshake v0: a size prefix and a token of the SASL mechanism, without Kafka's header.
    SaslToken,
    /// Bytes after framing was lost, of which nobody knows where they belong.
    Stray,
}

/// What the headers of a PDU tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heading {
    /// Which way it goes.
    pub direction: Direction,
    /// The correlation id, unless the PDU ends before it.
    pub correlation_id: Option<i32>,
    /// API key and version; a response has them from its request.
    pub api: Option<(i16, i16)>,
    /// What kind of bytes they are.
    pub nature: Nature,
}

/// The broker that a request names. A number of brokers is told apart, so that statistics of them have an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBroker {
    /// This one.
    Id(i32),
    /// One of those beyond that number.
    Other,
}

/// Brokers that are told apart by the requests that name them.
const MAX_NAMED: usize = 1000;

/// What is remembered of a PDU.
#[derive(Clone, Copy, Debug)]
struct Record {
    time_ns: i64,
    frame: u32,
    /// The PDU that it answers or that answers it, or `NOBODY`.
    partner: u32,
    key: i16,
    version: i16,
    /// The broker that a request names, as its place in `History::named`, or `NO_BROKER`.
    broker: u16,
    direction: Direction,
    nature: Nature,
}

const NOBODY: u32 = u32::MAX;
const NO_BROKER: u16 = u16::MAX;
const _: () = assert!(size_of::<Record>() <= 24);

/// What is remembered of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    client: Option<Side>,
    /// By sender.
    flows: [Flow; 2],
    /// Whether raw SASL tokens are exchanged.
    sasl_tokens: bool,
    /// Requests that wait for their answer.
    unanswered: u32,
    /// The correlation id of the newest request.
    newest: Option<i32>,
}

/// Everything remembered of one capture file.
#[derive(Debug, Default)]
pub struct History {
    connections: Vec<Connection>,
    records: Vec<Record>,
    /// The first PDU of each frame.
    firsts: Vec<PduId>,
    /// The first brokers that requests name, and the place of each.
    named: Vec<i32>,
    named_places: HashMap<i32, u16>,
    /// What rules have found, in the order of the PDUs.
    pub findings: Vec<Finding>,
    /// What the brokers have done so far.
    pub register: Register,
    unanswered: HashMap<(ConnectionId, i32), PduId>,
}

impl History {
    /// Nothing remembered yet.
    pub fn new() -> History {
        History::default()
    }

    /// A new connection.
    pub fn connect(&mut self) -> ConnectionId {
        self.connections.push(Connection::default());
        ConnectionId(self.connections.len() as u32 - 1)
    }

    /// The side of the connection that is known to be the client.
    pub fn client(&self, connection: ConnectionId) -> Option<Side> {
        self.connections.get(connection.0 as usize)?.client
    }

    /// Remembers who the client of a connection is.
    pub fn learn_client(&mut self, connection: ConnectionId, client: Side) {
        if let Some(known) = self.connections.get_mut(connection.0 as usize) {
            known.client = Some(client);
        }
    }

    /// Whether a PDU begins with the segment that `sender` sent. On the first pass only; later the records tell.
    pub fn begins_pdu(&mut self, connection: ConnectionId, sender: Side, segment: &Segment) -> bool {
        let Some(known) = self.connections.get_mut(connection.0 as usize) else { return true };
        let from_client = known.client.map(|client| client == sender);
        let unanswered = &self.unanswered;
        known.flows[sender as usize].advance(segment, from_client, |id| unanswered.contains_key(&(connection, id)))
    }

    /// Framing is lost in one direction of a connection.
    pub fn lose_framing(&mut self, connection: ConnectionId, sender: Side) {
        if let Some(known) = self.connections.get_mut(connection.0 as usize) {
            known.flows[sender as usize].lose();
        }
    }

    /// Whether raw SASL tokens are exchanged on a connection.
    pub fn sasl_tokens(&self, connection: ConnectionId) -> bool {
        self.connections.get(connection.0 as usize).is_some_and(|known| known.sasl_tokens)
    }

    /// Remembers whether raw SASL tokens are exchanged on a connection.
    pub fn set_sasl_tokens(&mut self, connection: ConnectionId, exchanged: bool) {
        if let Some(known) = self.connections.get_mut(connection.0 as usize) {
            known.sasl_tokens = exchanged;
        }
    }

    /// Whether a request with this correlation id waits for its answer.
    pub fn awaits(&self, connection: ConnectionId, correlation_id: i32) -> bool {
        self.unanswered.contains_key(&(connection, correlation_id))
    }

    /// The number that the next PDU is recorded under.
    pub fn next_id(&self) -> PduId {
        PduId(self.records.len() as u32)
    }

    /// On the first pass: the PDUs that are recorded from now on are of another frame than those before.
    pub fn begin_frame(&mut self) {
        self.firsts.push(self.next_id());
    }

    /// The first PDU of a frame. Of several frames with this number it is that of the last: a frame that Wireshark's read
    /// filter rejects leaves its number to the next.
    pub fn first_of_frame(&self, frame: u32) -> Option<PduId> {
        let frame_of = |first: &PduId| self.records.get(first.0 as usize).map_or(u32::MAX, |record| record.frame);
        let behind = self.firsts.partition_point(|first| frame_of(first) <= frame);
        self.firsts.get(behind.checked_sub(1)?).copied().filter(|first| frame_of(first) == frame)
    }

    /// Records what could not be dissected under this number, unless it is recorded, so that what comes after it in its
    /// frame has its place. It is no stray: what follows in its segment is read.
    pub fn stand_in(&mut self, id: PduId, connection: ConnectionId, sighting: Sighting) {
        if self.next_id() == id {
            let heading =
                Heading { direction: Direction::Request, correlation_id: None, api: None, nature: Nature::Message };
            self.record(connection, sighting, heading);
        }
    }

    /// Records a PDU and pairs it: a request waits for its answer, a response finds its request.
    pub fn record(&mut self, connection: ConnectionId, sighting: Sighting, heading: Heading) -> PduId {
        let id = self.next_id();
        let (key, version) = heading.api.unwrap_or((-1, -1));
        let mut record = Record {
            time_ns: sighting.time_ns,
            frame: sighting.frame,
            partner: NOBODY,
            key,
            version,
            broker: NO_BROKER,
            direction: heading.direction,
            nature: heading.nature,
        };
        match heading.direction {
            _ if heading.nature != Nature::Message => {}
            Direction::Request => self.asked(connection, heading.correlation_id, id),
            Direction::Response => {
                if let Some(request) = self.answered(connection, heading.correlation_id) {
                    let asked = &mut self.records[request.0 as usize];
                    asked.partner = id.0;
                    (record.partner, record.key, record.version) = (request.0, asked.key, asked.version);
                }
            }
        }
        self.records.push(record);
        id
    }

    /// A request waits for its answer.
    fn asked(&mut self, connection: ConnectionId, correlation_id: Option<i32>, id: PduId) {
        let (Some(correlation_id), Some(known)) = (correlation_id, self.connections.get_mut(connection.0 as usize))
        else {
            return;
        };
        known.newest = Some(correlation_id);
        if self.unanswered.insert((connection, correlation_id), id).is_none() {
            known.unanswered += 1;
        }
    }

    /// The request that a response answers. A response that ends before its correlation id can only answer a request that
    /// waits alone.
    fn answered(&mut self, connection: ConnectionId, correlation_id: Option<i32>) -> Option<PduId> {
        let known = self.connections.get_mut(connection.0 as usize)?;
        let alone = known.newest.filter(|_| known.unanswered == 1);
        let request = self.unanswered.remove(&(connection, correlation_id.or(alone)?))?;
        known.unanswered -= 1;
        Some(request)
    }

    /// Remembers the broker that a request names.
    pub fn set_named_broker(&mut self, request: PduId, broker: i32) {
        let next = self.named.len();
        let place = self.named_places.get(&broker).copied().unwrap_or(next as u16);
        if usize::from(place) == next && next < MAX_NAMED {
            self.named.push(broker);
            self.named_places.insert(broker, place);
        }
        if let Some(record) = self.records.get_mut(request.0 as usize) {
            record.broker = place;
        }
    }

    /// The broker that a request names, or that of the request that a response answers.
    pub fn named_broker(&self, id: PduId) -> Option<NamedBroker> {
        let request = match self.direction(id)? {
            Direction::Request => id,
            Direction::Response => self.partner_id(id)?,
        };
        let place = self.records.get(request.0 as usize)?.broker;
        let named = self.named.get(usize::from(place)).map_or(NamedBroker::Other, |id| NamedBroker::Id(*id));
        (place != NO_BROKER).then_some(named)
    }

    /// Where a recorded PDU was complete.
    pub fn sighting(&self, id: PduId) -> Option<Sighting> {
        let record = self.records.get(id.0 as usize)?;
        Some(Sighting { frame: record.frame, time_ns: record.time_ns })
    }

    /// Which way a recorded PDU goes.
    pub fn direction(&self, id: PduId) -> Option<Direction> {
        Some(self.records.get(id.0 as usize)?.direction)
    }

    /// What kind of bytes a recorded PDU is.
    pub fn nature(&self, id: PduId) -> Option<Nature> {
        Some(self.records.get(id.0 as usize)?.nature)
    }

    /// Where the PDU was complete that `id` answers, or that answers `id`.
    pub fn partner(&self, id: PduId) -> Option<Sighting> {
        self.sighting(PduId(self.records.get(id.0 as usize)?.partner))
    }

    /// From its request to the response `id`, in nanoseconds.
    pub fn response_time_ns(&self, id: PduId) -> Option<i64> {
        let request = self.partner(id)?;
        Some(self.sighting(id)?.time_ns.saturating_sub(request.time_ns))
    }

    /// The PDU that `id` answers, or that answers `id`.
    pub fn partner_id(&self, id: PduId) -> Option<PduId> {
        let partner = self.records.get(id.0 as usize)?.partner;
        (partner != NOBODY).then_some(PduId(partner))
    }

    /// API key and version of the request that the response `id` answers.
    pub fn answered_api(&self, id: PduId) -> Option<(i16, i16)> {
        let record = self.records.get(id.0 as usize)?;
        (record.partner != NOBODY).then_some((record.key, record.version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Talk {
        history: History,
        frame: u32,
    }

    impl Talk {
        fn new() -> (Talk, ConnectionId) {
            let mut history = History::new();
            let connection = history.connect();
            (Talk { history, frame: 0 }, connection)
        }

        fn say(&mut self, connection: ConnectionId, direction: Direction, id: i32) -> PduId {
            self.frame += 1;
            let sighting = Sighting { frame: self.frame, time_ns: i64::from(self.frame) * 1000 };
            let api = matches!(direction, Direction::Request).then_some((62, 4));
            self.history.record(
                connection,
                sighting,
                Heading { direction, correlation_id: Some(id), api, nature: Nature::Message },
            )
        }

        fn partner_frame(&self, id: PduId) -> Option<u32> {
            self.history.partner(id).map(|sighting| sighting.frame)
        }
    }

    use Direction::{Request, Response};

    #[test]
    fn pairs_by_correlation_id_in_any_order() {
        let (mut talk, c) = Talk::new();
        let (a, b) = (talk.say(c, Request, 1), talk.say(c, Request, 2));
        let (answer_b, answer_a) = (talk.say(c, Response, 2), talk.say(c, Response, 1));
        assert_eq!([a, b, answer_b, answer_a].map(|id| talk.partner_frame(id)), [Some(4), Some(3), Some(2), Some(1)]);
        assert_eq!(talk.history.answered_api(answer_a), Some((62, 4)));
    }

    #[test]
    fn the_same_id_on_another_connection_is_another_call() {
        let (mut talk, c) = Talk::new();
        let d = talk.history.connect();
        talk.say(c, Request, 1);
        let answer = talk.say(d, Response, 1);
        assert_eq!(talk.partner_frame(answer), None);
        assert_eq!(talk.history.answered_api(answer), None);
    }

    #[test]
    fn a_response_without_id_answers_a_request_that_waits_alone() {
        let (mut talk, c) = Talk::new();
        let sighting = Sighting { frame: 9, time_ns: 0 };
        let heading = Heading { direction: Response, correlation_id: None, api: None, nature: Nature::Message };
        talk.say(c, Request, 1);
        let answer = talk.history.record(c, sighting, heading);
        talk.say(c, Request, 2);
        talk.say(c, Request, 3);
        let either = talk.history.record(c, sighting, heading);
        assert_eq!([answer, either].map(|id| talk.partner_frame(id)), [Some(1), None]);
    }

    #[test]
    fn a_response_is_about_the_broker_that_its_request_names() {
        let (mut talk, c) = Talk::new();
        let (asked, silent) = (talk.say(c, Request, 1), talk.say(c, Request, 2));
        talk.history.set_named_broker(asked, 3);
        let (answer, other) = (talk.say(c, Response, 1), talk.say(c, Response, 2));
        assert_eq!([asked, answer].map(|id| talk.history.named_broker(id)), [Some(NamedBroker::Id(3)); 2]);
        assert_eq!([silent, other].map(|id| talk.history.named_broker(id)), [None; 2]);
    }

    #[test]
    fn so_many_brokers_are_told_apart_and_no_more() {
        let (mut talk, c) = Talk::new();
        let brokers = 0..MAX_NAMED as i32 + 2;
        let asked: Vec<PduId> = brokers.clone().map(|id| talk.say(c, Request, id)).collect();
        for _ in 0..2 {
            asked.iter().zip(brokers.clone()).for_each(|(id, broker)| talk.history.set_named_broker(*id, broker));
            let [.., last, beyond, _] = asked[..] else { unreachable!() };
            assert_eq!(talk.history.named_broker(last), Some(NamedBroker::Id(MAX_NAMED as i32 - 1)));
            assert_eq!(talk.history.named_broker(beyond), Some(NamedBroker::Other));
        }
    }

    #[test]
    fn a_reused_id_belongs_to_the_newest_unanswered_request() {
        let (mut talk, c) = Talk::new();
        let lost = talk.say(c, Request, 7);
        let asked = talk.say(c, Request, 7);
        let answer = talk.say(c, Response, 7);
        let stray = talk.say(c, Response, 7);
        assert_eq!([lost, asked, answer, stray].map(|id| talk.partner_frame(id)), [None, Some(3), Some(2), None]);
    }
}
