//! Where PDUs begin in one direction of a connection.
//!
//! Kafka has no mark that says "here begins a message": a reader counts from the first byte on. A capture that begins in
//! the middle, bytes that were never captured, or one false size prefix end that. So at the first bytes of a direction, and
//! behind a gap, the bytes must not look wrong; and once framing is lost, the direction is taken up again only where bytes
//! surely begin a PDU. Until then they are shown raw, and nothing waits for a length that was never one.

use crate::recognize::{HEADER_TO_CLIENT_ID, Likeness, request_likeness};

/// Bytes of a correlation id, which every answer begins with.
const CORRELATION_ID: u32 = 4;

/// What is known of one direction of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// Nothing was captured of it yet.
    #[default]
    New,
    /// PDU follows upon PDU.
    Held,
    /// Where PDUs begin is not known any more.
    Lost,
}

/// One direction of a connection: what is known of it, the TCP sequence number that should come next, and the PDU that goes
/// on after the last segment, as the numbers of its first byte and of the byte after its last one, if that is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flow {
    framing: Framing,
    next_seq: Option<u32>,
    open: Option<(u32, Option<u32>)>,
}

/// Bytes that TCP (or TLS) hands over: as a rule one segment, from where a PDU should begin.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// The captured bytes.
    pub captured: &'a [u8],
    /// Bytes on the wire.
    pub length: u32,
    /// TCP sequence numbers of the first byte and of the byte after the last, where TCP tells.
    pub sequence: Option<(u32, u32)>,
    /// The largest size prefix that is plausible.
    pub max_size: u32,
}

/// How sure it is that a PDU begins with these bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// A request as Kafka's clients send it, an answer that is waited for, or sizes that lead exactly to the end.
    Sure,
    /// Too few bytes to tell, or nothing against it.
    Possible,
    /// Bytes from the middle of something.
    No,
}

impl Flow {
    /// Framing is lost from here on.
    pub fn lose(&mut self) {
        self.framing = Framing::Lost;
    }

    /// Whether a PDU begins with the segment. On the first pass only: it moves on with the segment. `from_client` says
    /// whether the client sent it, if that is known; `awaited` whether an answer with this correlation id is waited for.
    pub fn advance(&mut self, segment: &Segment, from_client: Option<bool>, awaited: impl Fn(i32) -> bool) -> bool {
        // Retransmissions and reassembled segments begin before what is expected; a gap is what begins after it.
        let gap = match (self.next_seq, segment.sequence) {
            (Some(expected), Some((first, _))) => (first.wrapping_sub(expected) as i32) > 0,
            _ => false,
        };
        // TCP puts a PDU together only from segments that were captured whole; others go on with it, and begin none.
        let inside = match (self.open, segment.sequence) {
            (Some((begin, end)), Some((first, _))) => {
                first.wrapping_sub(begin) as i32 > 0 && end.is_none_or(|end| (end.wrapping_sub(first) as i32) > 0)
            }
            _ => false,
        };
        if let Some((_, next)) = segment.sequence {
            self.next_seq = Some(next);
        }
        let begins = match self.framing {
            Framing::Held if inside => start(segment, from_client, awaited) == Start::Sure,
            Framing::Held if !gap => true,
            // The very first size is shown even where it cannot be right, since it may be the sender's fault.
            Framing::New if has_implausible_size(segment) => true,
            Framing::Held | Framing::New => start(segment, from_client, awaited) != Start::No,
            Framing::Lost => start(segment, from_client, awaited) == Start::Sure,
        };
        let went_on = if begins { None } else { self.open.and_then(|(_, end)| end).filter(|_| inside) };
        self.framing = Framing::Held;
        match (segment.sequence, went_on) {
            (Some((first, _)), Some(end)) => match segment.from(end.wrapping_sub(first)) {
                Some(rest) => self.open = goes_on(&rest, end),
                None if end.wrapping_sub(first) < segment.length => self.framing = Framing::Lost,
                None => {}
            },
            (sequence, None) if begins => self.open = sequence.and_then(|(first, _)| goes_on(segment, first)),
            _ => self.framing = Framing::Lost,
        }
        begins
    }
}

impl<'a> Segment<'a> {
    /// What stands in it from an offset on, if the first byte there, or the end, was captured.
    fn from(&self, at: u32) -> Option<Segment<'a>> {
        let captured = self.captured.get(at as usize..).filter(|rest| !rest.is_empty() || at == self.length)?;
        Some(Segment { captured, length: self.length - at, ..*self })
    }
}

/// The PDU that goes on after the segment, if one does.
fn goes_on(segment: &Segment, first: u32) -> Option<(u32, Option<u32>)> {
    let mut at = 0u64;
    while at < u64::from(segment.length) {
        let begin = first.wrapping_add(at as u32);
        match segment.captured.get(at as usize..).and_then(size_prefix) {
            Some(size) if size <= segment.max_size => {
                at += 4 + u64::from(size);
                if at > u64::from(segment.length) {
                    return Some((begin, Some(first.wrapping_add(at as u32))));
                }
            }
            // The rest of the segment counts as one PDU.
            Some(_) => return None,
            None => return Some((begin, None)),
        }
    }
    None
}

