//! Which connections the heuristic claims: those that begin with a Kafka request, wherever their first segment ends, and
//! none of other protocols, of random bytes, or of requests that Kafka itself would reject.
//!
//! `cargo test --release --no-default-features --test openings -- --ignored --nocapture` measures the odds over 12 million
//! openings.

mod support {
    pub mod corpus;
    pub mod protocols;
    pub mod random;
    pub mod reader;
}

use std::ops::RangeInclusive;
use std::path::Path;

use kraft::decode::decode;
use kraft::recognize::opens_connection;
use kraft::schema::{broker_registration, header};
use kraft::tape::{Event, Tape, Value};
use kraft::wire::Reader;
use support::corpus::{captures, name};
use support::protocols::{Opening, PROTOCOLS};
use support::random::Random;
use support::reader;

/// The largest size prefix that is plausible; the default of `kraft.max_message_size`.
const MAX_SIZE: u32 = 100 << 20;
/// The longest opening that is made up: about a segment.
const LONGEST: usize = 1500;
/// Bytes from the size prefix to the text of the client id: of shorter segments nothing is promised.
const HEADER_TO_CLIENT_ID: usize = 14;
/// Where the client id begins, with its length.
const CLIENT_ID: usize = 12;

#[test]
fn random_bytes_are_left_alone() {
    assert_none(RANDOM.iter().map(|&(name, make)| (name, claimed(40_000, make))).collect());
}

#[test]
fn other_protocols_are_left_alone() {
    let wrong: Vec<_> = PROTOCOLS.iter().map(|&(name, make)| (name, claimed(3_000, make))).collect();
    assert_none(wrong);
}

/// Damage may turn an opening into one of Kafka's, which then nobody can tell apart: nearly never.
#[test]
fn damaged_openings_of_other_protocols_are_left_alone() {
    let claims = |make: Opening| claimed(3_000, |random| damaged(make(random), random));
    let claims: Vec<_> = PROTOCOLS.iter().flat_map(|&(_, make)| claims(make)).collect();
    let allowed = PROTOCOLS.len() * 3_000 / 10_000;
    assert!(claims.len() <= allowed, "{} claimed, such as {:02x?}", claims.len(), claims[0]);
}

#[test]
fn requests_that_kafka_rejects_are_left_alone() {
    let registrations = registrations();
    let broken = |damage: Damage| claimed(3_000, |random| broken(&registrations, damage, random));
    assert_none(DAMAGES.iter().map(|&(name, damage)| (name, broken(damage))).collect());
}

#[test]
fn the_first_request_of_every_connection_is_claimed_wherever_its_segment_ends() {
    let missed = |request: &[u8]| cuts(request).filter(|&cut| !opens(&request[..cut])).collect::<Vec<_>>();
    let missed = first_requests().into_iter().map(|(place, request)| (place, missed(&request)));
    let wrong: Vec<_> = missed.filter(|(_, cuts)| !cuts.is_empty()).collect();
    let text: String = wrong.iter().map(|(place, cuts)| format!("\n{place}: cut after {cuts:?} bytes")).collect();
    assert!(wrong.is_empty(), "{} requests are left alone{text}", wrong.len());
}

/// Where the first segment may end. A request without a client id has little to go by: it must be whole.
fn cuts(request: &[u8]) -> RangeInclusive<usize> {
    if is_named(request) { HEADER_TO_CLIENT_ID..=request.len() } else { request.len()..=request.len() }
}

fn is_named(request: &[u8]) -> bool {
    let length = request.get(CLIENT_ID..HEADER_TO_CLIENT_ID);
    length.is_some_and(|length| length != [0, 0] && length[0] < 0x80)
}

/// A registration that is right to its last byte leaves no doubt, wherever the segment cuts what comes after it.
#[test]
fn a_request_is_claimed_whatever_of_the_next_one_is_in_its_segment() {
    let mut registrations = registrations();
    registrations.retain(|registration| opens(&registration.bytes));
    let requests: Vec<Vec<u8>> =
        ok_pdus().filter(is_request).map(|pdu| pdu.bytes).filter(|bytes| is_named(bytes)).collect();
    let mut random = Random::new();
    for _ in 0..200 {
        let first = &any(&registrations, &mut random).bytes;
        let next = &requests[random.below(requests.len())];
        let both = [&first[..], next].concat();
        let left_alone: Vec<usize> = (0..=next.len()).filter(|cut| !opens(&both[..first.len() + cut])).collect();
        assert_eq!(left_alone, [], "bytes of the next request {:02x?}", &next[..next.len().min(24)]);
    }
}

