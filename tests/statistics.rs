//! The statistics of a real tshark (`-z kraft,tree`, `-z kraft,srt`): golden tables of some recordings, and for every capture
//! the numbers that follow from what the protocol tree shows of each PDU.
//!
//! `KRAFT_BLESS=1 cargo test --test statistics` writes the golden tables anew; read the difference before you commit it.
#![cfg(feature = "plugin")]

mod support {
    pub mod corpus;
    pub mod pdml;
    pub mod tshark;
}

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

use kraft::schema;
use kraft::schema::names::{self, Names};
use kraft::wire;
use support::corpus::{captures, files, is_capture, name};
use support::pdml::{self, Item};
use support::tshark::tshark;

/// Recordings whose tables lie in `tests/tables/`.
const GOLDEN: [&str; 4] =
    ["trouble-old-broker.pcap", "trouble-duplicate-id.pcap", "v4-kafka-3.9.pcap", "request-without-response.pcap"];

#[test]
fn recordings_give_their_golden_tables() {
    let bless = env::var_os("KRAFT_BLESS").is_some();
    assert!(!(bless && env::var_os("CI").is_some()), "tables are blessed by people, not by CI");
    for recording in GOLDEN {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables").join(recording).with_extension("txt");
        let text = indented(&tree(&statistics(&capture(recording), &[], "")));
        if bless {
            fs::write(&golden, text).unwrap_or_else(|error| panic!("{}: {error}", golden.display()));
        } else {
            let want = fs::read_to_string(&golden).unwrap_or_else(|error| panic!("{}: {error}", golden.display()));
            assert_eq!(text, want, "{recording}");
        }
    }
}

#[test]
fn every_capture_counts_what_its_protocol_tree_shows_in_one_pass_and_in_two() {
    // Encrypted ones, too: unlike the offline reader, tshark decrypts them.
    for capture in files().into_iter().filter(|file| is_capture(file)) {
        let (shown, printed) = (shown(&capture), statistics(&capture, &[], ""));
        assert_eq!(printed, statistics(&capture, &["-2"], ""), "{}", name(&capture));
        let (mut expected, without_api) = expected(&shown);
        let mut counted: BTreeMap<String, u32> = tree(&printed).into_iter().collect();
        // The protocol tree does not tell which way a PDU without API goes.
        let kinds =
            ["Messages/Requests without a readable header", "Messages/Responses without request", "Other bytes"];
        let kinds_counted = kinds.map(|kind| counted.remove(kind).unwrap_or(0));
        assert_eq!(kinds_counted.iter().sum::<u32>(), without_api, "{}: {counted:?}", name(&capture));
        *expected.entry("Messages".to_owned()).or_default() += kinds_counted[0] + kinds_counted[1];
        counted.retain(|path, _| !path.starts_with("Other bytes/"));
        let differ = difference(&counted, &expected);
        assert!(differ.is_empty(), "{}: {differ:#?}", name(&capture));
        hold_against(&response_times(&printed), &shown, name(&capture));
    }
}

#[test]
fn one_pass_counts_what_two_passes_count_behind_a_filter() {
    for recording in GOLDEN.map(capture) {
        for filter in ["kraft.broker_id", "kraft.error_code", "kraft.api_key == 62", "frame.number < 30"] {
            let passes = [&[][..], &["-2"]].map(|passes| statistics(&recording, passes, filter));
            assert_eq!(passes[0], passes[1], "{} {filter}", name(&recording));
        }
    }
}

#[test]
fn a_filter_that_holds_answers_back_makes_no_request_unanswered() {
    let recording = capture("trouble-duplicate-id.pcap");
    let all: BTreeMap<String, u32> = tree(&statistics(&recording, &[], "")).into_iter().collect();
    let asked: BTreeMap<String, u32> = tree(&statistics(&recording, &[], "kraft.broker_id == 1")).into_iter().collect();
    let answered: BTreeMap<String, u32> = tree(&statistics(&recording, &[], "kraft.error_code")).into_iter().collect();
    let row = |rows: &BTreeMap<String, u32>, path: &str| rows.get(path).copied();
    for path in ["Requests without response/BrokerRegistration", "Brokers/Broker 1/BrokerRegistration/Without response"]
    {
        assert_eq!([row(&all, path), row(&asked, path)], [Some(0); 2], "{path}");
    }
    let (requests, refused) = ("Brokers/Broker 1/BrokerRegistration", "Brokers/Broker 1/BrokerRegistration/Refused");
    assert_eq!([&all, &asked, &answered].map(|rows| row(rows, requests)), [Some(6), Some(6), Some(0)]);
    assert_eq!([&all, &asked, &answered].map(|rows| row(rows, refused)), [Some(5), None, Some(5)]);
}

