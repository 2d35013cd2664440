//! End to end: KRaft traffic is found without being told on any port, in either direction, over any link, inside TLS and
//! after SASL; what is not KRaft is left alone; and where framing is lost, only what was lost is lost.
//!
//! `KRAFT_BLESS=1 cargo test --test found` writes the texts of the encrypted captures anew.
#![cfg(feature = "plugin")]

mod support {
    pub mod capture_writer;
    pub mod corpus;
    pub mod pdml;
    pub mod reader;
    pub mod tshark;
}

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;
use support::capture_writer::{CaptureWriter, Connection, End, joined, on_other_ports};
use support::corpus::{captures, files, name};
use support::pdml::{self, Item};
use support::reader;
use support::tshark::tshark;

use End::{Client, Server};

/// The port of the controllers in all captures.
const CONTROLLER: u16 = 9093;
/// A port that no dissector owns.
const ODD: u16 = 40_000;
/// The port that Wireshark's own Kafka dissector owns.
const KAFKA: u16 = 9092;
/// An ephemeral port that another dissector owns, EtherNet/IP.
const ENIP: u16 = 44_818;
/// An ephemeral port that no dissector owns.
const EPHEMERAL: u16 = 51_515;
/// Only told ports count.
const NO_HEURISTICS: [&str; 2] = ["--disable-heuristic", "kraft_tcp"];
/// Wireshark's severity of what is legal, but notable.
const NOTE: u32 = 0x0040_0000;

// Any port.

#[test]
fn the_port_of_the_server_does_not_matter() {
    for port in [ODD, 29_093, 1024] {
        let renamed = on_server_port(&several(), port);
        assert_same(several_shown(), &shown(&format!("server-{port}.pcap"), &renamed, &[]));
    }
}

#[test]
fn the_port_of_the_client_does_not_matter() {
    for (server, client) in [(CONTROLLER, KAFKA), (ODD, KAFKA), (ODD, ENIP)] {
        let renamed = on_other_ports(&several(), |old| if old == CONTROLLER { server } else { client });
        let file = format!("client-{client}-server-{server}.pcap");
        assert_same(several_shown(), &shown(&file, &renamed, &[]));
    }
}

#[test]
fn a_server_on_the_port_of_another_protocol_is_left_to_it() {
    for (port, owner) in [(KAFKA, "kafka"), (ENIP, "enip")] {
        let (file, renamed) = (format!("server-{port}.pcap"), on_server_port(&read("seg-split-points.pcap"), port));
        let told = format!("tcp.port=={port},{owner}");
        let want = shown(&file, &renamed, &[&NO_HEURISTICS[..], &["-d", &told]].concat());
        assert_eq!(shown(&file, &renamed, &NO_HEURISTICS).layers, want.layers);
        assert!(want.trees.is_empty());
    }
}

#[test]
fn the_link_does_not_matter() {
    for file in ["link-ipv6.pcap", "link-vlan.pcap", "link-null.pcap", "link-sll2.pcap"] {
        let capture = read(file);
        let renamed = on_server_port(&capture, ODD);
        assert_same(&shown(file, &capture, &[]), &shown(&format!("odd-{file}"), &renamed, &[]));
    }
}

#[test]
fn real_brokers_are_found_on_any_port() {
    let capture = joined(&["v4-kafka-3.9.pcap", "sasl-kafka-4.4.pcap"].map(read));
    let renamed = on_server_port(&capture, ODD);
    assert_same(&shown("real.pcap", &capture, &[]), &shown("odd-real.pcap", &renamed, &[]));
}

/// Captures in which the client of each connection has an address of its own, or connects anew.
fn several() -> Vec<u8> {
    let files = ["typical-v4", "correlation-reordered", "errors-v4", "seg-coalesced", "seg-split-points"];
    joined(&files.map(|file| read(&format!("{file}.pcap"))))
}

/// What is shown of them on the port of a controller.
fn several_shown() -> &'static Shown {
    static SHOWN: OnceLock<Shown> = OnceLock::new();
    SHOWN.get_or_init(|| shown("several.pcap", &several(), &[]))
}

fn on_server_port(capture: &[u8], port: u16) -> Vec<u8> {
    on_other_ports(capture, |old| if old == CONTROLLER { port } else { old })
}

// Told by the user.

