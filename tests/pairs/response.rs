//! What is said of a BrokerRegistration response: each refusal, by what the capture shows of its cause.

use kafka_protocol::messages::BrokerRegistrationRequest;
use uuid::Uuid;

use super::edit::up_to;
use super::messages::{
    CLUSTER, OTHER_CLUSTER, accepted, alive, directory, feature, finalized, heartbeat, incarnation, listener, refused,
    registration,
};
use super::pair::Pair;
use super::scenes::{NEWEST, asking, beats, gets, joins, learns};
use crate::support::talk::{HOST_1, Talk};

/// All pairs.
pub const PAIRS: &[&[Pair]] = &[PLAIN, UNSUPPORTED, DUPLICATE, MIGRATION, WRONG_CLUSTER, INVALID, ACCEPTED];

const PLAIN: &[Pair] = &[
    Pair {
        rule: "timed_out",
        said: |talk| gets(talk, &registration(1), &refused(7)),
        unsaid: |talk| gets(talk, &registration(1), &accepted(7)),
        at: "ErrorCode",
        by: None,
        says: "The controller did not finish in time, or is shutting down; the broker tries again. Look at the controller's \
               load",
    },
    Pair {
        rule: "not_authorized",
        said: |talk| gets(talk, &registration(1), &refused(31)),
        unsaid: |talk| gets(talk, &registration(1), &accepted(31)),
        at: "ErrorCode",
        by: None,
        says: "The principal of this connection has no ClusterAction on the cluster: look at its SASL or TLS identity, and \
               at the controller's ACLs and super.users",
    },
    Pair {
        rule: "not_controller",
        said: |talk| gets(talk, &registration(1), &refused(41)),
        unsaid: |talk| gets(talk, &registration(1), &accepted(41)),
        at: "ErrorCode",
        by: None,
        says: "This node is not the active controller (any more); the broker looks for the leader and registers there",
    },
    Pair {
        rule: "controller_failed",
        said: |talk| speaks(talk, 4, -1),
        unsaid: |talk| speaks(talk, 4, 0),
        at: "ErrorCode",
        by: Some(1),
        says: "The request names security protocol 4, which does not exist (frame 1): the controller fails on it and resigns",
    },
    Pair {
        rule: "controller_failed",
        said: |talk| speaks(talk, 3, -1),
        unsaid: |talk| speaks(talk, 3, 0),
        at: "ErrorCode",
        by: None,
        says: "The controller failed on this registration; its log has the exception",
    },
    Pair {
        rule: "refused",
        said: |talk| gets(talk, &registration(1), &refused(44)),
        unsaid: |talk| gets(talk, &registration(1), &refused(41)),
        at: "ErrorCode",
        by: None,
        says: "The registration was refused with POLICY_VIOLATION (44), which is no answer of Kafka's own controllers to a \
               registration",
    },
];

fn speaks(talk: &mut Talk, protocol: i16, code: i16) {
    let listener = listener("PLAINTEXT", "broker-1").with_security_protocol(protocol);
    gets(talk, &registration(1).with_listeners(vec![listener]), &refused(code));
}

