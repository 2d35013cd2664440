//! The register of a capture: what its brokers have done so far, over all connections.
//!
//! It is filled on the first pass, PDU by PDU, and is what the rules of an API look at before they speak. Its size does not
//! follow the number of messages: it holds the last state of each broker, of each connection, and of each request that
//! waits for its answer, all of them up to a limit. Beyond a limit nothing more is remembered, and nothing is said.

use std::cell::RefCell;
use std::rc::Rc;

use foldhash::{HashMap, HashMapExt};
use smallvec::SmallVec;

use crate::pdu::{ConnectionId, PduId};

/// Brokers that are remembered.
const MAX_BROKERS: usize = 100_000;
/// Connections whose controller's features are remembered.
const MAX_CONNECTIONS: usize = 100_000;
/// Registrations that wait for their answer.
const MAX_WAITING: usize = 100_000;
/// Different texts that are remembered, and the bytes of each.
const MAX_TEXTS: usize = 100_000;
const MAX_TEXT: usize = 256;
/// Log directories, features and suspicions of one registration that are remembered.
const MAX_PARTS: usize = 64;

/// A text that the register remembers, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Text(pub u32);

impl Text {
    /// All texts beyond the limit, which are not told apart.
    const FORGOTTEN: Text = Text(u32::MAX);
}

/// A text as an argument of a finding.
pub fn number(text: Text) -> i64 {
    text.0.into()
}

/// Arguments of a finding of which the first two are a UUID.
pub fn with_id(id: [u8; 16], third: i64) -> [i64; 3] {
    let id = u128::from_be_bytes(id);
    [(id >> 64) as i64, id as i64, third]
}

/// The end of a connection that an address belongs to; only good for telling addresses apart.
pub type Address = u64;

/// An accepted registration.
#[derive(Clone, Copy, Debug)]
pub struct Accepted {
    /// The request.
    pub request: PduId,
    /// The response.
    pub response: PduId,
    /// Incarnation of the broker process.
    pub incarnation: [u8; 16],
    /// The epoch that was given.
    pub epoch: i64,
    /// Where the broker registered from.
    pub address: Address,
}

/// The last attempt of a broker to register.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// The request.
    pub request: PduId,
    /// When it was sent, in nanoseconds since the epoch.
    pub time_ns: i64,
    /// Incarnation of the broker process.
    pub incarnation: [u8; 16],
    /// When its series of attempts began.
    pub since_ns: i64,
    /// Attempts of this incarnation since its last accepted one, this one included.
    pub tries: u32,
    /// Whether it was accepted.
    pub accepted: bool,
}

/// The last heartbeat of a broker.
#[derive(Clone, Copy, Debug)]
pub struct Heartbeat {
    /// The request.
    pub request: PduId,
    /// When it was sent.
    pub time_ns: i64,
    /// The epoch it was sent with.
    pub epoch: i64,
}

/// What is known of a broker.
#[derive(Clone, Debug, Default)]
pub struct Broker {
    /// Its last accepted registration.
    pub accepted: Option<Accepted>,
    /// Its last attempt to register.
    pub last: Option<Attempt>,
    /// The incarnation that tried to register before the last one did, and its last request.
    pub earlier: Option<([u8; 16], PduId)>,
    /// Its last heartbeat.
    pub heartbeat: Option<Heartbeat>,
    /// The first of the answers that have left it fenced since, though it wants to be unfenced.
    pub fenced: Option<(PduId, i64)>,
    /// Whether that has been said.
    pub fenced_said: bool,
    /// The first heartbeat that asked for the shutdown that is still pending.
    pub shutting_down: Option<(PduId, i64)>,
    /// Whether that has been said.
    pub shutting_down_said: bool,
    /// The log directories of its last accepted registration.
    directories: Directories,
}

impl Broker {
    /// The last heartbeat of the process that holds this broker id, if it was sent after another process began to try for
    /// it: both are alive.
    pub fn rival(&self) -> Option<Heartbeat> {
        let (accepted, last) = (self.accepted?, self.last?);
        let is_other = accepted.incarnation != last.incarnation;
        self.heartbeat.filter(|beat| is_other && beat.epoch == accepted.epoch && beat.time_ns > last.since_ns)
    }
}

