//! What the rules say, and what they do not say: each text of each rule has a pair of conversations that are nearly the same,
//! of which it is said in the one only.

mod pairs {
    pub mod edit;
    pub mod heartbeat;
    pub mod messages;
    pub mod pair;
    pub mod request;
    pub mod response;
    pub mod scenes;
    pub mod wire;
}
mod support {
    pub mod rows;
    pub mod talk;
    pub mod told;
}

use std::collections::BTreeSet;
use std::iter;

use kraft::findings;
use kraft::pairing::PduId;
use kraft::register::{Register, pack};
use kraft::rule::{Check, Finding};
use kraft::schema;
use kraft::schema::names::Names;
use kraft::tape::{Event, Place};
use kraft::wire::RULES;
use pairs::edit::up_to;
use pairs::messages::{
    CLUSTER, OTHER_CLUSTER, alive, directory, feature, finalized, heartbeat, incarnation, refused, registration,
};
use pairs::pair::Pair;
use pairs::scenes::{NEWEST, asks, beats, gets, joins, learns};
use support::talk::{HOST_1, Talk};
use uuid::Uuid;

/// Bytes of a text that Wireshark shows without cutting it: its labels have 239, and what stands before the text is no longer
/// than `Expert Info (Warning/Sequence): `.
const SHOWN: usize = 207;

#[test]
fn every_rule_speaks_where_it_should() {
    no_faults(pairs().filter_map(Pair::fault_of_said));
}

#[test]
fn no_rule_speaks_where_it_should_not() {
    no_faults(pairs().filter_map(Pair::fault_of_unsaid));
}

#[test]
fn every_rule_has_a_pair_for_each_of_its_texts() {
    let with_pair: BTreeSet<(&str, usize)> = pairs().flat_map(texts_of_pair).collect();
    let missing: Vec<_> = texts().into_iter().filter(|text| !with_pair.contains(text)).collect();
    assert!(missing.is_empty(), "no pair says text number ... of rule ...: {missing:?}");
}

#[test]
fn every_rule_has_a_name_of_its_own() {
    let mut names = BTreeSet::new();
    for rule in checks().map(|check| &check.rule).chain(&RULES) {
        assert!(names.insert(rule.name), "two rules are called {}", rule.name);
    }
}

#[test]
fn every_finding_stands_on_exactly_one_item() {
    for talk in pairs().map(Pair::held) {
        for said in &talk.said {
            for finding in findings::of(&talk.history.findings, said.summary.id.expect("it is recorded")) {
                let items = said.tape.events().iter().filter(|event| is_item(event, finding.place)).count();
                assert!(items == 1 || finding.place == Place::WHOLE, "{}: {items}", rule_name(finding));
            }
        }
    }
}

#[test]
fn later_looks_in_any_order_change_nothing() {
    for mut talk in pairs().map(Pair::held) {
        let (before, register) = (everything_told(&talk), format!("{:?}", talk.history.register));
        for index in (0..talk.said.len()).rev().chain(0..talk.said.len()) {
            talk.look_again(index);
            assert_eq!(everything_told(&talk), before);
        }
        assert_eq!(format!("{:?}", talk.history.register), register);
    }
}

#[test]
fn every_text_is_put_together_of_what_there_is() {
    let parts = ["", "text", "uuid", "range", "seconds", "release", "error"];
    for (check, text) in checks().flat_map(|check| check.texts.iter().map(move |text| (check, *text))) {
        for placeholder in placeholders(text) {
            let known = placeholder == ("frame", "") || "012".contains(placeholder.0) && parts.contains(&placeholder.1);
            assert!(known, "{}: {placeholder:?}", check.rule.name);
        }
    }
    for pair in pairs() {
        assert_eq!(pair.says.contains("frame "), pair.by.is_some(), "{}", pair.rule);
        assert!(!pair.says.contains(['{', '}']), "{}", pair.rule);
    }
}