#[test]
fn decode_as_works_on_the_port_of_either_end() {
    let (client, capture) = one_connection();
    let want = shown("told.pcap", &capture, &[]);
    let odd = on_server_port(&capture, ODD);
    for port in [ODD, client] {
        let decode_as = format!("tcp.port=={port},kraft");
        let told = shown("told-odd.pcap", &odd, &[&NO_HEURISTICS[..], &["-d", &decode_as]].concat());
        assert_same(&want, &told);
    }
}

#[test]
fn a_list_of_ports_may_hold_both_ends() {
    let (client, capture) = one_connection();
    let want = shown("both.pcap", &capture, &[]);
    let both = format!("kraft.tcp.port:{CONTROLLER},{client}");
    assert_same(&want, &shown("both.pcap", &capture, &["-o", &both]));
    let odd = on_server_port(&capture, ODD);
    let both = format!("kraft.tcp.port:{ODD},{client}");
    assert_same(&want, &shown("both-odd.pcap", &odd, &[&NO_HEURISTICS[..], &["-o", &both]].concat()));
}

#[test]
fn without_heuristics_an_odd_port_is_left_alone() {
    let (_, capture) = one_connection();
    let odd = on_server_port(&capture, ODD);
    assert_eq!(shown("left-alone.pcap", &odd, &NO_HEURISTICS).trees, BTreeMap::new());
}

/// A capture of one connection, and the port of its client.
fn one_connection() -> (u16, Vec<u8>) {
    let capture = bundled("correlation-reordered.pcap");
    let first = &pdus(&capture)[0];
    (first.source.port(), read(name(&capture)))
}

// Captures that begin in the middle.

#[test]
fn a_response_does_not_open_a_connection_on_an_odd_port() {
    let mut writer = CaptureWriter::new();
    let mut lone = Connection::midway(EPHEMERAL, ODD);
    writer.send(&mut lone, Server, &answer(7));
    writer.send(&mut lone, Server, &answer(8));
    let shown = shown("response-only.pcap", &writer.finish(), &[]);
    assert_eq!(shown.trees, BTreeMap::new());
}

#[test]
fn a_connection_that_began_before_the_capture_is_claimed_at_its_first_request() {
    let mut writer = CaptureWriter::new();
    let mut connection = Connection::midway(EPHEMERAL, ODD);
    let orphan = writer.send(&mut connection, Server, &answer(7));
    let request = writer.send(&mut connection, Client, &registration(8));
    // SMPP has taken the first response for its own, and waits for more bytes: this one may come with some that were left.
    writer.send(&mut connection, Server, &answer(8));
    let next = exchange(&mut writer, &mut connection, 9);
    let shown = shown("joined-odd.pcap", &writer.finish(), &[]);
    assert_eq!(shown.value(request, "kraft.broker_id"), "1");
    assert_eq!(shown.value(orphan, "kraft.api_key"), "", "its request is not known");
    shown.assert_exchange(next[0], next[1]);
}

#[test]
fn a_known_port_shows_what_can_be_known_of_a_connection_that_began_before_the_capture() {
    let mut writer = CaptureWriter::new();
    let mut connection = Connection::midway(EPHEMERAL, CONTROLLER);
    let orphan = writer.send(&mut connection, Server, &answer(7));
    let first = exchange(&mut writer, &mut connection, 8);
    let mut inside = Connection::midway(EPHEMERAL + 1, CONTROLLER);
    let strays =
        [writer.send(&mut inside, Client, &registration(8)[100..]), writer.send(&mut inside, Server, &answer(8)[10..])];
    let next = exchange(&mut writer, &mut inside, 9);
    let shown = shown("joined.pcap", &writer.finish(), &[]);
    assert_eq!(shown.value(orphan, "kraft.correlation_id"), "7");
    assert_eq!(shown.value(orphan, "kraft.api_key"), "", "its request is not known");
    strays.iter().for_each(|&stray| shown.assert_raw(stray));
    shown.assert_exchange(first[0], first[1]);
    shown.assert_exchange(next[0], next[1]);
}

// Lost framing.

/// Size prefixes that cannot be right; the last is text.
const IMPLAUSIBLE: [u32; 5] = [u32::MAX, 0x8000_0000, (100 << 20) + 1, 0x7fff_ffff, 0x4745_5420];

#[test]
fn a_length_that_cannot_be_is_never_waited_for() {
    assert_implausible_lengths_are_survived(&IMPLAUSIBLE, "implausible.pcap", &[]);
}

#[test]
fn the_largest_size_is_a_preference() {
    assert_implausible_lengths_are_survived(&[1001, 5000], "limited.pcap", &["-o", "kraft.max_message_size:1000"]);
}

