//! BrokerHeartbeat, API key 63 (KIP-500): a registered broker keeps its session, asks to be unfenced, or to shut down.
//!
//! Source: Kafka's `BrokerHeartbeatRequest.json` and `BrokerHeartbeatResponse.json`. v1 came with 3.7 (KIP-858), v2 with 4.3
//! (KIP-1066).

use std::fmt::Write;

use super::names::{self, Names};
use super::{Api, Field, Message, Versions, array, boolean, int16, int32, int64, uuid};
use crate::pdu::PduId;
use crate::register::{Beat, Heartbeat, Register, Suspicions, Text, with_id};
use crate::rule::Group::{Request, Response, Sequence};
use crate::rule::Severity::{Error, Note, Warn};
use crate::rule::{Case, Check, Facts, Report, Rule};
use crate::tape::{Place, View};

/// The API.
pub static API: Api = Api::new(63, REQUEST, RESPONSE);

/// What the broker sends.
pub const REQUEST: Message =
    Message::new("BrokerHeartbeatRequest", Versions::range(0, 2), Versions::ALL, REQUEST_FIELDS)
        .info(request_info)
        .subject(sender)
        .checks(REQUEST_CHECKS)
        .learn(learn_request);

const REQUEST_FIELDS: &[Field] = &[
    int32("BrokerId").about("Node id of the broker."),
    int64("BrokerEpoch").about("Epoch that the controller gave to this registration; -1 if none."),
    int64("CurrentMetadataOffset").about("Highest metadata offset that the broker has reached."),
    boolean("WantFence").about("Whether the broker wants to be (or stay) fenced."),
    boolean("WantShutDown").about("Whether the broker wants to shut down."),
    array("OfflineLogDirs", &OFFLINE_LOG_DIR)
        .unit("directory", "directories")
        .since(1)
        .tag(0)
        .about("Log directories that have failed."),
    array("CordonedLogDirs", &CORDONED_LOG_DIR)
        .unit("directory", "directories")
        .since(2)
        .tag(1)
        .nullable()
        .about("Log directories that take no new partitions; null until the broker has recovered."),
];

const OFFLINE_LOG_DIR: Field = uuid("OfflineLogDir").names(Names::DirectoryIds);
const CORDONED_LOG_DIR: Field = uuid("CordonedLogDir").names(Names::DirectoryIds);

/// `, broker 3, epoch 6001, wants to shut down`.
fn request_info(request: &View, out: &mut String) {
    if let (Some(broker), Some(epoch)) = (request.int(BROKER_ID), request.int(BROKER_EPOCH)) {
        let _ = write!(out, ", broker {broker}, epoch {epoch}");
    }
    if request.boolean(WANT_SHUT_DOWN) == Some(true) {
        out.push_str(", wants to shut down");
    } else if request.boolean(WANT_FENCE) == Some(true) {
        out.push_str(", wants to be fenced");
    }
}

/// What the controller answers.
pub const RESPONSE: Message =
    Message::new("BrokerHeartbeatResponse", Versions::range(0, 2), Versions::ALL, RESPONSE_FIELDS)
        .info(response_info)
        .subject(answered)
        .checks(RESPONSE_CHECKS)
        .learn(learn_response);

const RESPONSE_FIELDS: &[Field] = &[
    int32("ThrottleTimeMs").about("Milliseconds for which a quota held the request back; 0 if none did."),
    int16("ErrorCode").names(Names::ErrorCodes).about("Error code; 0 if there was no error."),
    boolean("IsCaughtUp").about("Whether the broker has caught up with the metadata."),
    boolean("IsFenced").about("Whether the broker is fenced: no client is sent to it."),
    boolean("ShouldShutDown").about("Whether the broker should go on with its shutdown."),
];

fn response_info(response: &View, out: &mut String) {
    if super::write_error(response.int(ERROR_CODE), out) {
        return;
    }
    if response.boolean(IS_FENCED) == Some(true) {
        out.push_str(", fenced");
    }
    if response.boolean(SHOULD_SHUT_DOWN) == Some(true) {
        out.push_str(", should shut down");
    }
}