/// How often the heuristic is wrong, over 12 million openings; and how often where a protocol's messages begin as Kafka's do,
/// which nobody can tell apart.
#[test]
#[ignore = "takes minutes; made to be run in release"]
fn the_odds() {
    let registrations = registrations();
    let mut wrong = Vec::new();
    for (name, make) in RANDOM {
        wrong.push(measured(name, 2_000_000, make));
    }
    for (name, make) in PROTOCOLS {
        wrong.push(measured(name, 80_000, make));
        wrong.push(measured(&format!("{name}, damaged"), 120_000, |random| damaged(make(random), random)));
    }
    for (name, damage) in DAMAGES {
        let name = format!("BrokerRegistration with {name}");
        wrong.push(measured(&name, 150_000, |random| broken(&registrations, damage, random)));
    }
    println!("{} wrong claims in all", wrong.iter().sum::<usize>());
    for (name, make) in PROTOCOLS {
        let name = format!("{name}, damaged and its size put right");
        measured(&name, 50_000, |random| damaged_and_sized(make(random), random));
    }
    measured("made to look alike", 2_000_000, alike);
}

fn measured(name: &str, count: usize, make: impl Fn(&mut Random) -> Vec<u8>) -> usize {
    let claims = claimed(count, make);
    println!("{count:>8} openings, {:>5} claimed: {name}", claims.len());
    claims.iter().take(3).for_each(|claim| println!("{:>10}{:02x?}", "", &claim[..claim.len().min(32)]));
    claims.len()
}

fn assert_none(claims: Vec<(&str, Vec<Vec<u8>>)>) {
    let claims: Vec<_> = claims.into_iter().filter(|(_, claims)| !claims.is_empty()).collect();
    let text: String = claims
        .iter()
        .map(|(name, claims)| format!("\n{name}: {} claimed, such as {:02x?}", claims.len(), claims[0]))
        .collect();
    assert!(claims.is_empty(), "{text}");
}

/// Those of `count` openings that are claimed.
fn claimed(count: usize, make: impl Fn(&mut Random) -> Vec<u8>) -> Vec<Vec<u8>> {
    let (mut random, mut tape) = (Random::new(), Tape::new());
    let claims = |opening: &Vec<u8>| opens_connection(opening, opening.len() as u32, MAX_SIZE, &mut tape);
    (0..count).map(|_| make(&mut random)).filter(claims).collect()
}

fn opens(segment: &[u8]) -> bool {
    opens_connection(segment, segment.len() as u32, MAX_SIZE, &mut Tape::new())
}

// What is made up of random bytes.

const RANDOM: [(&str, Opening); 2] = [("uniform bytes", uniform), ("uniform bytes behind their size", sized_uniform)];

fn uniform(random: &mut Random) -> Vec<u8> {
    let length = 1 + random.below(LONGEST);
    bytes(random, length)
}

fn sized_uniform(random: &mut Random) -> Vec<u8> {
    let length = random.below(LONGEST - 4);
    sized(&bytes(random, length))
}

/// What a protocol might look like whose messages begin as Kafka's do: a size, numbers that are mostly small, short texts.
fn alike(random: &mut Random) -> Vec<u8> {
    let mut body = Vec::new();
    for _ in 0..2 + random.below(12) {
        match random.below(4) {
            0 => body.extend((random.below(100) as u16).to_be_bytes()),
            1 => body.extend((random.below(100) as u32).to_be_bytes()),
            2 => body.push(random.below(4) as u8),
            _ => {
                let length = random.below(20);
                body.extend((length as u16).to_be_bytes());
                body.extend((0..length).map(|_| b'a' + random.below(26) as u8));
            }
        }
    }
    sized(&body)
}

fn bytes(random: &mut Random, count: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        (0..count.div_ceil(4)).flat_map(|_| (random.below(1 << 32) as u32).to_le_bytes()).collect();
    bytes.truncate(count);
    bytes
}

fn sized(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes()[..], body].concat()
}

/// Up to four changes at any place.
fn damaged(mut opening: Vec<u8>, random: &mut Random) -> Vec<u8> {
    for _ in 0..=random.below(4) {
        let at = random.below(opening.len().max(1));
        match random.below(6) {
            0 => opening.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
            1 => opening.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.below(256) as u8),
            2 => opening.iter_mut().skip(at).take(2).for_each(|byte| *byte = 0),
            3 => opening.truncate(at + 1),
            4 => drop(opening.drain(at..(at + 1 + random.below(4)).min(opening.len()))),
            _ => opening.extend_from_within(at..),
        }
    }
    opening.truncate(LONGEST);
    opening
}