fn assert_implausible_lengths_are_survived(sizes: &[u32], file: &str, options: &[&str]) {
    let Implausible { capture, wrong, right } = implausible(sizes);
    let text = pdml_of(file, &capture, options);
    let shown = Shown::of(&text);
    for (frame, size) in wrong {
        assert_eq!(shown.value(frame, "kraft.length"), size.to_string());
        shown.assert_only(frame, &["kraft.length", "kraft.expert.frame_length", "kraft.undecoded"]);
    }
    for [request, response] in right {
        shown.assert_exchange(request, response);
    }
    assert_eq!(text.matches("kraft.expert.frame_length").count(), sizes.len() * 2);
    assert_is_said_at_the_length(&text);
}

/// Connections that lose their framing and find it again.
struct Implausible {
    capture: Vec<u8>,
    /// Frames with a false size, and the size.
    wrong: Vec<(u32, i32)>,
    /// Frames of exchanges.
    right: Vec<[u32; 2]>,
}

/// For each size and each direction a connection: an exchange, the false size, and an exchange that is right again.
fn implausible(sizes: &[u32]) -> Implausible {
    let mut writer = CaptureWriter::new();
    let (mut wrong, mut right) = (Vec::new(), Vec::new());
    for ((&size, from), client) in sizes.iter().flat_map(|size| [(size, Client), (size, Server)]).zip(EPHEMERAL..) {
        let mut connection = writer.open(client, CONTROLLER);
        right.push(exchange(&mut writer, &mut connection, 1));
        let body = if from == Client { registration(2) } else { answer(2) };
        let false_size = [&size.to_be_bytes(), &body[4..]].concat();
        wrong.push((writer.send(&mut connection, from, &false_size), size as i32));
        right.push(exchange(&mut writer, &mut connection, 3));
    }
    Implausible { capture: writer.finish(), wrong, right }
}

/// The expert item stands below the size prefix.
fn assert_is_said_at_the_length(pdml: &str) {
    let document = roxmltree::Document::parse(pdml).expect("PDML is XML");
    let said = document.descendants().filter(|node| node.attribute("name") == Some("kraft.expert.frame_length"));
    for node in said {
        assert!(node.ancestors().any(|above| above.attribute("name") == Some("kraft.length")));
    }
}

#[test]
fn bytes_without_framing_are_shown_until_a_segment_begins_with_a_message() {
    let mut writer = CaptureWriter::new();
    let mut connection = writer.open(EPHEMERAL, CONTROLLER);
    writer.send(&mut connection, Client, &[&[0xff; 4][..], &registration(1)[4..60]].concat());
    let strays = [&registration(1)[60..], &[0; 40], &registration(2)[20..]];
    let strays = strays.map(|bytes| writer.send(&mut connection, Client, bytes));
    let right = exchange(&mut writer, &mut connection, 3);
    let shown = shown("strays.pcap", &writer.finish(), &[]);
    for stray in strays {
        shown.assert_only(stray, &["kraft.expert.unframed", "kraft.undecoded"]);
    }
    shown.assert_exchange(right[0], right[1]);
}

#[test]
fn a_lost_segment_loses_the_messages_that_it_touches() {
    let Holes { capture, touched, right } = holes();
    let shown = shown("holes.pcap", &capture, &[]);
    for [request, response] in right {
        shown.assert_exchange(request, response);
    }
    touched.iter().for_each(|&frame| shown.assert_raw(frame));
}

/// Connections of which a segment was not captured.
struct Holes {
    capture: Vec<u8>,
    /// Frames of what is left of the messages with a hole.
    touched: Vec<u32>,
    /// Frames of exchanges without.
    right: Vec<[u32; 2]>,
}

/// For each kind of hole and each direction a connection of four exchanges. The second has the hole: over a size prefix,
/// inside a message, at its end, or over the whole of it.
fn holes() -> Holes {
    let mut writer = CaptureWriter::new();
    let (mut right, mut touched) = (Vec::new(), Vec::new());
    let holes =
        [0..100, 50..100, 100..PDU, 0..PDU].into_iter().flat_map(|hole| [(Client, hole.clone()), (Server, hole)]);
    for ((from, hole), client) in holes.zip(EPHEMERAL + 100..) {
        let mut connection = writer.open(client, CONTROLLER);
        right.push(exchange(&mut writer, &mut connection, 1));
        for (message, end) in [(registration(2), Client), (answer(2), Server)] {
            let hole = if end == from { hole.clone() } else { PDU..PDU };
            touched.extend(send_with_hole(&mut writer, &mut connection, end, &padded(message), &hole));
        }
        right.extend([3, 4].map(|id| exchange(&mut writer, &mut connection, id)));
    }
    Holes { capture: writer.finish(), touched, right }
}