/// How sure it is that a PDU begins with the segment. `from_client` says whether the client sent it, if that is known;
/// `awaited` whether an answer with this correlation id is waited for.
fn start(segment: &Segment, from_client: Option<bool>, awaited: impl Fn(i32) -> bool) -> Start {
    let Some(size) = size_prefix(segment.captured) else { return Start::Possible };
    if has_implausible_size(segment) {
        return Start::No;
    }
    let likeness = match from_client {
        Some(false) => Likeness::None,
        _ => request_likeness(segment.captured, size.saturating_add(4)),
    };
    let is_answer = from_client != Some(true)
        && size >= CORRELATION_ID
        && size_prefix(&segment.captured[4..]).is_some_and(|id| awaited(id as i32));
    if is_answer || likeness == Likeness::Strong || lands(segment) {
        Start::Sure
    } else if likeness == Likeness::Weak || segment.captured.len() < HEADER_TO_CLIENT_ID as usize {
        Start::Possible
    } else {
        Start::No
    }
}

/// Whether following the size prefixes leads exactly to the end of the segment.
fn lands(segment: &Segment) -> bool {
    let mut at = 0u64;
    while at < u64::from(segment.length) {
        match segment.captured.get(at as usize..).and_then(size_prefix) {
            Some(size) if (4..=segment.max_size).contains(&size) => at += 4 + u64::from(size),
            _ => return false,
        }
    }
    at == u64::from(segment.length)
}

fn has_implausible_size(segment: &Segment) -> bool {
    size_prefix(segment.captured).is_some_and(|size| size > segment.max_size)
}

fn size_prefix(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A response of 24 bytes to correlation id `id`, of which the last `bytes` are there.
    fn response(id: u8, bytes: usize) -> Vec<u8> {
        let mut pdu = vec![0, 0, 0, 20, 0, 0, 0, id, 0, 0, 0, 9];
        pdu.resize(24, 0);
        pdu.split_off(24 - bytes)
    }

    /// The server's direction, where an answer to request 7 is waited for.
    fn server_sends(flow: &mut Flow, captured: &[u8], sequence: Option<(u32, u32)>) -> bool {
        let segment = Segment { captured, length: captured.len() as u32, sequence, max_size: 100 << 20 };
        flow.advance(&segment, Some(false), |id| id == 7)
    }

    #[test]
    fn a_hole_over_a_size_prefix_is_not_taken_for_a_length() {
        let mut flow = Flow::default();
        assert!(!server_sends(&mut flow, &response(6, 18), Some((106, 124))));
        assert!(!server_sends(&mut flow, &response(6, 19), Some((124, 143))));
        assert!(server_sends(&mut flow, &[&response(7, 24)[..], &[0, 0]].concat(), Some((143, 169))));
    }

    #[test]
    fn an_answer_to_an_uncaptured_request_begins_where_its_size_leads_to_the_end() {
        assert!(server_sends(&mut Flow::default(), &response(3, 24), None));
    }

    #[test]
    fn without_a_gap_odd_bytes_are_still_framed() {
        let mut flow = Flow::default();
        assert!(server_sends(&mut flow, &response(7, 24), Some((0, 24))));
        let odd = [0, 0, 1, 0, 0x7f, 0xff, 0, 9, 9, 9, 9, 9, 9, 9, 9, 9];
        assert!(server_sends(&mut flow, &odd, Some((24, 40))));
        assert!(!server_sends(&mut flow, &odd, Some((41, 57))));
    }

    #[test]
    fn the_first_size_of_all_is_shown_even_if_it_cannot_be_right() {
        let mut flow = Flow::default();
        assert!(server_sends(&mut flow, &[0xff; 16], Some((0, 16))));
        assert!(!server_sends(&mut flow, &[0xff; 16], Some((17, 33))));
    }

    /// A PDU of 100 bytes, of which only so many were captured, and that goes on for 36 bytes after its segment.
    #[test]
    fn what_a_cut_segment_began_is_not_taken_for_another_pdu() {
        let mut flow = Flow::default();
        assert!(server_sends(&mut flow, &response(7, 24), Some((0, 24))));
        let long = [&[0, 0, 0, 96, 0, 0, 0, 9][..], &[0; 56]].concat();
        assert!(server_sends(&mut flow, &long, Some((24, 88))));
        // Put together by TCP, or not.
        assert!(server_sends(&mut flow.clone(), &[&long[..], &[0; 36]].concat(), Some((24, 124))));
        // No answer to request 7, though its number follows: it would not even hold that.
        assert!(!server_sends(&mut flow, &[&[0, 0, 0, 0, 0, 0, 0, 7][..], &[0; 8]].concat(), Some((88, 104))));
        let rest = [&[0; 20][..], &response(3, 24)].concat();
        let mut apart = flow;
        assert!(!server_sends(&mut apart, &rest[..20], Some((104, 124))));
        assert!(server_sends(&mut apart, &response(3, 24), Some((124, 148))));
        assert!(!server_sends(&mut flow, &rest[..30], Some((104, 134))));
        assert!(!server_sends(&mut flow, &rest[30..], Some((134, 148))));
        assert!(server_sends(&mut flow, &response(3, 24), Some((148, 172))));
    }

    #[test]
    fn few_bytes_at_the_beginning_are_waited_for() {
        let mut flow = Flow::default();
        assert!(server_sends(&mut flow, &[0], None));
        assert!(server_sends(&mut flow, &[0, 0, 1, 0, 0, 62], None));
    }
}