/// Damaged, with a size prefix that is right afterwards: hardly a thing to happen, but the nearest to Kafka that it gets.
fn damaged_and_sized(opening: Vec<u8>, random: &mut Random) -> Vec<u8> {
    let opening = damaged(opening, random);
    sized(opening.get(4..).unwrap_or_default())
}

// What real brokers and controllers say, and what is wrong with it after a change.

/// A BrokerRegistration request that is right.
struct Registration {
    bytes: Vec<u8>,
    /// Where its body begins.
    body: usize,
    tape: Tape,
}

/// Makes of the bytes of a registration what Kafka rejects; nothing where it has no such place.
type Damage = fn(&Registration, Vec<u8>, &mut Random) -> Option<Vec<u8>>;

const DAMAGES: [(&str, Damage); 12] = [
    ("an unknown API key", unknown_key),
    ("an unknown version", unknown_version),
    ("a negative size", negative_size),
    ("a size that is too small", small_size),
    ("a client id that passes the end", long_client_id),
    ("control characters for a client id", unprintable_client_id),
    ("an end inside the body", cut_body),
    ("random bytes for a body", random_body),
    ("zeros for a body", zero_body),
    ("a count that cannot be", huge_count),
    ("null where it must not be", null),
    ("little-endian integers", little_endian),
];

fn broken(registrations: &[Registration], damage: Damage, random: &mut Random) -> Vec<u8> {
    loop {
        let registration = any(registrations, random);
        if let Some(bytes) = damage(registration, registration.bytes.clone(), random) {
            return bytes;
        }
    }
}

fn any<'a>(registrations: &'a [Registration], random: &mut Random) -> &'a Registration {
    &registrations[random.below(registrations.len())]
}

fn unknown_key(_: &Registration, mut bytes: Vec<u8>, random: &mut Random) -> Option<Vec<u8>> {
    let key = 95 + random.below(usize::from(u16::MAX) - 94) as u16;
    bytes[4..6].copy_from_slice(&key.to_be_bytes());
    Some(bytes)
}

fn unknown_version(_: &Registration, mut bytes: Vec<u8>, random: &mut Random) -> Option<Vec<u8>> {
    let version = 7 + random.below(usize::from(u16::MAX) - 6) as u16;
    bytes[6..8].copy_from_slice(&version.to_be_bytes());
    Some(bytes)
}

fn negative_size(_: &Registration, mut bytes: Vec<u8>, random: &mut Random) -> Option<Vec<u8>> {
    bytes[0] = 0x80 | random.below(128) as u8;
    Some(bytes)
}

/// At least four bytes of the request are then taken for the next size.
fn small_size(_: &Registration, mut bytes: Vec<u8>, random: &mut Random) -> Option<Vec<u8>> {
    let size = random.below(bytes.len() - 7) as u32;
    bytes[..4].copy_from_slice(&size.to_be_bytes());
    Some(bytes)
}

fn long_client_id(_: &Registration, mut bytes: Vec<u8>, random: &mut Random) -> Option<Vec<u8>> {
    let left = bytes.len() - HEADER_TO_CLIENT_ID;
    let beyond = (i16::MAX as usize).checked_sub(left)?;
    let length = (left + 1 + random.below(beyond)) as u16;
    bytes[CLIENT_ID..HEADER_TO_CLIENT_ID].copy_from_slice(&length.to_be_bytes());
    Some(bytes)
}

fn unprintable_client_id(_: &Registration, mut bytes: Vec<u8>, random: &mut Random) -> Option<Vec<u8>> {
    let has_id = is_named(&bytes);
    bytes[HEADER_TO_CLIENT_ID] = random.below(32) as u8;
    has_id.then_some(bytes)
}

fn cut_body(registration: &Registration, bytes: Vec<u8>, random: &mut Random) -> Option<Vec<u8>> {
    let length = registration.body + random.below(bytes.len() - registration.body);
    Some(sized(&bytes[4..length]))
}

fn random_body(registration: &Registration, mut bytes: Vec<u8>, random: &mut Random) -> Option<Vec<u8>> {
    bytes[registration.body..].fill_with(|| random.below(256) as u8);
    Some(bytes)
}

