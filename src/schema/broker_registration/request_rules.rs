//! What may be said of a BrokerRegistration request, and what the register keeps of it.
//!
//! The controller's checks, in their order, are those of Kafka's `ClusterControlManager.registerBroker`; a rule that
//! foresees one of them also suspects it, so that the answer can be explained.

use super::REQUEST;
use crate::pdu::PduId;
use crate::register::{Attempt, Register, Session, Suspicion, Suspicions, Text, Waiting, number, pack, with_id};
use crate::rule::Group::{Request, Sequence};
use crate::rule::Severity::{Chat, Error, Note, Warn};
use crate::rule::{Case, Check, Evidence, Facts, Report, Rule};
use crate::schema::feature::METADATA_VERSION;
use crate::schema::names::Names;
use crate::tape::{Found, Place, View};

const BROKER_ID: u16 = REQUEST.ord("BrokerId");
const CLUSTER_ID: u16 = REQUEST.ord("ClusterId");
const INCARNATION_ID: u16 = REQUEST.ord("IncarnationId");
const LISTENERS: u16 = REQUEST.ord("Listeners");
const LISTENER_NAME: u16 = REQUEST.ord("Listeners.Listener.Name");
const HOST: u16 = REQUEST.ord("Listeners.Listener.Host");
const PORT: u16 = REQUEST.ord("Listeners.Listener.Port");
const SECURITY_PROTOCOL: u16 = REQUEST.ord("Listeners.Listener.SecurityProtocol");
const FEATURES: u16 = REQUEST.ord("Features");
const FEATURE_NAME: u16 = REQUEST.ord("Features.Feature.Name");
const MIN: u16 = REQUEST.ord("Features.Feature.MinSupportedVersion");
const MAX: u16 = REQUEST.ord("Features.Feature.MaxSupportedVersion");
const RACK: u16 = REQUEST.ord("Rack");
const IS_MIGRATING: u16 = REQUEST.ord("IsMigratingZkBroker");
const LOG_DIRS: u16 = REQUEST.ord("LogDirs");
const PREVIOUS_EPOCH: u16 = REQUEST.ord("PreviousBrokerEpoch");

/// Registrations carry log directories from this version on.
const WITH_LOG_DIRS: i16 = 2;
/// Registrations carry the previous epoch from this version on.
const WITH_PREVIOUS_EPOCH: i16 = 3;
/// From this metadata.version on the controller looks at log directories (3.7-IV2, KIP-858).
const DIRECTORY_ASSIGNMENT: i64 = 17;