#[test]
fn no_text_is_longer_than_wireshark_shows() {
    let long = |check: &'static Check| {
        let texts = (0u8..).zip(check.texts);
        let texts = texts.map(|(i, text)| long_text(check, i, text)).filter(|text| text.len() > SHOWN);
        texts.map(|text| format!("{}: {} bytes: {text}", check.rule.name, text.len()))
    };
    no_faults(checks().flat_map(long));
}

#[test]
fn what_lasts_is_said_once() {
    let wants = [heartbeat(1, 7), heartbeat(1, 7).with_want_shut_down(true)];
    let gets = [alive().with_is_fenced(true), alive()];
    for ((wants, gets), rule) in iter::zip(iter::zip(wants, gets), ["still_fenced", "shutdown_pending"]) {
        let mut talk = Talk::new();
        let line = joins(&mut talk, &registration(1), 7);
        for _ in 0..5 {
            beats(&mut talk, line, &wants, &gets);
            talk.pause(30_000);
        }
        assert_eq!(spoken(&talk, rule).len(), 1, "{rule}");
    }
}

#[test]
fn what_ends_and_begins_again_is_said_again() {
    let (fenced, mut talk) = (alive().with_is_fenced(true), Talk::new());
    let line = joins(&mut talk, &registration(1), 7);
    for answer in [&fenced, &fenced, &alive(), &fenced, &fenced] {
        beats(&mut talk, line, &heartbeat(1, 7), answer);
        talk.pause(30_000);
    }
    assert_eq!(spoken(&talk, "still_fenced").len(), 2);
}

#[test]
fn beyond_the_limit_of_brokers_nothing_is_said() {
    let mut talk = Talk::new();
    let register = &mut talk.history.register;
    let cluster = register.text(CLUSTER.as_bytes());
    let remembered = (1..1_000_000).take_while(|id| register.broker_mut(cluster, *id).is_some()).count() as i32;
    for broker in [remembered, remembered + 1] {
        asks(&mut talk, &registration(broker));
        asks(&mut talk, &registration(broker));
    }
    assert_eq!(spoken(&talk, "retry").len(), 1, "of {remembered} remembered brokers");
}

#[test]
fn beyond_the_limit_of_texts_nothing_is_said() {
    let mut talk = Talk::new();
    fill_texts(&mut talk.history.register);
    joins(&mut talk, &registration(1).with_cluster_id(OTHER_CLUSTER.into()), 7);
    asks(&mut talk, &registration(1).with_incarnation_id(incarnation(2)));
    no_faults(everything_told(&talk).into_iter());
}

#[test]
fn one_message_does_not_fill_the_memory_for_all_others() {
    let mut talk = Talk::new();
    let reserved = |i: u64| Uuid::from_u128((1 << 63 | i).into());
    asks(&mut talk, &registration(1).with_log_dirs((0..110_000).map(reserved).collect()));
    asks(&mut talk, &registration(2).with_log_dirs(vec![directory(1), directory(1)]));
    let (flood, last) = (&talk.said[0], talk.said.last().expect("it was said"));
    assert!(talk.told(flood).len() < 10_000, "{} findings of one message", talk.told(flood).len());
    assert!(talk.told(last)[0].text.contains("AAAAAA0eAAAAAAAAAAAAAQ"), "{}", talk.told(last)[0].text);
}

// What the capture does not hold is no proof that it was not sent.

#[test]
fn log_directories_that_were_not_captured_are_not_called_missing() {
    let mut talk = Talk::new();
    let line = talk.connect(HOST_1);
    talk.ask_cut(line, NEWEST, &registration(1), |bytes| up_to(bytes, "LogDirs"));
    talk.answer(line, &refused(119));
    let text = last_told(&talk, "invalid_registration");
    assert!(text.contains("was not captured"), "{text}");
}

#[test]
fn features_that_were_not_captured_are_not_called_missing() {
    let mut talk = Talk::new();
    let line = learns(&mut talk, &finalized(&[("kraft.version", 1)]));
    talk.ask_cut(line, NEWEST, &registration(1), |bytes| up_to(bytes, "Features[1].Name"));
    assert_eq!(spoken(&talk, "level_not_supported"), [""; 0]);
}

