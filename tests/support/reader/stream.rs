//! The bytes of one direction of a connection, put in order.

use std::collections::BTreeMap;
use std::ops::Range;

/// What one side of a connection sent, by its place in the stream.
#[derive(Default)]
pub struct Stream {
    chunks: BTreeMap<u64, Chunk>,
}

/// A segment, or what of it no earlier segment brought.
struct Chunk {
    end: u64,
    frame: u32,
    /// The captured bytes; fewer than the chunk is long if the snap length cut it.
    bytes: Vec<u8>,
}

/// A part of a stream that has no hole.
pub struct Span {
    /// Its bytes up to the first that the snap length cut off.
    pub bytes: Vec<u8>,
    /// The frame in which it is complete.
    pub frame: u32,
}

impl Stream {
    /// Adds a segment that is `length` bytes long, of which `payload` was captured. What came first stays.
    pub fn insert(&mut self, frame: u32, start: u64, payload: &[u8], length: u32) {
        let end = start + u64::from(length);
        let mut at = start;
        while at < end {
            if let Some((_, chunk)) = self.covering(at) {
                at = chunk.end;
                continue;
            }
            let until = self.starts(at..end).next().unwrap_or(end);
            let bytes = part(payload, at - start..until - start).to_vec();
            let chunk = Chunk { end: until, frame, bytes };
            self.chunks.insert(at, chunk);
            at = until;
        }
    }

    /// Gives each chunk the frame in which it can be read: when all bytes before it are there, or given up.
    pub fn settle(&mut self) {
        let mut frame = 0;
        let mut end = 0;
        for (&start, chunk) in &mut self.chunks {
            frame = if start > end { chunk.frame } else { chunk.frame.max(frame) };
            end = chunk.end;
            chunk.frame = frame;
        }
    }

    /// Whether nothing was sent.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The stream within `range`, if it has no hole there.
    pub fn read(&self, range: Range<u64>) -> Option<Span> {
        let mut span = Span { bytes: Vec::new(), frame: 0 };
        let mut whole = true;
        let mut at = range.start;
        while at < range.end {
            let (start, chunk) = self.covering(at)?;
            let end = chunk.end.min(range.end);
            if whole {
                let bytes = part(&chunk.bytes, at - start..end - start);
                span.bytes.extend_from_slice(bytes);
                whole = bytes.len() as u64 == end - at;
            }
            span.frame = chunk.frame;
            at = end;
        }
        Some(span)
    }

    /// Where segments begin within `range`.
    pub fn starts(&self, range: Range<u64>) -> impl Iterator<Item = u64> {
        self.chunks.range(range).map(|(&start, _)| start)
    }

    /// Where the segment that holds the byte `at` ends.
    pub fn segment_end(&self, at: u64) -> Option<u64> {
        self.covering(at).map(|(_, chunk)| chunk.end)
    }

    fn covering(&self, at: u64) -> Option<(u64, &Chunk)> {
        let (&start, chunk) = self.chunks.range(..=at).next_back()?;
        (at < chunk.end).then_some((start, chunk))
    }
}

/// The bytes of `range` as far as they are there.
fn part(bytes: &[u8], range: Range<u64>) -> &[u8] {
    let within = |offset| usize::try_from(offset).map_or(bytes.len(), |offset| offset.min(bytes.len()));
    &bytes[within(range.start)..within(range.end)]
}