/// The rules.
pub const CHECKS: &[Check] = &[
    Check::new(
        Rule::new("no_log_dirs", Warn, Request, "A registration without log directories"),
        &[
            "No log directories: refused with INVALID_REGISTRATION (119) from metadata.version 3.7-IV2 on. Look for failed \
           directories in the broker's log",
        ],
        no_log_dirs,
    ),
    Check::new(
        Rule::new("reserved_log_dir", Warn, Request, "A reserved directory id among the log directories"),
        &[
            "{0:uuid} is a reserved directory id: refused with INVALID_REGISTRATION (119) from metadata.version 3.7-IV2 on. \
           Look at directory.id in that directory's meta.properties",
        ],
        reserved_log_dir,
    ),
    Check::new(
        Rule::new("duplicate_log_dir", Warn, Request, "A log directory that is named twice"),
        &[
            "Log directory {0:uuid} is there twice: refused with INVALID_REGISTRATION (119) from metadata.version 3.7-IV2 on. \
           Was a directory copied, meta.properties included?",
        ],
        duplicate_log_dir,
    ),
    Check::new(
        Rule::new("foreign_log_dir", Warn, Request, "A log directory that another broker has registered"),
        &["Log directory {0:uuid} belongs to broker {2}, which registered it in frame {frame}: likely refused with \
           INVALID_REGISTRATION (119). Was a directory copied, meta.properties included?"],
        foreign_log_dir,
    ),
    Check::new(
        Rule::new("many_log_dirs", Note, Request, "Several log directories below metadata.version 3.7-IV2"),
        &[
            "{0} log directories, but the finalized metadata.version is {1}{1:release} (frame {frame}): several directories \
           in KRaft need 3.7-IV2 (17)",
        ],
        many_log_dirs,
    ),
    Check::new(
        Rule::new("feature_upside_down", Error, Request, "A feature whose minimum is above its maximum"),
        &[
            "{0:text} {1:range}: the minimum is above the maximum, which holds no level: refused with UNSUPPORTED_VERSION (35)",
        ],
        feature_upside_down,
    ),
    Check::new(
        Rule::new("duplicate_feature", Warn, Request, "A feature that is named twice"),
        &["Feature {0:text} is there twice; Kafka's own brokers name each feature once"],
        duplicate_feature,
    ),
    Check::new(
        Rule::new("no_metadata_version", Warn, Request, "A registration without metadata.version"),
        &["metadata.version is missing: the controller counts it as 1-1, or refuses it. A broker of 3.2 or older?"],
        no_metadata_version,
    ),
    Check::new(
        Rule::new("level_not_supported", Warn, Request, "A feature that does not hold the finalized level"),
        &[
            "{0:text} {1:range} does not hold the finalized level {2} (ApiVersions response in frame {frame}): likely \
             refused with UNSUPPORTED_VERSION (35). Upgrade this broker",
            "metadata.version {1:range} does not hold the finalized level {2}{2:release} (ApiVersions response in frame \
             {frame}): likely refused with UNSUPPORTED_VERSION (35). Upgrade this broker",
            "{0:text} is missing, which counts as 0-0, and {2} is finalized (ApiVersions response in frame {frame}): likely \
             refused with UNSUPPORTED_VERSION (35). Upgrade this broker",
        ],
        level_not_supported,
    ),
    Check::new(
        Rule::new("unknown_security_protocol", Error, Request, "A security protocol that Kafka does not know"),
        &["Security protocol {0} does not exist: the controller answers UNKNOWN_SERVER_ERROR (-1) and resigns"],
        unknown_security_protocol,
    ),
    Check::new(
        Rule::new("odd_cluster_id", Note, Request, "A cluster id that is no UUID as Kafka writes them"),
        &[
            "The cluster id has 22 characters, but its last one has bits that no UUID has: was it mistyped or cut? It must \
             equal the controller's, letter for letter",
            "The cluster id is not 22 characters of url-safe base64, which Kafka's own tools make; it must equal the \
             controller's, letter for letter",
            "The cluster id is empty",
        ],
        odd_cluster_id,
    ),
    Check::new(
        Rule::new("unusable_host", Warn, Request, "A listener that other machines cannot reach"),
        &[
            "No client on another machine can reach {0:text}: check advertised.listeners",
            "A listener without host: check advertised.listeners",
            "{0:text} is a wildcard, not an address to connect to: check advertised.listeners",
        ],
        unusable_host,
    ),
    Check::new(
        Rule::new("port_zero", Warn, Request, "A listener with port 0"),
        &["Port 0 is not a port to connect to: check advertised.listeners"],
        port_zero,
    ),
    Check::new(
        Rule::new("duplicate_listener", Warn, Request, "A listener name that is there twice"),
        &["Listener {0:text} is there twice"],
        duplicate_listener,
    ),
    Check::new(
        Rule::new("zk_migration", Note, Request, "A broker in migration from ZooKeeper"),
        &["The broker is migrating from ZooKeeper: only a controller in migration accepts it (else \
           BROKER_ID_NOT_REGISTERED, 102); Kafka 4.0 and later never does"],
        zk_migration,
    ),
    Check::new(
        Rule::new("rack_missing", Note, Request, "A broker without rack where others have one"),
        &["No rack, but broker {0} has one (frame {frame}): check broker.rack"],
        rack_missing,
    ),
    Check::new(
        Rule::new("retry", Note, Sequence, "Another attempt to register"),
        &[
            "Attempt {0} of this registration, {1:seconds} after the one in frame {frame}, whose answer was not captured",
            "Attempt {0} of this registration, {1:seconds} after the one in frame {frame}, which was refused",
        ],
        retry,
    )
    .evidence(Evidence::RetryOf),
    Check::new(
        Rule::new("restart", Note, Sequence, "A broker id with another process than before"),
        &["A new process: broker {2} was {0:uuid} when it registered in frame {frame}"],
        |case, report| another_process(case, report, false),
    )
    .evidence(Evidence::PreviousRegistration),
    Check::new(
        Rule::new("second_process", Warn, Sequence, "A broker id that a living process holds"),
        &["A second process: {0:uuid}, which registered as broker {2} in frame {frame}, still sends heartbeats"],
        |case, report| another_process(case, report, true),
    )
    .evidence(Evidence::PreviousRegistration),
    Check::new(
        Rule::new("amended", Chat, Sequence, "A registration that amends an earlier one"),
        &["The same broker process registered in frame {frame}: this amends that registration"],
        amended,
    )
    .evidence(Evidence::PreviousRegistration),
    Check::new(
        Rule::new("unclean_shutdown", Note, Sequence, "A broker that was not shut down cleanly"),
        &[
            "No epoch of a clean shutdown is named, but the broker was given epoch {0} (request in frame {frame}): its last \
             shutdown was not clean",
            "The epoch of a clean shutdown is {1}, but the broker was given epoch {0} (request in frame {frame}): its last \
             shutdown was not clean",
        ],
        unclean_shutdown,
    ),
    Check::new(
        Rule::new("two_processes", Error, Sequence, "Two broker processes with the same id"),
        &[
            "Broker id {2} is used by two processes: {0:uuid} tried to register in between (frame {frame}). Check node.id and \
           the configuration that both share",
        ],
        two_processes,
    ),
    Check::new(
        Rule::new("two_addresses", Warn, Sequence, "A broker id from two addresses"),
        &[
            "Broker id {0} registers from another address than in frame {frame}, and that session has not ended: two brokers \
           with the same node.id, or one that has moved",
        ],
        two_addresses,
    ),
];

