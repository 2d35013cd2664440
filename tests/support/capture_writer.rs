//! Writes captures: connections made of what each end sends, and copies of captures whose TCP ports are others.

use std::time::Duration;

use etherparse::{EtherType, LaxSlicedPacket, PacketBuilder, TcpSlice, TransportSlice};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapParser, PcapWriter};
use pcap_file::pcapng::blocks::SECTION_HEADER_BLOCK;
use pcap_file::pcapng::{Block, PcapNgParser};
use pcap_file::{DataLink, Endianness};

/// Bytes before the first packet of a pcap file.
const PCAP_HEADER: usize = 24;

/// One of the two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Who opens it.
    Client = 0,
    /// Who listens.
    Server = 1,
}

/// A capture in the making.
pub struct CaptureWriter {
    file: PcapWriter<Vec<u8>>,
    frames: u32,
}

/// One connection of it.
pub struct Connection {
    /// By end.
    ports: [u16; 2],
    /// By end, the sequence number of the byte that it sends next.
    next: [u32; 2],
}

impl CaptureWriter {
    /// A capture without packets, of the same kind as the bundled ones.
    pub fn new() -> CaptureWriter {
        let header = PcapHeader { snaplen: 1 << 18, endianness: Endianness::Little, ..PcapHeader::default() };
        let file = PcapWriter::with_header(Vec::new(), header).expect("a vector takes all");
        CaptureWriter { file, frames: 0 }
    }

    /// A connection from its first packet on.
    pub fn open(&mut self, client: u16, server: u16) -> Connection {
        let mut connection = Connection::midway(client, server);
        connection.next = [0, 0];
        self.packet(&connection, End::Client, 0, &[], true);
        self.packet(&connection, End::Server, 0, &[], true);
        connection.next = [1, 1];
        self.packet(&connection, End::Client, 1, &[], false);
        connection
    }

    /// A segment that one end sends; gives the number of its frame.
    pub fn send(&mut self, connection: &mut Connection, from: End, bytes: &[u8]) -> u32 {
        let sequence = connection.next[from as usize];
        connection.lose(from, bytes.len());
        self.packet(connection, from, sequence, bytes, false)
    }

    /// Sends once more what was sent before, from `back` bytes before its end on, and perhaps new bytes behind it.
    pub fn send_again(&mut self, connection: &mut Connection, from: End, back: u32, bytes: &[u8]) -> u32 {
        let next = &mut connection.next[from as usize];
        let sequence = next.wrapping_sub(back);
        *next = sequence.wrapping_add(bytes.len() as u32);
        self.packet(connection, from, sequence, bytes, false)
    }

    /// The file.
    pub fn finish(self) -> Vec<u8> {
        self.file.into_writer()
    }

    fn packet(&mut self, connection: &Connection, from: End, sequence: u32, payload: &[u8], syn: bool) -> u32 {
        let address = |end: usize| [10, 20, 0, 1 + end as u8];
        let (from, to) = (from as usize, 1 - from as usize);
        let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, from as u8], [2, 0, 0, 0, 0, to as u8]);
        let builder = builder.ipv4(address(from), address(to), 64);
        let mut builder = builder.tcp(connection.ports[from], connection.ports[to], sequence, 64_000);
        if syn {
            builder = builder.syn();
        }
        if !syn || from == End::Server as usize {
            builder = builder.ack(connection.next[to].wrapping_add(u32::from(syn)));
        }
        let mut packet = Vec::new();
        builder.write(&mut packet, payload).expect("a vector takes all");
        self.frames += 1;
        let time = Duration::new(1_700_000_000, self.frames * 1_000_000);
        let packet = PcapPacket::new_owned(time, packet.len() as u32, packet);
        self.file.write_packet(&packet).expect("a vector takes all");
        self.frames
    }
}

impl Connection {
    /// A connection that began before the capture.
    pub fn midway(client: u16, server: u16) -> Connection {
        Connection { ports: [client, server], next: [5000, 9000] }
    }

    /// Bytes that were sent, but not captured.
    pub fn lose(&mut self, from: End, count: usize) {
        let next = &mut self.next[from as usize];
        *next = next.wrapping_add(count as u32);
    }
}

/// Several pcap files of the same kind as one, one after the other.
pub fn joined(captures: &[Vec<u8>]) -> Vec<u8> {
    let mut joined = Vec::new();
    for capture in captures {
        let (header, packets) = capture.split_at(PCAP_HEADER);
        if joined.is_empty() {
            joined.extend(header);
        }
        assert_eq!(joined[..PCAP_HEADER], *header, "captures of different kinds cannot be one");
        joined.extend(packets);
    }
    joined
}

/// A copy of a capture, pcap or pcapng, in which every TCP port is what `renamed` makes of it. All else stays, secrets and
/// comments too, and the checksums: nobody looks at them.
pub fn on_other_ports(capture: &[u8], renamed: impl Fn(u16) -> u16) -> Vec<u8> {
    let mut copy = capture.to_vec();
    for (link, packet) in packets(capture) {
        let Some(tcp) = tcp(link, packet) else { continue };
        let at = tcp.slice().as_ptr().addr() - capture.as_ptr().addr();
        copy[at..at + 2].copy_from_slice(&renamed(tcp.source_port()).to_be_bytes());
        copy[at + 2..at + 4].copy_from_slice(&renamed(tcp.destination_port()).to_be_bytes());
    }
    copy
}

/// The packets of a capture, as parts of it.
fn packets(capture: &[u8]) -> Vec<(DataLink, &[u8])> {
    if capture.starts_with(&SECTION_HEADER_BLOCK.to_be_bytes()) {
        pcapng_packets(capture)
    } else {
        pcap_packets(capture)
    }
}

fn pcap_packets(capture: &[u8]) -> Vec<(DataLink, &[u8])> {
    let (mut rest, parser) = PcapParser::new(capture).expect("a pcap file");
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let (after, packet) = parser.next_raw_packet(rest).expect("a sound file");
        packets.push((
            parser.header().datalink,
            &rest[rest.len() - after.len() - packet.data.len()..][..packet.data.len()],
        ));
        rest = after;
    }
    packets
}

fn pcapng_packets(capture: &[u8]) -> Vec<(DataLink, &[u8])> {
    /// Bytes from the beginning of an Enhanced Packet Block to the packet.
    const BEFORE: usize = 28;
    let (mut rest, mut parser) = PcapNgParser::new(capture).expect("a pcapng file");
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let (after, block) = parser.next_block(rest).expect("a sound file");
        if let Block::EnhancedPacket(packet) = block {
            let link = parser.interfaces()[packet.interface_id as usize].linktype;
            packets.push((link, &rest[BEFORE..BEFORE + packet.data.len()]));
        }
        rest = after;
    }
    packets
}

fn tcp(link: DataLink, packet: &[u8]) -> Option<TcpSlice<'_>> {
    let layers = match link {
        DataLink::ETHERNET => LaxSlicedPacket::from_ethernet(packet).ok()?,
        DataLink::NULL => LaxSlicedPacket::from_ip(packet.get(4..)?).ok()?,
        DataLink::LINUX_SLL2 => {
            let protocol = u16::from_be_bytes(*packet.first_chunk()?);
            LaxSlicedPacket::from_ether_type(EtherType(protocol), packet.get(20..)?)
        }
        other => panic!("no capture here has packets of {other:?}"),
    };
    match layers.transport {
        Some(TransportSlice::Tcp(tcp)) => Some(tcp),
        _ => None,
    }
}
