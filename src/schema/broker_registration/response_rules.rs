//! What may be said of a BrokerRegistration response: why a registration was refused, as far as the capture shows it.
//!
//! The response carries a number and no reason. The reasons are those of Kafka's `ControllerApis`, `QuorumController` and
//! `ClusterControlManager`; which one it is follows from the request, from what the controller said before, and from what
//! other brokers did.

use super::RESPONSE;
use crate::pdu::PduId;
use crate::register::{Register, Suspicion, Suspicions, Text, Waiting, number, with_id};
use crate::rule::Group::{Response, Sequence};
use crate::rule::Severity::{Error, Note, Warn};
use crate::rule::{Case, Check, Facts, Report, Rule};
use crate::schema::names;
use crate::tape::Place;

const THROTTLE_TIME: u16 = RESPONSE.ord("ThrottleTimeMs");
const ERROR_CODE: u16 = RESPONSE.ord("ErrorCode");
const EPOCH: u16 = RESPONSE.ord("BrokerEpoch");

const UNKNOWN_SERVER_ERROR: i64 = names::code("UNKNOWN_SERVER_ERROR");
const NONE: i64 = names::code("NONE");
const REQUEST_TIMED_OUT: i64 = names::code("REQUEST_TIMED_OUT");
const CLUSTER_AUTHORIZATION_FAILED: i64 = names::code("CLUSTER_AUTHORIZATION_FAILED");
const UNSUPPORTED_VERSION: i64 = names::code("UNSUPPORTED_VERSION");
const NOT_CONTROLLER: i64 = names::code("NOT_CONTROLLER");
const DUPLICATE_BROKER_REGISTRATION: i64 = names::code("DUPLICATE_BROKER_REGISTRATION");
const BROKER_ID_NOT_REGISTERED: i64 = names::code("BROKER_ID_NOT_REGISTERED");
const INCONSISTENT_CLUSTER_ID: i64 = names::code("INCONSISTENT_CLUSTER_ID");
const INVALID_REGISTRATION: i64 = names::code("INVALID_REGISTRATION");

/// Codes that have a rule of their own.
const EXPLAINED: [i64; 10] = [
    NONE,
    UNKNOWN_SERVER_ERROR,
    REQUEST_TIMED_OUT,
    CLUSTER_AUTHORIZATION_FAILED,
    UNSUPPORTED_VERSION,
    NOT_CONTROLLER,
    DUPLICATE_BROKER_REGISTRATION,
    BROKER_ID_NOT_REGISTERED,
    INCONSISTENT_CLUSTER_ID,
    INVALID_REGISTRATION,
];

