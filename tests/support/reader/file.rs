//! Capture files, pcap and pcapng, as a sequence of packets.

use std::borrow::Cow;

use pcap_file::pcap::{PcapHeader, PcapParser, RawPcapPacket};
use pcap_file::pcapng::blocks::SECTION_HEADER_BLOCK;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::simple_packet::SimplePacketBlock;
use pcap_file::pcapng::{Block, PcapNgParser};
use pcap_file::{DataLink, PcapError, TsResolution};

/// One packet as it stands in a capture file.
pub struct Packet<'a> {
    /// What the packet begins with.
    pub link: DataLink,
    /// Nanoseconds since 1970.
    pub time_ns: i64,
    /// The bytes that were captured.
    pub data: Cow<'a, [u8]>,
    /// The length of the packet on the wire.
    pub original_length: u32,
}

/// The packets of a capture file; ends after the first error.
pub struct Packets<'a> {
    parser: Parser,
    rest: &'a [u8],
}

enum Parser {
    Pcap(PcapParser),
    PcapNg(PcapNgParser),
}

impl<'a> Packets<'a> {
    /// Reads the header of a capture file.
    pub fn new(file: &'a [u8]) -> Result<Self, PcapError> {
        if file.starts_with(&SECTION_HEADER_BLOCK.to_be_bytes()) {
            let (rest, parser) = PcapNgParser::new(file)?;
            Ok(Self { parser: Parser::PcapNg(parser), rest })
        } else {
            let (rest, parser) = PcapParser::new(file)?;
            Ok(Self { parser: Parser::Pcap(parser), rest })
        }
    }

    /// Reads on to the next packet, over the blocks that hold none.
    fn advance(&mut self) -> Result<Option<Packet<'a>>, PcapError> {
        while !self.rest.is_empty() {
            let (rest, packet) = self.parser.step(self.rest)?;
            self.rest = rest;
            if packet.is_some() {
                return Ok(packet);
            }
        }
        Ok(None)
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Result<Packet<'a>, PcapError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance();
        if next.is_err() {
            self.rest = &[];
        }
        next.transpose()
    }
}

impl Parser {
    fn step<'a>(&mut self, file: &'a [u8]) -> Result<(&'a [u8], Option<Packet<'a>>), PcapError> {
        match self {
            // The crate's checked packet refuses one that the snap length cut, hence the raw one.
            Self::Pcap(parser) => {
                let (rest, packet) = parser.next_raw_packet(file)?;
                Ok((rest, Some(pcap_packet(parser.header(), packet))))
            }
            Self::PcapNg(parser) => {
                let (rest, block) = parser.next_block(file)?;
                Ok((rest, block_packet(parser.interfaces(), block)?))
            }
        }
    }
}

fn pcap_packet(header: PcapHeader, packet: RawPcapPacket<'_>) -> Packet<'_> {
    let fraction_ns = match header.ts_resolution {
        TsResolution::MicroSecond => 1_000,
        TsResolution::NanoSecond => 1,
    };
    Packet {
        link: header.datalink,
        time_ns: i64::from(packet.ts_sec) * 1_000_000_000 + i64::from(packet.ts_frac) * fraction_ns,
        data: packet.data,
        original_length: packet.orig_len,
    }
}

fn block_packet<'a>(
    interfaces: &[InterfaceDescriptionBlock<'_>],
    block: Block<'a>,
) -> Result<Option<Packet<'a>>, PcapError> {
    let interface = |id: u32| interfaces.get(id as usize).ok_or(PcapError::InvalidInterfaceId(id));
    match block {
        Block::EnhancedPacket(packet) => Ok(Some(enhanced_packet(interface(packet.interface_id)?, packet))),
        Block::SimplePacket(packet) => Ok(Some(simple_packet(interface(0)?, &packet))),
        Block::Packet(_) => Err(PcapError::InvalidField("the obsolete Packet Block is not supported")),
        _ => Ok(None),
    }
}

fn enhanced_packet<'a>(interface: &InterfaceDescriptionBlock<'_>, packet: EnhancedPacketBlock<'a>) -> Packet<'a> {
    Packet {
        link: interface.linktype,
        // The crate takes every tick for a nanosecond, whatever the interface says.
        time_ns: nanoseconds(packet.timestamp.as_nanos(), interface),
        data: packet.data,
        original_length: packet.original_len,
    }
}

/// A packet without time, whose captured length follows from the snap length of the interface (0 is none).
fn simple_packet(interface: &InterfaceDescriptionBlock<'_>, packet: &SimplePacketBlock<'_>) -> Packet<'static> {
    let snap_length = if interface.snaplen == 0 { u32::MAX } else { interface.snaplen };
    let length = packet.original_len.min(snap_length) as usize;
    let captured = &packet.data[..length.min(packet.data.len())];
    Packet {
        link: interface.linktype,
        time_ns: 0,
        data: captured.to_vec().into(),
        original_length: packet.original_len,
    }
}

/// The time that an interface means by a number of ticks; 0 if that is out of all bounds.
fn nanoseconds(ticks: u128, interface: &InterfaceDescriptionBlock<'_>) -> i64 {
    let mut per_second = Some(1_000_000);
    let mut offset = 0;
    for option in &interface.options {
        match option {
            InterfaceDescriptionOption::IfTsResol(resolution) => {
                per_second = ticks_per_second(*resolution);
            }
            InterfaceDescriptionOption::IfTsOffset(seconds) => {
                offset = i64::from_ne_bytes(seconds.to_ne_bytes());
            }
            _ => {}
        }
    }
    per_second
        .and_then(|per_second| i64::try_from(ticks * 1_000_000_000 / per_second).ok())
        .and_then(|time| time.checked_add(offset.checked_mul(1_000_000_000)?))
        .unwrap_or(0)
}

/// The option `if_tsresol`: a negative power of 10, or of 2 if the highest bit is set.
fn ticks_per_second(resolution: u8) -> Option<u128> {
    let base: u128 = if resolution & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow(u32::from(resolution & 0x7f))
}
