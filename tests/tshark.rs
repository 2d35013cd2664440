//! End to end: a real tshark loads the plugin, and shows what the offline half says, item by item.
#![cfg(feature = "plugin")]

mod support {
    pub mod conversation;
    pub mod corpus;
    pub mod pdml;
    pub mod reader;
    pub mod tshark;
}

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use kraft::findings;
use kraft::pairing::History;
use kraft::rule::{Evidence, Finding};
use kraft::schema;
use kraft::schema::Direction;
use kraft::tape::{Event, FieldId, Place, Value};
use kraft::wire;
use support::conversation::{Conversation, Said, conversation};
use support::corpus::{captures, name};
use support::pdml::{self, Item};
use support::tshark::tshark;

/// Segments that arrive out of order are put in order by the offline reader, and by tshark only when it is told to; with
/// holes and cut packets it then loses what it finds by default.
const IN_ORDER: [&str; 2] = ["-o", "tcp.reassemble_out_of_order:TRUE"];
/// The captures in which segments arrive out of order.
const OUT_OF_ORDER: [&str; 2] = ["tcp-out-of-order.pcap", "tcp-overlap.pcap"];
/// Parts of the names of captures in which much depends on what came before.
const WITH_STATE: [&str; 6] = ["kafka", "trouble", "correlation", "seg-", "tcp-", "duplicate"];
/// Bodies without schema stay with this dissector.
const KEEP: [&str; 2] = ["-o", "kraft.hand_over:FALSE"];

fn shown(capture: &Path, passes: &[&str]) -> BTreeMap<u32, Vec<Vec<Item>>> {
    let order = if OUT_OF_ORDER.contains(&name(capture)) { &IN_ORDER[..] } else { &[] };
    let file = tshark().readable(capture);
    let mut shown = pdml::pdus(&tshark().run(&[passes, order, &KEEP, &["-r", &file, "-T", "pdml"]].concat()));
    // What is shown raw between PDUs is none, and the offline reader has nothing of it.
    shown.values_mut().for_each(|pdus| pdus.retain(|items| items.iter().all(|item| item.filter != UNFRAMED)));
    shown.retain(|_, pdus| !pdus.is_empty());
    shown
}

/// Said of bytes after framing was lost.
const UNFRAMED: &str = "kraft.expert.unframed";

#[test]
fn the_tree_of_every_capture_is_that_of_the_tape() {
    let filters = Filters::new();
    let mut wrong = Vec::new();
    for capture in captures() {
        let tree = shown(&capture, &["-2"]);
        let mut expected: BTreeMap<u32, Vec<Vec<Item>>> = BTreeMap::new();
        let Conversation { talk, history } = conversation(&capture);
        for said in &talk {
            expected.entry(said.read.frame).or_default().push(filters.items(said, &history));
        }
        let frames = expected.keys().chain(tree.keys()).collect::<std::collections::BTreeSet<_>>();
        wrong.extend(frames.into_iter().filter_map(|frame| {
            let (want, got) = (expected.get(frame), tree.get(frame));
            difference(want, got).map(|what| format!("{} frame {frame}: {what}", name(&capture)))
        }));
    }
    assert!(wrong.is_empty(), "{} frames differ:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
}

#[test]
fn one_pass_and_two_passes_show_the_same_but_for_the_answers_to_come() {
    let has_state = |path: &&PathBuf| WITH_STATE.iter().any(|part| name(path).contains(part));
    for capture in captures().iter().filter(has_state) {
        let mut two = shown(capture, &["-2"]);
        for pdu in two.values_mut().flatten() {
            pdu.retain(|item| item.filter != "kraft.response_in");
        }
        assert_eq!(shown(capture, &[]), two, "{}", name(capture));
    }
}

#[test]
fn the_columns_say_what_a_pdu_is() {
    let capture = captures().into_iter().find(|path| name(path) == "errors-v4.pcap").expect("a bundled capture");
    let columns = ["-T", "fields", "-e", "_ws.col.Protocol", "-e", "_ws.col.Info"];
    let file = tshark().readable(&capture);
    let text = tshark().run(&[&["-r", &file, "-Y", "kraft.api_key == 62"], &columns[..]].concat());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "KRaft\tBrokerRegistration v4 Request, broker 4, cluster 3iGUV1m1HTdSD1vw6s_3qA");
    assert_eq!(lines[1], "KRaft\tBrokerRegistration v4 Response, DUPLICATE_BROKER_REGISTRATION (101)");
    assert!(lines.iter().any(|line| line.starts_with("KRaft\tBrokerRegistration v4 Response, epoch ")), "{text}");
}

/// The filter names of all fields.
struct Filters(HashMap<FieldId, String>);

impl Filters {
    fn new() -> Filters {
        let mut filters = HashMap::new();
        for message in schema::messages() {
            message.walk(&mut |ord, above, field| {
                filters.extend(schema::filter_name(above, field).map(|name| (message.field_id(ord), name)));
            });
        }
        Filters(filters)
    }

    /// The items that a PDU should be shown with, generated ones and expert items included.
    fn items(&self, said: &Said, history: &History) -> Vec<Item> {
        let findings = said.summary.id.map_or(&[][..], |id| findings::of(&history.findings, id));
        let at_place = |place: Place| findings.iter().filter(move |finding| finding.place == place);
        let mut items = Vec::new();
        for event in said.tape.events() {
            match *event {
                Event::Open { field, at, len, count, .. } => {
                    let count = self.is_counted(field).then(|| count.to_string());
                    let opened = self.0.get(&field).map(|filter| item(filter, at, len, count.unwrap_or_default()));
                    if let Some(opened) = opened {
                        items.push(opened);
                        items.extend(at_place(Place { at, len }).flat_map(|finding| found(finding, history)));
                    }
                }
                Event::Leaf { field, at, len, value } => {
                    self.leaf(said, field, at, len, value, &mut items);
                    items.extend(at_place(Place { at, len }).flat_map(|finding| found(finding, history)));
                }
                Event::Note { fault, .. } => {
                    items.push(item(&format!("kraft.expert.{}", fault.rule().name), 0, 0, String::new()));
                }
                Event::Close => {}
            }
        }
        items.extend(generated(said));
        items.extend(findings.iter().filter_map(|finding| link(finding, history)));
        items.extend(at_place(Place::WHOLE).flat_map(|finding| found(finding, history)));
        items
    }