#[test]
fn a_cluster_id_that_was_not_captured_is_not_made_up() {
    let mut talk = Talk::new();
    let line = learns(&mut talk, &finalized(&[("metadata.version", 21)]));
    talk.ask_cut(line, NEWEST, &registration(1), |bytes| up_to(bytes, "ClusterId"));
    talk.answer(line, &refused(104));
    let text = last_told(&talk, "wrong_cluster");
    assert!(!text.contains("metadata.version"), "{text}");
}

// A refusal has the causes that Kafka's ClusterControlManager has, and no others.

#[test]
fn a_registration_without_metadata_version_is_not_blamed_on_a_foreign_directory() {
    // Kafka 4.x: "Request features do not contain 'metadata.version'".
    let mut talk = Talk::new();
    gets(&mut talk, &registration(1).with_features(vec![feature("kraft.version", 0, 1)]), &refused(119));
    let text = last_told(&talk, "invalid_registration");
    assert!(text.contains("metadata.version is missing"), "{text}");
}

#[test]
fn a_migrating_broker_is_not_blamed_for_a_foreign_directory() {
    // Kafka 3.4 to 3.9: "Broker does not have the current inter.broker.listener".
    let mut talk = Talk::new();
    gets(&mut talk, &registration(1).with_is_migrating_zk_broker(true), &refused(119));
    let text = last_told(&talk, "invalid_registration");
    assert!(text.contains("inter.broker.listener"), "{text}");
}

#[test]
fn an_api_versions_response_that_was_captured_is_not_called_missing() {
    // What is finalized may have changed since.
    let mut talk = Talk::new();
    let line = learns(&mut talk, &finalized(&[("metadata.version", 21)]));
    talk.ask(line, NEWEST, &registration(1).with_features(vec![feature("metadata.version", 1, 21)]));
    talk.answer(line, &refused(35));
    let text = last_told(&talk, "unsupported_feature");
    assert!(!text.contains("No ApiVersions response"), "{text}");
}

#[test]
fn a_directory_that_its_owner_has_given_up_is_free() {
    let mut talk = Talk::new();
    joins(&mut talk, &registration(1).with_log_dirs([1, 2].map(directory).to_vec()), 7);
    joins(&mut talk, &registration(1).with_incarnation_id(incarnation(2)).with_log_dirs(vec![directory(1)]), 8);
    asks(&mut talk, &registration(2).with_log_dirs(vec![directory(2)]));
    assert_eq!(spoken(&talk, "foreign_log_dir"), [""; 0]);
}

#[test]
fn a_heartbeat_of_one_cluster_is_not_held_against_another() {
    // The connection of the first cluster began before the capture.
    let mut talk = Talk::new();
    let before = talk.connect(HOST_1);
    joins(&mut talk, &registration(1).with_cluster_id(OTHER_CLUSTER.into()), 7);
    joins(&mut talk, &registration(2), 8);
    beats(&mut talk, before, &heartbeat(2, 6), &alive());
    assert_eq!(spoken(&talk, "stale_epoch"), [""; 0]);
}

#[test]
fn a_stale_heartbeat_is_told_by_its_own_epoch() {
    // The heartbeat of the new process comes before the answer to the old one.
    let mut talk = Talk::new();
    let old = joins(&mut talk, &registration(1), 6);
    let new = joins(&mut talk, &registration(1).with_incarnation_id(incarnation(2)), 7);
    talk.ask(old, 1, &heartbeat(1, 6));
    talk.ask(new, 1, &heartbeat(1, 7));
    talk.answer(old, &alive().with_error_code(77));
    let text = last_told(&talk, "stale_broker_epoch");
    assert!(text.starts_with("The heartbeat has epoch 6, the broker was given epoch 7"), "{text}");
}

fn pairs() -> impl Iterator<Item = &'static Pair> {
    [pairs::request::PAIRS, pairs::response::PAIRS, pairs::heartbeat::PAIRS, pairs::wire::PAIRS]
        .into_iter()
        .flatten()
        .copied()
        .flatten()
}

