//! Whether bytes look like a Kafka request, and which way a PDU goes.
//!
//! Nothing in Kafka's framing says whether a PDU is a request or a response. Content tells nearly always, because a request
//! names its API, its version and its client; ports are the last resort, since they mislead after Decode As, with port
//! lists that hold both ends, and inside TLS.

use crate::decode::decode;
use crate::rule::Severity;
use crate::schema::{Direction, api, header, names};
use crate::tape::{Event, Tape};
use crate::wire::{Halt, Reader};

/// One of the two ends of a connection. Which end is `A` does not matter, as long as it stays so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one end.
    A = 0,
    /// The other end.
    B = 1,
}

/// How much a PDU looks like a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Likeness {
    /// No request of a known API begins so.
    None,
    /// It could be one, but its client id is empty, null or not captured, and some responses look the same.
    Weak,
    /// It names a known API, a version near those that exist, and a client; responses practically never do.
    Strong,
}

/// Newer versions than the newest one in the tables that still count as plausible.
const FUTURE_VERSIONS: i16 = 2;
/// Kafka clients keep their ids short; a longer one counts as implausible.
const MAX_CLIENT_ID: usize = 255;

/// How much a PDU looks like a request. `captured` begins with the size prefix; `length` is what the frame takes with it.
pub fn request_likeness(captured: &[u8], length: u32) -> Likeness {
    let Some(&[_, _, _, _, k0, k1, v0, v1, _, _, _, _]) = captured.first_chunk::<12>() else { return Likeness::None };
    let (key, version) = (i16::from_be_bytes([k0, k1]), i16::from_be_bytes([v0, v1]));
    match names::api_key(key) {
        Some(api) if 0 <= version && version <= api.versions.last.saturating_add(FUTURE_VERSIONS) => {}
        _ => return Likeness::None,
    }
    if header::request_version(key, version) == 0 {
        return Likeness::Weak;
    }
    client_id_likeness(&captured[12..], length.saturating_sub(12) as usize)
}

/// `rest` begins at the length of the client id, of which `left` bytes are in the frame.
fn client_id_likeness(rest: &[u8], left: usize) -> Likeness {
    let Some(&[l0, l1]) = rest.first_chunk::<2>() else {
        return if left < 2 { Likeness::None } else { Likeness::Weak };
    };
    let Ok(len) = usize::try_from(i16::from_be_bytes([l0, l1])) else {
        return if [l0, l1] == [0xff, 0xff] { Likeness::Weak } else { Likeness::None };
    };
    if len > MAX_CLIENT_ID || 2 + len > left {
        return Likeness::None;
    }
    match rest.get(2..2 + len) {
        Some([]) | None => Likeness::Weak,
        Some(id) if std::str::from_utf8(id).is_ok_and(|id| !id.chars().any(char::is_control)) => Likeness::Strong,
        Some(_) => Likeness::None,
    }
}

/// Whether a connection that begins with these bytes is Kafka's. Stricter than [`request_likeness`], since whole connections
/// of other protocols hang on it: the header must be right to its last byte, a body whose schema is here must not hold
/// anything that Kafka rejects, and what follows the PDU in the segment must be another one. `length` is what the segment
/// has on the wire, `max_size` the largest plausible size prefix.
pub fn opens_connection(captured: &[u8], length: u32, max_size: u32, tape: &mut Tape) -> bool {
    let mut at = 0u32;
    while at < length {
        let Some(rest) = captured.get(at as usize..).filter(|rest| rest.len() >= 4 || length as usize > captured.len())
        else {
            // Fewer than four bytes of the next PDU say nothing against it.
            return at > 0;
        };
        match opening_request(rest, length - at, max_size, tape) {
            Some(pdu_length) => at = at.saturating_add(pdu_length),
            None => return at > 0 && is_cut(rest, length - at, max_size),
        }
    }
    at > 0
}

/// Whether a PDU of plausible size begins with `rest` and goes on after the segment.
fn is_cut(rest: &[u8], left: u32, max_size: u32) -> bool {
    rest.first_chunk().is_some_and(|size| {
        let size = u32::from_be_bytes(*size);
        size <= max_size.min(MAX_CUT_OPENING) && left < size + 4
    })
}