/// A length of messages that are cut up.
const PDU: usize = 400;

/// Sends a message of which a part is lost; gives the frames that have the other parts.
fn send_with_hole(
    writer: &mut CaptureWriter,
    connection: &mut Connection,
    from: End,
    message: &[u8],
    hole: &Range<usize>,
) -> Vec<u32> {
    let before = writer.send(connection, from, &message[..hole.start]);
    connection.lose(from, hole.len());
    let after = writer.send(connection, from, &message[hole.end..]);
    if hole.is_empty() { Vec::new() } else { vec![before, after] }
}

#[test]
fn what_is_sent_again_is_shown_once() {
    let mut writer = CaptureWriter::new();
    let mut connection = writer.open(EPHEMERAL, ODD);
    let (request, answer) = (registration(1), answer(1));
    writer.send(&mut connection, Client, &request[..100]);
    writer.send_again(&mut connection, Client, 100, &request[..100]);
    let whole = writer.send(&mut connection, Client, &request[100..]);
    writer.send_again(&mut connection, Client, request.len() as u32, &request);
    let response = writer.send(&mut connection, Server, &answer);
    writer.send_again(&mut connection, Server, answer.len() as u32, &answer);
    let next = exchange(&mut writer, &mut connection, 2);
    let shown = shown("again.pcap", &writer.finish(), &[]);
    assert_eq!(shown.frames(), [whole, response, next[0], next[1]]);
    shown.assert_exchange(whole, response);
    shown.assert_exchange(next[0], next[1]);
}

/// By default Wireshark drops what is new in a segment that begins with bytes it has seen.
#[test]
fn overlapping_segments_are_read_when_tcp_puts_them_in_order() {
    let mut writer = CaptureWriter::new();
    let mut connection = writer.open(EPHEMERAL, ODD);
    let request = registration(1);
    writer.send(&mut connection, Client, &request[..50]);
    writer.send(&mut connection, Client, &request[50..100]);
    let whole = writer.send_again(&mut connection, Client, 30, &request[70..]);
    let response = writer.send(&mut connection, Server, &answer(1));
    let next = exchange(&mut writer, &mut connection, 2);
    let shown = shown("overlap.pcap", &writer.finish(), &["-o", "tcp.reassemble_out_of_order:TRUE"]);
    assert_eq!(shown.frames(), [whole, response, next[0], next[1]]);
    shown.assert_exchange(whole, response);
    shown.assert_exchange(next[0], next[1]);
}

// Passes and filters.

/// Connections on an odd port, and such as lose their framing on the port of a controller.
fn sound_and_broken() -> Vec<u8> {
    joined(&[on_server_port(&several(), ODD), implausible(&IMPLAUSIBLE).capture, holes().capture])
}

#[test]
fn one_pass_shows_what_two_passes_show_but_for_the_answers_to_come() {
    let capture = sound_and_broken();
    let mut two = shown("passes.pcap", &capture, &[]).trees;
    for pdu in two.values_mut().flatten() {
        pdu.retain(|item| item.filter != "kraft.response_in");
    }
    let one = tshark().run(&["-r", &tshark().write("passes.pcap", &capture), "-T", "pdml"]);
    assert_eq!(pdml::pdus(&one), two);
}

#[test]
fn filters_do_not_change_what_is_shown() {
    let capture = sound_and_broken();
    let all = shown("filters.pcap", &capture, &[]).unnumbered();
    for (read, display) in [("kraft", "kraft.length"), ("tcp", "kraft.length"), ("kraft", "kraft.response_to")] {
        let filtered = shown("filters.pcap", &capture, &["-R", read, "-Y", display]);
        filtered.assert_links_are_mutual(display == "kraft.length");
        let want: Vec<_> = all.iter().filter(|pdus| pdus.iter().flatten().any(|item| item.filter == display)).collect();
        assert_eq!(filtered.unnumbered().iter().collect::<Vec<_>>(), want, "-R {read} -Y {display}");
    }
}

// What else is on a connection.

