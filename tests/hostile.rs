//! What is sent to harm: whole connections of damaged bytes, frames of 100 MiB that pretend to hold more, and a tshark in which
//! every single item of the tree fails once. It costs no more than its bytes, and only what is hostile is lost.

mod support {
    pub mod conversation;
    pub mod corpus;
    pub mod damage;
    pub mod random;
    pub mod reader;
    pub mod tiling;
    pub mod told;
    #[cfg(feature = "plugin")]
    pub mod tshark;
}

// What the fuzz targets do with their inputs.
#[path = "../fuzz/src/connection.rs"]
mod connection;
#[path = "../fuzz/src/opening.rs"]
mod opening;
#[path = "../fuzz/src/pdu.rs"]
mod pdu;
#[path = "../fuzz/src/sound.rs"]
mod sound;

use std::time::{Duration, Instant};

use kraft::decode::MAX_EVENTS;
use kraft::dissect::{Look, Pdu, dissect};
use kraft::pairing::{History, Sighting};
use kraft::recognize::Side;
use kraft::schema::Direction;
use kraft::tape::{Event, Tape, Value};
use support::conversation::{Said, conversation};
use support::corpus::captures;
use support::damage::damaged;
use support::random::Random;
use support::{tiling, told};

/// Connections of damaged PDUs.
const ROUNDS: usize = 3_000;
/// PDUs of one of them, at most.
const PDUS: usize = 12;

#[test]
fn connections_of_damaged_pdus_are_survived() {
    let mut random = Random::new();
    let said: Vec<Said> = captures().iter().flat_map(|capture| conversation(capture).talk).collect();
    for _ in 0..ROUNDS {
        let mut segments = Vec::new();
        let from = random.below(said.len());
        for Said { read, tape, summary } in said[from..].iter().take(1 + random.below(PDUS)) {
            let is_damaged = random.below(3) == 0;
            let bytes = if is_damaged { damaged(&read.bytes, tape, &mut random).0 } else { read.bytes.clone() };
            let mut flags = if summary.direction == Direction::Response { connection::FROM_SERVER } else { 0 };
            if random.below(4) == 0 {
                flags ^= random.below(256) as u8;
            }
            let (first, second) = bytes.split_at(if random.below(4) == 0 { random.below(bytes.len()) } else { 0 });
            segments.push((flags, first.to_vec()));
            segments.push((flags & !connection::GAP, second.to_vec()));
        }
        connection::try_out(&connection::input(segments.iter().map(|(flags, bytes)| (*flags, &bytes[..]))));
    }
}

#[test]
fn damaged_openings_and_lone_pdus_are_survived() {
    let mut random = Random::new();
    let said: Vec<Said> = captures().iter().flat_map(|capture| conversation(capture).talk).collect();
    for _ in 0..ROUNDS {
        let Said { read, tape, summary } = &said[random.below(said.len())];
        let (bytes, _) = damaged(&read.bytes, tape, &mut random);
        opening::try_out(&[&[0, random.below(3) as u8], &bytes[..]].concat());
        let (key, version) = summary.api.unwrap_or((62, 4));
        let is_response = summary.direction == Direction::Response;
        let flags = if is_response { pdu::RESPONSE } else { 0 } | if random.below(4) == 0 { pdu::CUT } else { 0 };
        let sized = bytes.get(4..).unwrap_or_default();
        pdu::try_out(&[&[key as u8, version as u8, flags | pdu::SHOWN], sized].concat());
    }
}

// Frames of 100 MiB.

/// The most that Kafka accepts by default.
const SIZE: usize = 100 << 20;
/// Events of one element and of all that is open around it.
const OVER_LIMIT: usize = 32;
/// Items of a packet at which Wireshark gives up (`gui.max_tree_items`), less what the layers below may need.
const MAX_ITEMS: usize = 900_000;
/// Items that a note takes: one at its bytes, the expert item, its text, its severity and its group.
const ITEMS_OF_NOTE: usize = 6;
/// How long one of them may take in a build without optimisation, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(20);