/// The length of the request that `rest` begins with, if it can be one.
fn opening_request(rest: &[u8], left: u32, max_size: u32, tape: &mut Tape) -> Option<u32> {
    let size = u32::from_be_bytes(*rest.first_chunk()?);
    let length = size.checked_add(4).filter(|_| size <= max_size)?;
    if (rest.len() as u32) < HEADER_TO_CLIENT_ID && left < length {
        return is_short_opening(rest, size).then_some(length);
    }
    let likeness = request_likeness(rest, length);
    if likeness == Likeness::None {
        return None;
    }
    tape.clear();
    let mut reader = Reader::new(rest, length);
    reader.array::<4>().ok()?;
    let [k0, k1, v0, v1] = *rest.get(4..)?.first_chunk()?;
    let (key, version) = (i16::from_be_bytes([k0, k1]), i16::from_be_bytes([v0, v1]));
    // Brokers' own business (Produce, ListGroups) begins with key 0 or 16, which other protocols' bytes resemble too.
    if !names::api_key(key).is_some_and(|api| api.on_controllers) {
        return None;
    }
    let header = decode(&header::REQUEST, header::request_version(key, version), &mut reader, tape);
    let body = api(key).map(|api| &api.request).filter(|request| request.versions.has(version));
    let whole = header.is_ok() && body.is_some_and(|body| decode(body, version, &mut reader, tape).is_ok());
    if tape.events().iter().any(is_fault) {
        return None;
    }
    let cut = left < length && matches!(tape.stop(), Some(stop) if matches!(stop.why, Halt::NotCaptured { .. }));
    let is_request = match body {
        // A body that is read to its end, or to the end of the segment, leaves no doubt.
        Some(_) => (cut && size <= MAX_CUT_OPENING) || (whole && (reader.left() == 0 || likeness == Likeness::Strong)),
        // Of other bodies only the header is known: it must name a client, and the segment must hold the whole request or be
        // as full as those of a longer one are.
        None => header.is_ok() && likeness == Likeness::Strong && (left >= length || left >= FULL_SEGMENT),
    };
    is_request.then_some(length)
}

/// The segment of a longer message holds no less (the MSS that every host must take, RFC 9293).
const FULL_SEGMENT: u32 = 536;

/// Bytes from the size prefix to the text of the client id; fewer do not tell whether a request begins.
pub const HEADER_TO_CLIENT_ID: u32 = 14;
/// Size prefixes up to this are believed when the segment ends before the request does.
const MAX_CUT_OPENING: u32 = 1 << 20;

/// Whether a first segment that ends before the client id begins a request. With so little to go by, only an API and a
/// version that are decoded here will do.
fn is_short_opening(rest: &[u8], size: u32) -> bool {
    let Some(&[k0, k1, v0, v1]) = rest.get(4..).and_then(|rest| rest.first_chunk()) else { return false };
    let version = i16::from_be_bytes([v0, v1]);
    size <= MAX_CUT_OPENING && api(i16::from_be_bytes([k0, k1])).is_some_and(|api| api.request.versions.has(version))
}

fn is_fault(event: &Event) -> bool {
    matches!(event, Event::Note { fault, .. } if fault.rule().severity == Severity::Error)
}