#[test]
fn a_refused_api_versions_request_is_answered_in_the_oldest_version() {
    let mut writer = CaptureWriter::new();
    let mut connection = writer.open(EPHEMERAL, ODD);
    let mut refused = Vec::new();
    for (id, version) in [(1, 4), (2, 5)] {
        refused.push(said(&mut writer, &mut connection, &api_versions(version, id), &refusal(id)));
    }
    let right = exchange(&mut writer, &mut connection, 3);
    let text = pdml_of("refused.pcap", &writer.finish(), &[]);
    let shown = Shown::of(&text);
    for [request, response] in refused {
        shown.assert_exchange(request, response);
        assert_eq!(shown.value(response, "kraft.error_code"), "35");
    }
    shown.assert_exchange(right[0], right[1]);
    assert!(worst_severity(&text) <= NOTE, "an expert item above Note");
}

/// The worst severity of all expert items.
fn worst_severity(pdml: &str) -> u32 {
    let lines = pdml.lines().filter(|line| line.contains("name=\"_ws.expert.severity\""));
    lines.filter_map(|line| attribute(line, "show")?.parse().ok()).max().unwrap_or(0)
}

#[test]
fn sasl_does_not_disturb_pairing() {
    let capture = bundled("sasl-kafka-4.4.pcap");
    let text = pdml_of("sasl.pcap", &read("sasl-kafka-4.4.pcap"), &[]);
    let shown = Shown::of(&text);
    let mut reserved = 0;
    let pdus = pdus(&capture);
    for response in pdus.iter().filter(|pdu| pdu.source.port() == CONTROLLER) {
        let id = &response.bytes[4..8];
        let is_request = |pdu: &&reader::Pdu| pdu.destination == response.source && pdu.stream == response.stream;
        let mut requests = pdus.iter().filter(is_request).filter(|pdu| &pdu.bytes[8..12] == id);
        let request = requests.next().unwrap_or_else(|| panic!("frame {}: no request", response.frame));
        shown.assert_exchange(request.frame, response.frame);
        reserved += u32::from(id > &[0x7f, 0xff, 0xff, 0xf7]);
    }
    assert!(reserved > 8, "requests of SASL have correlation ids of their own");
    assert!(!text.contains("not-a-secret"), "a token is shown decoded");
}

#[test]
fn raw_sasl_tokens_are_not_read_as_kafka() {
    let mut writer = CaptureWriter::new();
    let mut connection = writer.open(EPHEMERAL, ODD);
    let handshake = [&[0, 17, 0, 0, 0, 0, 0, 1, 0, 3][..], b"b-1", &[0, 5], b"PLAIN"].concat();
    let accepted = [&[0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 5][..], b"PLAIN"].concat();
    let handshake = said(&mut writer, &mut connection, &sized(&handshake), &sized(&accepted));
    let tokens = [
        (Client, &b"\0alice\0open-sesame"[..]),
        (Server, &b"\x01\x02challenge"[..]),
        (Client, &b"\0\x3e\0\x04"[..]),
        (Server, &b""[..]),
    ];
    let tokens = tokens.map(|(from, token)| (writer.send(&mut connection, from, &sized(token)), token.len()));
    let api_versions = said(&mut writer, &mut connection, &api_versions(0, 2), &refusal(2));
    let right = exchange(&mut writer, &mut connection, 3);
    let file = tshark().write("tokens.pcap", &writer.finish());
    let text = tshark().run(&["-2", "-r", &file, "-T", "pdml"]);
    let shown = Shown::of(&text);
    for [request, response] in [handshake, api_versions, right] {
        shown.assert_exchange(request, response);
    }
    for (frame, length) in tokens {
        let raw = if length > 0 { &["kraft.length", "kraft.undecoded"][..] } else { &["kraft.length"] };
        shown.assert_only(frame, raw);
    }
    assert!(!text.contains("sesame"), "a token is shown decoded");
    let infos = tshark().run(&["-r", &file, "-Y", "kraft", "-T", "fields", "-e", "_ws.col.Info"]);
    assert_eq!(infos.lines().filter(|info| *info == "SASL token").count(), tokens.len(), "{infos}");
}

// TLS.

/// The captures of connections inside TLS. The secrets are in the files.
fn encrypted() -> Vec<PathBuf> {
    let is_encrypted = |path: &PathBuf| name(path).starts_with("tls") && name(path).ends_with(".pcapng");
    let captures: Vec<PathBuf> = files().into_iter().filter(is_encrypted).collect();
    assert!(captures.len() >= 2, "TLS 1.2 and TLS 1.3");
    captures
}

