//! What a PDU counts as: the rows that it raises in a tree of counters, and the time that a request took.
//!
//! Rows are paths of [`Label`]s below one of [`ROOTS`]. Their number has a limit, whatever is sent: it follows from the tables
//! of names, from the rules, and from the number of brokers that a [`History`] tells apart.

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::dissect::Summary;
use crate::findings;
use crate::pairing::{History, NamedBroker, Nature, PduId};
use crate::rule::{Rule, Severity};
use crate::schema::names::{self, Names};
use crate::schema::{self, Direction, Message};
use crate::tape::{Event, Tape, View};
use crate::wire;

/// The name of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Label {
    /// As it stands.
    Text(&'static str),
    /// A version, `v4`.
    Version(i16),
    /// An error, `STALE_BROKER_EPOCH (77)`.
    Error(i16),
    /// A broker, `Broker 3`.
    Broker(i32),
}

use Label::Text;

/// All messages: by API, by version, by direction.
pub const MESSAGES: Label = Text("Messages");
/// Requests that are not answered in this capture, by API.
pub const UNANSWERED: Label = Text("Requests without response");
/// Responses with an error: by error, by API.
pub const ERRORS: Label = Text("Errors");
/// Requests that name a broker: by broker, by API; below, how they went.
pub const BROKERS: Label = Text("Brokers");
/// What was said of the PDUs: by severity, by rule.
pub const FINDINGS: Label = Text("Findings");
/// PDUs that are no messages.
pub const OTHER: Label = Text("Other bytes");

/// The rows that are always there, in this order. No other row has one of their names.
pub const ROOTS: [Label; 6] = [MESSAGES, UNANSWERED, ERRORS, BROKERS, FINDINGS, OTHER];

/// Rules that are rows of a broker, too.
const OF_BROKERS: [(&str, Label); 2] = [("retry", Text("Retries")), ("restart", Text("Restarts"))];

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Text(text) => f.write_str(text),
            Label::Version(version) => write!(f, "v{version}"),
            Label::Error(code) => match Names::ErrorCodes.of(code.into()) {
                Some(name) => write!(f, "{name} ({code})"),
                None => write!(f, "error {code}"),
            },
            Label::Broker(id) => write!(f, "Broker {id}"),
        }
    }
}

impl Label {
    /// An API by Kafka's name.
    fn api(key: i16) -> Label {
        Text(names::api_key(key).map_or("unknown API key", |api| api.name))
    }

    /// A version of an API, as far as the API is known to have it.
    fn version(key: i16, version: i16) -> Label {
        let known = names::api_key(key).is_some_and(|api| api.versions.has(version));
        if known { Label::Version(version) } else { Text("unknown version") }
    }

    /// An error, if its code is one that Kafka may come to give.
    fn error(code: i16) -> Label {
        let plausible = code == -1 || u8::try_from(code).is_ok();
        if plausible { Label::Error(code) } else { Text("unknown error") }
    }

    fn broker(named: NamedBroker) -> Label {
        match named {
            NamedBroker::Id(id) => Label::Broker(id),
            NamedBroker::Other => Text("Other brokers"),
        }
    }
}

/// What the statistics need to know of a PDU. It owns nothing and fits into memory of the packet.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    id: Option<PduId>,
    direction: Direction,
    nature: Nature,
    api: Option<(i16, i16)>,
    /// The broker that it is about, as a request or as an answer to one.
    broker: Option<NamedBroker>,
    /// The request that it answers, and when that was sent.
    answers: Option<(PduId, i64)>,
    /// The error of a response, 0 if it has none.
    error: Option<i16>,
    /// Whether a response says that the broker is fenced.
    is_fenced: bool,
    /// Faults of its bytes, in the order of [`wire::RULES`].
    faults: [u16; wire::RULES.len()],
}

impl Tally {
    /// The tally of a PDU that was dissected just now.
    pub fn of(summary: &Summary, captured: &[u8], tape: &Tape, history: &History) -> Tally {
        let Summary { id, direction, nature, api, request, partner, .. } = *summary;
        let response = summary.body.filter(|_| direction == Direction::Response);
        let view = |message: &Message| View::new(tape.events(), captured, message.id);
        let error = response.and_then(|message| view(message).int(schema::api(api?.0)?.error_code)?.try_into().ok());
        let is_fenced = response.and_then(|message| view(message).boolean(message.top_level("IsFenced")?));
        let mut faults = [0; wire::RULES.len()];
        for event in tape.events() {
            if let Event::Note { fault, .. } = event {
                let count: &mut u16 = &mut faults[fault.index()];
                *count = count.saturating_add(1);
            }
        }
        Tally {
            id,
            direction,
            nature,
            api,
            broker: id.and_then(|id| history.named_broker(id)),
            answers: request.zip(partner.map(|partner| partner.time_ns)),
            error,
            is_fenced: is_fenced.unwrap_or(false),
            faults,
        }
    }