/// The rules of the request.
const REQUEST_CHECKS: &[Check] = &[
    Check::new(
        Rule::new("heartbeat_gap", Warn, Sequence, "A broker was silent for longer than its session"),
        &[
            "{0:seconds} since the last heartbeat (frame {frame}), longer than the session time-out of {1:seconds}: the \
           controller has likely fenced the broker. Look at its pauses, and at the controller's load",
        ],
        heartbeat_gap,
    ),
    Check::new(
        Rule::new("stale_epoch", Warn, Sequence, "A heartbeat with another epoch than the one given"),
        &["Epoch {0} is sent, but epoch {1} was given in frame {frame}: likely refused with STALE_BROKER_EPOCH (77)"],
        stale_epoch,
    ),
    Check::new(
        Rule::new("log_dir_offline", Warn, Request, "A log directory has failed"),
        &["Log directory {0:uuid} has failed. Look at the broker's log and at its disk"],
        log_dir_offline,
    ),
];

/// The rules of the response.
const RESPONSE_CHECKS: &[Check] = &[
    Check::new(
        Rule::new("stale_broker_epoch", Error, Response, "The controller does not know this registration"),
        &[
            "The heartbeat has epoch {0}, the broker was given epoch {1} in frame {frame}: an older process of the same id, or \
             a registration that this broker has not noticed",
            "The controller does not know epoch {0}, which it gave in frame {frame}: the registration was replaced or removed",
            "The controller does not know this broker, or not with this epoch; the registration was not captured",
        ],
        stale_broker_epoch,
    ),
    Check::new(
        Rule::new("heartbeat_refused", Error, Response, "A heartbeat was refused"),
        &["The heartbeat was refused with {0:error} ({0})"],
        heartbeat_refused,
    ),
    Check::new(
        Rule::new("still_fenced", Warn, Sequence, "A broker stays fenced though it wants to be unfenced"),
        &[
            "Still fenced {0:seconds} after it first asked to be unfenced (answer in frame {frame}): the broker has not caught \
           up with the metadata. Does it reach the controller's log, is its id also a controller's?",
        ],
        still_fenced,
    ),
    Check::new(
        Rule::new("shutdown_pending", Note, Sequence, "A broker waits for its shutdown"),
        &[
            "Shutdown asked for {0:seconds} ago (frame {frame}) and not granted: leaderships are being moved away, or another broker lags behind in the metadata",
        ],
        shutdown_pending,
    ),
];

/// Silence up to here is the session's own business; longer fencing or shutdown is worth a word.
const LONG_NS: i64 = 30_000_000_000;
const STALE_BROKER_EPOCH: i64 = names::code("STALE_BROKER_EPOCH");
const NOT_CONTROLLER: i64 = names::code("NOT_CONTROLLER");

const BROKER_ID: u16 = REQUEST.ord("BrokerId");
const BROKER_EPOCH: u16 = REQUEST.ord("BrokerEpoch");
const WANT_FENCE: u16 = REQUEST.ord("WantFence");
const WANT_SHUT_DOWN: u16 = REQUEST.ord("WantShutDown");
const FAILED_DIRS: u16 = REQUEST.ord("OfflineLogDirs");
const ERROR_CODE: u16 = RESPONSE.ord("ErrorCode");
const IS_FENCED: u16 = RESPONSE.ord("IsFenced");
const SHOULD_SHUT_DOWN: u16 = RESPONSE.ord("ShouldShutDown");

/// The broker that sends a heartbeat: its cluster and id. The message names no cluster, the connection does.
fn sender(facts: &Facts, register: &Register) -> Option<(Text, i32)> {
    Some((register.cluster_of(facts.connection)?, facts.message.int(BROKER_ID)?.try_into().ok()?))
}

fn heartbeat_gap(case: &Case, report: &mut Report) {
    let Some(last) = case.broker.and_then(|broker| broker.heartbeat) else { return };
    let (gap, timeout) = (case.sighting.time_ns - last.time_ns, case.register.session_timeout_ns);
    // Another epoch is another session: the broker has restarted in between.
    if gap > timeout && case.message.int(BROKER_EPOCH) == Some(last.epoch) {
        report.find(0, Place::WHOLE, Some(last.request), [gap, timeout, 0]);
    }
}

fn stale_epoch(case: &Case, report: &mut Report) {
    let (accepted, found) = (case.broker.and_then(|broker| broker.accepted), case.message.find(BROKER_EPOCH));
    if let (Some(accepted), Some((found, epoch))) = (accepted, found.and_then(|found| Some((found, found.int()?)))) {
        if epoch != accepted.epoch {
            report.find(0, found.place(), Some(accepted.response), [epoch, accepted.epoch, 0]);
        }
    }
}

fn log_dir_offline(case: &Case, report: &mut Report) {
    for found in case.message.values(FAILED_DIRS) {
        if let Some(id) = found.uuid() {
            report.find(0, found.place(), None, with_id(id, 0));
        }
    }
}