fn checks() -> impl Iterator<Item = &'static Check> {
    schema::messages().flat_map(|message| message.checks)
}

fn rule_name(finding: &Finding) -> &'static str {
    finding.check().expect("a finding is of a rule").rule.name
}

/// Every text of every rule, by the rule's name and a number; the rules about bytes have one each.
fn texts() -> Vec<(&'static str, usize)> {
    let of_checks = checks().flat_map(|check| (0..check.texts.len()).map(|text| (check.rule.name, text)));
    of_checks.chain(RULES.iter().map(|rule| (rule.name, 0))).collect()
}

/// The texts that a pair says of its last message.
fn texts_of_pair(pair: &Pair) -> Vec<(&'static str, usize)> {
    let talk = pair.held();
    let last = talk.said.last().expect("a conversation has a message");
    let findings = findings::of(&talk.history.findings, last.summary.id.expect("it is recorded"));
    let of_checks = findings.iter().map(|finding| (rule_name(finding), usize::from(finding.text)));
    let of_bytes = last.tape.events().iter().filter_map(|event| match event {
        Event::Note { fault, .. } => Some((fault.rule().name, 0)),
        _ => None,
    });
    of_checks.chain(of_bytes).filter(|(rule, _)| *rule == pair.rule).collect()
}

/// What comes in braces, taken apart at the colon.
fn placeholders(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let inside = text.split('{').skip(1).map(|rest| rest.split_once('}').map_or(rest, |(inside, _)| inside));
    inside.map(|inside| inside.split_once(':').unwrap_or((inside, "")))
}

/// A text with the longest of what real clusters have: names of 32 bytes, epochs and frames of seven digits.
fn long_text(check: &Check, text: u8, template: &'static str) -> String {
    let register = Register::default();
    let mut finding = Finding {
        pdu: PduId(0),
        message: 0,
        check: 0,
        text,
        place: Place::WHOLE,
        evidence: None,
        arguments: [1_234_567; 3],
    };
    for (which, how) in placeholders(template) {
        let Ok(which) = which.parse::<usize>() else { continue };
        finding.arguments[which] = match how {
            "text" => register.text(b"eligible.leader.replicas.version").0.into(),
            "uuid" => 0,
            "range" => pack(10, 25),
            "seconds" => 3_600_000_000_000,
            "release" => 21,
            "error" => longest_error(),
            _ => continue,
        };
    }
    let mut out = String::new();
    finding.write(check, Some(1_234_567), &register, &mut out);
    out
}

fn longest_error() -> i64 {
    let (code, _) = Names::ErrorCodes.all().max_by_key(|(_, name)| name.len()).expect("there are error codes");
    code.into()
}

/// Whether an event is an item that a finding can stand on.
fn is_item(event: &Event, place: Place) -> bool {
    match *event {
        Event::Open { field, at, len, .. } => field.ord > 0 && place == Place { at, len },
        Event::Leaf { at, len, .. } => place == Place { at, len },
        _ => false,
    }
}

/// All that is said, line by line.
fn everything_told(talk: &Talk) -> Vec<String> {
    talk.said.iter().flat_map(|said| talk.told(said)).map(|told| told.to_string()).collect()
}

/// All that a rule says.
fn spoken(talk: &Talk, rule: &str) -> Vec<String> {
    let told = talk.said.iter().flat_map(|said| talk.told(said));
    told.filter(|told| told.rule.name == rule).map(|told| told.text).collect()
}

/// What a rule says last.
fn last_told(talk: &Talk, rule: &str) -> String {
    spoken(talk, rule).pop().unwrap_or_else(|| panic!("{rule} says nothing"))
}

/// Texts until no more is remembered.
fn fill_texts(register: &mut Register) {
    let filled = (0..1_000_000_i64).find(|i| *register.bytes(register.text(&i.to_be_bytes())) == *b"");
    assert!(filled.is_some(), "the register has no limit");
}

fn no_faults(faults: impl Iterator<Item = String>) {
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
