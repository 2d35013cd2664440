//! TCP connections: which segment belongs to which, and where its payload stands in the stream.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::link::Segment;
use super::stream::Stream;

/// Half of the sequence numbers: one that is further ahead than this is behind.
const BEHIND: u32 = 1 << 31;

/// All connections of a capture, numbered as Wireshark numbers them.
#[derive(Default)]
pub struct Conversations {
    all: Vec<[Flow; 2]>,
    latest: HashMap<(SocketAddr, SocketAddr), usize>,
}

/// One direction of a connection.
pub struct Flow {
    /// Who sends.
    pub source: SocketAddr,
    /// Who receives.
    pub destination: SocketAddr,
    /// Whether the capture holds its opening, so that the stream is known from its first byte.
    pub opened: bool,
    /// What was sent.
    pub stream: Stream,
    /// The sequence number of the first byte of the stream, once known.
    origin: Option<u32>,
    /// The end of the stream as far as it was seen.
    end: u64,
    /// The sequence number at that end.
    end_sequence: u32,
}

impl Conversations {
    /// Takes the next segment of the capture to its connection.
    pub fn add(&mut self, frame: u32, segment: &Segment<'_>) {
        let index = self.index(segment);
        let flows = &mut self.all[index];
        flows[direction(flows, segment)].add(frame, segment);
    }

    /// All connections with their streams in order, once the capture is read to its end.
    pub fn finish(mut self) -> Vec<[Flow; 2]> {
        for flow in self.all.iter_mut().flatten() {
            flow.stream.settle();
        }
        self.all
    }

    /// The number of the connection of a segment, which may be a new one.
    fn index(&mut self, segment: &Segment<'_>) -> usize {
        let (a, b) = (segment.source, segment.destination);
        let ends = (a.min(b), a.max(b));
        match self.latest.get(&ends) {
            Some(&index) if !reopens(&self.all[index], segment) => index,
            _ => {
                self.latest.insert(ends, self.all.len());
                self.all.push([Flow::new(a, b), Flow::new(b, a)]);
                self.all.len() - 1
            }
        }
    }
}

/// Which of the two directions of its connection a segment belongs to.
fn direction(flows: &[Flow; 2], segment: &Segment<'_>) -> usize {
    usize::from(flows[0].source != segment.source)
}

/// Whether a segment opens a new connection between the same two ports.
fn reopens(flows: &[Flow; 2], segment: &Segment<'_>) -> bool {
    let origin = flows[direction(flows, segment)].origin;
    segment.syn && !segment.ack && origin.is_some_and(|origin| origin != payload_sequence(segment))
}

/// The sequence number of the first payload byte.
fn payload_sequence(segment: &Segment<'_>) -> u32 {
    segment.sequence.wrapping_add(u32::from(segment.syn))
}

impl Flow {
    fn new(source: SocketAddr, destination: SocketAddr) -> Self {
        Self { source, destination, opened: false, stream: Stream::default(), origin: None, end: 0, end_sequence: 0 }
    }

    /// Puts the payload of a segment in its place; what a reset carries is no part of the stream.
    fn add(&mut self, frame: u32, segment: &Segment<'_>) {
        if segment.rst {
            return;
        }
        let sequence = payload_sequence(segment);
        if self.origin.is_none() || (segment.syn && self.stream.is_empty()) {
            self.begin(sequence, segment.syn);
        }
        if let Some(start) = self.offset(sequence) {
            self.stream.insert(frame, start, segment.payload, segment.length);
            self.extend(start + u64::from(segment.length), sequence.wrapping_add(segment.length));
        }
    }

    fn begin(&mut self, sequence: u32, opened: bool) {
        self.origin = Some(sequence);
        self.end = 0;
        self.end_sequence = sequence;
        self.opened = opened;
    }

    /// Where a sequence number stands in the stream; nowhere if that is before its first byte.
    fn offset(&self, sequence: u32) -> Option<u64> {
        let ahead = sequence.wrapping_sub(self.end_sequence);
        if ahead < BEHIND {
            Some(self.end + u64::from(ahead))
        } else {
            self.end.checked_sub(u64::from(ahead.wrapping_neg()))
        }
    }

    fn extend(&mut self, end: u64, sequence: u32) {
        if end > self.end {
            self.end = end;
            self.end_sequence = sequence;
        }
    }
}