    /// The API key of a response and the time of its request, in nanoseconds since the epoch.
    pub fn response_to(&self) -> Option<(i16, i64)> {
        Some((self.api?.0, self.answers?.1))
    }

    /// Names each row that the PDU raises by 1, as the path to it and how many rows at its end are raised. A path may come
    /// several times.
    pub fn count(&self, history: &History, raise: &mut dyn FnMut(&[Label], usize)) {
        match (self.nature, self.direction) {
            (Nature::Message, Direction::Request) => self.count_request(history, raise),
            (Nature::Message, Direction::Response) => self.count_response(raise),
            (Nature::SaslToken, _) => raise(&[OTHER, Text("SASL tokens")], 2),
            (Nature::Stray, _) => raise(&[OTHER, Text("Outside of any known message")], 2),
        }
        self.findings(history, &mut |rule, times| {
            (0..times).for_each(|_| raise(&[FINDINGS, severity(rule.severity), Text(rule.name)], 3));
        });
    }

    fn count_request(&self, history: &History, raise: &mut dyn FnMut(&[Label], usize)) {
        let Some((key, version)) = self.api else {
            return raise(&[MESSAGES, Text("Requests without a readable header")], 2);
        };
        let api = Label::api(key);
        raise(&[MESSAGES, api, Label::version(key, version), Text("Requests")], 4);
        let Some(broker) = self.broker.map(Label::broker) else { return };
        raise(&[BROKERS, broker, api], 3);
        self.findings(history, &mut |rule, times| {
            for (_, label) in OF_BROKERS.into_iter().filter(|(name, _)| *name == rule.name) {
                (0..times).for_each(|_| raise(&[BROKERS, broker, api, label], 1));
            }
        });
    }

    fn count_response(&self, raise: &mut dyn FnMut(&[Label], usize)) {
        let Some((key, version)) = self.api else {
            return raise(&[MESSAGES, Text("Responses without request")], 2);
        };
        let (api, refused) = (Label::api(key), self.error.filter(|code| *code != 0).map(Label::error));
        raise(&[MESSAGES, api, Label::version(key, version), Text("Responses")], 4);
        if let Some(error) = refused {
            raise(&[ERRORS, error, api], 3);
        }
        let Some(broker) = self.broker.map(Label::broker) else { return };
        match refused {
            Some(error) => raise(&[BROKERS, broker, api, Text("Refused"), error], 2),
            None if self.error.is_some() => raise(&[BROKERS, broker, api, Text("Accepted")], 1),
            None => {}
        }
        if self.is_fenced && refused.is_none() {
            raise(&[BROKERS, broker, api, Text("Fenced")], 1);
        }
    }

    /// All that was said of the PDU, as rules and how often.
    fn findings(&self, history: &History, each: &mut dyn FnMut(&Rule, u16)) {
        let faults = wire::RULES.iter().zip(self.faults).filter(|(_, times)| *times > 0);
        faults.for_each(|(rule, times)| each(rule, times));
        let found = self.id.map_or(&[][..], |id| findings::of(&history.findings, id));
        found.iter().filter_map(|finding| finding.check()).for_each(|check| each(&check.rule, 1));
    }

    /// The rows that tell how many requests like this one, or like the one that it answers, have no answer.
    fn unanswered_rows(&self) -> impl Iterator<Item = Row> {
        let api = self.api.map(|(key, _)| Label::api(key));
        let broker = self.broker.map(Label::broker);
        let all = api.map(|_| Row::new(&[UNANSWERED]));
        let of_api = api.map(|api| Row::new(&[UNANSWERED, api]));
        let of_broker =
            broker.zip(api).map(|(broker, api)| Row::new(&[BROKERS, broker, api, Text("Without response")]));
        [all, of_api, of_broker].into_iter().flatten()
    }
}

/// As the window of expert items calls it.
fn severity(severity: Severity) -> Label {
    Text(match severity {
        Severity::Chat => "Chat",
        Severity::Note => "Note",
        Severity::Warn => "Warning",
        Severity::Error => "Error",
    })
}

/// The path to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Row {
    labels: [Label; Row::DEPTH],
    depth: usize,
}

impl Row {
    const DEPTH: usize = 4;

    fn new(path: &[Label]) -> Row {
        let mut labels = [Text(""); Row::DEPTH];
        labels[..path.len()].copy_from_slice(path);
        Row { labels, depth: path.len() }
    }

    fn path(&self) -> &[Label] {
        &self.labels[..self.depth]
    }
}

