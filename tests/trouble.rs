//! What is said of real trouble is what the controller's own log says of it, and of healthy clusters nothing is said that
//! would worry anyone. The log lines are quoted in NAME.log.json.

mod support {
    pub mod conversation;
    pub mod corpus;
    pub mod reader;
    pub mod told;
}

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use kraft::rule::Severity;
use kraft::schema::Direction;
use serde_json::Value;
use support::conversation::{Conversation, Said, conversation};
use support::corpus::{captures, name};
use support::told::{Told, told};

/// A cause in the words of the controller's log, and in those of the finding beside it.
struct Cause {
    capture: &'static str,
    /// Part of the log line; `{}` stands for a word.
    log: &'static str,
    /// The rule that speaks of the response.
    rule: &'static str,
    /// Part of what it says; `{0}` is the first word of the log line.
    says: &'static str,
    /// How the message in the frame of the evidence is summed up.
    by: Option<&'static str>,
    /// The rule that foresaw it in the request.
    foreseen: Option<&'static str>,
}

const CAUSES: &[Cause] = &[
    Cause {
        capture: "trouble-duplicate-id.pcap",
        log: "DuplicateBrokerRegistrationException in {} microseconds. Exception message: Another broker is registered \
              with that broker id.",
        rule: "duplicate_registration",
        says: " holds this broker id (registered in frame ",
        by: Some("BrokerRegistration v4 Request, broker 1, "),
        foreseen: Some("second_process"),
    },
    Cause {
        // As soon as the holder sends a heartbeat, it is known to be alive.
        capture: "trouble-duplicate-id.pcap",
        log: "DuplicateBrokerRegistrationException in {} microseconds. Exception message: Another broker is registered \
              with that broker id.",
        rule: "duplicate_registration",
        says: "Two brokers have the same node.id: ",
        by: Some("BrokerHeartbeat v1 Request, broker 1, "),
        foreseen: Some("second_process"),
    },
    Cause {
        capture: "trouble-fast-restart.pcap",
        log: "Another broker is registered with that broker id.",
        rule: "duplicate_registration",
        says: " holds this broker id (registered in frame ",
        by: Some("BrokerRegistration v4 Request, broker 1, "),
        foreseen: None,
    },
    Cause {
        capture: "trouble-clean-restart.pcap",
        log: "Another broker is registered with that broker id. If the broker was recently restarted this should \
              self-resolve once the heartbeat manager expires the broker's session.",
        rule: "duplicate_registration",
        says: "After a restart the broker then gets in by itself",
        by: Some("BrokerRegistration v4 Request, broker 1, "),
        foreseen: None,
    },
    Cause {
        capture: "trouble-cluster-id.pcap",
        log: "Expected cluster ID {}, but got cluster ID {} (",
        rule: "wrong_cluster",
        says: "The controller belongs to another cluster than {1}, though it accepted broker 1 with that id in frame ",
        by: Some("BrokerRegistration v4 Request, broker 1, "),
        foreseen: None,
    },
    Cause {
        capture: "trouble-old-broker.pcap",
        log: "the broker does not support finalized version {} of metadata.version. The broker wants a version between {} \
              and {}, inclusive.",
        rule: "unsupported_feature",
        says: "metadata.version {1}-{2} does not hold the finalized level {0} (",
        by: Some("ApiVersions v3 Response"),
        foreseen: Some("level_not_supported"),
    },
    Cause {
        capture: "trouble-no-directories.pcap",
        log: "No directories specified in request",
        rule: "invalid_registration",
        says: "The request names no log directories (",
        by: Some("BrokerRegistration v1 Request, broker 2, "),
        // It is too old as well, but the controller looks at the directories first.
        foreseen: Some("level_not_supported"),
    },
    Cause {
        capture: "trouble-stolen-directory.pcap",
        log: "Broker {} is already registered with directory {} (",
        rule: "invalid_registration",
        says: "Log directory {1} belongs to broker {0}, which registered it in frame ",
        by: Some("BrokerRegistration v4 Request, broker 1, "),
        foreseen: Some("foreign_log_dir"),
    },
    Cause {
        capture: "trouble-no-authority.pcap",
        log: "Principal = {} is Denied operation = CLUSTER_ACTION from host = {} on resource = Cluster:LITERAL:kafka-cluster \
              for request = BrokerRegistration ",
        rule: "not_authorized",
        says: "The principal of this connection has no ClusterAction on the cluster",
        by: None,
        foreseen: None,
    },
];

/// Captures in which a broker is refused before it registers, and the log line that says so.
const BEFORE_REGISTRATION: &[(&str, &str)] =
    &[("trouble-foreign-storage.pcap", "Unexpected error INCONSISTENT_CLUSTER_ID in FETCH response")];

#[test]
fn every_refusal_is_explained_as_the_controller_explains_it() {
    let mut confirmed = BTreeSet::new();
    for capture in trouble() {
        let talk = conversation(&capture);
        for (registration, reason) in refusals(&log(&capture)) {
            let answer = answer(&talk, &registration);
            let told = told(&talk.history, answer.summary.id.expect("it is recorded"));
            let is_it =
                |(_, cause): &(usize, &Cause)| cause.capture == name(&capture) && cause.tells(&reason, &told, &talk);
            let cause = CAUSES.iter().enumerate().find(is_it);
            let lines: Vec<String> = told.iter().map(ToString::to_string).collect();
            let (index, _) = cause.unwrap_or_else(|| panic!("{}:\n{reason}\n{}", name(&capture), lines.join("\n")));
            confirmed.insert(index);
        }
    }
    assert_eq!(confirmed.len(), CAUSES.len(), "only these causes occur: {confirmed:?}");
}

