//! From a packet to the TCP segment in it.

use std::net::{IpAddr, SocketAddr};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use pcap_file::DataLink;

use super::file::Packet;

/// The length of a BSD loopback header: the address family, in the byte order of the capturing machine.
const LOOPBACK_HEADER: usize = 4;

/// A TCP segment, with what reassembly needs of its header.
pub struct Segment<'a> {
    /// Who sent it.
    pub source: SocketAddr,
    /// Who receives it.
    pub destination: SocketAddr,
    /// The sequence number in its header.
    pub sequence: u32,
    /// It opens its direction of a connection, and takes one sequence number for that.
    pub syn: bool,
    /// It acknowledges something: with `syn`, the opening of the other direction.
    pub ack: bool,
    /// It breaks the connection.
    pub rst: bool,
    /// The payload as far as it was captured.
    pub payload: &'a [u8],
    /// The length of the payload on the wire.
    pub length: u32,
}

/// The TCP segment in a packet, if there is one.
pub fn segment<'a>(packet: &'a Packet<'_>) -> Option<Segment<'a>> {
    let layers = layers(packet.link, &packet.data)?;
    let (Some(net), Some(TransportSlice::Tcp(tcp))) = (layers.net, layers.transport) else {
        return None;
    };
    let (source, destination) = addresses(&net)?;
    let cut = (packet.original_length as usize).saturating_sub(packet.data.len());
    let length = ip_payload_length(&net, cut)?.checked_sub(tcp.header_len())?;
    Some(Segment {
        source: SocketAddr::new(source, tcp.source_port()),
        destination: SocketAddr::new(destination, tcp.destination_port()),
        sequence: tcp.sequence_number(),
        syn: tcp.syn(),
        ack: tcp.ack(),
        rst: tcp.rst(),
        payload: tcp.payload(),
        length: u32::try_from(length).ok()?,
    })
}

/// The protocol layers of a packet, as far down as they are there.
fn layers(link: DataLink, data: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    match link {
        DataLink::ETHERNET => LaxSlicedPacket::from_ethernet(data).ok(),
        DataLink::LINUX_SLL => cooked_layers(data, 14, 16),
        DataLink::LINUX_SLL2 => cooked_layers(data, 0, 20),
        // The families differ from system to system; the version in the IP header does not.
        DataLink::NULL | DataLink::LOOP => LaxSlicedPacket::from_ip(data.get(LOOPBACK_HEADER..)?).ok(),
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => LaxSlicedPacket::from_ip(data).ok(),
        _ => None,
    }
}

/// A Linux cooked header, by the place of the `EtherType` in it and its length.
///
/// `etherparse` has no version 2, and refuses version 1 of loopback and tunnel devices.
fn cooked_layers(data: &[u8], protocol_at: usize, header: usize) -> Option<LaxSlicedPacket<'_>> {
    let protocol = u16::from_be_bytes(*data.get(protocol_at..)?.first_chunk()?);
    let payload = data.get(header..)?;
    Some(LaxSlicedPacket::from_ether_type(EtherType(protocol), payload))
}

fn addresses(net: &LaxNetSlice<'_>) -> Option<(IpAddr, IpAddr)> {
    match net {
        LaxNetSlice::Ipv4(ip) => Some((ip.header().source_addr().into(), ip.header().destination_addr().into())),
        LaxNetSlice::Ipv6(ip) => Some((ip.header().source_addr().into(), ip.header().destination_addr().into())),
        LaxNetSlice::Arp(_) => None,
    }
}

/// The length on the wire of what follows the IP headers, of which the snap length cut `cut` bytes off.
///
/// The IP header says it, but for segments that the network card cuts up (IPv4) and jumbograms (IPv6), where it says 0.
fn ip_payload_length(net: &LaxNetSlice<'_>, cut: usize) -> Option<usize> {
    let said = match net {
        LaxNetSlice::Ipv4(ip) => {
            let headers = ip.header().slice().len() + ip.extensions().auth.map_or(0, |auth| auth.slice().len());
            usize::from(ip.header().total_len()).saturating_sub(headers)
        }
        LaxNetSlice::Ipv6(ip) => {
            usize::from(ip.header().payload_length()).saturating_sub(ip.extensions().slice().len())
        }
        LaxNetSlice::Arp(_) => return None,
    };
    let in_frame = net.ip_payload_ref()?.payload.len() + cut;
    Some(if said == 0 { in_frame } else { said.min(in_frame) })
}