/// The rules.
pub const CHECKS: &[Check] = &[
    Check::new(
        Rule::new("timed_out", Warn, Response, "The controller did not finish in time"),
        &[
            "The controller did not finish in time, or is shutting down; the broker tries again. Look at the controller's load",
        ],
        |case, report| refused(case, report, REQUEST_TIMED_OUT, |_, _| Cause::plain(0)),
    ),
    Check::new(
        Rule::new("not_authorized", Error, Response, "The broker may not register"),
        &[
            "The principal of this connection has no ClusterAction on the cluster: look at its SASL or TLS identity, and at the \
           controller's ACLs and super.users",
        ],
        |case, report| refused(case, report, CLUSTER_AUTHORIZATION_FAILED, |_, _| Cause::plain(0)),
    ),
    Check::new(
        Rule::new("unsupported_feature", Error, Response, "The broker does not support what is finalized"),
        &[
            "Likely: {0:text} {1:range} does not hold the finalized level {2} (ApiVersions response in frame {frame}). \
             Upgrade this broker",
            "Likely: metadata.version {1:range} does not hold the finalized level {2}{2:release} (ApiVersions response in \
             frame {frame}). Upgrade this broker",
            "{0:text} {1:range} has its minimum above its maximum, which holds no level (request in frame {frame})",
            "Likely: a feature of the request does not hold the finalized level. No ApiVersions response of this connection \
             was captured that would name it; ask the controller: kafka-features.sh describe",
            "Likely: a level was finalized that the ApiVersions response in frame {frame} does not name, since the request \
             holds those it names. Ask the controller: kafka-features.sh describe",
        ],
        |case, report| refused(case, report, UNSUPPORTED_VERSION, unsupported),
    ),
    Check::new(
        Rule::new("not_controller", Note, Response, "This node is not the active controller"),
        &["This node is not the active controller (any more); the broker looks for the leader and registers there"],
        |case, report| refused(case, report, NOT_CONTROLLER, |_, _| Cause::plain(0)),
    ),
    Check::new(
        Rule::new("duplicate_registration", Error, Response, "Another process holds this broker id"),
        &[
            "{0:uuid} holds this broker id (registered in frame {frame}) until its session ends (9 s by default). After a \
             restart the broker then gets in by itself; else look for a second broker",
            "Likely two brokers with the same node.id, or one that keeps crashing: another process, {0:uuid}, tried in frame {frame}",
            "Another process holds this broker id since before the capture, until its session ends (9 s by default). After a \
             restart the broker then gets in by itself; else look for a second broker",
            "Two brokers have the same node.id: {0:uuid}, which holds it, still sends heartbeats (frame {frame}). Give one of \
             them another",
        ],
        |case, report| refused(case, report, DUPLICATE_BROKER_REGISTRATION, duplicate),
    ),
    Check::new(
        Rule::new("id_not_registered", Error, Response, "The controller does not accept this kind of broker"),
        &[
            "The request says that the broker migrates from ZooKeeper (frame {frame}), and the controller is not in \
             migration",
            "The controller accepts no broker of this kind now: a controller before or in a migration from ZooKeeper takes \
             only ZooKeeper brokers (3.4 to 3.9)",
        ],
        |case, report| refused(case, report, BROKER_ID_NOT_REGISTERED, migration),
    ),
    Check::new(
        Rule::new("wrong_cluster", Error, Response, "The controller belongs to another cluster"),
        &[
            "The controller belongs to another cluster: broker {1} was accepted with cluster id {0:text} (frame {frame}). \
             Compare cluster.id in meta.properties of both",
            "The controller belongs to another cluster than {0:text}, though it accepted broker {1} with that id in frame \
             {frame}: was the controller's storage formatted anew?",
            "The controller belongs to another cluster than {0:text}. Compare cluster.id in meta.properties of both",
            "The controller belongs to another cluster than the broker, whose request was not captured up to its cluster id. \
             Compare cluster.id in meta.properties of both",
        ],
        |case, report| refused(case, report, INCONSISTENT_CLUSTER_ID, other_cluster),
    ),
    Check::new(
        Rule::new("invalid_registration", Error, Response, "Something is wrong with the log directories"),
        &[
            "The request names no log directories (frame {frame}), and metadata.version 3.7-IV2 and later asks for them: a \
             broker older than 3.7, or one whose directories have all failed",
            "{0:uuid} is a reserved directory id (request in frame {frame}). Look at directory.id in meta.properties",
            "Log directory {0:uuid} is there twice (request in frame {frame}). Was a directory copied, meta.properties \
             included?",
            "Log directory {0:uuid} belongs to broker {2}, which registered it in frame {frame}. Was a directory copied, \
             meta.properties included?",
            "Likely: a log directory of the request belongs to another broker, registered before the capture began; other \
             reasons would show in the request. The controller's log names the directory",
            "A log directory is missing, reserved, there twice, or another broker's; the request that would tell was not \
             captured",
            "metadata.version is missing in the request (frame {frame}), which Kafka 4.x refuses. A broker of 3.2 or older?",
            "Likely: the broker migrates from ZooKeeper (request in frame {frame}) and has no listener of the name that the \
             controller has as inter.broker.listener.name (3.4 to 3.9)",
        ],
        |case, report| refused(case, report, INVALID_REGISTRATION, invalid),
    ),
    Check::new(
        Rule::new("controller_failed", Error, Response, "The controller failed on this registration"),
        &[
            "The request names security protocol {0}, which does not exist (frame {frame}): the controller fails on it and \
             resigns",
            "The controller failed on this registration; its log has the exception",
        ],
        |case, report| refused(case, report, UNKNOWN_SERVER_ERROR, failed),
    ),
    Check::new(
        Rule::new("refused", Error, Response, "The registration was refused"),
        &[
            "The registration was refused with {0:error} ({0}), which is no answer of Kafka's own controllers to a registration",
        ],
        |case, report| {
            let (code, place) = error(case);
            if let Some(code) = code.filter(|code| !EXPLAINED.contains(code)) {
                report.find(0, place, None, [code, 0, 0]);
            }
        },
    ),
    Check::new(
        Rule::new("epoch_changed", Warn, Sequence, "The epoch of a running broker has changed"),
        &[
            "The same broker process had epoch {0} (response in frame {frame}): heartbeats with the old epoch will be refused \
           with STALE_BROKER_EPOCH (77), see KAFKA-16952",
        ],
        epoch_changed,
    ),
    Check::new(
        Rule::new("throttled", Note, Response, "A quota held the request back"),
        &["A quota held the request back for {0} ms"],
        |case, report| {
            let found = case.message.find(THROTTLE_TIME);
            if let Some((found, ms @ 1..)) = found.and_then(|found| Some((found, found.int()?))) {
                report.find(0, found.place(), None, [ms, 0, 0]);
            }
        },
    ),
];

