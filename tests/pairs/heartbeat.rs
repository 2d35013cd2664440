//! What is said of heartbeats and of what a controller offers.

use kafka_protocol::messages::{ApiVersionsResponse, BrokerHeartbeatRequest, BrokerHeartbeatResponse};

use super::messages::{alive, directory, finalized, heartbeat, registration};
use super::pair::Pair;
use super::scenes::{beats, joins};
use crate::support::talk::{HOST_1, Talk};

/// All pairs.
pub const PAIRS: &[&[Pair]] = &[REQUEST, RESPONSE, API_VERSIONS];

const REQUEST: &[Pair] = &[
    Pair {
        rule: "heartbeat_gap",
        said: |talk| silent_for(talk, 9001, 7),
        unsaid: |talk| silent_for(talk, 9000, 7),
        at: "",
        by: Some(3),
        says: "9.001 s since the last heartbeat (frame 3), longer than the session time-out of 9.000 s: the controller has likely \
               fenced the broker. Look at its pauses, and at the controller's load",
    },
    Pair {
        // The other time-out is a preference.
        rule: "heartbeat_gap",
        said: |talk| silent_for(talk, 18_500, 7),
        unsaid: |talk| {
            talk.history.register.session_timeout_ns = 18_500_000_000;
            silent_for(talk, 18_500, 7);
        },
        at: "",
        by: Some(3),
        says: "18.500 s since the last heartbeat (frame 3), longer than the session time-out of 9.000 s: the controller has likely \
               fenced the broker. Look at its pauses, and at the controller's load",
    },
    Pair {
        // A heartbeat with another epoch is of another session.
        rule: "heartbeat_gap",
        said: |talk| silent_for(talk, 60_000, 7),
        unsaid: |talk| silent_for(talk, 60_000, 8),
        at: "",
        by: Some(3),
        says: "60.000 s since the last heartbeat (frame 3), longer than the session time-out of 9.000 s: the controller has likely \
               fenced the broker. Look at its pauses, and at the controller's load",
    },
    Pair {
        rule: "stale_epoch",
        said: |talk| is_sent(talk, &heartbeat(1, 6)),
        unsaid: |talk| is_sent(talk, &heartbeat(1, 7)),
        at: "BrokerEpoch",
        by: Some(2),
        says: "Epoch 6 is sent, but epoch 7 was given in frame 2: likely refused with STALE_BROKER_EPOCH (77)",
    },
    Pair {
        rule: "log_dir_offline",
        said: |talk| is_sent(talk, &heartbeat(1, 7).with_offline_log_dirs(vec![directory(1)])),
        unsaid: |talk| is_sent(talk, &heartbeat(1, 7)),
        at: "OfflineLogDirs[0]",
        by: None,
        says: "Log directory AAAAAA0eAAAAAAAAAAAAAQ has failed. Look at the broker's log and at its disk",
    },
];

/// A registered broker is silent between two heartbeats, of which the second has this epoch.
fn silent_for(talk: &mut Talk, milliseconds: i64, epoch: i64) {
    let line = joins(talk, &registration(1), 7);
    beats(talk, line, &heartbeat(1, 7), &alive());
    talk.pause(milliseconds);
    talk.ask(line, 1, &heartbeat(1, epoch));
}

/// A broker that was given epoch 7 sends this.
fn is_sent(talk: &mut Talk, heartbeat: &BrokerHeartbeatRequest) {
    let line = joins(talk, &registration(1), 7);
    talk.ask(line, 1, heartbeat);
}