/// The broker that registers.
pub fn subject(facts: &Facts, register: &Register) -> Option<(Text, i32)> {
    Some((register.text(facts.message.text(CLUSTER_ID)?), id(facts)?))
}

fn id(facts: &Facts) -> Option<i32> {
    facts.message.int(BROKER_ID)?.try_into().ok()
}

fn place(case: &Case, ord: u16) -> Place {
    case.message.find(ord).map_or(Place::WHOLE, |found| found.place())
}

/// The finalized level of a feature, as the controller named it on this connection, and the response that did.
fn finalized(case: &Case) -> impl Iterator<Item = (Text, i64, PduId)> {
    let finalized = case.register.session(case.connection).and_then(|session| session.finalized.as_ref());
    finalized
        .into_iter()
        .flat_map(|(seen, levels)| levels.iter().map(|(name, level)| (*name, i64::from(*level), *seen)))
}

fn no_log_dirs(case: &Case, report: &mut Report) {
    if let (WITH_LOG_DIRS.., Some((0, place))) = (case.version, case.message.count(LOG_DIRS)) {
        report.find(0, place, None, [0; 3]);
        report.suspect(Suspicion::NoDirectory);
    }
}

fn reserved_log_dir(case: &Case, report: &mut Report) {
    for (found, id) in directories(case) {
        // Kafka's DirectoryId reserves the upper half 0 with any lower half below 100, as signed numbers.
        let (high, low) = ((u128::from_be_bytes(id) >> 64) as i64, u128::from_be_bytes(id) as i64);
        if let (0, i64::MIN..100) = (high, low) {
            report.find(0, found.place(), None, with_id(id, 0));
            report.suspect(Suspicion::ReservedDirectory { id });
        }
    }
}

fn directories<'a>(case: &Facts<'a>) -> impl Iterator<Item = (Found<'a>, [u8; 16])> + Clone {
    case.message.values(LOG_DIRS).take(COMPARED).filter_map(|found| Some((found, found.uuid()?)))
}

fn duplicate_log_dir(case: &Case, report: &mut Report) {
    for_duplicates(directories(case).map(|(found, id)| (found.place(), id)), |place, id| {
        report.find(0, place, None, with_id(id, 0));
        report.suspect(Suspicion::DuplicateDirectory { id });
    });
}

/// Parts of one message that are compared with each other.
const COMPARED: usize = 256;

/// Calls `found` with every value that has come before. A message of any length costs a bounded number of comparisons.
fn for_duplicates<T: PartialEq + AsRef<[u8]>>(
    values: impl Iterator<Item = (Place, T)> + Clone,
    mut found: impl FnMut(Place, T),
) {
    // Values are compared only where one with the same fingerprint, of nine bits, has come before.
    let mut seen = [0u64; 8];
    for (i, (place, value)) in values.clone().take(COMPARED).enumerate() {
        let print = fingerprint(value.as_ref());
        let (word, bit) = (&mut seen[print as usize % 8], 1 << (print >> 3 & 0x3f));
        if *word & bit != 0 && values.clone().take(i).any(|(_, before)| before == value) {
            found(place, value);
        }
        *word |= bit;
    }
}

