//! What is said of a BrokerRegistration request.

use uuid::Uuid;

use super::edit::up_to;
use super::messages::{
    accepted, alive, directory, feature, finalized, heartbeat, incarnation, listener, refused, registration,
};
use super::pair::Pair;
use super::scenes::{NEWEST, asking, asks, asks_knowing, beats, gets, joins};
use crate::support::talk::{CONTROLLER, HOST_1, HOST_2, Talk};

/// All pairs.
pub const PAIRS: &[&[Pair]] = &[LOG_DIRS, FEATURES, NAMES, SEQUENCE];

const LOG_DIRS: &[Pair] = &[
    Pair {
        rule: "no_log_dirs",
        said: |talk| asks(talk, &registration(1).with_log_dirs(vec![])),
        unsaid: |talk| asks(talk, &registration(1)),
        at: "LogDirs",
        by: None,
        says: "No log directories: refused with INVALID_REGISTRATION (119) from metadata.version 3.7-IV2 on. Look for \
               failed directories in the broker's log",
    },
    Pair {
        rule: "reserved_log_dir",
        said: |talk| asks(talk, &registration(1).with_log_dirs(vec![directory(1), Uuid::from_u128(99)])),
        unsaid: |talk| asks(talk, &registration(1).with_log_dirs(vec![directory(1), Uuid::from_u128(100)])),
        at: "LogDirs[1]",
        by: None,
        says: "AAAAAAAAAAAAAAAAAAAAYw is a reserved directory id: refused with INVALID_REGISTRATION (119) from \
               metadata.version 3.7-IV2 on. Look at directory.id in that directory's meta.properties",
    },
    Pair {
        // The lower half is negative as Kafka reads it.
        rule: "reserved_log_dir",
        said: |talk| asks(talk, &registration(1).with_log_dirs(vec![Uuid::from_u128(1 << 63)])),
        unsaid: |talk| asks(talk, &registration(1).with_log_dirs(vec![Uuid::from_u128(1 << 64)])),
        at: "LogDirs[0]",
        by: None,
        says: "AAAAAAAAAACAAAAAAAAAAA is a reserved directory id: refused with INVALID_REGISTRATION (119) from \
               metadata.version 3.7-IV2 on. Look at directory.id in that directory's meta.properties",
    },
    Pair {
        rule: "duplicate_log_dir",
        said: |talk| asks(talk, &registration(1).with_log_dirs([1, 2, 1].map(directory).to_vec())),
        unsaid: |talk| asks(talk, &registration(1).with_log_dirs([1, 2, 3].map(directory).to_vec())),
        at: "LogDirs[2]",
        by: None,
        says: "Log directory AAAAAA0eAAAAAAAAAAAAAQ is there twice: refused with INVALID_REGISTRATION (119) from \
               metadata.version 3.7-IV2 on. Was a directory copied, meta.properties included?",
    },
    Pair {
        rule: "foreign_log_dir",
        said: |talk| copied_directory(talk, 2, 0),
        unsaid: |talk| copied_directory(talk, 2, 104),
        at: "LogDirs[1]",
        by: Some(1),
        says: "Log directory AAAAAA0eAAAAAAAAAAAAAQ belongs to broker 1, which registered it in frame 1: likely refused \
               with INVALID_REGISTRATION (119). Was a directory copied, meta.properties included?",
    },
    Pair {
        rule: "foreign_log_dir",
        said: |talk| copied_directory(talk, 2, 0),
        unsaid: |talk| copied_directory(talk, 1, 0),
        at: "LogDirs[1]",
        by: Some(1),
        says: "Log directory AAAAAA0eAAAAAAAAAAAAAQ belongs to broker 1, which registered it in frame 1: likely refused \
               with INVALID_REGISTRATION (119). Was a directory copied, meta.properties included?",
    },
    Pair {
        rule: "many_log_dirs",
        said: |talk| two_directories_at(talk, 16),
        unsaid: |talk| two_directories_at(talk, 17),
        at: "LogDirs",
        by: Some(2),
        says: "2 log directories, but the finalized metadata.version is 16 (3.7-IV1) (frame 2): several directories in \
               KRaft need 3.7-IV2 (17)",
    },
];