fn zero_body(registration: &Registration, mut bytes: Vec<u8>, _: &mut Random) -> Option<Vec<u8>> {
    bytes[registration.body..].fill(0);
    Some(bytes)
}

fn huge_count(registration: &Registration, bytes: Vec<u8>, random: &mut Random) -> Option<Vec<u8>> {
    let counts = prefixes(registration, |event| match *event {
        Event::Open { at, prefix, .. } if prefix > 0 => Some((at, prefix)),
        _ => None,
    });
    replace(bytes, &counts, random, &[0xff, 0xff, 0xff, 0xff, 0x0f])
}

/// Of the texts of a registration only rack and client id may be null.
fn null(registration: &Registration, bytes: Vec<u8>, random: &mut Random) -> Option<Vec<u8>> {
    let request = &broker_registration::API.request;
    let rack = request.field_id(request.ord("Rack"));
    let texts = prefixes(registration, |event| match *event {
        Event::Leaf { field, at, value: Value::Text { prefix }, .. } if field != rack => Some((at, prefix)),
        _ => None,
    });
    replace(bytes, &texts, random, &[0])
}

/// The header as a little-endian protocol would write it.
fn little_endian(_: &Registration, mut bytes: Vec<u8>, _: &mut Random) -> Option<Vec<u8>> {
    for (at, length) in [(0, 4), (4, 2), (6, 2), (8, 4), (12, 2)] {
        bytes[at..at + length].reverse();
    }
    Some(bytes)
}

/// Length prefixes in the body.
fn prefixes(registration: &Registration, of: impl Fn(&Event) -> Option<(u32, u8)>) -> Vec<(usize, usize)> {
    let prefixes = registration.tape.events().iter().filter_map(of);
    let places = prefixes.map(|(at, prefix)| (at as usize, usize::from(prefix)));
    places.filter(|&(at, _)| at >= registration.body).collect()
}

fn replace(mut bytes: Vec<u8>, places: &[(usize, usize)], random: &mut Random, with: &[u8]) -> Option<Vec<u8>> {
    let &(at, length) = places.get(random.below(places.len()))?;
    bytes.splice(at..at + length, with.iter().copied());
    Some(sized(&bytes[4..]))
}

/// Every registration in the captures.
fn registrations() -> Vec<Registration> {
    let registrations: Vec<_> = ok_pdus().filter(is_request).filter_map(|pdu| registration(pdu.bytes)).collect();
    assert!(!registrations.is_empty(), "the captures have registrations");
    registrations
}

fn registration(bytes: Vec<u8>) -> Option<Registration> {
    let request = &broker_registration::API.request;
    let mut tape = Tape::new();
    let mut reader = Reader::new(&bytes, bytes.len() as u32);
    let version = match reader.array::<8>() {
        Ok([_, _, _, _, 0, 62, v0, v1]) => i16::from_be_bytes([v0, v1]),
        _ => return None,
    };
    let mut reader = Reader::new(&bytes, bytes.len() as u32);
    reader.array::<4>().ok()?;
    decode(&header::REQUEST, header::request_version(62, version), &mut reader, &mut tape).ok()?;
    let body = reader.pos() as usize;
    decode(request, version, &mut reader, &mut tape).ok()?;
    Some(Registration { bytes, body, tape })
}

/// The first request of every connection whose beginning was captured, and where it was found.
fn first_requests() -> Vec<(String, Vec<u8>)> {
    let mut requests = Vec::new();
    for capture in captures().iter().filter(|capture| is_ok(capture)) {
        let firsts = pdus(capture).into_iter().filter(|pdu| is_request(pdu) && pdu.stream_offset == 0);
        requests.extend(firsts.map(|pdu| (format!("{} frame {}", name(capture), pdu.frame), pdu.bytes)));
    }
    assert!(requests.len() > 50, "the captures have connections");
    requests
}

fn ok_pdus() -> impl Iterator<Item = reader::Pdu> {
    captures().into_iter().filter(|capture| is_ok(capture)).flat_map(|capture| pdus(&capture))
}

fn pdus(capture: &Path) -> Vec<reader::Pdu> {
    reader::read(capture, &[9093]).unwrap_or_else(|error| panic!("{error}")).pdus
}

fn is_ok(capture: &Path) -> bool {
    capture.parent().is_some_and(|folder| folder.ends_with("ok"))
}

fn is_request(pdu: &reader::Pdu) -> bool {
    pdu.destination.port() == 9093
}
