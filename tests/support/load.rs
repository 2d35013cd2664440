//! The messages that costs are measured with: a registration and its answer, as an independent encoder writes them.

use bytes::BytesMut;
use kafka_protocol::messages::broker_registration_request::{Feature, Listener};
use kafka_protocol::messages::{
    ApiKey, BrokerId, BrokerRegistrationRequest, BrokerRegistrationResponse, RequestHeader, ResponseHeader,
};
use kafka_protocol::protocol::Encodable;
use uuid::Uuid;

/// The version of both messages.
pub const VERSION: i16 = 4;
/// The versions of their headers.
pub const REQUEST_HEADER: i16 = 2;
/// See [`REQUEST_HEADER`].
pub const RESPONSE_HEADER: i16 = 1;

/// Bytes of a request, its size prefix included.
pub const REQUEST_BYTES: usize = 289;
/// Bytes of a response.
pub const RESPONSE_BYTES: usize = 24;

/// A registration, with its size prefix.
pub fn request() -> Vec<u8> {
    let header = RequestHeader::default()
        .with_request_api_key(ApiKey::BrokerRegistration as i16)
        .with_request_api_version(VERSION)
        .with_correlation_id(1)
        .with_client_id(Some("broker-7".into()));
    let body = BrokerRegistrationRequest::default()
        .with_broker_id(BrokerId(7))
        .with_cluster_id("MkU3OEVBNTcwNTJENDM2Qg".into())
        .with_incarnation_id(Uuid::from_u128(0x6b1d_0b6e_4f7c_4d4f_9a51_3f1d_2c8e_7a90))
        .with_listeners((0..2).map(listener).collect())
        .with_features(FEATURES.map(feature).to_vec())
        .with_rack(Some("eu-west-1a".into()))
        .with_log_dirs((1..=2).map(|dir| Uuid::from_u128(dir << 64 | 0x8000_0000_0000_0d1a)).collect())
        .with_previous_broker_epoch(4711);
    framed(REQUEST_BYTES, |out| {
        header.encode(out, REQUEST_HEADER)?;
        body.encode(out, VERSION)
    })
}

/// Its answer: the broker is accepted.
pub fn response() -> Vec<u8> {
    let header = ResponseHeader::default().with_correlation_id(1);
    let body = BrokerRegistrationResponse::default().with_broker_epoch(100_007);
    framed(RESPONSE_BYTES, |out| {
        header.encode(out, RESPONSE_HEADER)?;
        body.encode(out, VERSION)
    })
}

const FEATURES: [(&str, i16, i16); 4] =
    [("metadata.version", 1, 25), ("kraft.version", 0, 1), ("group.version", 0, 1), ("transaction.version", 0, 2)];

fn feature((name, lowest, highest): (&'static str, i16, i16)) -> Feature {
    Feature::default().with_name(name.into()).with_min_supported_version(lowest).with_max_supported_version(highest)
}

fn listener(number: u16) -> Listener {
    Listener::default()
        .with_name(format!("L{number}").into())
        .with_host(format!("broker-{number}.kafka.svc.cluster.local").into())
        .with_port(9092 + number)
        .with_security_protocol(number as i16 % 4)
}

/// A size prefix, and what `encode` writes.
///
/// # Panics
/// If that is not as long as figures are told for.
fn framed<E: std::fmt::Debug>(length: usize, encode: impl Fn(&mut BytesMut) -> Result<(), E>) -> Vec<u8> {
    let mut message = BytesMut::new();
    encode(&mut message).expect("kafka-protocol encodes the messages of its versions");
    let framed = [&(message.len() as u32).to_be_bytes()[..], &message].concat();
    assert_eq!(framed.len(), length, "the load has messages of other lengths than its figures are told for");
    framed
}