/// What a cluster's brokers have in common.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// The newest accepted registration, and the broker's id.
    pub accepted: Option<(i32, PduId)>,
    /// A registration that names a rack.
    pub with_rack: Option<(i32, PduId)>,
    /// The broker that a log directory belongs to, and the registration that says so; by its id as a number, which is quicker
    /// to look up than bytes.
    pub directories: HashMap<u128, (i32, PduId)>,
}

/// A reason to be refused that a request itself shows, or that shows in the light of what came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspicion {
    /// A feature's range does not hold the finalized level.
    Level {
        /// The feature.
        feature: Text,
        /// The range, packed by [`pack`].
        range: i64,
        /// The finalized level.
        level: i64,
        /// The ApiVersions response that says so.
        seen: PduId,
    },
    /// A feature's range is upside down.
    UpsideDown {
        /// The feature.
        feature: Text,
        /// The range, packed by [`pack`].
        range: i64,
    },
    /// No log directory.
    NoDirectory,
    /// A reserved directory id.
    ReservedDirectory {
        /// The id.
        id: [u8; 16],
    },
    /// A directory id that is there twice.
    DuplicateDirectory {
        /// The id.
        id: [u8; 16],
    },
    /// A directory that belongs to another broker.
    ForeignDirectory {
        /// The id.
        id: [u8; 16],
        /// Whose it is.
        owner: i32,
        /// The registration that says so.
        seen: PduId,
    },
    /// A security protocol that nobody knows.
    UnknownProtocol {
        /// Its number.
        id: i64,
    },
    /// No metadata.version.
    NoMetadataVersion,
    /// A broker in migration from ZooKeeper.
    Migrating,
}

/// The suspicions of one request, of which most have none.
pub type Suspicions = SmallVec<[Suspicion; 4]>;

/// The log directories of one registration. As many as most have take no memory of their own.
pub type Directories = SmallVec<[[u8; 16]; 4]>;

/// Two 16-bit numbers in one argument.
pub fn pack(low: i64, high: i64) -> i64 {
    (low & 0xffff) << 16 | (high & 0xffff)
}

/// The numbers that [`pack`] put together.
pub fn unpack(packed: i64) -> (i16, i16) {
    ((packed >> 16) as i16, packed as i16)
}

/// A registration that waits for its answer.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The cluster that the broker means.
    pub cluster: Text,
    /// The broker.
    pub broker: i32,
    /// Its incarnation.
    pub incarnation: [u8; 16],
    /// Where it registers from.
    pub address: Address,
    /// Whether it names a rack.
    pub rack: bool,
    /// Its log directories.
    pub directories: Directories,
    /// Why it may be refused, most certain first.
    pub suspicions: Suspicions,
    /// Whether all of it was captured.
    pub is_whole: bool,
}

/// A heartbeat that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub struct Beat {
    /// The cluster of the broker.
    pub cluster: Text,
    /// The broker.
    pub broker: i32,
    /// The epoch it was sent with.
    pub epoch: i64,
    /// Whether it asks to be unfenced.
    pub wants_unfencing: bool,
}

/// What is known of a connection.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// The cluster of the last registration on it.
    pub cluster: Option<Text>,
    /// The finalized features that the controller has named, and the response that did; none if it did not.
    pub finalized: Option<(PduId, Vec<(Text, i16)>)>,
}

/// The texts that findings name, each once.
#[derive(Debug, Default)]
struct Texts {
    by_number: Vec<Rc<[u8]>>,
    numbers: HashMap<Rc<[u8]>, Text>,
}

type Brokers = HashMap<(Text, i32), Broker>;