/// Takes down when a broker was last heard of.
fn learn_request(case: &Facts, register: &mut Register, _: Suspicions) {
    let (Some((cluster, id)), Some(epoch)) = (sender(case, register), case.message.int(BROKER_EPOCH)) else { return };
    let (request, time_ns) = (case.id, case.sighting.time_ns);
    let wants_shutdown = case.message.boolean(WANT_SHUT_DOWN) == Some(true);
    let wants_fence = case.message.boolean(WANT_FENCE) == Some(true);
    let Some(broker) = register.broker_mut(cluster, id) else { return };
    broker.heartbeat = Some(Heartbeat { request, time_ns, epoch });
    if wants_fence || wants_shutdown {
        (broker.fenced, broker.fenced_said) = (None, false);
    }
    if wants_shutdown {
        broker.shutting_down.get_or_insert((request, time_ns));
    }
    register.beat(request, Beat { cluster, broker: id, epoch, wants_unfencing: !wants_fence && !wants_shutdown });
}

/// The broker whose heartbeat is answered.
fn answered(facts: &Facts, register: &Register) -> Option<(Text, i32)> {
    register.beating(facts.request?).map(|beat| (beat.cluster, beat.broker))
}

fn error(case: &Facts) -> Option<(i64, Place)> {
    let found = case.message.find(ERROR_CODE)?;
    Some((found.int()?, found.place()))
}

fn stale_broker_epoch(case: &Case, report: &mut Report) {
    let Some((STALE_BROKER_EPOCH, place)) = error(case) else { return };
    let given = case.broker.and_then(|broker| broker.accepted);
    let sent = case.request.and_then(|request| case.register.beating(request)).map(|beat| beat.epoch);
    match (given, sent) {
        (Some(given), Some(sent)) => {
            report.find(u8::from(given.epoch == sent), place, Some(given.response), [sent, given.epoch, 0]);
        }
        _ => report.find(2, place, None, [0; 3]),
    }
}

fn heartbeat_refused(case: &Case, report: &mut Report) {
    if let Some((code, place)) =
        error(case).filter(|(code, _)| !matches!(*code, 0 | STALE_BROKER_EPOCH | NOT_CONTROLLER))
    {
        report.find(0, place, None, [code, 0, 0]);
    }
}

/// Said once for each time a broker stays fenced.
fn still_fenced(case: &Case, report: &mut Report) {
    let Some((first, since)) = case.broker.filter(|broker| !broker.fenced_said).and_then(|broker| broker.fenced) else {
        return;
    };
    let fenced_for = case.sighting.time_ns - since;
    if let (Some(found), true) = (case.message.find(IS_FENCED), fenced_for >= LONG_NS) {
        if case.message.boolean(IS_FENCED) == Some(true) {
            report.find(0, found.place(), Some(first), [fenced_for, 0, 0]);
        }
    }
}

/// Said once for each shutdown.
fn shutdown_pending(case: &Case, report: &mut Report) {
    let pending = case.broker.filter(|broker| !broker.shutting_down_said).and_then(|broker| broker.shutting_down);
    let (Some((first, since)), Some(found)) = (pending, case.message.find(SHOULD_SHUT_DOWN)) else { return };
    let pending_for = case.sighting.time_ns - since;
    if pending_for >= LONG_NS && case.message.boolean(SHOULD_SHUT_DOWN) == Some(false) {
        report.find(0, found.place(), Some(first), [pending_for, 0, 0]);
    }
}

/// Takes down whether a broker is fenced, and whether it may shut down.
fn learn_response(case: &Facts, register: &mut Register, _: Suspicions) {
    let Some(beat) = case.request.and_then(|request| register.beaten(request)) else { return };
    let fenced = case.message.boolean(IS_FENCED) == Some(true);
    let granted = case.message.boolean(SHOULD_SHUT_DOWN) == Some(true);
    let Some(broker) = register.broker_mut(beat.cluster, beat.broker) else { return };
    let long_since = |since: Option<(PduId, i64)>| since.is_some_and(|(_, ns)| case.sighting.time_ns - ns >= LONG_NS);
    if error(case).is_none_or(|(code, _)| code != 0) {
        return;
    }
    broker.fenced_said |= long_since(broker.fenced);
    broker.shutting_down_said |= long_since(broker.shutting_down);
    match fenced {
        true if beat.wants_unfencing => {
            broker.fenced.get_or_insert((case.id, case.sighting.time_ns));
        }
        _ => (broker.fenced, broker.fenced_said) = (None, false),
    }
    if granted {
        (broker.shutting_down, broker.shutting_down_said) = (None, false);
    }
}