const UNSUPPORTED: &[Pair] = &[
    Pair {
        rule: "unsupported_feature",
        said: |talk| offers(talk, Some(("kraft.version", 2)), 35),
        unsaid: |talk| offers(talk, Some(("kraft.version", 2)), 0),
        at: "ErrorCode",
        by: Some(2),
        says: "Likely: kraft.version 0-1 does not hold the finalized level 2 (ApiVersions response in frame 2). Upgrade \
               this broker",
    },
    Pair {
        rule: "unsupported_feature",
        said: |talk| offers(talk, Some(("metadata.version", 26)), 35),
        unsaid: |talk| offers(talk, Some(("metadata.version", 26)), 0),
        at: "ErrorCode",
        by: Some(2),
        says: "Likely: metadata.version 1-25 does not hold the finalized level 26 (4.1-IV0) (ApiVersions response in frame \
               2). Upgrade this broker",
    },
    Pair {
        rule: "unsupported_feature",
        said: |talk| gets(talk, &upside_down(), &refused(35)),
        unsaid: |talk| gets(talk, &upside_down(), &accepted(7)),
        at: "ErrorCode",
        by: Some(1),
        says: "kraft.version 1-0 has its minimum above its maximum, which holds no level (request in frame 1)",
    },
    Pair {
        rule: "unsupported_feature",
        said: |talk| offers(talk, None, 35),
        unsaid: |talk| offers(talk, None, 0),
        at: "ErrorCode",
        by: None,
        says: "Likely: a feature of the request does not hold the finalized level. No ApiVersions response of this \
               connection was captured that would name it; ask the controller: kafka-features.sh describe",
    },
    Pair {
        rule: "unsupported_feature",
        said: |talk| offers(talk, Some(("metadata.version", 25)), 35),
        unsaid: |talk| offers(talk, Some(("metadata.version", 25)), 0),
        at: "ErrorCode",
        by: Some(2),
        says: "Likely: a level was finalized that the ApiVersions response in frame 2 does not name, since the request \
               holds those it names. Ask the controller: kafka-features.sh describe",
    },
];