/// How requests of 100 MiB begin (behind the size prefix, in hex), and what they go on with, again and again.
const FLOODS: [(&str, &str, &str); 13] = [
    ("tags of a header", "003e0004 00000001 0000 ffffffff0f", "0000"),
    ("tags of a header in order, of a byte each", "003e0004 00000001 0000 ffffffff0f", "0001ff"),
    ("tags of a header whose sizes are padded", "003e0004 00000001 0000 ffffffff0f", "8080808000 8080808000"),
    ("tags whose varints have too many bits", "003e0004 00000001 0000 ffffffff0f", "8080808010 8080808010"),
    ("listeners of nulls", BEFORE_LISTENERS_V4, "00 00 0000 0000 00"),
    ("listeners without a byte of text", BEFORE_LISTENERS_V4, "01 01 0000 0000 00"),
    ("listeners that all have one name", BEFORE_LISTENERS_V4, "0241 0241 0000 0000 00"),
    ("listeners with tags", BEFORE_LISTENERS_V4, "01 01 0000 0000 02 00 00 01 00"),
    ("features that all have one name", BEFORE_FEATURES_V4, "0241 0001 0000 00"),
    ("directories that are all the same", BEFORE_DIRECTORIES_V4, "00000000000000000000000000000064"),
    (
        "directories of a heartbeat",
        "003f0001 00000001 0000 00 00000001 0000000000000000 0000000000000000 00 00 01 00 80808030 8192f401",
        "00",
    ),
    (
        "a count of 2^31 - 1 listeners",
        "003e0004 00000001 0000 00 00000001 01 00000000000000000000000000000000 8080808008",
        "00",
    ),
    ("a string of 2^31 - 1 bytes", "003e0004 00000001 0000 00 00000001 8080808008", "41"),
];

/// A registration up to its listeners, of which there are some 60 million.
const BEFORE_LISTENERS_V4: &str = "003e0004 00000001 0000 00 00000001 01 00000000000000000000000000000001 8080801e";
/// The same up to its features.
const BEFORE_FEATURES_V4: &str = "003e0004 00000001 0000 00 00000001 01 00000000000000000000000000000001 01 8080801e";
/// The same up to its directories, of which there are 6 million.
const BEFORE_DIRECTORIES_V4: &str =
    "003e0004 00000001 0000 00 00000001 01 00000000000000000000000000000001 01 01 00 00 81c0ee02";

#[test]
fn no_flood_of_100_mib_takes_long_or_gives_too_many_events() {
    for (what, beginning, pattern) in FLOODS {
        let bytes = flood(beginning, pattern);
        let began = Instant::now();
        let (events, items) = dissected(&bytes);
        let took = began.elapsed();
        println!("{what}: {events} events, {items} items, {took:?}");
        assert!(events <= MAX_EVENTS + OVER_LIMIT, "{what}: {events} events");
        assert!(items <= MAX_ITEMS, "{what}: {items} items");
        assert!(took < PATIENCE, "{what}: {took:?}");
    }
}

/// Names and ids of which no two are the same, so that rules that look for doubles have the most to do.
#[test]
fn a_flood_of_different_elements_does_not_take_long() {
    let floods: [(&str, &str, Element); 3] = [
        ("listeners", BEFORE_LISTENERS_V4, |i| [&[5][..], &name(i), &[1, 0, 0, 0, 0, 0]].concat()),
        ("features", BEFORE_FEATURES_V4, |i| [&[5][..], &name(i), &[0, 1, 0, 0, 0]].concat()),
        ("directories", BEFORE_DIRECTORIES_V4, |i| [&[0; 13][..], &[1], &i.to_be_bytes()].concat()),
    ];
    for (what, beginning, element) in floods {
        // The count, which is the last of the beginning, becomes that of all numbers of 16 bits.
        let mut bytes = bytes_of(beginning);
        bytes.truncate(bytes.len() - 4);
        bytes.extend([0x81, 0x80, 0x04]);
        (0..=u16::MAX).for_each(|i| bytes.extend(element(i)));
        let bytes = sized(bytes);
        let began = Instant::now();
        let (events, _) = dissected(&bytes);
        let took = began.elapsed();
        println!("{what}: {events} events, {took:?}");
        assert!(events > 1 << 16 && took < PATIENCE, "{what}: {events} events, {took:?}");
    }
}

/// The bytes of an element that has this number.
type Element = fn(u16) -> Vec<u8>;

/// Four letters that are those of this number alone.
fn name(i: u16) -> [u8; 4] {
    [12, 8, 4, 0].map(|shift| b'a' + (i >> shift & 15) as u8)
}

/// A request of 100 MiB that begins so and goes on so.
fn flood(beginning: &str, pattern: &str) -> Vec<u8> {
    let (beginning, pattern) = (bytes_of(beginning), bytes_of(pattern));
    let times = (SIZE - beginning.len()) / pattern.len();
    sized([beginning, pattern.repeat(times)].concat())
}

fn bytes_of(hex: &str) -> Vec<u8> {
    data_encoding::HEXLOWER.decode(hex.replace(' ', "").as_bytes()).expect("bytes in hex")
}

fn sized(body: Vec<u8>) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes()[..], &body].concat()
}