#[test]
fn trees_and_tables_with_filters_of_their_own_do_not_disturb_each_other() {
    let recording = capture("trouble-old-broker.pcap");
    let file = tshark().readable(&recording);
    let arguments = ["-q", "-z", "kraft,tree,kraft.broker_id == 2", "-z", "kraft,tree", "-z", "kraft,srt", "-r", &file];
    let printed = tshark().run(&arguments);
    let tables: Vec<&str> = printed.split("Kafka KRaft:").skip(1).collect();
    let of_one = |filter| tree(&statistics(&recording, &[], filter));
    let mut want = [of_one(""), of_one("kraft.broker_id == 2")];
    let mut got = tables.into_iter().map(tree).collect::<Vec<_>>();
    want.sort();
    got.sort();
    assert_eq!(got, want);
    let only = tshark().run(&["-q", "-z", "kraft,srt,kraft.api_key == 63", "-r", &file]);
    let times = response_times(&only);
    assert_eq!(times.keys().collect::<Vec<_>>(), [&63]);
    assert_eq!(times[&63].calls, response_times(&printed)[&63].calls);
}

#[test]
fn a_pdu_counts_even_if_it_cannot_be_painted() {
    let recording = capture("v4-kafka-3.9.pcap");
    // The filter makes tshark build trees; the limit then stops them while ours is painted.
    let cut = statistics(&recording, &["-o", "gui.max_tree_items:200"], "frame");
    let shown = tshark().run(&["-o", "gui.max_tree_items:200", "-r", &tshark().readable(&recording), "-V"]);
    assert!(shown.contains("protocol KRaft: Adding kraft."), "the limit was not met in a tree of ours");
    assert_eq!(tree(&cut), tree(&statistics(&recording, &[], "")));
}

/// Rows that differ, as counted and as expected.
fn difference<'a>(
    counted: &'a BTreeMap<String, u32>,
    expected: &'a BTreeMap<String, u32>,
) -> BTreeMap<&'a str, [Option<&'a u32>; 2]> {
    let both = counted.keys().chain(expected.keys()).map(|path| (&path[..], [counted.get(path), expected.get(path)]));
    both.filter(|(_, [counted, expected])| counted != expected).collect()
}

fn capture(wanted: &str) -> PathBuf {
    captures().into_iter().find(|path| name(path) == wanted).unwrap_or_else(|| panic!("{wanted} is missing"))
}

/// What tshark prints of a capture: the tree of those frames that pass the filter, and the table of all response times.
fn statistics(capture: &Path, options: &[&str], filter: &str) -> String {
    let file = tshark().readable(capture);
    let tree = if filter.is_empty() { "kraft,tree".to_owned() } else { format!("kraft,tree,{filter}") };
    tshark().run(&[options, &["-q", "-z", &tree, "-z", "kraft,srt", "-r", &file]].concat())
}

/// The rows of the first tree of counters in what tshark prints, each as the path to it and its count.
fn tree(printed: &str) -> Vec<(String, u32)> {
    let mut lines = printed.lines().skip_while(|line| !line.starts_with("Topic / Item"));
    let column = lines.next().and_then(|head| head.find("Count")).expect("a tree of counters has a column of counts");
    let mut above: Vec<&str> = Vec::new();
    let rows = lines.skip(1).take_while(|line| line.len() > column).map(|line| {
        let (name, numbers) = line.split_at(column);
        above.truncate(name.len() - name.trim_start().len());
        above.push(name.trim());
        let count = numbers.split_whitespace().next().expect("a row has a count");
        (above.join("/"), count.parse().expect("a count is a number"))
    });
    rows.collect()
}