/// A broker knows what is finalized, or does not, and gets this code.
fn offers(talk: &mut Talk, level: Option<(&'static str, i16)>, code: i16) {
    let line = match level {
        Some(level) => learns(talk, &finalized(&[level])),
        None => talk.connect(HOST_1),
    };
    talk.ask(line, NEWEST, &registration(1));
    talk.answer(line, &refused(code));
}

fn upside_down() -> BrokerRegistrationRequest {
    registration(1).with_features(vec![feature("metadata.version", 1, 25), feature("kraft.version", 1, 0)])
}

const DUPLICATE: &[Pair] = &[
    Pair {
        rule: "duplicate_registration",
        said: |talk| second_process(talk, Some(7), None, 101),
        unsaid: |talk| second_process(talk, Some(7), None, 0),
        at: "ErrorCode",
        by: Some(1),
        says: "AQEBAQEBAQEBAQEBAQEBAQ holds this broker id (registered in frame 1) until its session ends (9 s by \
               default). After a restart the broker then gets in by itself; else look for a second broker",
    },
    Pair {
        rule: "duplicate_registration",
        said: |talk| second_process(talk, None, None, 101),
        unsaid: |talk| second_process(talk, None, None, 0),
        at: "ErrorCode",
        by: Some(1),
        says: "Likely two brokers with the same node.id, or one that keeps crashing: another process, \
               AQEBAQEBAQEBAQEBAQEBAQ, tried in frame 1",
    },
    Pair {
        rule: "duplicate_registration",
        said: |talk| gets(talk, &registration(1), &refused(101)),
        unsaid: |talk| gets(talk, &registration(1), &accepted(101)),
        at: "ErrorCode",
        by: None,
        says: "Another process holds this broker id since before the capture, until its session ends (9 s by \
               default). After a restart the broker then gets in by itself; else look for a second broker",
    },
    Pair {
        rule: "duplicate_registration",
        said: |talk| second_process(talk, Some(7), Some(7), 101),
        unsaid: |talk| second_process(talk, Some(7), Some(7), 0),
        at: "ErrorCode",
        by: Some(4),
        says: "Two brokers have the same node.id: AQEBAQEBAQEBAQEBAQEBAQ, which holds it, still sends heartbeats (frame 4). \
               Give one of them another",
    },
    Pair {
        // A heartbeat with another epoch is not the holder's.
        rule: "duplicate_registration",
        said: |talk| second_process(talk, Some(7), Some(6), 101),
        unsaid: |talk| second_process(talk, Some(7), Some(6), 0),
        at: "ErrorCode",
        by: Some(1),
        says: "AQEBAQEBAQEBAQEBAQEBAQ holds this broker id (registered in frame 1) until its session ends (9 s by \
               default). After a restart the broker then gets in by itself; else look for a second broker",
    },
    Pair {
        // The request is captured up to its incarnation id only.
        rule: "duplicate_registration",
        said: |talk| cut_request_gets(talk, 101, "IncarnationId"),
        unsaid: |talk| cut_request_gets(talk, 0, "IncarnationId"),
        at: "ErrorCode",
        by: None,
        says: "Another process holds this broker id since before the capture, until its session ends (9 s by \
               default). After a restart the broker then gets in by itself; else look for a second broker",
    },
];

/// Process 1 is registered with an epoch, or only tries (frame 1). Process 2 tries. Then a heartbeat with some epoch comes,
/// and process 2 gets its answer.
fn second_process(talk: &mut Talk, given: Option<i64>, heartbeat_epoch: Option<i64>, code: i16) {
    let first = match given {
        Some(epoch) => joins(talk, &registration(1), epoch),
        None => asking(talk, &registration(1)),
    };
    let second = asking(talk, &registration(1).with_incarnation_id(incarnation(2)));
    talk.pause(1000);
    if let Some(epoch) = heartbeat_epoch {
        talk.ask(first, 1, &heartbeat(1, epoch));
    }
    talk.answer(second, &refused(code));
}

/// Of the request nothing is captured from a field on.
fn cut_request_gets(talk: &mut Talk, code: i16, path: &str) {
    let line = talk.connect(HOST_1);
    talk.ask_cut(line, NEWEST, &registration(1), |bytes| up_to(bytes, path));
    talk.answer(line, &refused(code));
}

const MIGRATION: &[Pair] = &[
    Pair {
        rule: "id_not_registered",
        said: |talk| gets(talk, &registration(1).with_is_migrating_zk_broker(true), &refused(102)),
        unsaid: |talk| gets(talk, &registration(1).with_is_migrating_zk_broker(true), &accepted(102)),
        at: "ErrorCode",
        by: Some(1),
        says: "The request says that the broker migrates from ZooKeeper (frame 1), and the controller is not in migration",
    },
    Pair {
        rule: "id_not_registered",
        said: |talk| gets(talk, &registration(1), &refused(102)),
        unsaid: |talk| gets(talk, &registration(1), &accepted(102)),
        at: "ErrorCode",
        by: None,
        says: "The controller accepts no broker of this kind now: a controller before or in a migration from ZooKeeper \
               takes only ZooKeeper brokers (3.4 to 3.9)",
    },
    Pair {
        rule: "id_not_registered",
        said: |talk| cut_request_gets(talk, 102, "IncarnationId"),
        unsaid: |talk| cut_request_gets(talk, 0, "IncarnationId"),
        at: "ErrorCode",
        by: None,
        says: "The controller accepts no broker of this kind now: a controller before or in a migration from ZooKeeper \
               takes only ZooKeeper brokers (3.4 to 3.9)",
    },
];

const WRONG_CLUSTER: &[Pair] = &[
    Pair {
        rule: "wrong_cluster",
        said: |talk| beside_broker_of(talk, OTHER_CLUSTER, 104),
        unsaid: |talk| beside_broker_of(talk, OTHER_CLUSTER, 0),
        at: "ErrorCode",
        by: Some(1),
        says: "The controller belongs to another cluster: broker 1 was accepted with cluster id AAAAAAAAQACAAAAAAAAAAQ \
               (frame 1). Compare cluster.id in meta.properties of both",
    },
    Pair {
        rule: "wrong_cluster",
        said: |talk| beside_broker_of(talk, CLUSTER, 104),
        unsaid: |talk| beside_broker_of(talk, CLUSTER, 0),
        at: "ErrorCode",
        by: Some(1),
        says: "The controller belongs to another cluster than 3iGUV1m1HTdSD1vw6s_3qA, though it accepted broker 1 with that \
               id in frame 1: was the controller's storage formatted anew?",
    },
    Pair {
        rule: "wrong_cluster",
        said: |talk| gets(talk, &registration(2), &refused(104)),
        unsaid: |talk| gets(talk, &registration(2), &accepted(104)),
        at: "ErrorCode",
        by: None,
        says: "The controller belongs to another cluster than 3iGUV1m1HTdSD1vw6s_3qA. Compare cluster.id in \
               meta.properties of both",
    },
    Pair {
        rule: "wrong_cluster",
        said: |talk| cut_request_gets(talk, 104, "ClusterId"),
        unsaid: |talk| cut_request_gets(talk, 0, "ClusterId"),
        at: "ErrorCode",
        by: None,
        says: "The controller belongs to another cluster than the broker, whose request was not captured up to its cluster \
               id. Compare cluster.id in meta.properties of both",
    },
];

/// Broker 1 is accepted with this cluster id, then broker 2 gets its answer.
fn beside_broker_of(talk: &mut Talk, cluster: &'static str, code: i16) {
    joins(talk, &registration(1).with_cluster_id(cluster.into()), 7);
    gets(talk, &registration(2), &refused(code));
}

const INVALID: &[Pair] = &[
    Pair {
        rule: "invalid_registration",
        said: |talk| names(talk, &[], 119),
        unsaid: |talk| names(talk, &[], 0),
        at: "ErrorCode",
        by: Some(1),
        says: "The request names no log directories (frame 1), and metadata.version 3.7-IV2 and later asks for them: a \
               broker older than 3.7, or one whose directories have all failed",
    },
    Pair {
        // Up to v1 a registration has no place for log directories.
        rule: "invalid_registration",
        said: |talk| old_broker_gets(talk, 119),
        unsaid: |talk| old_broker_gets(talk, 0),
        at: "ErrorCode",
        by: Some(1),
        says: "The request names no log directories (frame 1), and metadata.version 3.7-IV2 and later asks for them: a \
               broker older than 3.7, or one whose directories have all failed",
    },
    Pair {
        rule: "invalid_registration",
        said: |talk| names(talk, &[directory(1), Uuid::from_u128(2)], 119),
        unsaid: |talk| names(talk, &[directory(1), Uuid::from_u128(2)], 0),
        at: "ErrorCode",
        by: Some(1),
        says: "AAAAAAAAAAAAAAAAAAAAAg is a reserved directory id (request in frame 1). Look at directory.id in \
               meta.properties",
    },
    Pair {
        // The controller looks for reserved ids first.
        rule: "invalid_registration",
        said: |talk| names(talk, &[directory(1), directory(1), Uuid::from_u128(2)], 119),
        unsaid: |talk| names(talk, &[directory(1), directory(1), Uuid::from_u128(2)], 0),
        at: "ErrorCode",
        by: Some(1),
        says: "AAAAAAAAAAAAAAAAAAAAAg is a reserved directory id (request in frame 1). Look at directory.id in \
               meta.properties",
    },
    Pair {
        rule: "invalid_registration",
        said: |talk| names(talk, &[directory(1), directory(1)], 119),
        unsaid: |talk| names(talk, &[directory(1), directory(1)], 0),
        at: "ErrorCode",
        by: Some(1),
        says: "Log directory AAAAAA0eAAAAAAAAAAAAAQ is there twice (request in frame 1). Was a directory copied, \
               meta.properties included?",
    },
    Pair {
        rule: "invalid_registration",
        said: |talk| copied_directory(talk, 119),
        unsaid: |talk| copied_directory(talk, 0),
        at: "ErrorCode",
        by: Some(1),
        says: "Log directory AAAAAA0eAAAAAAAAAAAAAQ belongs to broker 1, which registered it in frame 1. Was a directory \
               copied, meta.properties included?",
    },
    Pair {
        rule: "invalid_registration",
        said: |talk| names(talk, &[directory(1)], 119),
        unsaid: |talk| names(talk, &[directory(1)], 0),
        at: "ErrorCode",
        by: None,
        says: "Likely: a log directory of the request belongs to another broker, registered before the capture began; other \
               reasons would show in the request. The controller's log names the directory",
    },
    Pair {
        rule: "invalid_registration",
        said: |talk| cut_request_gets(talk, 119, "IncarnationId"),
        unsaid: |talk| cut_request_gets(talk, 0, "IncarnationId"),
        at: "ErrorCode",
        by: None,
        says: "A log directory is missing, reserved, there twice, or another broker's; the request that would tell was not \
               captured",
    },
    Pair {
        rule: "invalid_registration",
        said: |talk| gets(talk, &registration(1).with_features(vec![]), &refused(119)),
        unsaid: |talk| gets(talk, &registration(1).with_features(vec![]), &accepted(7)),
        at: "ErrorCode",
        by: Some(1),
        says: "metadata.version is missing in the request (frame 1), which Kafka 4.x refuses. A broker of 3.2 or older?",
    },
    Pair {
        rule: "invalid_registration",
        said: |talk| gets(talk, &registration(1).with_is_migrating_zk_broker(true), &refused(119)),
        unsaid: |talk| gets(talk, &registration(1).with_is_migrating_zk_broker(true), &accepted(7)),
        at: "ErrorCode",
        by: Some(1),
        says: "Likely: the broker migrates from ZooKeeper (request in frame 1) and has no listener of the name that the \
               controller has as inter.broker.listener.name (3.4 to 3.9)",
    },
];

fn names(talk: &mut Talk, directories: &[Uuid], code: i16) {
    gets(talk, &registration(1).with_log_dirs(directories.to_vec()), &refused(code));
}

fn old_broker_gets(talk: &mut Talk, code: i16) {
    let line = talk.connect(HOST_1);
    talk.ask(line, 1, &registration(1));
    talk.answer(line, &refused(code));
}

/// Broker 2 comes with the directory of broker 1.
fn copied_directory(talk: &mut Talk, code: i16) {
    joins(talk, &registration(1), 7);
    gets(talk, &registration(2).with_log_dirs(vec![directory(2), directory(1)]), &refused(code));
}

const ACCEPTED: &[Pair] = &[
    Pair {
        rule: "epoch_changed",
        said: |talk| amends(talk, 1, 9),
        unsaid: |talk| amends(talk, 1, 7),
        at: "BrokerEpoch",
        by: Some(2),
        says: "The same broker process had epoch 7 (response in frame 2): heartbeats with the old epoch will be refused \
               with STALE_BROKER_EPOCH (77), see KAFKA-16952",
    },
    Pair {
        rule: "epoch_changed",
        said: |talk| amends(talk, 1, 9),
        unsaid: |talk| amends(talk, 2, 9),
        at: "BrokerEpoch",
        by: Some(2),
        says: "The same broker process had epoch 7 (response in frame 2): heartbeats with the old epoch will be refused \
               with STALE_BROKER_EPOCH (77), see KAFKA-16952",
    },
    Pair {
        rule: "throttled",
        said: |talk| gets(talk, &registration(1), &accepted(7).with_throttle_time_ms(1)),
        unsaid: |talk| gets(talk, &registration(1), &accepted(7).with_throttle_time_ms(0)),
        at: "ThrottleTimeMs",
        by: None,
        says: "A quota held the request back for 1 ms",
    },
];

/// Process 1 is registered with epoch 7, and after a heartbeat this process with this epoch.
fn amends(talk: &mut Talk, process: u8, epoch: i64) {
    let line = joins(talk, &registration(1), 7);
    beats(talk, line, &heartbeat(1, 7), &alive());
    talk.ask(line, NEWEST, &registration(1).with_incarnation_id(incarnation(process)));
    talk.answer(line, &accepted(epoch));
}