/// Which way a PDU goes.
///
/// `client` is the side known to be the client, `server` the side whose port says that it is the server.
pub fn direction(sender: Side, client: Option<Side>, server: Option<Side>, likeness: Likeness) -> Direction {
    let is_request = match (client, server) {
        (Some(client), _) => sender == client,
        (None, _) if likeness == Likeness::Strong => true,
        (None, Some(server)) => sender != server,
        (None, None) => likeness != Likeness::None,
    };
    if is_request { Direction::Request } else { Direction::Response }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(key: i16, version: i16, client_id: &[u8]) -> Vec<u8> {
        let mut pdu = vec![0, 0, 0, 0];
        pdu.extend(key.to_be_bytes());
        pdu.extend(version.to_be_bytes());
        pdu.extend(7i32.to_be_bytes());
        pdu.extend((client_id.len() as i16).to_be_bytes());
        pdu.extend(client_id);
        pdu.extend([0; 8]);
        pdu
    }

    fn likeness(pdu: &[u8]) -> Likeness {
        request_likeness(pdu, pdu.len() as u32)
    }

    #[test]
    fn a_named_client_is_strong_and_an_unnamed_one_weak() {
        assert_eq!(likeness(&request(62, 4, b"3")), Likeness::Strong);
        assert_eq!(likeness(&request(62, 4, b"")), Likeness::Weak);
        assert_eq!(likeness(&request(7, 0, b"")), Likeness::Weak);
    }

    #[test]
    fn unknown_apis_versions_and_unprintable_clients_are_none() {
        for pdu in [request(95, 0, b"3"), request(-1, 0, b"3"), request(62, 7, b"3"), request(62, -1, b"3")] {
            assert_eq!(likeness(&pdu), Likeness::None);
        }
        assert_eq!(likeness(&request(62, 4, b"\x01\x02")), Likeness::None);
        assert_eq!(likeness(&request(62, 4, b"3")[..14]), Likeness::None);
    }

    #[test]
    fn a_registration_response_is_not_strong() {
        let mut pdu = vec![0, 0, 0, 20, 0, 0, 0, 1, 0];
        pdu.extend([0; 15]);
        assert!(likeness(&pdu) < Likeness::Strong);
    }

    fn opens(segment: &[u8]) -> bool {
        opens_connection(segment, segment.len() as u32, 100 << 20, &mut Tape::new())
    }

    fn sized(mut pdu: Vec<u8>) -> Vec<u8> {
        let size = pdu.len() as u32 - 4;
        pdu[..4].copy_from_slice(&size.to_be_bytes());
        pdu
    }

    #[test]
    fn a_connection_opens_with_a_whole_request_or_the_beginning_of_one() {
        let vote = sized(request(52, 0, b"raft-client-1"));
        assert!(opens(&vote));
        assert!(opens(&[&vote[..], &vote[..]].concat()));
        assert!(opens(&[&vote[..], &vote[..2]].concat()));
        let mut long = vote.clone();
        long[2] = 9;
        assert!(!opens(&long), "a short segment of a longer request of which only the header is known");
        assert!(opens(&[&long[..], &[0; 536]].concat()[..600.min(long.len() + 536)]));
    }

    /// The beginning of a registration with this size prefix.
    fn registration_of(size: u32) -> Vec<u8> {
        [&size.to_be_bytes()[..], &request(62, 4, b"1")[4..]].concat()
    }

    #[test]
    fn near_misses_do_not_open_a_connection() {
        let vote = sized(request(52, 0, b"raft-client-1"));
        let registration = sized(request(62, 4, b"1"));
        let other = b"GET / HTTP/1.1\r\n\r\n".to_vec();
        for bytes in [&[][..], &vote[..3], &registration, &other, &[&vote[..], &[9; 9]].concat()] {
            assert!(!opens(bytes), "{bytes:02x?}");
        }
        assert!(
            opens_connection(&registration_of(300)[..10], 10, 100 << 20, &mut Tape::new()),
            "a short first segment"
        );
        assert!(!opens_connection(&registration_of(300)[..7], 7, 100 << 20, &mut Tape::new()), "too short to tell");
        let unnamed = sized(request(0, 9, b""));
        assert!(!opens(&unnamed), "an unnamed client of an API without schema");
    }

    #[test]
    fn what_is_known_goes_before_content_and_content_before_ports() {
        use Direction::{Request, Response};
        assert_eq!(direction(Side::A, Some(Side::B), Some(Side::B), Likeness::Strong), Response);
        assert_eq!(direction(Side::A, None, Some(Side::A), Likeness::Strong), Request);
        assert_eq!(direction(Side::A, None, Some(Side::A), Likeness::Weak), Response);
        assert_eq!(direction(Side::A, None, Some(Side::B), Likeness::None), Request);
        assert_eq!(direction(Side::A, None, None, Likeness::None), Response);
        assert_eq!(direction(Side::A, None, None, Likeness::Weak), Request);
    }
}