/// Dissects a request on its own, twice; gives the number of its events, and of the items that they are in a tree.
fn dissected(bytes: &[u8]) -> (usize, usize) {
    let (mut history, mut tape) = (History::new(), Tape::new());
    let pdu = Pdu {
        captured: bytes,
        length: bytes.len() as u32,
        sighting: Sighting { frame: 1, time_ns: 0 },
        connection: history.connect(),
        sender: Side::A,
        server: Some(Side::B),
        source: 0,
        destination: 1,
        is_local: false,
        stray: false,
    };
    let summary = dissect(&pdu, Look::First, &mut history, &mut tape);
    sound::sound(&pdu, &tape);
    dissect(&pdu, Look::Again(summary.id), &mut history, &mut tape);
    (tape.events().len(), tape.events().iter().map(items).sum())
}

fn items(event: &Event) -> usize {
    match event {
        Event::Close => 0,
        Event::Leaf { value: Value::Uuid, .. } => 2,
        Event::Note { .. } => ITEMS_OF_NOTE,
        Event::Open { .. } | Event::Leaf { .. } => 1,
    }
}

// In tshark.

#[cfg(feature = "plugin")]
mod in_tshark {
    use std::process::Command;
    use std::time::Duration;

    use etherparse::PacketBuilder;
    use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};

    use super::support::corpus::{captures, name};
    use super::support::tshark::tshark;

    /// Options of a segment that are nothing but items of Wireshark's tree: as many as fit.
    const PADDING: [u8; 40] = [1; 40];
    /// The frames of [`requests`]: those around the one in which items fail, and that one.
    const AROUND: [usize; 4] = [0, 1, 3, 4];
    const SWEPT: usize = 2;
    /// Items that the layers below put into the tree, and all layers.
    const ITEMS_BELOW: usize = 60;
    const ITEMS_AT_MOST: usize = 1000;

    /// Items fail one after the other, from the first that this dissector adds to the tree to the last. What stands before is
    /// shown, tshark goes on, and all other frames are as ever, also the answer to the request that failed.
    #[test]
    fn every_item_of_a_pdu_fails_once() {
        let file = tshark().write("swept.pcap", &requests());
        let shown = |limit: usize| {
            let limit = format!("gui.max_tree_items:{limit}");
            frames(&tshark().run(&["-o", &limit, "-n", "-2", "-V", "-r", &file]))
        };
        let whole = shown(1_000_000);
        // Below some number it is the layers below that fail.
        let is_theirs = |limit| {
            let frames = shown(limit);
            !is_ours_to_fail(&frames) && frames != whole
        };
        let (mut below, mut first) = (ITEMS_BELOW, ITEMS_AT_MOST);
        while below + 1 < first {
            let middle = (below + first) / 2;
            if is_theirs(middle) { below = middle } else { first = middle }
        }
        let mut failed = 0;
        for limit in first.. {
            let frames = shown(limit);
            if frames == whole {
                break;
            }
            failed += 1;
            assert_eq!(frames.len(), whole.len(), "with {limit} items");
            assert!(is_ours_to_fail(&frames), "with {limit} items: {}", frames[SWEPT]);
            for frame in AROUND {
                assert_eq!(frames[frame], whole[frame], "frame {frame} with {limit} items in a tree");
            }
        }
        assert!(failed > 30, "only {failed} items have failed");
    }

    fn is_ours_to_fail(frames: &[String]) -> bool {
        frames[SWEPT].contains("Dissector bug, protocol KRaft")
    }

    /// The frames of what `-V` prints, by their number less one.
    fn frames(text: &str) -> Vec<String> {
        text.split("\nFrame ").map(str::to_owned).collect()
    }

    /// A panic costs the message on which it comes, and says so there. It takes a build that panics when a message asks for it:
    /// `cargo test --features test-panic --test hostile`.
    #[test]
    #[cfg(feature = "test-panic")]
    fn a_panic_costs_one_message() {
        let shown = |client: &str| {
            let file = tshark().write("panic.pcap", &requests_of(client));
            frames(&tshark().run(&["-n", "-2", "-V", "-r", &file]))
        };
        let whole = shown("panic in nothing");
        for client in ["panic in dissect", "panic in paint.."] {
            let frames = shown(client);
            assert!(frames[SWEPT].contains("This dissector failed on this message"), "{client}: {}", frames[SWEPT]);
            for frame in [0, 1, 4] {
                assert_eq!(frames[frame], whole[frame], "{client}: frame {frame}");
            }
            assert!(frames[3].contains("Broker Epoch: 7"), "{client}: {}", frames[3]);
        }
    }

    fn requests() -> Vec<u8> {
        requests_of("k2")
    }

    /// A small request with its answer, a large one with its own, and one more. The segment of the large one has options, so
    /// that others are done with fewer items than the layers below it take alone.
    fn requests_of(client: &str) -> Vec<u8> {
        let header = PcapHeader { snaplen: 1 << 18, ..PcapHeader::default() };
        let mut file = PcapWriter::with_header(Vec::new(), header).expect("a vector takes all");
        let registration = super::bytes_of(
            "00 00000001 0241 00000000000000000000000000000001 02 0241 0242 2385 0000 00 \
             02 0241 0001 0019 00 00 00 02 00000000000000000000000000000064 ffffffffffffffff 00",
        );
        let id = [&super::bytes_of("003e0004 00000002")[..], &(client.len() as u16).to_be_bytes(), client.as_bytes()]
            .concat();
        let registration = [id, registration].concat();
        let messages = [
            (true, super::bytes_of("003e0009 00000001 0001 41 00")),
            (false, super::bytes_of("00000001 00 00000000 0023")),
            (true, registration),
            (false, super::bytes_of("00000002 00 00000000 0000 0000000000000007 00")),
            (true, super::bytes_of("003e0009 00000003 0001 41 00")),
        ];
        let mut next = [1u32, 1];
        for (number, (is_request, message)) in messages.into_iter().enumerate() {
            let payload = super::sized(message);
            let from = usize::from(!is_request);
            let (ports, hosts) = ([50_000, 9093], [[10, 0, 0, 1], [10, 0, 0, 2]]);
            let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(hosts[from], hosts[1 - from], 64);
            let builder = builder.tcp(ports[from], ports[1 - from], next[from], 64_000).ack(next[1 - from]);
            let padding = if number == SWEPT { &PADDING[..] } else { &[] };
            let builder = builder.options_raw(padding).expect("options fit");
            next[from] += payload.len() as u32;
            let mut packet = Vec::new();
            builder.write(&mut packet, &payload).expect("a vector takes all");
            let time = Duration::new(1_700_000_000, number as u32);
            let packet = PcapPacket::new_owned(time, packet.len() as u32, packet);
            file.write_packet(&packet).expect("a vector takes all");
        }
        file.into_writer()
    }

    /// Captures of real brokers.
    const REAL: [&str; 2] = ["v4-kafka-3.9.pcap", "sasl-kafka-4.4.pcap"];
    /// Lengths to which packets are cut: within the headers, the size prefix, Kafka's header, bodies.
    const SNAP_LENGTHS: [u32; 9] = [60, 68, 73, 80, 96, 128, 160, 220, 300];

    /// Nothing is malformed only because it was not captured, and what is shown is what the whole capture shows there.
    #[test]
    fn what_was_not_captured_is_never_called_malformed() {
        for capture in captures().iter().filter(|path| REAL.contains(&name(path))) {
            let whole = tshark().readable(capture);
            for length in SNAP_LENGTHS {
                let cut = std::env::temp_dir().join(format!("kraft-cut-{length}-{}", name(capture)));
                let status = Command::new("editcap").args(["-s", &length.to_string(), &whole]).arg(&cut).status();
                assert!(status.is_ok_and(|status| status.success()), "editcap, which comes with tshark, cannot be run");
                let file = tshark().readable(&cut);
                let _ = std::fs::remove_file(cut);
                let fields =
                    ["-n", "-2", "-T", "fields", "-e", "frame.number", "-e", "_ws.malformed", "-e", "_ws.col.Info"];
                let ours = "kraft and (_ws.malformed or kraft.expert.truncated or kraft.expert.frame_length)";
                let wrong = tshark().run(&[&fields[..], &["-r", &file, "-Y", ours]].concat());
                assert!(wrong.is_empty(), "{} cut to {length} bytes:\n{wrong}", name(capture));
                let short = tshark().run(&["-n", "-2", "-r", &file, "-Y", "kraft and _ws.short"]);
                assert!(length < 70 || !short.is_empty(), "{} cut to {length} bytes says so nowhere", name(capture));
            }
        }
    }

    /// No flood makes epan say that a dissector has a bug, which it does where one adds too many items, too.
    #[test]
    fn floods_are_no_bug_of_a_dissector() {
        let mut file = PcapWriter::new(Vec::new()).expect("a vector takes all");
        for (number, (_, beginning, pattern)) in super::FLOODS.iter().enumerate() {
            // As much as a packet holds; the size prefix is that of all 100 MiB, or of the packet.
            let (beginning, pattern) = (super::bytes_of(beginning), super::bytes_of(pattern));
            let body = [&beginning[..], &pattern.repeat(60_000 / pattern.len())].concat();
            let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
            let builder = builder.tcp(50_000 + number as u16, 9093, 1, 64_000).ack(1);
            let mut packet = Vec::new();
            builder.write(&mut packet, &super::sized(body)).expect("a vector takes all");
            let packet = PcapPacket::new_owned(Duration::new(1_700_000_000, 0), packet.len() as u32, packet);
            file.write_packet(&packet).expect("a vector takes all");
        }
        let file = tshark().write("floods.pcap", &file.into_writer());
        let said = tshark().run(&["-n", "-2", "-V", "-r", &file]);
        assert!(!said.contains("Dissector bug"), "{}", &said[said.find("Dissector bug").unwrap_or(0)..][..200]);
    }
}