fn indented(rows: &[(String, u32)]) -> String {
    let mut out = String::new();
    for (path, count) in rows {
        let (above, name) =
            path.rsplit_once('/').map_or((0, &path[..]), |(above, name)| (above.split('/').count(), name));
        let _ = writeln!(out, "{:above$}{name}: {count}", "");
    }
    out
}

/// A row of the table of service response times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Times {
    calls: u32,
    least: f64,
    most: f64,
    average: f64,
}

/// The table of service response times in what tshark prints, by API key.
fn response_times(printed: &str) -> BTreeMap<i16, Times> {
    let mut lines = printed.lines().skip_while(|line| !line.starts_with("Index"));
    let head = lines.next().expect("there is a table of service response times");
    let numbers = if head.contains("Sum SRT") { 5 } else { 4 };
    let rows = lines.take_while(|line| !line.starts_with("===")).map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (title, numbers) = words.split_at(words.len() - numbers);
        let key = title[0].parse().expect("a row begins with its API key");
        assert_eq!(title[1..].join(" "), api(key), "{line}");
        let seconds = |word: &str| word.parse::<f64>().expect("a time is a number");
        let [least, most, average] = [1, 2, 3].map(|column| seconds(numbers[column]));
        (key, Times { calls: numbers[0].parse().expect("calls are counted"), least, most, average })
    });
    rows.collect()
}

/// Holds the table against `kraft.time` of all PDUs; it has six decimals.
fn hold_against(times: &BTreeMap<i16, Times>, shown: &[Pdu], capture: &str) {
    let mut expected: BTreeMap<i16, Vec<f64>> = BTreeMap::new();
    for pdu in shown {
        if let (Some(key), Some(time)) = (pdu.number("kraft.api_key"), pdu.value("kraft.time")) {
            expected.entry(key).or_default().push(time.parse().expect("a time is a number"));
        }
    }
    assert!(times.keys().eq(expected.keys()), "{capture}: {times:?}, not {expected:?}");
    for (key, all) in expected {
        let Times { calls, least, most, average } = times[&key];
        assert_eq!(calls as usize, all.len(), "{capture}: API key {key}");
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let (min, max) = all.iter().fold((f64::MAX, f64::MIN), |(min, max), time| (min.min(*time), max.max(*time)));
        for (got, want) in [(least, min), (most, max), (average, mean)] {
            assert!((got - want).abs() < 1.5e-6, "{capture}: API key {key}: {got}, not {want}");
        }
    }
}

/// What the protocol tree shows of one PDU.
struct Pdu {
    frame: u32,
    items: Vec<Item>,
}

impl Pdu {
    fn value(&self, filter: &str) -> Option<&str> {
        self.items.iter().find(|item| item.filter == filter).map(|item| &*item.show)
    }

    fn number<T: std::str::FromStr>(&self, filter: &str) -> Option<T> {
        self.value(filter)?.parse().ok()
    }

    /// What names a request: its frame and its correlation id.
    fn call(&self) -> (Option<u32>, Option<i32>) {
        (self.number("kraft.response_to").or(Some(self.frame)), self.number("kraft.correlation_id"))
    }

    /// Rules that speak of it.
    fn rules(&self) -> impl Iterator<Item = &str> {
        self.items.iter().filter_map(|item| item.filter.strip_prefix("kraft.expert."))
    }
}

/// All PDUs of a capture; requests know their answers.
fn shown(capture: &Path) -> Vec<Pdu> {
    let pdml = tshark().run(&["-2", "-r", &tshark().readable(capture), "-T", "pdml"]);
    let frames = pdml::pdus(&pdml).into_iter();
    frames.flat_map(|(frame, pdus)| pdus.into_iter().map(move |items| Pdu { frame, items })).collect()
}

fn api(key: i16) -> &'static str {
    names::api_key(key).map_or("unknown API key", |api| api.name)
}

/// Errors that Kafka may come to give have a row each.
fn error(code: i64) -> String {
    match Names::ErrorCodes.of(code) {
        Some(name) => format!("{name} ({code})"),
        None if (0..=255).contains(&code) => format!("error {code}"),
        None => "unknown error".to_owned(),
    }
}