/// See the module.
#[derive(Debug)]
pub struct Register {
    /// How long a broker may be silent before its session ends, in nanoseconds (`broker.session.timeout.ms`).
    pub session_timeout_ns: i64,
    texts: RefCell<Texts>,
    brokers: Brokers,
    clusters: HashMap<Text, Cluster>,
    sessions: HashMap<ConnectionId, Session>,
    waiting: HashMap<PduId, Waiting>,
    /// Heartbeats that wait for their answer.
    beating: HashMap<PduId, Beat>,
    /// The newest accepted registration of all: its cluster, its broker, its request.
    newest: Option<(Text, i32, PduId)>,
}

/// Kafka's default of `broker.session.timeout.ms`, in nanoseconds.
pub const DEFAULT_SESSION_TIMEOUT_NS: i64 = 9_000_000_000;

impl Default for Register {
    fn default() -> Register {
        Register {
            session_timeout_ns: DEFAULT_SESSION_TIMEOUT_NS,
            texts: RefCell::default(),
            brokers: HashMap::new(),
            clusters: HashMap::new(),
            sessions: HashMap::new(),
            waiting: HashMap::new(),
            beating: HashMap::new(),
            newest: None,
        }
    }
}

impl Register {
    /// The number of a text. Texts are cut to a length, and beyond a number of texts all new ones are the same, empty one.
    pub fn text(&self, bytes: &[u8]) -> Text {
        let bytes = &bytes[..bytes.len().min(MAX_TEXT)];
        let mut texts = self.texts.borrow_mut();
        if let Some(text) = texts.numbers.get(bytes) {
            return *text;
        }
        if texts.by_number.len() >= MAX_TEXTS {
            return Text::FORGOTTEN;
        }
        let (text, bytes) = (Text(texts.by_number.len() as u32), Rc::from(bytes));
        texts.by_number.push(Rc::clone(&bytes));
        texts.numbers.insert(bytes, text);
        text
    }

    /// The bytes of a text.
    pub fn bytes(&self, text: Text) -> Rc<[u8]> {
        self.texts.borrow().by_number.get(text.0 as usize).cloned().unwrap_or_default()
    }

    /// What is known of a broker; nothing of one whose cluster is not remembered.
    pub fn broker(&self, cluster: Text, id: i32) -> Option<&Broker> {
        self.brokers.get(&(cluster, id))
    }

    /// A broker to note something of.
    pub fn broker_mut(&mut self, cluster: Text, id: i32) -> Option<&mut Broker> {
        Register::entry(&mut self.brokers, cluster, id)
    }

    fn entry(brokers: &mut Brokers, cluster: Text, id: i32) -> Option<&mut Broker> {
        let key = (cluster, id);
        if cluster == Text::FORGOTTEN || (brokers.len() >= MAX_BROKERS && !brokers.contains_key(&key)) {
            return None;
        }
        Some(brokers.entry(key).or_default())
    }

    /// What is known of a cluster.
    pub fn cluster(&self, cluster: Text) -> Option<&Cluster> {
        self.clusters.get(&cluster)
    }

    /// What is known of a connection.
    pub fn session(&self, connection: ConnectionId) -> Option<&Session> {
        self.sessions.get(&connection)
    }

    /// A connection to note something of.
    pub fn session_mut(&mut self, connection: ConnectionId) -> Option<&mut Session> {
        if self.sessions.len() >= MAX_CONNECTIONS && !self.sessions.contains_key(&connection) {
            return None;
        }
        Some(self.sessions.entry(connection).or_default())
    }

    /// The cluster that a message on a connection is about, where the message names none: that of the registration before
    /// it on the connection, else that of all registrations so far, if they are of one.
    pub fn cluster_of(&self, connection: ConnectionId) -> Option<Text> {
        let only = self.newest.filter(|_| self.clusters.len() == 1).map(|(cluster, ..)| cluster);
        self.session(connection).and_then(|session| session.cluster).or(only)
    }

    /// The newest accepted registration: cluster, broker, request.
    pub fn newest(&self) -> Option<(Text, i32, PduId)> {
        self.newest
    }

    /// A registration waits for its answer.
    pub fn wait(&mut self, request: PduId, mut waiting: Waiting) {
        if self.waiting.len() < MAX_WAITING {
            waiting.directories.truncate(MAX_PARTS);
            waiting.suspicions.truncate(MAX_PARTS);
            self.waiting.insert(request, waiting);
        }
    }

