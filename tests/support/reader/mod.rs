//! Reads the Kafka PDUs of a capture file, with no Wireshark: what a dissector would be given, frame for frame.
//!
//! ```text
//! file ──► packets ──► TCP segments ──► streams ──► PDUs
//!  file.rs     link.rs      tcp.rs, stream.rs  framing.rs
//! ```
//!
//! Bytes count in the order of the stream: a PDU is complete in the frame after which neither it nor anything before it
//! misses a byte. Where a hole is never filled, the PDUs it touches are not delivered, and those after it stand in their
//! own frames. A connection that began before the capture is read from the first segment on that begins with a PDU.
//! IP fragments are not put together, and frames of link types that `link.rs` does not know count but hold nothing.

mod file;
mod framing;
mod link;
mod stream;
mod tcp;

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;
use std::{fs, io};

use file::Packets;
pub use framing::Framing;
use tcp::{Conversations, Flow};

/// What a capture file holds of Kafka.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The number of frames in the file, of whatever protocol.
    pub frames: u32,
    /// The PDUs in the order of delivery: by frame, within a frame by stream offset.
    pub pdus: Vec<Pdu>,
}

/// One Kafka PDU, or what stands in its place where framing is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdu {
    /// The frame that completes the PDU; the first of the file is 1.
    pub frame: u32,
    /// The time of that frame, in nanoseconds since 1970.
    pub time_ns: i64,
    /// The connection, as Wireshark numbers it (`tcp.stream`).
    pub stream: u32,
    /// Who sent it.
    pub source: SocketAddr,
    /// Who receives it.
    pub destination: SocketAddr,
    /// Where it begins in its direction of the connection; the first payload byte is 0.
    pub stream_offset: u64,
    /// Its bytes from the size prefix on, up to the first that the snap length cut off.
    pub bytes: Vec<u8>,
    /// Its whole length as sent, with the size prefix: more than `bytes` holds if the snap length cut it.
    pub length: u32,
    /// Whether its size prefix leads to the next PDU.
    pub framing: Framing,
}

/// Reads the PDUs of all connections that have one of `ports` at one end (a controller's is 9093).
///
/// # Errors
///
/// The file cannot be read, or is no sound capture file; the text names the file and the frame.
pub fn read(path: &Path, ports: &[u16]) -> io::Result<Capture> {
    let file = fs::read(path).map_err(|error| io::Error::new(error.kind(), in_file(path, error)))?;
    let mut conversations = Conversations::default();
    let mut times = Vec::new();
    let mut frame = 0;
    for packet in Packets::new(&file).map_err(|error| unsound(in_file(path, error)))? {
        frame += 1;
        let packet = packet.map_err(|error| unsound(in_file(path, format_args!("frame {frame}: {error}"))))?;
        times.push(packet.time_ns);
        if let Some(segment) = link::segment(&packet) {
            conversations.add(frame, &segment);
        }
    }
    Ok(Capture { frames: frame, pdus: deliver(&conversations.finish(), ports, &times) })
}

/// The PDUs of the chosen connections, in the order of delivery.
fn deliver(conversations: &[[Flow; 2]], ports: &[u16], times: &[i64]) -> Vec<Pdu> {
    let mut pdus: Vec<Pdu> = (0..)
        .zip(conversations)
        .filter(|(_, flows)| flows.iter().any(|flow| ports.contains(&flow.source.port())))
        .flat_map(|(stream, flows)| flows.iter().flat_map(move |flow| flow_pdus(stream, flow, times)))
        .collect();
    pdus.sort_by_key(|pdu| (pdu.frame, pdu.stream_offset));
    pdus
}

/// The PDUs of one direction of a connection.
fn flow_pdus(stream: u32, flow: &Flow, times: &[i64]) -> impl Iterator<Item = Pdu> {
    framing::messages(&flow.stream, flow.opened).map(move |message| Pdu {
        frame: message.frame,
        time_ns: times[message.frame as usize - 1],
        stream,
        source: flow.source,
        destination: flow.destination,
        stream_offset: message.start,
        bytes: message.bytes,
        length: message.length,
        framing: message.framing,
    })
}

fn in_file(path: &Path, what: impl Display) -> String {
    format!("{}: {what}", path.display())
}

fn unsound(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