/// The FNV-1a hash of a value.
fn fingerprint(value: &[u8]) -> u32 {
    value.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

fn foreign_log_dir(case: &Case, report: &mut Report) {
    let (Some(cluster), Some(broker)) = (case.cluster, id(case)) else { return };
    for (found, directory) in directories(case) {
        if let Some(&(owner, seen)) = cluster.directories.get(&u128::from_be_bytes(directory)) {
            if owner != broker {
                report.find(0, found.place(), Some(seen), with_id(directory, owner.into()));
                report.suspect(Suspicion::ForeignDirectory { id: directory, owner, seen });
            }
        }
    }
}

fn many_log_dirs(case: &Case, report: &mut Report) {
    let level = finalized(case).find(|(name, ..)| *case.register.bytes(*name) == *METADATA_VERSION);
    if let (Some((count @ 2.., place)), Some((_, level, seen))) = (case.message.count(LOG_DIRS), level) {
        if level < DIRECTORY_ASSIGNMENT {
            report.find(0, place, Some(seen), [count.into(), level, 0]);
        }
    }
}

/// A feature of the request.
struct Feature<'a> {
    view: View<'a>,
    name: &'a [u8],
    min: i64,
    max: i64,
}

fn features<'a>(case: &Case<'a>) -> impl Iterator<Item = Feature<'a>> + Clone {
    case.message.structs(FEATURES).take(COMPARED).filter_map(feature)
}

fn feature(view: View) -> Option<Feature> {
    Some(Feature { view, name: view.text(FEATURE_NAME)?, min: view.int(MIN)?, max: view.int(MAX)? })
}

fn feature_upside_down(case: &Case, report: &mut Report) {
    let is_upside_down = |view: &View| view.int(MIN) > view.int(MAX) && view.int(MAX).is_some();
    for Feature { view, name, min, max } in case.message.structs(FEATURES).filter(is_upside_down).filter_map(feature) {
        let text = case.register.text(name);
        report.find(0, view.place(), None, [number(text), pack(min, max), 0]);
        report.suspect(Suspicion::UpsideDown { feature: text, range: pack(min, max) });
    }
}

fn duplicate_feature(case: &Case, report: &mut Report) {
    let features = case.message.structs(FEATURES);
    let names = features.filter_map(|feature| Some((feature.place(), feature.text(FEATURE_NAME)?)));
    for_duplicates(names, |place, name| {
        report.find(0, place, None, [number(case.register.text(name)), 0, 0]);
    });
}

fn no_metadata_version(case: &Case, report: &mut Report) {
    if let (Some((_, place)), true) = (case.message.count(FEATURES), case.is_whole) {
        let mut names = case.message.structs(FEATURES).map(|feature| feature.text(FEATURE_NAME));
        if !names.any(|name| name == Some(METADATA_VERSION)) {
            report.find(0, place, None, [0; 3]);
            report.suspect(Suspicion::NoMetadataVersion);
        }
    }
}

/// What the controller counts a missing feature as: 1-1 for metadata.version, else 0-0.
fn level_not_supported(case: &Case, report: &mut Report) {
    let Some((_, list)) = case.message.count(FEATURES) else { return };
    for (name, level, seen) in finalized(case) {
        let bytes = case.register.bytes(name);
        let offered = features(case).find(|feature| *feature.name == *bytes);
        let is_metadata_version = *bytes == *METADATA_VERSION;
        let (place, min, max) = offered.as_ref().map_or_else(
            || (list, i64::from(is_metadata_version), i64::from(is_metadata_version)),
            |feature| (feature.view.place(), feature.min, feature.max),
        );
        let not_captured = offered.is_none() && !case.is_whole;
        if level == 0 || not_captured || (min <= level && level <= max) {
            continue;
        }
        let text = if is_metadata_version {
            1
        } else if offered.is_some() {
            0
        } else {
            2
        };
        report.find(text, place, Some(seen), [number(name), pack(min, max), level]);
        report.suspect(Suspicion::Level { feature: name, range: pack(min, max), level, seen });
    }
}