const RESPONSE: &[Pair] = &[
    Pair {
        rule: "stale_broker_epoch",
        said: |talk| epoch_gets(talk, 6, 77),
        unsaid: |talk| epoch_gets(talk, 6, 0),
        at: "ErrorCode",
        by: Some(2),
        says: "The heartbeat has epoch 6, the broker was given epoch 7 in frame 2: an older process of the same id, or a \
               registration that this broker has not noticed",
    },
    Pair {
        rule: "stale_broker_epoch",
        said: |talk| epoch_gets(talk, 7, 77),
        unsaid: |talk| epoch_gets(talk, 7, 0),
        at: "ErrorCode",
        by: Some(2),
        says: "The controller does not know epoch 7, which it gave in frame 2: the registration was replaced or removed",
    },
    Pair {
        rule: "stale_broker_epoch",
        said: |talk| unregistered_gets(talk, 77),
        unsaid: |talk| unregistered_gets(talk, 0),
        at: "ErrorCode",
        by: None,
        says: "The controller does not know this broker, or not with this epoch; the registration was not captured",
    },
    Pair {
        rule: "heartbeat_refused",
        said: |talk| epoch_gets(talk, 7, -1),
        unsaid: |talk| epoch_gets(talk, 7, 41),
        at: "ErrorCode",
        by: None,
        says: "The heartbeat was refused with UNKNOWN_SERVER_ERROR (-1)",
    },
    Pair {
        rule: "heartbeat_refused",
        said: |talk| epoch_gets(talk, 7, 999),
        unsaid: |talk| epoch_gets(talk, 7, 77),
        at: "ErrorCode",
        by: None,
        says: "The heartbeat was refused with an unknown error (999)",
    },
    Pair {
        rule: "still_fenced",
        said: |talk| stays(talk, &heartbeat(1, 7), &fenced(), 30_000),
        unsaid: |talk| stays(talk, &heartbeat(1, 7), &fenced(), 29_999),
        at: "IsFenced",
        by: Some(4),
        says: "Still fenced 30.000 s after it first asked to be unfenced (answer in frame 4): the broker has not caught up \
               with the metadata. Does it reach the controller's log, is its id also a controller's?",
    },
    Pair {
        // Who wants to be fenced waits for nothing.
        rule: "still_fenced",
        said: |talk| stays(talk, &heartbeat(1, 7), &fenced(), 31_000),
        unsaid: |talk| stays(talk, &heartbeat(1, 7).with_want_fence(true), &fenced(), 31_000),
        at: "IsFenced",
        by: Some(4),
        says: "Still fenced 31.000 s after it first asked to be unfenced (answer in frame 4): the broker has not caught up \
               with the metadata. Does it reach the controller's log, is its id also a controller's?",
    },
    Pair {
        // It asked to be unfenced only now.
        rule: "still_fenced",
        said: |talk| stays(talk, &heartbeat(1, 7), &fenced(), 31_000),
        unsaid: |talk| {
            let line = joins(talk, &registration(1), 7);
            beats(talk, line, &heartbeat(1, 7).with_want_fence(true), &fenced());
            talk.pause(31_000);
            beats(talk, line, &heartbeat(1, 7), &fenced());
        },
        at: "IsFenced",
        by: Some(4),
        says: "Still fenced 31.000 s after it first asked to be unfenced (answer in frame 4): the broker has not caught up \
               with the metadata. Does it reach the controller's log, is its id also a controller's?",
    },
    Pair {
        rule: "shutdown_pending",
        said: |talk| stays(talk, &heartbeat(1, 7).with_want_shut_down(true), &alive(), 30_000),
        unsaid: |talk| stays(talk, &heartbeat(1, 7).with_want_shut_down(true), &alive(), 29_999),
        at: "ShouldShutDown",
        by: Some(3),
        says: "Shutdown asked for 30.000 s ago (frame 3) and not granted: leaderships are being moved away, or \
               another broker lags behind in the metadata",
    },
    Pair {
        rule: "shutdown_pending",
        said: |talk| stays(talk, &heartbeat(1, 7).with_want_shut_down(true), &alive(), 31_000),
        unsaid: |talk| {
            stays(talk, &heartbeat(1, 7).with_want_shut_down(true), &alive().with_should_shut_down(true), 31_000);
        },
        at: "ShouldShutDown",
        by: Some(3),
        says: "Shutdown asked for 31.000 s ago (frame 3) and not granted: leaderships are being moved away, or \
               another broker lags behind in the metadata",
    },
];

/// A broker that was given epoch 7 sends a heartbeat with some epoch and gets this code.
fn epoch_gets(talk: &mut Talk, epoch: i64, code: i16) {
    let line = joins(talk, &registration(1), 7);
    beats(talk, line, &heartbeat(1, epoch), &alive().with_error_code(code));
}

/// The capture begins after the registration.
fn unregistered_gets(talk: &mut Talk, code: i16) {
    let line = talk.connect(HOST_1);
    beats(talk, line, &heartbeat(1, 7), &alive().with_error_code(code));
}

/// A registered broker sends the same and gets the same before and after a time.
fn stays(talk: &mut Talk, heartbeat: &BrokerHeartbeatRequest, answer: &BrokerHeartbeatResponse, milliseconds: i64) {
    let line = joins(talk, &registration(1), 7);
    beats(talk, line, heartbeat, answer);
    talk.pause(milliseconds);
    beats(talk, line, heartbeat, answer);
}

/// What a broker gets that is fenced.
fn fenced() -> BrokerHeartbeatResponse {
    BrokerHeartbeatResponse::default().with_is_fenced(true)
}

const API_VERSIONS: &[Pair] = &[
    Pair {
        rule: "version_refused",
        said: |talk| asks_what_is_offered(talk, 35),
        unsaid: |talk| asks_what_is_offered(talk, 0),
        at: "ErrorCode",
        by: None,
        says: "The server does not know this version of ApiVersions and answers in v0; the client asks again in a version \
               that is offered (KIP-511)",
    },
    Pair {
        rule: "api_versions_refused",
        said: |talk| asks_what_is_offered(talk, 42),
        unsaid: |talk| asks_what_is_offered(talk, 35),
        at: "ErrorCode",
        by: None,
        says: "The server refused with INVALID_REQUEST (42)",
    },
];

/// A server that does not know the version answers in v0.
fn asks_what_is_offered(talk: &mut Talk, code: i16) {
    let line = talk.connect(HOST_1);
    talk.ask(line, 4, &kafka_protocol::messages::ApiVersionsRequest::default());
    match code {
        35 => talk.answer_in(line, 0, &ApiVersionsResponse::default().with_error_code(code)),
        _ => talk.answer(line, &finalized(&[]).with_error_code(code)),
    }
}