/// Broker 1 gets this answer, then a broker of this id comes with a directory of broker 1.
fn copied_directory(talk: &mut Talk, broker: i32, code: i16) {
    let answer = if code == 0 { accepted(7) } else { refused(code) };
    gets(talk, &registration(1), &answer);
    asks(talk, &registration(broker).with_log_dirs([2, 1].map(directory).to_vec()));
}

fn two_directories_at(talk: &mut Talk, level: i16) {
    let request = registration(1).with_log_dirs([1, 2].map(directory).to_vec());
    asks_knowing(talk, &finalized(&[("metadata.version", level)]), NEWEST, &request);
}

const FEATURES: &[Pair] = &[
    Pair {
        rule: "feature_upside_down",
        said: |talk| offers(talk, ("kraft.version", 1, 0)),
        unsaid: |talk| offers(talk, ("kraft.version", 1, 1)),
        at: "Features[1]",
        by: None,
        says: "kraft.version 1-0: the minimum is above the maximum, which holds no level: refused with \
               UNSUPPORTED_VERSION (35)",
    },
    Pair {
        rule: "duplicate_feature",
        said: |talk| offers(talk, ("metadata.version", 1, 25)),
        unsaid: |talk| offers(talk, ("metadata.versions", 1, 25)),
        at: "Features[1]",
        by: None,
        says: "Feature metadata.version is there twice; Kafka's own brokers name each feature once",
    },
    Pair {
        rule: "no_metadata_version",
        said: |talk| asks(talk, &registration(1).with_features(vec![feature("kraft.version", 0, 1)])),
        unsaid: |talk| asks(talk, &registration(1)),
        at: "Features",
        by: None,
        says: "metadata.version is missing: the controller counts it as 1-1, or refuses it. A broker of 3.2 or older?",
    },
    Pair {
        // The rest of the list is not captured.
        rule: "no_metadata_version",
        said: |talk| asks(talk, &registration(1).with_features(vec![])),
        unsaid: |talk| cut_at(talk, "Features[0].Name"),
        at: "Features",
        by: None,
        says: "metadata.version is missing: the controller counts it as 1-1, or refuses it. A broker of 3.2 or older?",
    },
    Pair {
        rule: "level_not_supported",
        said: |talk| offers_where(talk, ("kraft.version", 0, 1), ("kraft.version", 2)),
        unsaid: |talk| offers_where(talk, ("kraft.version", 0, 1), ("kraft.version", 1)),
        at: "Features[1]",
        by: Some(2),
        says: "kraft.version 0-1 does not hold the finalized level 2 (ApiVersions response in frame 2): likely refused \
               with UNSUPPORTED_VERSION (35). Upgrade this broker",
    },
    Pair {
        rule: "level_not_supported",
        said: |talk| offers_where(talk, ("kraft.version", 0, 1), ("metadata.version", 26)),
        unsaid: |talk| offers_where(talk, ("kraft.version", 0, 1), ("metadata.version", 25)),
        at: "Features[0]",
        by: Some(2),
        says: "metadata.version 1-25 does not hold the finalized level 26 (4.1-IV0) (ApiVersions response in frame 2): \
               likely refused with UNSUPPORTED_VERSION (35). Upgrade this broker",
    },
    Pair {
        rule: "level_not_supported",
        said: |talk| offers_where(talk, ("kraft.version", 0, 1), ("group.version", 1)),
        unsaid: |talk| offers_where(talk, ("kraft.version", 0, 1), ("group.version", 0)),
        at: "Features",
        by: Some(2),
        says: "group.version is missing, which counts as 0-0, and 1 is finalized (ApiVersions response in frame 2): likely \
               refused with UNSUPPORTED_VERSION (35). Upgrade this broker",
    },
    Pair {
        // Features of minimum 0 are left out up to v3, and counted as 0-0 all the same (ClusterControlManager).
        rule: "level_not_supported",
        said: |talk| asks_knowing(talk, &finalized(&[("group.version", 1)]), 3, &registration(1)),
        unsaid: |talk| asks_knowing(talk, &finalized(&[("group.version", 0)]), 3, &registration(1)),
        at: "Features",
        by: Some(2),
        says: "group.version is missing, which counts as 0-0, and 1 is finalized (ApiVersions response in frame 2): likely \
               refused with UNSUPPORTED_VERSION (35). Upgrade this broker",
    },
];