/// Which text of a rule says it, by what evidence, naming what.
struct Cause {
    text: u8,
    evidence: Option<PduId>,
    arguments: [i64; 3],
}

impl Cause {
    fn plain(text: u8) -> Cause {
        Cause { text, evidence: None, arguments: [0; 3] }
    }

    fn shown(text: u8, evidence: PduId, arguments: [i64; 3]) -> Cause {
        Cause { text, evidence: Some(evidence), arguments }
    }
}

fn error(case: &Facts) -> (Option<i64>, Place) {
    let found = case.message.find(ERROR_CODE);
    (found.and_then(|found| found.int()), found.map_or(Place::WHOLE, |found| found.place()))
}

/// Says why a registration was refused with `code`. `why` knows the request that waits for this answer.
fn refused(case: &Case, report: &mut Report, code: i64, why: fn(&Case, Option<(PduId, &Waiting)>) -> Cause) {
    let (answered, place) = error(case);
    if answered == Some(code) {
        let waiting = case.request.and_then(|request| Some((request, case.register.waiting(request)?)));
        let cause = why(case, waiting);
        report.find(cause.text, place, cause.evidence, cause.arguments);
    }
}

/// The broker whose registration is answered.
pub fn subject(facts: &Facts, register: &Register) -> Option<(Text, i32)> {
    register.waiting(facts.request?).map(|waiting| (waiting.cluster, waiting.broker))
}

fn unsupported(case: &Case, waiting: Option<(PduId, &Waiting)>) -> Cause {
    let suspicions =
        waiting.iter().flat_map(|(request, waiting)| waiting.suspicions.iter().map(|what| (*request, *what)));
    let mut causes = suspicions.filter_map(|(request, suspicion)| match suspicion {
        Suspicion::UpsideDown { feature, range } => Some(Cause::shown(2, request, [number(feature), range, 0])),
        Suspicion::Level { feature, range, level, seen } => {
            let is_metadata_version = *case.register.bytes(feature) == *crate::schema::feature::METADATA_VERSION;
            Some(Cause::shown(u8::from(is_metadata_version), seen, [number(feature), range, level]))
        }
        _ => None,
    });
    let named = case.register.session(case.connection).and_then(|session| session.finalized.as_ref());
    let unexplained = || named.map_or(Cause::plain(3), |(seen, _)| Cause::shown(4, *seen, [0; 3]));
    causes.next().unwrap_or_else(unexplained)
}

fn duplicate(case: &Case, waiting: Option<(PduId, &Waiting)>) -> Cause {
    let Some((_, waiting)) = waiting else { return Cause::plain(2) };
    let Some(broker) = case.broker else { return Cause::plain(2) };
    let holder = broker.accepted.filter(|accepted| accepted.incarnation != waiting.incarnation);
    match (holder, broker.earlier) {
        (Some(holder), _) if broker.rival().is_some() => {
            let beat = broker.rival().map_or(holder.request, |beat| beat.request);
            Cause::shown(3, beat, with_id(holder.incarnation, 0))
        }
        (Some(holder), _) => Cause::shown(0, holder.request, with_id(holder.incarnation, 0)),
        (None, Some((earlier, seen))) if earlier != waiting.incarnation => Cause::shown(1, seen, with_id(earlier, 0)),
        _ => Cause::plain(2),
    }
}