/// The counts that PDUs should have, by path, and the number of PDUs without an API.
fn expected(shown: &[Pdu]) -> (BTreeMap<String, u32>, u32) {
    let (severities, brokers) = (severities(), brokers(shown));
    let mut counts = Counts::default();
    let mut without_api = 0;
    for pdu in shown {
        for rule in pdu.rules() {
            counts.raise(&["Findings", severities[rule], rule], 3);
        }
        let (Some(key), Some(version)) = (pdu.number("kraft.api_key"), pdu.number("kraft.api_version")) else {
            without_api += 1;
            continue;
        };
        let is_known = names::api_key(key).is_some_and(|api| api.versions.has(version));
        let version = if is_known { format!("v{version}") } else { "unknown version".to_owned() };
        let api = api(key);
        let broker = brokers.get(&pdu.call()).map(|id| format!("Broker {id}"));
        if pdu.value("kraft.response_to").is_some() {
            counts.raise(&["Messages", api, &version, "Responses"], 4);
            counts.answer(pdu, api, broker.as_deref());
        } else {
            counts.raise(&["Messages", api, &version, "Requests"], 4);
            counts.question(pdu, api, broker.as_deref());
        }
    }
    (counts.0, without_api)
}

/// Counts by path.
struct Counts(BTreeMap<String, u32>);

impl Default for Counts {
    fn default() -> Counts {
        let roots = ["Messages", "Requests without response", "Errors", "Brokers", "Findings"];
        Counts(roots.map(|root| (root.to_owned(), 0)).into())
    }
}

impl Counts {
    /// Raises the last `raised` rows of a path; the others are there from then on, too.
    fn raise(&mut self, path: &[&str], raised: usize) {
        for depth in 1..=path.len() {
            *self.0.entry(path[..depth].join("/")).or_default() += u32::from(depth > path.len() - raised);
        }
    }

    fn question(&mut self, pdu: &Pdu, api: &str, broker: Option<&str>) {
        let waits = pdu.value("kraft.response_in").is_none();
        self.raise(&["Requests without response", api], if waits { 2 } else { 0 });
        let Some(broker) = broker else { return };
        self.raise(&["Brokers", broker, api], 3);
        self.raise(&["Brokers", broker, api, "Without response"], waits.into());
        for (rule, row) in [("retry", "Retries"), ("restart", "Restarts")] {
            pdu.rules().filter(|told| *told == rule).for_each(|_| self.raise(&["Brokers", broker, api, row], 1));
        }
    }

    fn answer(&mut self, pdu: &Pdu, api: &str, broker: Option<&str>) {
        let Some(code) = pdu.number("kraft.error_code") else { return };
        let refusal = (code != 0).then(|| error(code));
        if let Some(error) = &refusal {
            self.raise(&["Errors", error, api], 3);
        }
        match (broker, &refusal) {
            (Some(broker), Some(error)) => self.raise(&["Brokers", broker, api, "Refused", error], 2),
            (Some(broker), None) => self.raise(&["Brokers", broker, api, "Accepted"], 1),
            (None, _) => {}
        }
        let is_fenced = pdu.value("kraft.is_fenced").is_some_and(|value| value != "0" && value != "False");
        if let (Some(broker), None, true) = (broker, &refusal, is_fenced) {
            self.raise(&["Brokers", broker, api, "Fenced"], 1);
        }
    }
}

/// The brokers that requests name.
fn brokers(shown: &[Pdu]) -> HashMap<(Option<u32>, Option<i32>), i32> {
    let named = |pdu: &Pdu| Some((pdu.call(), pdu.number("kraft.broker_id")?));
    shown.iter().filter(|pdu| pdu.value("kraft.response_to").is_none()).filter_map(named).collect()
}

/// What Wireshark calls the severity of each rule.
fn severities() -> HashMap<&'static str, &'static str> {
    let checks = schema::messages().flat_map(|message| message.checks).map(|check| &check.rule);
    let named = |rule: &kraft::rule::Rule| match rule.severity {
        kraft::rule::Severity::Chat => "Chat",
        kraft::rule::Severity::Note => "Note",
        kraft::rule::Severity::Warn => "Warning",
        kraft::rule::Severity::Error => "Error",
    };
    checks.chain(&wire::RULES).map(|rule| (rule.name, named(rule))).collect()
}
