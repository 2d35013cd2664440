//! Whether bytes look like a Kafka request, and which way a PDU goes.
//!
//! Nothing in Kafka's framing says whether a PDU is a request or a response. Content tells nearly always, because a request
//! names its API, its version and its client; ports are the last resort, since they mislead after Decode As, with port
//! lists that hold both ends, and inside TLS.

use crate::schema::{Direction, header, names};

/// One of the two ends of a connection. Which end is `A` does not matter, as long as it stays so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one end.
    A,
    /// The other end.
    B,
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