/// Which requests that a tree of counters has counted wait for their answer.
///
/// When one pass over the capture meets a request, nobody knows its answer yet; and its answer may be one that the filter of
/// the tree holds back. So a tree remembers what it has counted as unanswered, and takes it back when it is answered.
#[derive(Debug, Default)]
pub struct Unanswered {
    requests: HashSet<PduId>,
    counts: HashMap<Row, u32>,
}

impl Unanswered {
    /// A request is counted. Names the rows that tell of it, each with the number that it shows from now on.
    pub fn ask(&mut self, tally: &Tally, history: &History, show: &mut dyn FnMut(&[Label], u32)) {
        let is_request = tally.direction == Direction::Request && tally.api.is_some();
        let Some(id) = tally.id.filter(|_| is_request && tally.nature == Nature::Message) else { return };
        let change = match history.partner_id(id) {
            None if self.requests.insert(id) => 1,
            Some(_) if self.requests.remove(&id) => -1,
            _ => 0,
        };
        self.show(tally, change, show);
    }

    /// A response has come, whether it is counted or not. Names the rows as [`ask`](Unanswered::ask) does, if the tree has
    /// counted its request.
    pub fn answer(&mut self, tally: &Tally, show: &mut dyn FnMut(&[Label], u32)) {
        if tally.answers.is_some_and(|(request, _)| self.requests.remove(&request)) {
            self.show(tally, -1, show);
        }
    }