#[test]
fn every_encrypted_capture_gives_the_text_beside_it() {
    let bless = env::var_os("KRAFT_BLESS").is_some();
    assert!(!(bless && env::var_os("CI").is_some()), "texts are blessed by people, not by CI");
    for capture in encrypted() {
        let (golden, text) = (capture.with_extension("txt"), text(&capture));
        if bless {
            fs::write(&golden, text).unwrap_or_else(|error| panic!("{}: {error}", golden.display()));
        } else {
            let want = fs::read_to_string(&golden).unwrap_or_else(|error| panic!("{}: {error}", golden.display()));
            let differs = want.lines().zip(text.lines()).position(|(want, got)| want != got);
            assert!(want == text, "{}: line {:?} is another one", golden.display(), differs.map(|line| line + 1));
        }
    }
}

/// What tshark shows of the KRaft messages in each frame.
fn text(capture: &Path) -> String {
    let file = tshark().readable(capture);
    let all = tshark().run(&["-2", "-o", "kraft.hand_over:FALSE", "-r", &file, "-Y", "kraft", "-O", "kraft"]);
    let (mut text, mut is_ours) = (String::new(), false);
    for line in all.lines() {
        if let Some((frame, _)) = line.strip_prefix("Frame ").and_then(|rest| rest.split_once(':')) {
            text += &format!("{}frame {frame}\n", if text.is_empty() { "" } else { "\n" });
        }
        if !line.starts_with(' ') {
            is_ours = line.starts_with("Kafka KRaft Control Plane");
        }
        if is_ours {
            text += &format!("{}\n", without_bytes(line.trim_end()));
        }
    }
    text
}

/// A line without the raw bytes at its end, of which each version of Wireshark shows another number.
fn without_bytes(line: &str) -> &str {
    ["Undecoded", "[Time"].iter().find_map(|label| Some(&line[..line.find(label)? + label.len()])).unwrap_or(line)
}

#[test]
fn encrypted_registrations_are_what_kafka_logged() {
    for capture in encrypted() {
        let log = fs::read(capture.with_extension("log.json")).expect("a log beside the capture");
        let log: Value = serde_json::from_slice(&log).expect("a log is JSON");
        let registrations = log["registrations"].as_array().expect("a log has registrations");
        let logged: BTreeMap<_, _> = registrations.iter().map(logged).collect();
        assert!(!logged.is_empty());
        assert_eq!(decrypted(&capture), logged, "{}", name(&capture));
    }
}

/// A registration: the port of its broker and its correlation id.
type Call = (String, String);

/// What the fields of a registration and its answer say.
type Facts = BTreeMap<&'static str, String>;

/// Fields of a request, and where the log has them.
const ASKED: [(&str, &str); 4] = [
    ("kraft.broker_id", "/request/brokerId"),
    ("kraft.cluster_id", "/request/clusterId"),
    ("kraft.uuid", "/request/incarnationId"),
    ("kraft.previous_broker_epoch", "/request/previousBrokerEpoch"),
];
/// Fields of a response, and where the log has them.
const ANSWERED: [(&str, &str); 3] = [
    ("kraft.throttle_time_ms", "/response/throttleTimeMs"),
    ("kraft.error_code", "/response/errorCode"),
    ("kraft.broker_epoch", "/response/brokerEpoch"),
];

fn logged(registration: &Value) -> (Call, Facts) {
    let plain = |path: &str| match registration.pointer(path) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    let facts = ASKED.iter().chain(&ANSWERED).map(|&(filter, path)| (filter, plain(path))).collect();
    ((plain("/client_port"), plain("/correlation_id")), facts)
}

fn decrypted(capture: &Path) -> BTreeMap<Call, Facts> {
    let file = tshark().readable(capture);
    let mut calls: BTreeMap<Call, Facts> = BTreeMap::new();
    for (fields, port, filter) in [
        (&ASKED[..], "tcp.srcport", "kraft.api_key == 62 && tls && tcp.dstport == 9093"),
        (&ANSWERED, "tcp.dstport", "kraft.api_key == 62 && tls && tcp.srcport == 9093"),
    ] {
        let names: Vec<&str> =
            [port, "kraft.correlation_id"].into_iter().chain(fields.iter().map(|field| field.0)).collect();
        for row in rows(&file, filter, &names) {
            let facts = calls.entry((row[0].clone(), row[1].clone())).or_default();
            facts.extend(fields.iter().map(|field| field.0).zip(row[2..].iter().cloned()));
        }
    }
    calls
}