/// This field of every listener.
fn listeners<'a>(case: &Case<'a>, ord: u16) -> impl Iterator<Item = Found<'a>> + use<'a> {
    case.message.structs(LISTENERS).filter_map(move |listener| listener.find(ord))
}

fn unknown_security_protocol(case: &Case, report: &mut Report) {
    for found in listeners(case, SECURITY_PROTOCOL) {
        if let Some(id) = found.int().filter(|id| Names::SecurityProtocols.of(*id).is_none()) {
            report.find(0, found.place(), None, [id, 0, 0]);
            report.suspect(Suspicion::UnknownProtocol { id });
        }
    }
}

fn odd_cluster_id(case: &Case, report: &mut Report) {
    let Some(id) = case.message.text(CLUSTER_ID) else { return };
    let place = place(case, CLUSTER_ID);
    // Without an early end, so that all bytes are looked at at once.
    let is_base64 =
        id.iter().fold(true, |all, byte| all & (byte.is_ascii_alphanumeric() | matches!(byte, b'-' | b'_')));
    match id.len() {
        0 => report.find(2, place, None, [0; 3]),
        // 22 characters hold 132 bits: of the last one only the upper two are part of the UUID.
        22 if is_base64 => {
            if !matches!(id[21], b'A' | b'Q' | b'g' | b'w') {
                report.find(0, place, None, [0; 3]);
            }
        }
        _ => report.find(1, place, None, [0; 3]),
    }
}

fn unusable_host(case: &Case, report: &mut Report) {
    for found in listeners(case, HOST).take(COMPARED) {
        let Some(host) = found.text() else { continue };
        let is_loopback = matches!(host, b"localhost" | b"::1") || host.starts_with(b"127.");
        let is_wildcard = matches!(host, b"0.0.0.0" | b"::" | b"0:0:0:0:0:0:0:0");
        let text = || number(case.register.text(host));
        match host {
            b"" => report.find(1, found.place(), None, [0; 3]),
            // Where all run on one machine, loopback is what they can reach each other by.
            _ if is_loopback && !case.is_local => report.find(0, found.place(), None, [text(), 0, 0]),
            _ if is_wildcard => report.find(2, found.place(), None, [text(), 0, 0]),
            _ => {}
        }
    }
}

fn port_zero(case: &Case, report: &mut Report) {
    for found in listeners(case, PORT).filter(|found| found.int() == Some(0)) {
        report.find(0, found.place(), None, [0; 3]);
    }
}

fn duplicate_listener(case: &Case, report: &mut Report) {
    let listeners = case.message.structs(LISTENERS);
    let names = listeners.filter_map(|listener| Some((listener.place(), listener.text(LISTENER_NAME)?)));
    for_duplicates(names, |place, name| {
        report.find(0, place, None, [number(case.register.text(name)), 0, 0]);
    });
}

fn zk_migration(case: &Case, report: &mut Report) {
    if case.message.boolean(IS_MIGRATING) == Some(true) {
        report.find(0, place(case, IS_MIGRATING), None, [0; 3]);
        report.suspect(Suspicion::Migrating);
    }
}

fn rack_missing(case: &Case, report: &mut Report) {
    let Some(rack) = case.message.find(RACK) else { return };
    let has_rack = rack.text().is_some_and(|rack| !rack.is_empty());
    if let (false, Some((other, seen))) = (has_rack, case.cluster.and_then(|cluster| cluster.with_rack)) {
        if Some(other) != id(case) {
            report.find(0, rack.place(), Some(seen), [other.into(), 0, 0]);
        }
    }
}

/// The last attempt, if this is another one of the same registration.
fn last_attempt<'a>(case: &Case<'a>) -> Option<&'a Attempt> {
    let last = case.broker?.last.as_ref()?;
    (Some(last.incarnation) == case.message.uuid(INCARNATION_ID) && !last.accepted).then_some(last)
}

fn retry(case: &Case, report: &mut Report) {
    if let Some(last) = last_attempt(case) {
        let waits = case.register.waiting(last.request).is_some();
        let interval = case.sighting.time_ns - last.time_ns;
        report.find(u8::from(!waits), Place::WHOLE, Some(last.request), [i64::from(last.tries) + 1, interval, 0]);
    }
}