    fn show(&mut self, tally: &Tally, change: i32, show: &mut dyn FnMut(&[Label], u32)) {
        for row in tally.unanswered_rows() {
            let count = self.counts.entry(row).or_default();
            *count = count.saturating_add_signed(change);
            show(row.path(), *count);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::dissect::{Look, Pdu, dissect};
    use crate::pairing::{ConnectionId, Sighting};
    use crate::recognize::Side;

    /// A connection, and a tree of counters for what is said on it.
    struct Talk {
        history: History,
        connection: ConnectionId,
        frame: u32,
        tree: BTreeMap<String, u32>,
        unanswered: Unanswered,
    }

    impl Talk {
        fn new() -> Talk {
            let mut history = History::new();
            let connection = history.connect();
            Talk { history, connection, frame: 0, tree: BTreeMap::new(), unanswered: Unanswered::default() }
        }

        /// Dissects a message behind its size prefix; a response is an answer, whoever counts it.
        fn say(&mut self, sender: Side, message: &[&[u8]]) -> Tally {
            self.frame += 1;
            let message = message.concat();
            let bytes = [&(message.len() as u32).to_be_bytes(), &message[..]].concat();
            let pdu = Pdu {
                captured: &bytes,
                length: bytes.len() as u32,
                sighting: Sighting { frame: self.frame, time_ns: i64::from(self.frame) * 1000 },
                connection: self.connection,
                sender,
                server: Some(Side::B),
                source: 1,
                destination: 2,
                is_local: false,
                stray: false,
            };
            let mut tape = Tape::new();
            let summary = dissect(&pdu, Look::First, &mut self.history, &mut tape);
            let tally = Tally::of(&summary, &bytes, &tape, &self.history);
            let Talk { tree, unanswered, .. } = self;
            unanswered.answer(&tally, &mut |path, count| _ = tree.insert(written(path), count));
            tally
        }

        fn heartbeat(&mut self, id: u8, broker: u8) -> Tally {
            let header = [0, 63, 0, 1, 0, 0, 0, id, 0, 1, b'c', 0];
            self.say(Side::A, &[&header, &[0, 0, 0, broker], &[0; 16], &[0, 0], &[0]])
        }

        fn beaten(&mut self, id: u8, error: u8, is_fenced: bool) -> Tally {
            self.say(Side::B, &[&[0, 0, 0, id, 0], &[0; 4], &[0, error], &[0, is_fenced.into(), 0], &[0]])
        }

        fn count(&mut self, tally: &Tally) {
            let Talk { history, tree, unanswered, .. } = self;
            tally.count(history, &mut |path, raised| {
                for depth in path.len() - raised..path.len() {
                    *tree.entry(written(&path[..=depth])).or_default() += 1;
                }
            });
            unanswered.ask(tally, history, &mut |path, count| _ = tree.insert(written(path), count));
        }

        /// The rows below one of the roots and that root.
        fn rows(&self, root: Label) -> Vec<String> {
            let rows = self.tree.iter().filter(|(path, _)| path.split('/').next() == Some(&root.to_string()));
            rows.map(|(path, count)| format!("{path} {count}")).collect()
        }
    }

    fn written(path: &[Label]) -> String {
        path.iter().map(Label::to_string).collect::<Vec<_>>().join("/")
    }

    #[test]
    fn a_request_and_its_answer_count_by_api_and_by_broker() {
        let mut talk = Talk::new();
        let said = [talk.heartbeat(1, 3), talk.beaten(1, 0, true), talk.heartbeat(2, 3), talk.beaten(2, 77, false)];
        said.iter().for_each(|tally| talk.count(tally));
        assert_eq!(said[1].response_to(), Some((63, 1000)));
        assert_eq!(
            talk.rows(MESSAGES),
            [
                "Messages 4",
                "Messages/BrokerHeartbeat 4",
                "Messages/BrokerHeartbeat/v1 4",
                "Messages/BrokerHeartbeat/v1/Requests 2",
                "Messages/BrokerHeartbeat/v1/Responses 2",
            ]
        );
        assert_eq!(
            talk.rows(ERRORS),
            ["Errors 1", "Errors/STALE_BROKER_EPOCH (77) 1", "Errors/STALE_BROKER_EPOCH (77)/BrokerHeartbeat 1"]
        );
        assert_eq!(
            talk.rows(BROKERS),
            [
                "Brokers 2",
                "Brokers/Broker 3 2",
                "Brokers/Broker 3/BrokerHeartbeat 2",
                "Brokers/Broker 3/BrokerHeartbeat/Accepted 1",
                "Brokers/Broker 3/BrokerHeartbeat/Fenced 1",
                "Brokers/Broker 3/BrokerHeartbeat/Refused 1",
                "Brokers/Broker 3/BrokerHeartbeat/Refused/STALE_BROKER_EPOCH (77) 1",
                "Brokers/Broker 3/BrokerHeartbeat/Without response 0",
            ]
        );
        assert!(talk.rows(FINDINGS).contains(&"Findings/Error/stale_broker_epoch 1".to_owned()));
    }

    const NO_BEAT_WAITS: [&str; 2] = ["Requests without response 0", "Requests without response/BrokerHeartbeat 0"];
    const A_BEAT_WAITS: [&str; 2] = ["Requests without response 1", "Requests without response/BrokerHeartbeat 1"];

    #[test]
    fn a_request_is_unanswered_until_its_answer_comes_even_one_that_is_not_counted() {
        let mut talk = Talk::new();
        let asked = talk.heartbeat(1, 3);
        talk.count(&asked);
        assert_eq!(talk.rows(UNANSWERED), A_BEAT_WAITS);
        talk.beaten(1, 0, false);
        assert_eq!(talk.rows(UNANSWERED), NO_BEAT_WAITS);
        // A second pass knows the answer.
        talk.count(&asked);
        assert_eq!(talk.rows(UNANSWERED), NO_BEAT_WAITS);
    }

    #[test]
    fn an_answer_to_a_request_that_was_not_counted_takes_nothing_back() {
        let mut talk = Talk::new();
        let counted = talk.heartbeat(1, 3);
        talk.count(&counted);
        talk.heartbeat(2, 3);
        let answer = talk.beaten(2, 0, false);
        talk.count(&answer);
        assert_eq!(talk.rows(UNANSWERED), A_BEAT_WAITS);
    }

    #[test]
    fn a_second_count_of_a_request_that_waits_shows_the_same() {
        let mut talk = Talk::new();
        let asked = talk.heartbeat(1, 3);
        (0..2).for_each(|_| talk.count(&asked));
        assert_eq!(talk.rows(UNANSWERED), A_BEAT_WAITS);
    }

    #[test]
    fn a_response_without_request_has_no_api() {
        let mut talk = Talk::new();
        let stray = talk.beaten(9, 0, false);
        talk.count(&stray);
        assert_eq!(talk.rows(MESSAGES), ["Messages 1", "Messages/Responses without request 1"]);
    }

    #[test]
    fn the_number_of_rows_does_not_follow_what_is_sent() {
        let all = || i16::MIN..=i16::MAX;
        let apis: HashSet<Label> = all().map(Label::api).collect();
        let versions: HashSet<Label> = all().map(|version| Label::version(62, version)).collect();
        let errors: HashSet<Label> = all().map(Label::error).collect();
        assert_eq!((apis.len(), versions.len(), errors.len()), (names::API_KEYS.len() + 1, 5 + 1, 257 + 1));
    }

    #[test]
    fn no_row_has_the_name_of_a_root() {
        let rules = schema::messages().flat_map(|message| message.checks).map(|check| &check.rule).chain(&wire::RULES);
        let names: HashSet<String> = rules
            .map(|rule| rule.name.to_owned())
            .chain(names::API_KEYS.iter().map(|api| api.name.to_owned()))
            .collect();
        assert!(ROOTS.iter().all(|root| !names.contains(&root.to_string())));
        assert!(OF_BROKERS.iter().all(|(name, _)| names.contains(*name)), "a rule of this name is missing");
    }
}