fn migration(_: &Case, waiting: Option<(PduId, &Waiting)>) -> Cause {
    match waiting {
        Some((request, waiting)) if waiting.suspicions.contains(&Suspicion::Migrating) => {
            Cause::shown(0, request, [0; 3])
        }
        _ => Cause::plain(1),
    }
}

fn other_cluster(case: &Case, waiting: Option<(PduId, &Waiting)>) -> Cause {
    let meant = waiting.map(|(_, waiting)| waiting.cluster);
    match (case.register.newest(), meant) {
        (Some((cluster, broker, request)), Some(meant)) if cluster != meant => {
            Cause::shown(0, request, [number(cluster), broker.into(), 0])
        }
        (Some((cluster, broker, request)), Some(_)) => Cause::shown(1, request, [number(cluster), broker.into(), 0]),
        (None, Some(meant)) => Cause { text: 2, evidence: None, arguments: [number(meant), 0, 0] },
        (_, None) => Cause::plain(3),
    }
}

fn invalid(_: &Case, waiting: Option<(PduId, &Waiting)>) -> Cause {
    let Some((request, waiting)) = waiting else { return Cause::plain(5) };
    // In the order in which the controller looks, and likely ones last.
    let causes = waiting.suspicions.iter().filter_map(|suspicion| match *suspicion {
        Suspicion::NoDirectory => Some(Cause::shown(0, request, [0; 3])),
        Suspicion::ReservedDirectory { id } => Some(Cause::shown(1, request, with_id(id, 0))),
        Suspicion::DuplicateDirectory { id } => Some(Cause::shown(2, request, with_id(id, 0))),
        Suspicion::ForeignDirectory { id, owner, seen } => Some(Cause::shown(3, seen, with_id(id, owner.into()))),
        Suspicion::NoMetadataVersion => Some(Cause::shown(6, request, [0; 3])),
        Suspicion::Migrating => Some(Cause::shown(7, request, [0; 3])),
        _ => None,
    });
    let proven = causes.min_by_key(|cause| cause.text);
    // Up to v1 a request has no place for log directories, so it names none.
    let names_none = waiting.directories.is_empty();
    match proven {
        _ if waiting.is_whole && names_none => Cause::shown(0, request, [0; 3]),
        Some(cause) => cause,
        None if waiting.is_whole => Cause::plain(4),
        None => Cause::plain(5),
    }
}

fn failed(_: &Case, waiting: Option<(PduId, &Waiting)>) -> Cause {
    let protocol = waiting.and_then(|(request, waiting)| {
        waiting.suspicions.iter().find_map(|suspicion| match *suspicion {
            Suspicion::UnknownProtocol { id } => Some(Cause::shown(0, request, [id, 0, 0])),
            _ => None,
        })
    });
    protocol.unwrap_or(Cause::plain(1))
}

fn epoch_changed(case: &Case, report: &mut Report) {
    let waiting = case.request.and_then(|request| case.register.waiting(request));
    let before = waiting
        .and_then(|waiting| case.broker?.accepted.filter(|accepted| accepted.incarnation == waiting.incarnation));
    let found = case.message.find(EPOCH);
    if let (Some(before), Some(found), (Some(NONE), _)) = (before, found, error(case)) {
        if found.int() != Some(before.epoch) {
            report.find(0, found.place(), Some(before.response), [before.epoch, 0, 0]);
        }
    }
}

/// Takes down whether the registration was accepted.
pub fn learn(case: &Facts, register: &mut Register, _: Suspicions) {
    if let Some(request) = case.request {
        let epoch = case.message.int(EPOCH).filter(|_| error(case).0 == Some(NONE));
        register.answer(request, case.id, epoch);
    }
}
