//! The reader of captures that the other tests stand on: TCP as it comes, all kinds of links, and damaged files.

mod support {
    pub mod corpus;
    pub mod random;
    pub mod reader;
}

use std::env;
use std::fs;
use std::io;
use std::process;

use etherparse::PacketBuilder;
use support::corpus::captures;
use support::random::Random;
use support::reader::{Capture, Framing, read};

const CLIENT: u16 = 40000;
const SERVER: u16 = 9093;
const ETHERNET: u32 = 1;
/// Bytes of the Ethernet, IPv4 and TCP headers.
const HEADERS: usize = 14 + 20 + 20;

/// Of a PDU: frame, stream, stream offset, captured bytes, length.
type Place = (u32, u32, u64, usize, u32);

#[test]
fn sequence_numbers_wrap() {
    let mut file = File::new(ETHERNET);
    let pdu = pdu(200);
    file.syn(u32::MAX - 50).request(u32::MAX - 49, &pdu[..100]).request(50, &pdu[100..]).request(154, &self::pdu(10));
    assert_eq!(places(&file), [(3, 0, 0, 204, 204), (4, 0, 204, 14, 14)]);
}

#[test]
fn what_arrives_late_is_put_before_what_was_captured_first() {
    let mut file = File::new(ETHERNET);
    file.syn(u32::MAX - 50).request(100, &pdu(20)).request(u32::MAX - 49, &pdu(10));
    assert_eq!(places(&file), [(2, 0, 150, 24, 24), (3, 0, 0, 14, 14)]);
}

#[test]
fn reused_ports_are_a_new_stream_but_a_repeated_syn_is_not() {
    let mut file = File::new(ETHERNET);
    file.syn(100).syn(100).request(101, &pdu(10)).syn(5000).request(5001, &pdu(20));
    assert_eq!(places(&file), [(3, 0, 0, 14, 14), (5, 1, 0, 24, 24)]);
}

#[test]
fn a_refused_connection_that_is_accepted_later_is_one_stream() {
    let mut file = File::new(ETHERNET);
    file.syn(100).server(Flags::RST, 0, b"go away").syn(100).server(Flags::SYN, 7000, b"");
    file.request(101, &pdu(10)).server(Flags::NONE, 7001, &pdu(12));
    assert_eq!(places(&file), [(5, 0, 0, 14, 14), (6, 0, 0, 16, 16)]);
}

#[test]
fn a_capture_that_begins_inside_a_pdu_is_read_from_the_next_one() {
    let mut file = File::new(ETHERNET);
    let pdu = pdu(400);
    file.server(Flags::NONE, 1000, &self::pdu(300)[150..]);
    file.server(Flags::NONE, 1154, &pdu[..200]).server(Flags::NONE, 1354, &pdu[200..300]);
    file.server(Flags::NONE, 1454, &pdu[300..]);
    assert_eq!(places(&file), [(4, 0, 154, 404, 404)]);
}

#[test]
fn after_a_hole_reading_goes_on_where_a_segment_begins_with_a_pdu() {
    let mut file = File::new(ETHERNET);
    let two = [pdu(10), pdu(30)].concat();
    file.syn(0).request(1, &pdu(10)).request(101, &two[..40]).request(141, &two[40..]);
    assert_eq!(places(&file), [(2, 0, 0, 14, 14), (3, 0, 100, 14, 14), (4, 0, 114, 34, 34)]);
}

#[test]
fn of_a_snapped_segment_the_pdus_are_known_as_far_as_their_sizes_are_captured() {
    let mut file = File::new(ETHERNET);
    let three = [pdu(10), pdu(300), pdu(20)].concat();
    file.syn(0).snapped(60, 1, &three).request(1 + 342, &pdu(8));
    assert_eq!(places(&file), [(2, 0, 0, 14, 14), (2, 0, 14, 46, 304), (3, 0, 342, 12, 12)]);
}

#[test]
fn a_pdu_in_several_snapped_segments_has_the_bytes_before_the_first_cut() {
    let mut file = File::new(ETHERNET);
    let pdu = pdu(300);
    file.syn(0).snapped(60, 1, &pdu[..100]).snapped(60, 101, &pdu[100..]).snapped(60, 305, &pdu);
    assert_eq!(places(&file), [(3, 0, 0, 60, 304), (4, 0, 304, 60, 304)]);
}