/// The first value of each field in each frame.
fn rows(file: &str, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let fields = fields.iter().flat_map(|field| ["-e", field]);
    let arguments = ["-2", "-r", file, "-Y", filter, "-T", "fields", "-E", "occurrence=f"].into_iter().chain(fields);
    let text = tshark().run(&arguments.collect::<Vec<_>>());
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

#[test]
fn encrypted_brokers_are_found_on_any_port() {
    for capture in encrypted() {
        let bytes = fs::read(&capture).expect("a bundled capture");
        let renamed = on_other_ports(&bytes, |old| if old == CONTROLLER { 40_443 } else { old });
        assert_same(&shown(name(&capture), &bytes, &[]), &shown(&format!("odd-{}", name(&capture)), &renamed, &[]));
    }
}

// What tshark shows.

/// What tshark shows of a capture in two passes.
struct Shown {
    /// The items of each PDU by frame.
    trees: BTreeMap<u32, Vec<Vec<Item>>>,
    /// The protocols in each frame.
    layers: Vec<String>,
}

fn shown(file: &str, capture: &[u8], options: &[&str]) -> Shown {
    Shown::of(&pdml_of(file, capture, options))
}

fn pdml_of(file: &str, capture: &[u8], options: &[&str]) -> String {
    let file = tshark().write(file, capture);
    tshark().run(&[&["-2", "-r", &file, "-T", "pdml"], options].concat())
}

impl Shown {
    fn of(pdml: &str) -> Shown {
        let layers = pdml.lines().filter(|line| line.contains("name=\"frame.protocols\""));
        let layers = layers.filter_map(|line| Some(attribute(line, "show")?.to_owned())).collect();
        Shown { trees: pdml::pdus(pdml), layers }
    }

    /// The frames in which something is shown.
    fn frames(&self) -> Vec<u32> {
        self.trees.keys().copied().collect()
    }

    fn items(&self, frame: u32) -> impl Iterator<Item = &Item> {
        self.trees.get(&frame).into_iter().flatten().flatten()
    }

    /// The first value of a field in a frame; empty where it has none.
    fn value(&self, frame: u32, filter: &str) -> &str {
        self.items(frame).find(|item| item.filter == filter).map_or("", |item| &item.show)
    }

    /// A request and a response that know each other, and nothing wrong with either.
    fn assert_exchange(&self, request: u32, response: u32) {
        assert_eq!(self.value(request, "kraft.response_in"), response.to_string(), "frame {request}");
        assert_eq!(self.value(response, "kraft.response_to"), request.to_string(), "frame {response}");
        let id = self.value(request, "kraft.correlation_id");
        assert!(!id.is_empty() && id == self.value(response, "kraft.correlation_id"), "frames {request}, {response}");
    }

    /// Where a PDU names its answer, that names the PDU, and the other way round if both are shown.
    fn assert_links_are_mutual(&self, all_are_shown: bool) {
        let links = |filter: &str, is_turned: bool| {
            let linked =
                self.trees.iter().flat_map(|(&frame, pdus)| pdus.iter().flatten().map(move |item| (frame, item)));
            let links = linked.filter(|(_, item)| item.filter == filter);
            let links = links.map(|(frame, item)| (frame, item.show.parse::<u32>().expect("the number of a frame")));
            let mut links: Vec<_> = links.map(|(a, b)| if is_turned { (b, a) } else { (a, b) }).collect();
            links.sort();
            links
        };
        if all_are_shown {
            assert_eq!(links("kraft.response_in", false), links("kraft.response_to", true));
        }
    }

    /// Nothing but raw bytes and why, if anything at all.
    fn assert_raw(&self, frame: u32) {
        let raw = ["kraft.undecoded", "kraft.expert.unframed", "kraft.length", "kraft.expert.frame_length"];
        let other: Vec<_> = self.items(frame).filter(|item| !raw.contains(&&*item.filter)).collect();
        assert!(other.is_empty(), "frame {frame}: {other:#?}");
    }

    /// One PDU with just these fields.
    fn assert_only(&self, frame: u32, filters: &[&str]) {
        let pdus = self.trees.get(&frame).map_or(&[][..], |pdus| pdus);
        let got: Vec<Vec<&str>> = pdus.iter().map(|pdu| pdu.iter().map(|item| &*item.filter).collect()).collect();
        assert_eq!(got, [filters], "frame {frame}");
    }

    /// The PDUs of each frame, without the numbers of other frames: a read filter changes those.
    fn unnumbered(self) -> Vec<Vec<Vec<Item>>> {
        let links = [
            "kraft.response_in",
            "kraft.response_to",
            "kraft.evidence",
            "kraft.previous_registration",
            "kraft.retry_of",
        ];
        let mut frames: Vec<_> = self.trees.into_values().collect();
        let items = frames.iter_mut().flatten().flatten();
        items.filter(|item| links.contains(&&*item.filter)).for_each(|item| item.show.clear());
        frames
    }
}

fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = line.split_once(&format!(" {name}=\""))?;
    value.split('"').next()
}