/// Another process than the one that holds the broker id: a restart, unless that one still sends heartbeats.
fn another_process(case: &Case, report: &mut Report, holder_lives: bool) {
    let (Some(broker), Some(id), Some(now)) = (case.broker, id(case), case.message.uuid(INCARNATION_ID)) else {
        return;
    };
    let Some(before) = broker.accepted.filter(|before| before.incarnation != now) else { return };
    if broker.rival().is_some() == holder_lives {
        report.find(0, place(case, INCARNATION_ID), Some(before.request), with_id(before.incarnation, id.into()));
    }
}

fn amended(case: &Case, report: &mut Report) {
    let Some(before) = case.broker.and_then(|broker| broker.accepted) else { return };
    if Some(before.incarnation) == case.message.uuid(INCARNATION_ID) {
        report.find(0, place(case, INCARNATION_ID), Some(before.request), [0; 3]);
    }
}

fn unclean_shutdown(case: &Case, report: &mut Report) {
    let (Some(before), Some(epoch)) =
        (case.broker.and_then(|broker| broker.accepted), case.message.int(PREVIOUS_EPOCH))
    else {
        return;
    };
    let is_new = Some(before.incarnation) != case.message.uuid(INCARNATION_ID);
    // Where the other process still lives, nobody has shut down.
    let is_restart = case.broker.is_some_and(|broker| broker.rival().is_none());
    if case.version >= WITH_PREVIOUS_EPOCH && is_new && is_restart && epoch != before.epoch {
        let text = u8::from(epoch != -1);
        report.find(text, place(case, PREVIOUS_EPOCH), Some(before.request), [before.epoch, epoch, 0]);
    }
}

fn two_processes(case: &Case, report: &mut Report) {
    let (Some(broker), Some(id), Some(now)) = (case.broker, id(case), case.message.uuid(INCARNATION_ID)) else {
        return;
    };
    let (Some(last), Some((earlier, _))) = (broker.last.as_ref(), broker.earlier) else { return };
    if earlier == now && last.incarnation != now {
        report.find(0, place(case, INCARNATION_ID), Some(last.request), with_id(last.incarnation, id.into()));
    }
}

fn two_addresses(case: &Case, report: &mut Report) {
    let (Some(broker), Some(id)) = (case.broker, id(case)) else { return };
    let Some(before) = broker.accepted else { return };
    let seen_ns = broker.heartbeat.map(|heartbeat| heartbeat.time_ns);
    let is_alive = seen_ns.is_some_and(|seen| case.sighting.time_ns - seen < case.register.session_timeout_ns);
    if before.address != case.client && is_alive && Some(before.incarnation) != case.message.uuid(INCARNATION_ID) {
        report.find(0, place(case, BROKER_ID), Some(before.request), [id.into(), 0, 0]);
    }
}

/// Takes down who registers, and what may speak against it.
pub fn learn(facts: &Facts, register: &mut Register, suspicions: Suspicions) {
    let message = &facts.message;
    let (Some(id), Some(cluster), Some(incarnation)) =
        (id(facts), message.text(CLUSTER_ID), message.uuid(INCARNATION_ID))
    else {
        return;
    };
    let cluster = register.text(cluster);
    if let Some(Session { cluster: of_session, .. }) = register.session_mut(facts.connection) {
        *of_session = Some(cluster);
    }
    register.wait(
        facts.id,
        Waiting {
            cluster,
            broker: id,
            incarnation,
            address: facts.client,
            rack: message.text(RACK).is_some_and(|rack| !rack.is_empty()),
            directories: directories(facts).map(|(_, id)| id).collect(),
            suspicions,
            is_whole: facts.is_whole,
        },
    );
    let Some(broker) = register.broker_mut(cluster, id) else { return };
    let (request, time_ns) = (facts.id, facts.sighting.time_ns);
    let (tries, since_ns) = match broker.last {
        Some(last) if last.incarnation == incarnation && !last.accepted => (last.tries + 1, last.since_ns),
        Some(last) if last.incarnation == incarnation => (1, time_ns),
        Some(last) => {
            broker.earlier = Some((last.incarnation, last.request));
            (1, time_ns)
        }
        None => (1, time_ns),
    };
    broker.last = Some(Attempt { request, time_ns, incarnation, since_ns, tries, accepted: false });
}