#[test]
fn a_segment_that_the_network_card_cuts_up_says_no_length() {
    let mut file = File::new(ETHERNET);
    let mut packet = ethernet(CLIENT, SERVER, 1, Flags::NONE, &pdu(100));
    packet[16..18].copy_from_slice(&[0, 0]);
    file.syn(0).packet(&packet, packet.len()).request(105, &pdu(5));
    assert_eq!(places(&file), [(2, 0, 0, 104, 104), (3, 0, 104, 9, 9)]);
}

#[test]
fn a_size_that_cannot_be_right_takes_the_rest_of_its_segment() {
    let mut file = File::new(ETHERNET);
    file.syn(0).request(1, b"GET / HTTP/1.0\r\n\r\n").request(19, b"more text").request(28, &pdu(40));
    let pdus = file.read().expect("a sound file").pdus;
    assert_eq!(pdus.iter().map(|pdu| pdu.framing).collect::<Vec<_>>(), [Framing::Lost, Framing::Intact]);
    assert_eq!(places(&file), [(2, 0, 0, 18, 18), (4, 0, 27, 44, 44)]);
    assert_eq!(pdus[1].time_ns, 100_000_004_000);
}

#[test]
fn a_size_that_cannot_be_right_may_be_cut_by_segments() {
    let mut file = File::new(ETHERNET);
    file.syn(0).request(1, &[0xff, 0xff]).request(3, &[0xff, 0xff, 1, 2, 3]).request(8, &pdu(40));
    assert_eq!(places(&file), [(3, 0, 0, 7, 7), (4, 0, 7, 44, 44)]);
}

#[test]
fn every_kind_of_link_is_known() {
    let (v4, v6) = (ipv4(&pdu(30)), ipv6(&pdu(30)));
    let mac = [2; 12];
    let cases: [(u32, &[&[u8]]); 12] = [
        (101, &[&v4]),
        (101, &[&v6]),
        (228, &[&v4]),
        (229, &[&v6]),
        (0, &[&[2, 0, 0, 0], &v4]),
        (108, &[&[0, 0, 0, 30], &v6]),
        (ETHERNET, &[&mac, &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x08, 0], &v4]),
        (ETHERNET, &[&mac, &[0x81, 0, 0, 2, 0x86, 0xdd], &v6]),
        (ETHERNET, &[&mac, &[0x08, 0], &v4, &[0; 20]]),
        (113, &[&[0, 4, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 0], &v4]),
        (113, &[&[0, 0, 3, 4, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0x86, 0xdd], &v6]),
        (276, &[&[0x86, 0xdd, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0], &v6]),
    ];
    for (link, layers) in cases {
        let mut file = File::new(link);
        let packet = layers.concat();
        file.packet(&packet, packet.len());
        assert_eq!(places(&file), [(1, 0, 0, 34, 34)], "link type {link}");
    }
}

#[test]
fn an_error_names_the_file_and_the_frame() {
    let mut file = File::new(ETHERNET);
    file.syn(0).syn(0).bytes.pop();
    for (bytes, place) in [(file.bytes, ".pcap: frame 2: "), (Vec::new(), ".pcap: "), (vec![b'!'; 40], ".pcap: ")] {
        let error = File { bytes, count: 0 }.read().expect_err("no sound file").to_string();
        assert!(error.contains(place), "{error}");
    }
}

#[test]
fn a_damaged_capture_gives_an_error_or_fewer_pdus() {
    let mut random = Random::new();
    for path in captures() {
        let whole = fs::read(&path).expect("a capture can be read");
        for round in 0..8 {
            let mut bytes = whole.clone();
            for _ in 0..=random.below(1 << round) {
                // The header of the file is spared, else most would be refused at once.
                let at = 24 + random.below(bytes.len() - 24);
                bytes[at] ^= 1 << random.below(8);
            }
            bytes.truncate(bytes.len() - random.below(bytes.len() / 4) * (round & 1));
            // Whatever it gives, it does not panic.
            let _ = File { bytes, count: 0 }.read();
        }
    }
}