/// Every frame shows the same protocols and the same items.
fn assert_same(want: &Shown, got: &Shown) {
    let differ = |frame: &u32| want.trees.get(frame) != got.trees.get(frame);
    let frames: Vec<u32> = want.trees.keys().chain(got.trees.keys()).copied().filter(differ).collect();
    if let Some(frame) = frames.first() {
        let (want, got) = (want.trees.get(frame), got.trees.get(frame));
        panic!("{} frames differ, the first is {frame}:\n{want:#?}\nis shown as\n{got:#?}", frames.len());
    }
    assert!(!want.trees.is_empty());
    assert_eq!(want.layers, got.layers);
}

// What is said on made-up connections.

/// A registration of a real broker and its answer.
fn exchange(writer: &mut CaptureWriter, connection: &mut Connection, id: i32) -> [u32; 2] {
    said(writer, connection, &registration(id), &answer(id))
}

/// A request and its response; gives their frames.
fn said(writer: &mut CaptureWriter, connection: &mut Connection, request: &[u8], response: &[u8]) -> [u32; 2] {
    [writer.send(connection, Client, request), writer.send(connection, Server, response)]
}

/// A registration of a real broker with another correlation id.
fn registration(id: i32) -> Vec<u8> {
    with_id(7, 8, id)
}

/// The answer to it.
fn answer(id: i32) -> Vec<u8> {
    with_id(8, 4, id)
}

/// What a frame of a bundled capture says, with another correlation id, which stands at `at`.
fn with_id(frame: u32, at: usize, id: i32) -> Vec<u8> {
    let pdu = pdus(&bundled("typical-v4.pcap")).into_iter().find(|pdu| pdu.frame == frame);
    let mut bytes = pdu.expect("a frame with a PDU").bytes;
    bytes[at..at + 4].copy_from_slice(&id.to_be_bytes());
    bytes
}

fn pdus(capture: &Path) -> Vec<reader::Pdu> {
    reader::read(capture, &[CONTROLLER]).unwrap_or_else(|error| panic!("{error}")).pdus
}

fn read(file: &str) -> Vec<u8> {
    fs::read(bundled(file)).expect("a bundled capture")
}

fn bundled(file: &str) -> PathBuf {
    captures().into_iter().find(|path| name(path) == file).unwrap_or_else(|| panic!("{file} is not bundled"))
}

/// The same message, longer: its last byte, the count of tagged fields, counts one that Kafka does not know.
fn padded(mut pdu: Vec<u8>) -> Vec<u8> {
    let _ = pdu.pop();
    let left = PDU.checked_sub(pdu.len() + 4);
    let size = left.expect("it is not too long");
    pdu.extend([1, 100, size as u8 | 0x80, (size >> 7) as u8]);
    pdu.resize(PDU, 0);
    sized(&pdu[4..])
}

fn api_versions(version: i16, id: i32) -> Vec<u8> {
    let header = [&[0, 18][..], &version.to_be_bytes(), &id.to_be_bytes(), &[0, 3], b"b-1"].concat();
    let body: &[u8] = match version {
        0..3 => &[],
        3..5 => &[0, 4, b'j', b'v', b'm', 2, b'1', 0],
        _ => &[0, 4, b'j', b'v', b'm', 2, b'1', 0, 0xff, 0xff, 0xff, 0xff, 0],
    };
    sized(&[&header, body].concat())
}

/// ApiVersions response v0: UNSUPPORTED_VERSION, and that ApiVersions is there from v0 to v3.
fn refusal(id: i32) -> Vec<u8> {
    sized(&[&id.to_be_bytes()[..], &[0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 3]].concat())
}

fn sized(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes()[..], body].concat()
}