#[test]
fn nothing_else_in_the_trouble_is_called_trouble() {
    for capture in trouble() {
        let expected: Vec<&str> = CAUSES
            .iter()
            .filter(|cause| cause.capture == name(&capture))
            .flat_map(|cause| [Some(cause.rule), cause.foreseen].into_iter().flatten())
            .collect();
        let unexpected = worrying(&capture, |told| !expected.contains(&told.rule.name));
        assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
    }
}

#[test]
fn a_broker_that_is_refused_before_it_registers_leaves_it_to_the_log() {
    for &(capture, line) in BEFORE_REGISTRATION {
        let capture = trouble().into_iter().find(|path| name(path) == capture).expect("the capture is there");
        let log = log(&capture);
        assert_eq!(refusals(&log).count(), 0);
        let quotes = log["quotes"].as_array().expect("a log has quotes");
        assert!(quotes.iter().any(|quote| quote["line"].to_string().contains(line)), "{log}");
    }
}

#[test]
fn every_trouble_is_known_here() {
    let known: BTreeSet<&str> =
        CAUSES.iter().map(|cause| cause.capture).chain(BEFORE_REGISTRATION.iter().map(|known| known.0)).collect();
    let there: Vec<PathBuf> = trouble();
    assert_eq!(there.iter().map(|path| name(path)).collect::<BTreeSet<_>>(), known);
}

#[test]
fn nothing_in_healthy_clusters_is_called_trouble() {
    let healthy: Vec<PathBuf> = captures().into_iter().filter(|path| name(path).contains("-kafka-")).collect();
    assert!(healthy.len() >= 6, "only {healthy:?}");
    let worrying: Vec<String> = healthy.iter().flat_map(|capture| worrying(capture, |_| true)).collect();
    assert!(worrying.is_empty(), "{}", worrying.join("\n"));
}

impl Cause {
    /// Whether log and finding both tell this cause.
    fn tells(&self, reason: &str, told: &[Told], talk: &Conversation) -> bool {
        let Some(words) = words(reason, self.log) else { return false };
        let fill = |says: String, (i, word): (usize, &&str)| says.replace(&format!("{{{i}}}"), word);
        let says = words.iter().enumerate().fold(self.says.to_owned(), fill);
        told.iter().any(|told| {
            told.rule.name == self.rule
                && told.rule.severity == Severity::Error
                && told.text.contains(&says)
                && self.is_proved(told, talk)
        })
    }

    fn is_proved(&self, told: &Told, talk: &Conversation) -> bool {
        match (self.by, told.evidence) {
            (Some(by), Some((_, frame))) => {
                talk.talk.iter().any(|said| said.read.frame == frame && info(said).starts_with(by))
            }
            (by, evidence) => by.is_none() && evidence.is_none(),
        }
    }
}

/// The words of a line that stand where `pattern` has `{}`, if the line has such a part.
fn words<'a>(line: &'a str, pattern: &str) -> Option<Vec<&'a str>> {
    let mut parts = pattern.split("{}");
    let (_, mut rest) = line.split_once(parts.next()?)?;
    let mut words = Vec::new();
    for part in parts {
        let (word, after) = rest.split_once(part)?;
        words.push(word);
        rest = after;
    }
    words.iter().all(|word| !word.contains(' ')).then_some(words)
}

fn info(said: &Said) -> String {
    let mut info = String::new();
    said.summary.write_info(&said.read.bytes, &said.tape, &mut info);
    info
}

fn trouble() -> Vec<PathBuf> {
    captures().into_iter().filter(|path| name(path).starts_with("trouble-")).collect()
}

fn log(capture: &Path) -> Value {
    let log = fs::read(capture.with_extension("log.json")).expect("every recorded capture has a log");
    serde_json::from_slice(&log).expect("a log is JSON")
}

/// The refused registrations of a log, each with the line of the controller's log that says why.
fn refusals(log: &Value) -> impl Iterator<Item = (Value, String)> {
    let registrations = log["registrations"].as_array().expect("a log has registrations").iter();
    let refused = registrations.filter(|registration| registration["response"]["errorCode"] != 0);
    let reason = |registration: &Value| registration["evidence"]["reason"]["line"].as_str().map(str::to_owned);
    refused.map(move |refused| (refused.clone(), reason(refused).expect("the controller says why")))
}

/// The response to a registration: to the port of its broker, with its correlation id behind the size prefix.
fn answer<'a>(talk: &'a Conversation, registration: &Value) -> &'a Said {
    let is_it = |said: &&Said| {
        let id = said.read.bytes.get(4..8).and_then(|id| Some(i32::from_be_bytes(*id.first_chunk()?)));
        said.summary.direction == Direction::Response
            && registration["client_port"] == said.read.destination.port()
            && registration["correlation_id"] == Value::from(id)
    };
    talk.talk.iter().find(is_it).unwrap_or_else(|| panic!("the capture has no answer to {registration}"))
}

/// What is said above a note in a capture.
fn worrying(capture: &Path, counts: impl Fn(&Told) -> bool) -> Vec<String> {
    let Conversation { talk, history } = conversation(capture);
    let told = talk.iter().flat_map(|said| told(&history, said.summary.id.expect("it is recorded")));
    let worrying = told.filter(|told| told.rule.severity > Severity::Note && counts(told));
    worrying.map(|told| format!("{}: {told}", name(capture))).collect()
}
