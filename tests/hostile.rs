//! What is sent to harm: whole connections of damaged bytes, frames of 100 MiB that pretend to hold more, and a tshark in which
//! every single item of the tree fails once. It costs no more than its bytes, and only what is hostile is lost.

mod support {
    pub mod conversation;
    pub mod corpus;
    pub mod damage;
    #[cfg(feature = "plugin")]
    pub mod pdml;
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

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kraft::decode::MAX_EVENTS;
use kraft::dissect::{Look, Pdu, dissect};
use kraft::pairing::{History, Sighting};
use kraft::recognize::Side;
use kraft::schema::{self, Direction, Message};
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
        let input = connection::input(segments.iter().map(|(flags, bytes)| (*flags, &bytes[..])));
        connection::try_out(&input, sound::is_shown(&input));
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
        pdu::try_out(&[&[key as u8, version as u8, flags], sized].concat(), true);
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

/// A message of 100 MiB.
struct Flood {
    what: &'static str,
    /// Of an answer: key and version of what was asked.
    answers: Option<[u8; 2]>,
    /// How it begins behind its size prefix, and what it goes on with, again and again. In hex.
    beginning: &'static str,
    pattern: &'static str,
}

const fn request(what: &'static str, beginning: &'static str, pattern: &'static str) -> Flood {
    Flood { what, answers: None, beginning, pattern }
}

const fn answer(what: &'static str, key: u8, version: u8, beginning: &'static str, pattern: &'static str) -> Flood {
    Flood { what, answers: Some([key, version]), beginning, pattern }
}

const FLOODS: &[Flood] = &[
    request("tags of a header", "003e0004 00000001 0000 ffffffff0f", "0000"),
    request("tags of a header in order, of a byte each", "003e0004 00000001 0000 ffffffff0f", "0001ff"),
    request("tags of a header whose sizes are padded", "003e0004 00000001 0000 ffffffff0f", "8080808000 8080808000"),
    request("tags whose varints have too many bits", "003e0004 00000001 0000 ffffffff0f", "8080808010 8080808010"),
    request("listeners of nulls", BEFORE_LISTENERS_V4, "00 00 0000 0000 00"),
    request("listeners without a byte of text", BEFORE_LISTENERS_V4, "01 01 0000 0000 00"),
    request("listeners that all have one name", BEFORE_LISTENERS_V4, "0241 0241 0000 0000 00"),
    request("listeners with tags", BEFORE_LISTENERS_V4, "01 01 0000 0000 02 00 00 01 00"),
    request("listeners whose lengths are padded", BEFORE_LISTENERS_V4, "8180808000 8180808000 0000 0000 8080808000"),
    request("listeners of texts that are none", BEFORE_LISTENERS_V4, "02ff 02fe 0000 0000 00"),
    request("features that all have one name", BEFORE_FEATURES_V4, "0241 0001 0000 00"),
    request("features of nulls", BEFORE_FEATURES_V4, "00 0001 0000 00"),
    request("directories that are all the same", BEFORE_DIRECTORIES_V4, "00000000000000000000000000000064"),
    request("tags of a registration", BEFORE_TAGS_V4, "0000"),
    request("a size of 2^32 - 1 in a tag", BEFORE_TAGS_V4, "00 ffffffff0f"),
    request("directories of a heartbeat", BEFORE_OFFLINE_V1, "00"),
    request("known tags of a heartbeat, again and again", BEFORE_HEARTBEAT_TAGS_V1, "00 01 01"),
    request("known tags of a heartbeat that are null", BEFORE_HEARTBEAT_TAGS_V1, "00 01 00"),
    request("known tags of a heartbeat with bytes left", BEFORE_HEARTBEAT_TAGS_V1, "00 02 01 ff"),
    request("known tags of a heartbeat, null, with bytes left", BEFORE_HEARTBEAT_TAGS_V1, "00 02 00 ff"),
    request("a count of 2^31 - 1 listeners", COUNT_OF_2_31_LESS_1, "00"),
    request("a count of 2^31 listeners", COUNT_OF_2_31, "00"),
    request("a count of 2^32 - 2 listeners", COUNT_OF_2_32_LESS_2, "00"),
    request("a string of 2^31 - 1 bytes", "003e0004 00000001 0000 00 00000001 8080808008", "41"),
    request("a string of 2^32 - 2 bytes", "003e0004 00000001 0000 00 00000001 ffffffff0f", "41"),
    request("a client id of 2^15 - 1 bytes, in a header alone", "003e0004 00000001 7fff", "00"),
    request("a client id that is shorter than null", "003e0004 00000001 8000", "00"),
    answer("tags of the header of an answer", 62, 4, "00000001 ffffffff0f", "0000"),
    answer(
        "tags of an answer to a registration",
        62,
        4,
        "00000001 00 00000000 0000 0000000000000001 ffffffff0f",
        "0000",
    ),
    answer("tags of an answer to a heartbeat", 63, 2, "00000001 00 00000000 0000 00 01 00 ffffffff0f", "0001ff"),
    answer("17 million supported APIs", 18, 0, "00000001 0000 01000000", "0012 0000 0005"),
    answer("as many, of a count in a varint", 18, 3, "00000001 0000 8080800 7", "0012 0000 0005 00"),
    answer("a count of 2^31 - 1 APIs", 18, 0, "00000001 0000 7fffffff", "00"),
    answer("a count of -2^31 APIs", 18, 0, "00000001 0000 80000000", "00"),
    answer("a count of -2^31 APIs, in v1", 18, 1, "00000001 0000 80000000", "00"),
    answer("features in tags, again and again", 18, 3, BEFORE_FEATURE_TAGS_V3, "00 01 01"),
    answer("features of one tag", 18, 3, SUPPORTED_FEATURES_V3, "0241 0001 0002 00"),
    answer("finalized features that are all null", 18, 4, FINALIZED_FEATURES_V3, "00 0001 0002 00"),
    answer("an answer to what is not known", 99, 0, "00000001", "00"),
];

/// A heartbeat up to its tagged field of directories, of which there are 6 million.
const BEFORE_OFFLINE_V1: &str =
    "003f0001 00000001 0000 00 00000001 0000000000000000 0000000000000000 00 00 01 00 80808030 8192f401";
/// A heartbeat up to its tagged fields, of which there are as many as can be.
const BEFORE_HEARTBEAT_TAGS_V1: &str =
    "003f0001 00000001 0000 00 00000001 0000000000000000 0000000000000000 00 00 ffffffff0f";
/// An answer to ApiVersions that offers nothing, up to its tagged fields.
const BEFORE_FEATURE_TAGS_V3: &str = "00000001 0000 01 00000000 ffffffff0f";
/// The same, up to the elements of its first one, which is as long as a message is: some 14 million.
const SUPPORTED_FEATURES_V3: &str = "00000001 0000 01 00000000 01 00 8080802f 81c0d606";
/// Likewise of the one that holds the finalized features.
const FINALIZED_FEATURES_V3: &str = "00000001 0000 01 00000000 01 02 8080802f 81c0d606";

/// A registration up to its listeners, of which there are some 60 million.
const BEFORE_LISTENERS_V4: &str = "003e0004 00000001 0000 00 00000001 01 00000000000000000000000000000001 8080801e";
/// The same with counts that no 32 bits with a sign hold, or just hold.
const COUNT_OF_2_31_LESS_1: &str = "003e0004 00000001 0000 00 00000001 01 00000000000000000000000000000000 8080808008";
const COUNT_OF_2_31: &str = "003e0004 00000001 0000 00 00000001 01 00000000000000000000000000000000 8180808008";
const COUNT_OF_2_32_LESS_2: &str = "003e0004 00000001 0000 00 00000001 01 00000000000000000000000000000000 ffffffff0f";
/// The same up to its features.
const BEFORE_FEATURES_V4: &str = "003e0004 00000001 0000 00 00000001 01 00000000000000000000000000000001 01 8080801e";
/// The same up to its directories, of which there are 6 million.
const BEFORE_DIRECTORIES_V4: &str =
    "003e0004 00000001 0000 00 00000001 01 00000000000000000000000000000001 01 01 00 00 81c0ee02";

/// The same up to its own tagged fields, of which there are as many as can be.
const BEFORE_TAGS_V4: &str = "003e0004 00000001 0000 00 00000001 01 00000000000000000000000000000001 01 01 00 00 01 \
    0000000000000001 ffffffff0f";

#[test]
fn no_flood_of_100_mib_takes_long_or_gives_too_many_events() {
    for Flood { what, answers, beginning, pattern } in FLOODS {
        let bytes = flood(beginning, pattern, SIZE);
        let began = Instant::now();
        let (events, items) = dissected(*answers, &bytes);
        let took = began.elapsed();
        println!("{what}: {events} events, {items} items, {took:?}");
        assert!(events <= MAX_EVENTS + OVER_LIMIT, "{what}: {events} events");
        assert!(items <= MAX_ITEMS, "{what}: {items} items");
        assert!(took < PATIENCE, "{what}: {took:?}");
    }
}

/// Bytes that little is made of, or much: nulls, empty texts and arrays, the largest that one byte or five can say.
const BYTES: [u8; 6] = [0x00, 0x01, 0x02, 0x7f, 0x80, 0xff];
/// The longest body that is tried.
const BODY: usize = 200;

/// Every message of every version gives no more events than its bytes allow (`sound` holds them against that), whatever it is
/// filled with, and wherever in a sound message of its kind that begins.
#[test]
fn no_message_gives_more_events_than_its_bytes_allow() {
    let patterns: Vec<Vec<u8>> = (1..=3).flat_map(words).collect();
    let (mut tried, mut most) = (0, 0.0);
    for ((key, version, is_answer), (bytes, places)) in longest_of_each_kind() {
        let answers = is_answer.then_some([key as u8, version as u8]);
        for (number, at) in places.into_iter().enumerate() {
            for pattern in patterns.iter().skip(number % EVERY).step_by(EVERY) {
                let filled = [&bytes[4..at], &pattern.repeat(BODY / pattern.len())].concat();
                let (events, _) = dissected(answers, &sized(filled));
                tried += 1;
                most = f64::max(most, events as f64 / (at + BODY) as f64);
            }
        }
    }
    println!("{tried} messages, at most {most:.2} events of a byte");
    assert!(most > 1.5, "what was tried makes little of a byte");
}

/// Key, version, and whether it is an answer.
type KindOfMessage = (i16, i16, bool);

/// The longest message of each kind that the captures hold and that is not too long, and where in it something begins. Of those
/// that they do not hold, a header alone.
fn longest_of_each_kind() -> BTreeMap<KindOfMessage, (Vec<u8>, BTreeSet<usize>)> {
    let mut kinds: BTreeMap<_, _> = all_kinds().map(|kind| (kind, header_alone(kind))).collect();
    for Said { read, tape, summary } in captures().iter().flat_map(|capture| conversation(capture).talk) {
        let Some((key, version)) = summary.api else { continue };
        let Some(longest) = kinds.get_mut(&(key, version, summary.direction == Direction::Response)) else { continue };
        if (longest.0.len() + 1..2 * BODY).contains(&read.bytes.len()) {
            *longest = (read.bytes, tape.events().iter().filter_map(begins).filter(|at| *at >= 8).collect());
        }
    }
    kinds
}

fn header_alone((key, version, is_answer): KindOfMessage) -> (Vec<u8>, BTreeSet<usize>) {
    let mut body = if is_answer { vec![] } else { [key.to_be_bytes(), version.to_be_bytes()].concat() };
    body.extend(1u32.to_be_bytes());
    if !is_answer {
        body.extend([0, 0]);
    }
    let bytes = sized(body);
    let end = bytes.len();
    // Where the header is a flexible one, the first of what it is filled with is its tagged fields.
    (bytes, BTreeSet::from([end]))
}

/// Of the patterns one in so many is tried at each place.
const EVERY: usize = 3;

/// All words of so many of the bytes.
fn words(len: u32) -> impl Iterator<Item = Vec<u8>> {
    let word = move |n: usize| (0..len).map(|digit| BYTES[n / BYTES.len().pow(digit) % BYTES.len()]).collect();
    (0..BYTES.len().pow(len)).map(word)
}

/// Where a value begins.
fn begins(event: &Event) -> Option<usize> {
    match *event {
        Event::Open { at, .. } | Event::Leaf { at, .. } => Some(at as usize),
        _ => None,
    }
}

/// All messages that have a schema.
fn all_kinds() -> impl Iterator<Item = KindOfMessage> {
    let of = |message: &'static Message| (0..i16::from(u8::MAX)).filter(|version| message.versions.has(*version));
    (0..i16::from(u8::MAX)).filter_map(schema::api).flat_map(move |api| {
        let requests = of(&api.request).map(|version| (api.key, version, false));
        requests.chain(of(&api.response).map(|version| (api.key, version, true)))
    })
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
        let (events, _) = dissected(None, &bytes);
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

/// A message of so many bytes that begins so and goes on so.
fn flood(beginning: &str, pattern: &str, size: usize) -> Vec<u8> {
    let (beginning, pattern) = (bytes_of(beginning), bytes_of(pattern));
    let times = (size - beginning.len()) / pattern.len();
    sized([beginning, pattern.repeat(times)].concat())
}

fn bytes_of(hex: &str) -> Vec<u8> {
    data_encoding::HEXLOWER.decode(hex.replace(' ', "").as_bytes()).expect("bytes in hex")
}

fn sized(body: Vec<u8>) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes()[..], &body].concat()
}

