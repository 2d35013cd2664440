//! Kafka's framing of a stream: each PDU begins with its size.

use super::stream::{Span, Stream};

/// The length of the size prefix.
const PREFIX: u32 = 4;

/// The largest size that is believed: what a broker accepts by default (`socket.request.max.bytes`).
const LARGEST: u32 = 100 << 20;

/// The smallest size at which a search for a PDU stops: a correlation id.
const SMALLEST: u32 = 4;

/// So many believable sizes after each other prove that a PDU begins, wherever they lead.
const PROOF: u32 = 32;

/// Whether a size prefix leads to the next PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// It does.
    Intact,
    /// It cannot be a size: the PDU holds the rest of its segment, and the next is the next to begin with a segment.
    Lost,
}

/// One PDU of a stream.
pub struct Message {
    /// Its place in the stream.
    pub start: u64,
    /// Its bytes up to the first that the snap length cut off.
    pub bytes: Vec<u8>,
    /// Its whole length.
    pub length: u32,
    /// The frame in which it is complete.
    pub frame: u32,
    /// Whether its size prefix leads to the next.
    pub framing: Framing,
}

/// The PDUs of a stream; the first begins with the stream if that is `opened`, otherwise it is searched for.
pub fn messages(stream: &Stream, opened: bool) -> impl Iterator<Item = Message> {
    let mut messages = Messages { stream, at: Some(0) };
    if !opened {
        messages.search(0);
    }
    messages
}

struct Messages<'a> {
    stream: &'a Stream,
    /// Where the next PDU begins, if that is known.
    at: Option<u64>,
}

/// What stands where a size prefix is due.
enum Prefix {
    /// The length of the PDU, prefix included.
    Length(u32),
    /// No size that Kafka would accept.
    Nonsense,
    /// Sent, but cut off by the snap length.
    Cut,
    /// Not in the capture.
    Missing,
}

impl Iterator for Messages<'_> {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        loop {
            let start = self.at?;
            let message = match self.prefix(start) {
                Prefix::Length(length) => self.intact(start, length),
                Prefix::Nonsense => self.lost(start),
                Prefix::Cut | Prefix::Missing => {
                    self.search(start + 1);
                    None
                }
            };
            if message.is_some() {
                return message;
            }
        }
    }
}

impl Messages<'_> {
    /// Takes a PDU whose length is known; there is none if it has a hole, but its end is known all the same.
    fn intact(&mut self, start: u64, length: u32) -> Option<Message> {
        let end = start + u64::from(length);
        self.at = Some(end);
        let Span { bytes, frame } = self.stream.read(start..end)?;
        Some(Message { start, bytes, length, frame, framing: Framing::Intact })
    }

    /// Takes the rest of the segment that completes a size prefix which makes no sense.
    fn lost(&mut self, start: u64) -> Option<Message> {
        let end = self.stream.segment_end(start + u64::from(PREFIX) - 1)?;
        self.search(end);
        let Span { bytes, frame } = self.stream.read(start..end)?;
        let length = u32::try_from(end - start).ok()?;
        Some(Message { start, bytes, length, frame, framing: Framing::Lost })
    }

    /// Goes on with the next segment, at or after `from`, that begins with a PDU.
    fn search(&mut self, from: u64) {
        self.at = self.stream.starts(from..u64::MAX).find(|&start| self.begins(start));
    }

    /// Whether a PDU begins at `at`: the sizes from there on lead to the end of a segment.
    fn begins(&self, mut at: u64) -> bool {
        for seen in 0..PROOF {
            match self.prefix(at) {
                Prefix::Length(length) if length >= PREFIX + SMALLEST => at += u64::from(length),
                Prefix::Cut => return seen > 0,
                _ => return false,
            }
            if self.stream.segment_end(at - 1) == Some(at) {
                return true;
            }
        }
        true
    }

    fn prefix(&self, at: u64) -> Prefix {
        let Some(span) = self.stream.read(at..at + u64::from(PREFIX)) else {
            return Prefix::Missing;
        };
        match span.bytes.try_into().map(u32::from_be_bytes) {
            Ok(size @ ..=LARGEST) => Prefix::Length(PREFIX + size),
            Ok(_) => Prefix::Nonsense,
            Err(_) => Prefix::Cut,
        }
    }
}