/// A broker of metadata.version 1-25 offers another feature.
fn offers(talk: &mut Talk, (name, min, max): (&'static str, i16, i16)) {
    let features = vec![feature("metadata.version", 1, 25), feature(name, min, max)];
    asks(talk, &registration(1).with_features(features));
}

/// The same, where a level is finalized.
fn offers_where(talk: &mut Talk, (name, min, max): (&'static str, i16, i16), level: (&'static str, i16)) {
    let features = vec![feature("metadata.version", 1, 25), feature(name, min, max)];
    asks_knowing(talk, &finalized(&[level]), NEWEST, &registration(1).with_features(features));
}

/// The capture ends before a field.
fn cut_at(talk: &mut Talk, path: &str) {
    let line = talk.connect(HOST_1);
    talk.ask_cut(line, NEWEST, &registration(1), |bytes| up_to(bytes, path));
}

const NAMES: &[Pair] = &[
    Pair {
        rule: "odd_cluster_id",
        said: |talk| asks(talk, &registration(1).with_cluster_id("3iGUV1m1HTdSD1vw6s_3qB".into())),
        unsaid: |talk| asks(talk, &registration(1).with_cluster_id("3iGUV1m1HTdSD1vw6s_3qA".into())),
        at: "ClusterId",
        by: None,
        says: "The cluster id has 22 characters, but its last one has bits that no UUID has: was it mistyped or \
               cut? It must equal the controller's, letter for letter",
    },
    Pair {
        rule: "odd_cluster_id",
        said: |talk| asks(talk, &registration(1).with_cluster_id("3iGUV1m1HTdSD1vw6s+3qA".into())),
        unsaid: |talk| asks(talk, &registration(1).with_cluster_id("3iGUV1m1HTdSD1vw6s-3qA".into())),
        at: "ClusterId",
        by: None,
        says: "The cluster id is not 22 characters of url-safe base64, which Kafka's own tools make; it must equal the \
               controller's, letter for letter",
    },
    Pair {
        rule: "odd_cluster_id",
        said: |talk| asks(talk, &registration(1).with_cluster_id("".into())),
        unsaid: |talk| asks(talk, &registration(1)),
        at: "ClusterId",
        by: None,
        says: "The cluster id is empty",
    },
    Pair {
        rule: "unusable_host",
        said: |talk| listens_on(talk, HOST_1, "localhost"),
        unsaid: |talk| listens_on(talk, CONTROLLER, "localhost"),
        at: "Listeners[0].Host",
        by: None,
        says: "No client on another machine can reach localhost: check advertised.listeners",
    },
    Pair {
        rule: "unusable_host",
        said: |talk| listens_on(talk, HOST_1, ""),
        unsaid: |talk| listens_on(talk, HOST_1, "b"),
        at: "Listeners[0].Host",
        by: None,
        says: "A listener without host: check advertised.listeners",
    },
    Pair {
        rule: "unusable_host",
        said: |talk| listens_on(talk, CONTROLLER, "0.0.0.0"),
        unsaid: |talk| listens_on(talk, CONTROLLER, "10.0.0.0"),
        at: "Listeners[0].Host",
        by: None,
        says: "0.0.0.0 is a wildcard, not an address to connect to: check advertised.listeners",
    },
    Pair {
        rule: "port_zero",
        said: |talk| has_port(talk, 0),
        unsaid: |talk| has_port(talk, 1),
        at: "Listeners[0].Port",
        by: None,
        says: "Port 0 is not a port to connect to: check advertised.listeners",
    },
    Pair {
        rule: "duplicate_listener",
        said: |talk| has_listeners(talk, ["PLAINTEXT", "PLAINTEXT"]),
        unsaid: |talk| has_listeners(talk, ["PLAINTEXT", "EXTERNAL"]),
        at: "Listeners[1]",
        by: None,
        says: "Listener PLAINTEXT is there twice",
    },
    Pair {
        rule: "unknown_security_protocol",
        said: |talk| speaks(talk, 4),
        unsaid: |talk| speaks(talk, 3),
        at: "Listeners[0].SecurityProtocol",
        by: None,
        says: "Security protocol 4 does not exist: the controller answers UNKNOWN_SERVER_ERROR (-1) and resigns",
    },
    Pair {
        rule: "zk_migration",
        said: |talk| asks(talk, &registration(1).with_is_migrating_zk_broker(true)),
        unsaid: |talk| asks(talk, &registration(1).with_is_migrating_zk_broker(false)),
        at: "IsMigratingZkBroker",
        by: None,
        says: "The broker is migrating from ZooKeeper: only a controller in migration accepts it (else \
               BROKER_ID_NOT_REGISTERED, 102); Kafka 4.0 and later never does",
    },
    Pair {
        rule: "rack_missing",
        said: |talk| has_rack_beside_another(talk, None),
        unsaid: |talk| has_rack_beside_another(talk, Some("b")),
        at: "Rack",
        by: Some(1),
        says: "No rack, but broker 1 has one (frame 1): check broker.rack",
    },
    Pair {
        // The rack is not captured.
        rule: "rack_missing",
        said: |talk| has_rack_beside_another(talk, Some("")),
        unsaid: |talk| {
            joins(talk, &registration(1).with_rack(Some("a".into())), 7);
            let line = talk.connect(HOST_1);
            talk.ask_cut(line, NEWEST, &registration(2), |bytes| up_to(bytes, "Rack"));
        },
        at: "Rack",
        by: Some(1),
        says: "No rack, but broker 1 has one (frame 1): check broker.rack",
    },
];

fn listens_on(talk: &mut Talk, client: u64, host: &'static str) {
    let line = talk.connect(client);
    talk.ask(line, NEWEST, &registration(1).with_listeners(vec![listener("PLAINTEXT", host)]));
}

fn has_port(talk: &mut Talk, port: u16) {
    asks(talk, &registration(1).with_listeners(vec![listener("PLAINTEXT", "broker-1").with_port(port)]));
}

fn has_listeners(talk: &mut Talk, names: [&'static str; 2]) {
    asks(talk, &registration(1).with_listeners(names.map(|name| listener(name, "broker-1")).to_vec()));
}

fn speaks(talk: &mut Talk, protocol: i16) {
    let listener = listener("PLAINTEXT", "broker-1").with_security_protocol(protocol);
    asks(talk, &registration(1).with_listeners(vec![listener]));
}

fn has_rack_beside_another(talk: &mut Talk, rack: Option<&'static str>) {
    joins(talk, &registration(1).with_rack(Some("a".into())), 7);
    asks(talk, &registration(2).with_rack(rack.map(Into::into)));
}

const SEQUENCE: &[Pair] = &[
    Pair {
        rule: "retry",
        said: |talk| tries_twice(talk, [1, 1], None),
        unsaid: |talk| tries_twice(talk, [1, 2], None),
        at: "",
        by: Some(1),
        says: "Attempt 2 of this registration, 2.000 s after the one in frame 1, whose answer was not captured",
    },
    Pair {
        rule: "retry",
        said: |talk| tries_twice(talk, [1, 1], Some(101)),
        unsaid: |talk| tries_twice(talk, [1, 1], Some(0)),
        at: "",
        by: Some(1),
        says: "Attempt 2 of this registration, 2.000 s after the one in frame 1, which was refused",
    },
    Pair {
        rule: "restart",
        said: |talk| tries_twice(talk, [1, 2], Some(0)),
        unsaid: |talk| tries_twice(talk, [1, 2], Some(101)),
        at: "IncarnationId",
        by: Some(1),
        says: "A new process: broker 1 was AQEBAQEBAQEBAQEBAQEBAQ when it registered in frame 1",
    },
    Pair {
        rule: "second_process",
        said: |talk| holder_beats(talk, 2),
        unsaid: |talk| holder_beats(talk, 1),
        at: "IncarnationId",
        by: Some(1),
        says: "A second process: AQEBAQEBAQEBAQEBAQEBAQ, which registered as broker 1 in frame 1, still sends heartbeats",
    },
    Pair {
        rule: "amended",
        said: |talk| tries_twice(talk, [1, 1], Some(0)),
        unsaid: |talk| tries_twice(talk, [1, 2], Some(0)),
        at: "IncarnationId",
        by: Some(1),
        says: "The same broker process registered in frame 1: this amends that registration",
    },
    Pair {
        rule: "unclean_shutdown",
        said: |talk| comes_back(talk, NEWEST, -1),
        unsaid: |talk| comes_back(talk, NEWEST, 7),
        at: "PreviousBrokerEpoch",
        by: Some(1),
        says: "No epoch of a clean shutdown is named, but the broker was given epoch 7 (request in frame 1): its last \
               shutdown was not clean",
    },
    Pair {
        // Up to v2 a registration has no place for the epoch.
        rule: "unclean_shutdown",
        said: |talk| comes_back(talk, 3, 5),
        unsaid: |talk| comes_back(talk, 2, 5),
        at: "PreviousBrokerEpoch",
        by: Some(1),
        says: "The epoch of a clean shutdown is 5, but the broker was given epoch 7 (request in frame 1): its last shutdown \
               was not clean",
    },
    Pair {
        rule: "unclean_shutdown",
        said: |talk| comes_back(talk, NEWEST, -1),
        // Two processes are alive: nobody was shut down.
        unsaid: second_process_asks_again,
        at: "PreviousBrokerEpoch",
        by: Some(1),
        says: "No epoch of a clean shutdown is named, but the broker was given epoch 7 (request in frame 1): its last \
               shutdown was not clean",
    },
    Pair {
        rule: "two_processes",
        said: |talk| take_turns(talk, [1, 2, 1]),
        unsaid: |talk| take_turns(talk, [1, 2, 2]),
        at: "IncarnationId",
        by: Some(2),
        says: "Broker id 1 is used by two processes: AgICAgICAgICAgICAgICAg tried to register in between (frame 2). Check \
               node.id and the configuration that both share",
    },
    Pair {
        rule: "two_addresses",
        said: |talk| moves(talk, HOST_2, 8999),
        unsaid: |talk| moves(talk, HOST_2, 9000),
        at: "BrokerId",
        by: Some(1),
        says: "Broker id 1 registers from another address than in frame 1, and that session has not ended: two brokers with \
               the same node.id, or one that has moved",
    },
    Pair {
        rule: "two_addresses",
        said: |talk| moves(talk, HOST_2, 1000),
        unsaid: |talk| moves(talk, HOST_1, 1000),
        at: "BrokerId",
        by: Some(1),
        says: "Broker id 1 registers from another address than in frame 1, and that session has not ended: two brokers with \
               the same node.id, or one that has moved",
    },
];

/// Two attempts of these processes, of which the first gets this answer.
fn tries_twice(talk: &mut Talk, processes: [u8; 2], answer: Option<i16>) {
    let [first, second] = processes.map(|process| registration(1).with_incarnation_id(incarnation(process)));
    let line = asking(talk, &first);
    match answer {
        Some(0) => talk.answer(line, &accepted(7)),
        Some(code) => talk.answer(line, &refused(code)),
        None => {}
    }
    talk.pause(2000);
    talk.ask(line, NEWEST, &second);
}

/// Process 1 registers and sends a heartbeat between two requests of this process.
fn holder_beats(talk: &mut Talk, process: u8) {
    let line = joins(talk, &registration(1), 7);
    let request = registration(1).with_incarnation_id(incarnation(process));
    asks(talk, &request);
    talk.pause(1000);
    beats(talk, line, &heartbeat(1, 7), &alive());
    talk.pause(1000);
    asks(talk, &request);
}

fn comes_back(talk: &mut Talk, version: i16, previous_epoch: i64) {
    let line = joins(talk, &registration(1), 7);
    let second = registration(1).with_incarnation_id(incarnation(2)).with_previous_broker_epoch(previous_epoch);
    talk.ask(line, version, &second);
}

/// As long as nothing else shows that the holder lives, a second process looks like a restart; so that one names an epoch.
fn second_process_asks_again(talk: &mut Talk) {
    let line = joins(talk, &registration(1), 7);
    let second = registration(1).with_incarnation_id(incarnation(2));
    gets(talk, &second.clone().with_previous_broker_epoch(7), &refused(101));
    talk.pause(1000);
    beats(talk, line, &heartbeat(1, 7), &alive());
    talk.pause(1000);
    asks(talk, &second);
}

fn take_turns(talk: &mut Talk, processes: [u8; 3]) {
    for process in processes {
        asks(talk, &registration(1).with_incarnation_id(incarnation(process)));
    }
}

/// A broker registers, is silent for a time after its heartbeat, and comes back as another process from this machine.
fn moves(talk: &mut Talk, client: u64, silence_ms: i64) {
    let line = joins(talk, &registration(1), 7);
    beats(talk, line, &heartbeat(1, 7), &alive());
    talk.pause(silence_ms);
    let line = talk.connect(client);
    talk.ask(line, NEWEST, &registration(1).with_incarnation_id(incarnation(2)).with_previous_broker_epoch(7));
}