/// Dissects a message on its own, twice: a request, or an answer to a request of this key and version. Gives the number of its
/// events, and of the items that they are in a tree.
fn dissected(answers: Option<[u8; 2]>, bytes: &[u8]) -> (usize, usize) {
    let (mut history, mut tape) = (History::new(), Tape::new());
    let pdu = Pdu {
        captured: bytes,
        length: bytes.len() as u32,
        sighting: Sighting { frame: 1, time_ns: 0 },
        connection: history.connect(),
        sender: if answers.is_some() { Side::B } else { Side::A },
        server: Some(Side::B),
        source: 0,
        destination: 1,
        is_local: false,
        stray: false,
    };
    if let (Some([key, version]), Some(id)) = (answers, bytes.get(4..8)) {
        let asked = [&[0, 0, 0, 10, 0, key, 0, version], id, &[0, 0]].concat();
        let request = Pdu { captured: &asked, length: 14, sender: Side::A, ..pdu };
        dissect(&request, Look::First, &mut history, &mut tape);
    }
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
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    use etherparse::PacketBuilder;
    use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};

    use super::support::corpus::{captures, name};
    use super::support::pdml::{self, Item};
    use super::support::tshark::tshark;

    /// Options of a segment that are nothing but items of Wireshark's tree: as many as fit.
    const PADDING: [u8; 40] = [1; 40];
    /// The frames of [`requests`]: those around the one in which items fail, and that one.
    const AROUND: [usize; 4] = [0, 1, 3, 4];
    const SWEPT: usize = 2;
    /// Fewer items than the layers below put into the tree, and more than all layers do.
    const ITEMS_BELOW: usize = 60;
    const ITEMS_AT_MOST: usize = 1000;

    /// Items fail one after the other, from the first that this dissector adds to the tree to the last. What stands before is
    /// shown, tshark goes on, and all other frames are as ever, also the answer to the request that failed.
    #[test]
    fn every_item_of_a_pdu_fails_once() {
        let file = tshark().write("swept.pcap", &requests());
        let whole = shown(&file, 1_000_000).expect("a million items are enough");
        // Below some number it is the layers below that fail.
        let is_theirs =
            |limit| shown(&file, limit).is_none_or(|frames| failed(&frames[SWEPT]).is_none() && frames != whole);
        let (mut below, mut first) = (ITEMS_BELOW, ITEMS_AT_MOST);
        while below + 1 < first {
            let middle = (below + first) / 2;
            if is_theirs(middle) { below = middle } else { first = middle }
        }
        let mut names = BTreeSet::new();
        for limit in first.. {
            let Some(frames) = shown(&file, limit) else { continue };
            if frames == whole {
                break;
            }
            assert_eq!(frames.len(), whole.len(), "with {limit} items");
            let name = failed(&frames[SWEPT]).unwrap_or_else(|| panic!("with {limit} items: {}", frames[SWEPT]));
            names.insert(name.to_owned());
            for frame in AROUND {
                assert_eq!(frames[frame], whole[frame], "frame {frame} with {limit} items in a tree");
            }
        }
        let left = items_of(&file, SWEPT).into_iter().filter(|item| !names.contains(item)).collect::<Vec<_>>();
        assert!(left.is_empty(), "none of these has failed: {left:?}");
    }

    /// What tshark prints of the frames when a tree may have so many items. `None` where an item of another protocol has ended
    /// it: since 4.6 epan adds some of a frame's own where it catches nothing.
    fn shown(file: &str, limit: usize) -> Option<Vec<String>> {
        let limit = format!("gui.max_tree_items:{limit}");
        let (text, said) = tshark().output_under(&IN_ANY_CASE, &["-o", &limit, "-n", "-2", "-V", "-r", file]);
        if said.contains("tshark ended with 0") {
            return Some(frames(&text));
        }
        let item = said.split_once("Unhandled exception (\"Adding ").map(|(_, item)| item);
        assert!(item.is_some_and(|item| !item.starts_with("kraft")), "{limit}: {said}");
        None
    }

    /// Runs what follows and says how it ended, be it well or not.
    const IN_ANY_CASE: [&str; 4] = ["sh", "-c", "\"$@\"; echo tshark ended with $? >&2", "sh"];

    /// The item of this dissector that has failed in a frame.
    fn failed(frame: &str) -> Option<&str> {
        let (_, item) = frame.split_once("Dissector bug, protocol KRaft")?.1.split_once(": Adding ")?;
        item.split_whitespace().next()
    }

    /// The names of all items that this dissector adds to the tree of a frame.
    fn items_of(file: &str, frame: usize) -> BTreeSet<String> {
        let number = format!("frame.number == {}", frame + 1);
        let pdml = tshark().run(&["-n", "-2", "-Y", &number, "-T", "pdml", "-r", file]);
        let names = pdml.split("name=\"").skip(1).filter_map(|rest| rest.split('"').next());
        names.filter(|name| *name == "kraft" || name.starts_with("kraft.")).map(str::to_owned).collect()
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

    /// A panic costs its message alone, also where it shares a frame with others: each of those still finds its partner, in
    /// every later look.
    #[test]
    #[cfg(feature = "test-panic")]
    fn a_panic_costs_no_other_message_of_its_frame() {
        // What the requests of a frame and their answers say: which they are, and where their partners are.
        let links = |panic: &str, asked: u32| {
            let file = tshark().write("panic-in-a-frame.pcap", &two_frames(asked, panic));
            let fields = ["-e", "kraft.correlation_id", "-e", "kraft.response_in", "-e", "kraft.response_to"];
            tshark().run(&[&["-n", "-2", "-r", &file, "-T", "fields"], &fields[..]].concat())
        };
        for asked in 1..=3 {
            let others =
                ["1", "2", "3"].into_iter().filter(|id| *id != asked.to_string()).collect::<Vec<_>>().join(",");
            assert_eq!(links("panic at once", asked), format!("{others}\t2,2\t\n1,2,3\t\t1,1\n"), "request {asked}");
            assert_eq!(
                links("panic in dissect", asked),
                format!("{others}\t2,2\t\n1,2,3\t\t1,1,1\n"),
                "request {asked}"
            );
            assert_eq!(links("panic in paint", asked), "1,2,3\t2,2,2\t\n1,2,3\t\t1,1,1\n", "request {asked}");
        }
    }

    /// Three requests in a frame, and their answers in another. One of the requests, by its number, says this.
    #[cfg(feature = "test-panic")]
    fn two_frames(asked: u32, says: &str) -> Vec<u8> {
        let requests = (1..=3).flat_map(|id: u32| {
            let client = if id == asked { says.as_bytes() } else { b"k2" };
            let header = [&super::bytes_of("003e0009")[..], &id.to_be_bytes(), &(client.len() as u16).to_be_bytes()];
            super::sized([&header.concat(), client, &[0]].concat())
        });
        let answers = (1..=3)
            .flat_map(|id: u32| super::sized([&id.to_be_bytes()[..], &super::bytes_of("00 00000000 0023")].concat()));
        capture([(true, requests.collect(), &[][..]), (false, answers.collect(), &[])])
    }

    fn requests() -> Vec<u8> {
        requests_of("k2")
    }

    /// A small request with its answer, a large one with its own, and one more. The segment of the large one has options, so
    /// that others are done with fewer items than the layers below it take alone.
    fn requests_of(client: &str) -> Vec<u8> {
        let registration = super::bytes_of(
            "00 00000001 0241 00000000000000000000000000000001 02 0241 0242 2385 0000 00 \
             02 0241 0001 0019 00 00 00 02 00000000000000000000000000000064 ffffffffffffffff 00",
        );
        let id = [&super::bytes_of("003e0004 00000002")[..], &(client.len() as u16).to_be_bytes(), client.as_bytes()]
            .concat();
        let small = |hex| super::sized(super::bytes_of(hex));
        capture([
            (true, small("003e0009 00000001 0001 41 00"), &[][..]),
            (false, small("00000001 00 00000000 0023"), &[]),
            (true, super::sized([id, registration].concat()), &PADDING),
            (false, small("00000002 00 00000000 0000 0000000000000007 00"), &[]),
            (true, small("003e0009 00000003 0001 41 00"), &[]),
        ])
    }

    /// A capture of one connection: of each segment whether it goes to the server, its bytes, and its TCP options.
    fn capture<'a>(segments: impl IntoIterator<Item = (bool, Vec<u8>, &'a [u8])>) -> Vec<u8> {
        let header = PcapHeader { snaplen: 1 << 18, ..PcapHeader::default() };
        let mut file = PcapWriter::with_header(Vec::new(), header).expect("a vector takes all");
        let mut next = [1u32, 1];
        for (number, (to_server, payload, options)) in segments.into_iter().enumerate() {
            let from = usize::from(!to_server);
            let (ports, hosts) = ([50_000, 9093], [[10, 0, 0, 1], [10, 0, 0, 2]]);
            let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(hosts[from], hosts[1 - from], 64);
            let builder = builder.tcp(ports[from], ports[1 - from], next[from], 64_000).ack(next[1 - from]);
            let builder = builder.options_raw(options).expect("options fit");
            next[from] += payload.len() as u32;
            let mut packet = Vec::new();
            builder.write(&mut packet, &payload).expect("a vector takes all");
            let time = Duration::new(1_700_000_000, number as u32);
            let packet = PcapPacket::new_owned(time, packet.len() as u32, packet);
            file.write_packet(&packet).expect("a vector takes all");
        }
        file.into_writer()
    }

    /// A capture that is cut in all ways, each of the others is in one.
    const CUT_IN_ALL_WAYS: &str = "v4-kafka-3.9.pcap";
    /// Lengths to which packets are cut: within the headers, the size prefix, Kafka's header, bodies.
    const SNAP_LENGTHS: [u32; 9] = [60, 68, 73, 80, 96, 128, 160, 220, 300];
    /// Segments of these come out of order. A cut one among them is never put in order, and PDUs are found elsewhere.
    const OUT_OF_ORDER: [&str; 2] = ["tcp-out-of-order.pcap", "tcp-overlap.pcap"];

    /// Nothing is malformed only because it was not captured, and what is shown is what the whole capture shows there.
    #[test]
    fn what_was_not_captured_is_never_called_malformed() {
        let mut compared = 0;
        let captures = captures().into_iter().filter(|path| is_ok(path) && !OUT_OF_ORDER.contains(&name(path)));
        for (number, capture) in captures.enumerate() {
            let whole = Whole::of(&capture);
            let lengths = SNAP_LENGTHS.into_iter().cycle().skip(number);
            for length in lengths.take(if name(&capture) == CUT_IN_ALL_WAYS { SNAP_LENGTHS.len() } else { 1 }) {
                compared += whole.against(&capture, length);
            }
        }
        assert!(compared > 10_000, "only {compared} items were compared");
    }

    fn is_ok(capture: &Path) -> bool {
        capture.parent().is_some_and(|folder| name(folder) == "ok")
    }

    /// What is shown of a capture of which nothing is cut.
    struct Whole {
        file: String,
        shown: BTreeMap<u32, Vec<Vec<Item>>>,
        /// Of each frame that has bytes of TCP, where they begin, and how many there are.
        payloads: BTreeMap<u32, (u32, u32)>,
    }

    impl Whole {
        fn of(capture: &Path) -> Whole {
            let file = tshark().readable(capture);
            let pdml = pdml_of(&file);
            let payload = |frame| {
                let payload = number(frame, "tcp.len").filter(|payload| *payload > 0)?;
                Some((number(frame, "num")?, (number(frame, "frame.len")? - payload, payload)))
            };
            Whole { shown: pdml::pdus(&pdml), payloads: pdml.split("<packet>").filter_map(payload).collect(), file }
        }

        /// Holds what is shown of it when its packets are cut to `length` bytes against what is shown else; gives the number of
        /// items that are in both.
        fn against(&self, capture: &Path, length: u32) -> usize {
            let what = format!("{} cut to {length} bytes", name(capture));
            let pdml = pdml_of(&cut(&self.file, length));
            let (shown, short) = (pdml::pdus(&pdml), short(&pdml, &what));
            let mut same = 0;
            for (frame, whole) in &self.shown {
                let Some((begins, pdus)) = self.alone(*frame, whole) else { continue };
                let cut = shown.get(frame).map_or(&[][..], Vec::as_slice);
                let captured = length.saturating_sub(begins);
                for (pdu, (whole, (at, len))) in whole.iter().zip(pdus).enumerate() {
                    let captured = captured.saturating_sub(at).min(len);
                    assert!(captured == len || short.contains(frame), "{what} says so nowhere in frame {frame}");
                    let cut = cut.get(pdu).map_or(&[][..], Vec::as_slice);
                    // Without the size prefix epan itself may end the segment.
                    assert!(captured < 4 || !cut.is_empty(), "{what}: frame {frame} does not show PDU {pdu}");
                    same += beginning(cut, whole, captured).unwrap_or_else(|e| panic!("{what}: frame {frame}: {e}"));
                }
            }
            same
        }

        /// Where the payload of a frame begins, and the place and length of each PDU in it, if no other frame has a part of
        /// any.
        fn alone(&self, frame: u32, shown: &[Vec<Item>]) -> Option<(u32, Vec<(u32, u32)>)> {
            let (begins, payload) = *self.payloads.get(&frame)?;
            let mut end = 0;
            let mut pdus = Vec::new();
            for items in shown {
                let size = items.iter().find(|item| item.filter == "kraft.length")?.show.parse::<u32>().ok()?;
                pdus.push((end, size + 4));
                end += size + 4;
            }
            (end == payload).then_some((begins, pdus))
        }
    }

    /// Gives the number of raw items in `cut` if they are those that `whole` has up to the end of what was captured.
    fn beginning(cut: &[Item], whole: &[Item], captured: u32) -> Result<usize, String> {
        let is_raw = |item: &&Item| item.len > 0 && item.filter != "kraft.undecoded";
        let is_known = |items: &[Item]| items.iter().any(|item| item.filter == "kraft.api_key");
        let (raw, whole_raw): (Vec<_>, Vec<_>) =
            (cut.iter().filter(is_raw).collect(), whole.iter().filter(is_raw).collect());
        for (i, item) in raw.iter().enumerate() {
            let as_whole = whole_raw.get(i).is_some_and(|whole| {
                let is_cut = whole.at + whole.len > captured && item.at + item.len <= captured;
                let len = if is_cut { whole.len } else { item.len };
                Item { len, ..(*item).clone() } == **whole
            });
            if !as_whole {
                return Err(format!("{item:?} should be {:?}, of {captured} bytes", whole_raw.get(i)));
            }
        }
        // A response is read only if the header of its request was captured.
        let missing = whole_raw[raw.len()..].iter().find(|item| item.at + item.len <= captured);
        match missing {
            Some(item) if is_known(cut) || !is_known(whole) => Err(format!("{item:?} is missing of {captured} bytes")),
            _ => Ok(raw.len()),
        }
    }

    /// All that tshark shows; bodies without schema stay with this dissector.
    fn pdml_of(file: &str) -> String {
        tshark().run(&["-n", "-2", "-o", "kraft.hand_over:FALSE", "-T", "pdml", "-r", file])
    }

    /// The frames that say that they were cut. None says that it is malformed.
    fn short(pdml: &str, what: &str) -> BTreeSet<u32> {
        let frames = pdml.split("<packet>").skip(1).filter(|frame| {
            for wrong in ["_ws.malformed", "kraft.expert.truncated", "kraft.expert.frame_length"] {
                assert!(!frame.contains(&format!("name=\"{wrong}\"")), "{what}: {wrong}:\n{frame}");
            }
            frame.contains("name=\"_ws.short\"")
        });
        frames.filter_map(|frame| number(frame, "num")).collect()
    }

    /// The value of the first field of this name in a part of a PDML.
    fn number(frame: &str, field: &str) -> Option<u32> {
        let (_, rest) = frame.split_once(&format!("name=\"{field}\""))?;
        rest.split_once("show=\"")?.1.split('"').next()?.parse().ok()
    }

    /// A copy of a capture whose packets are cut.
    fn cut(file: &str, length: u32) -> String {
        let cut = std::env::temp_dir().join(format!("kraft-cut-{length}-{}", name(Path::new(file))));
        let status = Command::new("editcap").args(["-s", &length.to_string(), file]).arg(&cut).status();
        assert!(status.is_ok_and(|status| status.success()), "editcap, which comes with tshark, cannot be run");
        let file = tshark().readable(&cut);
        let _ = std::fs::remove_file(cut);
        file
    }

    /// What is remembered of a capture is given back when it is closed: tshark forgets all and begins anew after so many packets,
    /// and however often it does, no more is left than what is registered once.
    #[test]
    fn a_closed_capture_leaves_nothing_behind() {
        if !Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success()) {
            assert!(std::env::var_os("CI").is_none(), "valgrind is not here: install it");
            println!("NOT TESTED: it takes valgrind, which is not here");
            return;
        }
        let capture = captures().into_iter().find(|path| name(path) == CUT_IN_ALL_WAYS).expect("a capture");
        let file = tshark().readable(&capture);
        let once = left_behind(&["-n", "-M", "100000", "-V", "-r", &file]);
        assert!(once > 10_000, "valgrind has not noticed what is registered, only {once} bytes");
        assert_eq!(left_behind(&["-n", "-M", "100", "-V", "-r", &file]), once);
    }

    /// The bytes that this dissector has allocated and tshark's end has not freed, as valgrind counts them.
    fn left_behind(arguments: &[&str]) -> u64 {
        let valgrind =
            ["valgrind", "--leak-check=full", "--show-leak-kinds=all", "--keep-debuginfo=yes", "--num-callers=40"];
        let (_, said) = tshark().output_under(&valgrind, arguments);
        let lines: Vec<&str> = said.lines().map(|line| line.rsplit("== ").next().unwrap_or_default()).collect();
        let records = lines.split(|line| line.trim().is_empty() || line.starts_with("=="));
        let ours = records.filter(|record| record.iter().any(|line| line.contains("kraft")));
        ours.filter_map(|record| {
            let head = record.iter().find(|line| line.contains(" bytes in ") && line.contains(" blocks are "))?;
            head.split_whitespace().next()?.replace(',', "").parse::<u64>().ok()
        })
        .sum()
    }

    /// Bytes of a flood in one packet.
    const PACKET: usize = 60_000;

    /// No flood makes epan say that a dissector has a bug, which it does where one adds too many items, too.
    #[test]
    fn floods_are_no_bug_of_a_dissector() {
        let mut file = PcapWriter::new(Vec::new()).expect("a vector takes all");
        for (number, flood) in super::FLOODS.iter().enumerate() {
            let client = 50_000 + number as u16;
            if let Some([key, version]) = flood.answers {
                let asked = super::sized([&[0, key, 0, version][..], &[0, 0, 0, 1, 0, 0]].concat());
                file.write_packet(&segment((client, 9093), (1, 1), &asked)).expect("a vector takes all");
            }
            let payload = super::flood(flood.beginning, flood.pattern, PACKET);
            let (ports, from) =
                if flood.answers.is_some() { ((9093, client), (1, 15)) } else { ((client, 9093), (1, 1)) };
            file.write_packet(&segment(ports, from, &payload)).expect("a vector takes all");
        }
        let file = tshark().write("floods.pcap", &file.into_writer());
        let said = tshark().run(&["-n", "-2", "-V", "-r", &file]);
        assert!(!said.contains("Dissector bug"), "{}", &said[said.find("Dissector bug").unwrap_or(0)..][..200]);
        let floods = said.matches("Kafka KRaft Control Plane, ").count();
        let asked = super::FLOODS.iter().filter(|flood| flood.answers.is_some()).count();
        assert_eq!(floods, super::FLOODS.len() + asked, "each of them is shown");
    }

    /// A message of 100 MiB that comes in some 1600 segments, nearly all of it items, is put together and shown.
    #[test]
    fn a_flood_of_100_mib_is_put_together_and_is_no_bug_of_a_dissector() {
        let payload = super::flood(super::BEFORE_LISTENERS_V4, "01 01 0000 0000 02 00 00 01 00", super::SIZE);
        let mut file = PcapWriter::new(Vec::new()).expect("a vector takes all");
        let mut next = 1;
        for part in payload.chunks(PACKET) {
            file.write_packet(&segment((50_000, 9093), (next, 1), part)).expect("a vector takes all");
            next += part.len() as u32;
        }
        let file = tshark().write("flood.pcap", &file.into_writer());
        let ours = [
            "-Y",
            "kraft",
            "-T",
            "fields",
            "-e",
            "kraft.length",
            "-e",
            "_ws.malformed",
            "-e",
            "kraft.expert.too_many_values",
        ];
        let shown = tshark().run(&[&["-n", "-2", "-r", &file], &ours[..]].concat());
        let _ = std::fs::remove_file(&file);
        assert_eq!(shown.trim_end(), format!("{}\t\t1", payload.len() - 4));
    }

    /// A packet of TCP between these ports, with these numbers.
    fn segment((from, to): (u16, u16), (seq, ack): (u32, u32), payload: &[u8]) -> PcapPacket<'static> {
        let hosts = if to == 9093 { ([10, 0, 0, 1], [10, 0, 0, 2]) } else { ([10, 0, 0, 2], [10, 0, 0, 1]) };
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(hosts.0, hosts.1, 64);
        let builder = builder.tcp(from, to, seq, 64_000).ack(ack);
        let mut packet = Vec::new();
        builder.write(&mut packet, payload).expect("a vector takes all");
        PcapPacket::new_owned(Duration::new(1_700_000_000, 0), packet.len() as u32, packet)
    }
}