    fn is_counted(&self, field: FieldId) -> bool {
        !schema::field(field).is_some_and(|field| matches!(field.kind, schema::Kind::Struct(_)))
    }

    fn leaf(&self, said: &Said, field: FieldId, at: u32, len: u32, value: Value, items: &mut Vec<Item>) {
        let filter = &self.0[&field];
        let bytes = &said.read.bytes[at as usize..(at + len) as usize];
        match value {
            Value::Int(n) => items.push(item(filter, at, len, n.to_string())),
            Value::Bool(byte) => items.push(item(filter, at, len, u8::from(byte != 0).to_string())),
            Value::Null => items.push(item("kraft.null", at, len, String::new())),
            Value::Text { prefix } => items.push(item(filter, at, len, text(&bytes[usize::from(prefix)..]))),
            Value::Bytes { .. } => items.push(item(filter, at, len, hex(bytes))),
            Value::Uuid => {
                let id = bytes.try_into().expect("a UUID has 16 bytes");
                items.push(item(filter, at, len, String::from_utf8_lossy(&wire::rfc4122(id)).into_owned()));
                items.push(item("kraft.uuid", at, 0, String::from_utf8_lossy(&wire::kafka_uuid(id)).into_owned()));
            }
        }
    }
}

/// What a rule has found: an expert item, and its evidence if that explains it.
fn found(finding: &Finding, history: &History) -> Vec<Item> {
    let check = finding.check().expect("a rule found it");
    let evidence = finding.evidence.filter(|_| check.evidence == Evidence::Cause).and_then(|id| history.sighting(id));
    let expert = item(&format!("kraft.expert.{}", check.rule.name), 0, 0, String::new());
    let evidence = evidence.map(|seen| item("kraft.evidence", 0, 0, seen.frame.to_string()));
    [expert].into_iter().chain(evidence).collect()
}

/// The link to another message of the same broker that a finding gives.
fn link(finding: &Finding, history: &History) -> Option<Item> {
    let filter = match finding.check().expect("a rule found it").evidence {
        Evidence::RetryOf => "kraft.retry_of",
        Evidence::PreviousRegistration => "kraft.previous_registration",
        Evidence::Cause => return None,
    };
    Some(item(filter, 0, 0, history.sighting(finding.evidence?)?.frame.to_string()))
}

/// What is not in the bytes of the PDU.
fn generated(said: &Said) -> Vec<Item> {
    let summary = &said.summary;
    let mut items = Vec::new();
    if let (Direction::Response, Some((key, version))) = (summary.direction, summary.api) {
        items.push(item("kraft.api_key", 0, 0, key.to_string()));
        items.push(item("kraft.api_version", 0, 0, version.to_string()));
    }
    if let Some(partner) = summary.partner {
        let link = match summary.direction {
            Direction::Request => "kraft.response_in",
            Direction::Response => "kraft.response_to",
        };
        items.push(item(link, 0, 0, partner.frame.to_string()));
    }
    if let Some(ns) = summary.time_ns {
        let sign = if ns < 0 { "-" } else { "" };
        let (ns, second) = (ns.unsigned_abs(), 1_000_000_000);
        items.push(item("kraft.time", 0, 0, format!("{sign}{}.{:09}", ns / second, ns % second)));
    }
    items
}

fn item(filter: &str, at: u32, len: u32, show: String) -> Item {
    Item { filter: filter.to_owned(), at: if len == 0 { 0 } else { at }, len, show }
}

/// Stands for a text with control characters, which Wireshark escapes in its own way.
const ESCAPED: &str = "(escaped)";

fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).into_owned();
    if text.contains(char::is_control) { ESCAPED.to_owned() } else { text }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

/// The first difference between what should be shown of a frame and what is.
fn difference(want: Option<&Vec<Vec<Item>>>, got: Option<&Vec<Vec<Item>>>) -> Option<String> {
    let (Some(want), Some(got)) = (want, got) else {
        return Some(format!("should be shown: {}, is shown: {}", want.is_some(), got.is_some()));
    };
    if want.len() != got.len() {
        return Some(format!("{} PDUs, not {}", got.len(), want.len()));
    }
    want.iter().zip(got).find_map(|(want, got)| {
        let same = want.iter().zip(got).take_while(|(want, got)| agree(want, got)).count();
        let differ = same < want.len().max(got.len());
        differ.then(|| format!("item {same}: should be {:?}, is {:?}", want.get(same), got.get(same)))
    })
}

fn agree(want: &Item, got: &Item) -> bool {
    want == got || (want.show == ESCAPED && Item { show: got.show.clone(), ..want.clone() } == *got)
}

#[test]
fn what_is_found_is_told_in_full_to_whoever_listens_without_a_tree() {
    let capture = captures().into_iter().find(|path| name(path) == "trouble-fast-restart.pcap").expect("a capture");
    let told = tshark().run(&["-q", "-z", "expert", "-r", &tshark().readable(&capture)]);
    assert!(told.contains("holds this broker id (registered in frame 38)"), "{told}");
}