    /// The registration that waits for its answer under this number.
    pub fn waiting(&self, request: PduId) -> Option<&Waiting> {
        self.waiting.get(&request)
    }

    /// A heartbeat of a broker waits for its answer.
    pub fn beat(&mut self, request: PduId, beat: Beat) {
        if self.beating.len() < MAX_WAITING {
            self.beating.insert(request, beat);
        }
    }

    /// The heartbeat that waits for its answer under this number.
    pub fn beating(&self, request: PduId) -> Option<Beat> {
        self.beating.get(&request).copied()
    }

    /// A heartbeat has its answer.
    pub fn beaten(&mut self, request: PduId) -> Option<Beat> {
        self.beating.remove(&request)
    }

    /// A registration has its answer: it is refused, or it is accepted with this epoch.
    pub fn answer(&mut self, request: PduId, response: PduId, epoch: Option<i64>) {
        let Some(waiting) = self.waiting.remove(&request) else { return };
        let Some(epoch) = epoch else { return };
        let Waiting { cluster, broker: id, incarnation, address, rack, directories, .. } = waiting;
        let Some(broker) = Register::entry(&mut self.brokers, cluster, id) else { return };
        broker.accepted = Some(Accepted { request, response, incarnation, epoch, address });
        (broker.fenced, broker.fenced_said) = (None, false);
        (broker.shutting_down, broker.shutting_down_said) = (None, false);
        if let Some(last) = broker.last.as_mut().filter(|last| last.request == request) {
            (last.accepted, last.tries) = (true, 0);
        }
        let before = std::mem::replace(&mut broker.directories, directories);
        let cluster_known = self.clusters.entry(cluster).or_default();
        for given_up in before.iter().filter(|directory| !broker.directories.contains(directory)) {
            let given_up = u128::from_be_bytes(*given_up);
            if cluster_known.directories.get(&given_up).is_some_and(|(owner, _)| *owner == id) {
                cluster_known.directories.remove(&given_up);
            }
        }
        cluster_known.accepted = Some((id, request));
        if rack {
            cluster_known.with_rack = Some((id, request));
        }
        if cluster_known.directories.len() < MAX_BROKERS {
            let owned = broker.directories.iter().map(|directory| (u128::from_be_bytes(*directory), (id, request)));
            cluster_known.directories.extend(owned);
        }
        self.newest = Some((cluster, id, request));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_survive_packing() {
        for range in [(1, 25), (-32768, 32767), (0, -1)] {
            let (low, high) = unpack(pack(range.0, range.1));
            assert_eq!((i64::from(low), i64::from(high)), range);
        }
    }

    #[test]
    fn texts_have_one_number_each_and_a_limit() {
        let register = Register::default();
        let (a, b) = (register.text(b"a"), register.text(b"b"));
        assert_ne!(a, b);
        assert_eq!((register.text(b"a"), &*register.bytes(a)), (a, &b"a"[..]));
        let long = register.text(&[b'x'; 1000]);
        assert_eq!(register.bytes(long).len(), MAX_TEXT);
        for i in 0..MAX_TEXTS {
            register.text(&i.to_be_bytes());
        }
        assert_eq!(register.texts.borrow().by_number.len(), MAX_TEXTS);
        assert_eq!((register.text(b"a"), &*register.bytes(register.text(b"beyond"))), (a, &b""[..]));
    }

    #[test]
    fn what_waits_is_limited() {
        let mut register = Register::default();
        let waiting = Waiting {
            cluster: Text(0),
            broker: 1,
            incarnation: [0; 16],
            address: 0,
            rack: false,
            directories: Directories::from_elem([1; 16], 1000),
            suspicions: Suspicions::new(),
            is_whole: true,
        };
        for i in 0..=MAX_WAITING as u32 {
            register.wait(PduId(i), waiting.clone());
        }
        assert_eq!(register.waiting.len(), MAX_WAITING);
        assert_eq!(register.waiting(PduId(0)).expect("it waits").directories.len(), MAX_PARTS);
    }
}