/// A pcap file in the making.
struct File {
    bytes: Vec<u8>,
    count: u32,
}

impl File {
    fn new(link: u32) -> File {
        let header: [u32; 6] = [0xa1b2_c3d4, 0x0002_0004, 0, 0, 65535, link];
        File { bytes: header.map(u32::to_be_bytes).concat(), count: 0 }
    }

    fn packet(&mut self, packet: &[u8], original: usize) -> &mut File {
        self.count += 1;
        let header = [100, self.count, packet.len() as u32, original as u32];
        self.bytes.extend(header.map(u32::to_be_bytes).concat());
        self.bytes.extend(packet);
        self
    }

    fn syn(&mut self, sequence: u32) -> &mut File {
        let packet = ethernet(CLIENT, SERVER, sequence, Flags { ack: false, ..Flags::SYN }, b"");
        self.packet(&packet, packet.len())
    }

    fn request(&mut self, sequence: u32, payload: &[u8]) -> &mut File {
        self.snapped(payload.len(), sequence, payload)
    }

    /// A segment of the client, of whose payload `kept` bytes were captured.
    fn snapped(&mut self, kept: usize, sequence: u32, payload: &[u8]) -> &mut File {
        let packet = ethernet(CLIENT, SERVER, sequence, Flags::NONE, payload);
        self.packet(&packet[..packet.len().min(HEADERS + kept)], packet.len())
    }

    fn server(&mut self, flags: Flags, sequence: u32, payload: &[u8]) -> &mut File {
        let packet = ethernet(SERVER, CLIENT, sequence, flags, payload);
        self.packet(&packet, packet.len())
    }

    fn read(&self) -> io::Result<Capture> {
        // One file a test: they run at the same time.
        let thread = std::thread::current();
        let name = format!("kraft-{}-{}.pcap", process::id(), thread.name().unwrap_or_default());
        let path = env::temp_dir().join(name);
        fs::write(&path, &self.bytes)?;
        let capture = read(&path, &[SERVER]);
        fs::remove_file(&path)?;
        capture
    }
}

#[derive(Clone, Copy)]
struct Flags {
    syn: bool,
    ack: bool,
    rst: bool,
}

impl Flags {
    const NONE: Flags = Flags { syn: false, ack: true, rst: false };
    const SYN: Flags = Flags { syn: true, ..Flags::NONE };
    const RST: Flags = Flags { rst: true, ..Flags::NONE };
}

fn ethernet(from: u16, to: u16, sequence: u32, flags: Flags, payload: &[u8]) -> Vec<u8> {
    let address = |port| [10, 0, 0, if port == CLIENT { 1 } else { 2 }];
    let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4(address(from), address(to), 64);
    let mut builder = builder.tcp(from, to, sequence, 1000);
    builder = if flags.syn { builder.syn() } else { builder };
    builder = if flags.ack { builder.ack(1) } else { builder };
    builder = if flags.rst { builder.rst() } else { builder };
    let mut packet = Vec::new();
    builder.write(&mut packet, payload).expect("a vector takes all");
    packet
}

fn ipv4(payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv4([1, 2, 3, 4], [5, 6, 7, 8], 9).tcp(CLIENT, SERVER, 5, 6);
    builder.write(&mut packet, payload).expect("a vector takes all");
    packet
}

fn ipv6(payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv6([1; 16], [2; 16], 9).tcp(CLIENT, SERVER, 5, 6);
    builder.write(&mut packet, payload).expect("a vector takes all");
    packet
}

/// A size, then as many bytes that look like no size.
fn pdu(size: u32) -> Vec<u8> {
    size.to_be_bytes().into_iter().chain((0..size).map(|i| 0x80 | i as u8)).collect()
}

fn places(file: &File) -> Vec<Place> {
    let pdus = file.read().expect("a sound file").pdus;
    pdus.iter().map(|pdu| (pdu.frame, pdu.stream, pdu.stream_offset, pdu.bytes.len(), pdu.length)).collect()
}
