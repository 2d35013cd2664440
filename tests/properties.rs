//! What an independent encoder (kafka-protocol, generated from Kafka's message definitions) writes is what is decoded: random
//! messages in every version, every table of the schema, every header version.

mod support {
    pub mod rows;
    pub mod tiling;
}

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
use kafka_protocol::messages::broker_registration_request::{BrokerRegistrationRequest, Feature, Listener};
use kafka_protocol::messages::broker_registration_response::BrokerRegistrationResponse;
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerId,
    RequestHeader, ResponseHeader,
};
use kafka_protocol::protocol::{Encodable, StrBytes};
use kraft::decode::{Stopped, decode};
use kraft::dissect::{Look, Pdu, dissect};
use kraft::pairing::{ConnectionId, History, Sighting};
use kraft::recognize::Side;
use kraft::schema::{APIS, Api, Direction, Message, header, names};
use kraft::tape::{Event, FieldId, Tape};
use kraft::wire::Reader;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use support::rows::{Is, Row, rows};
use support::tiling::tiled;

/// The API of the random messages.
const KEY: i16 = 62;
/// Header versions of all versions of that API.
const REQUEST_HEADER: i16 = 2;
const RESPONSE_HEADER: i16 = 1;

/// Unknown tagged fields by their tags.
type Tags = BTreeMap<i32, Bytes>;
/// Path and value of a field.
type Expected = Vec<(String, Is)>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_registration_is_decoded_as_it_was_encoded(
        version in 0..=4i16, header in request_header(), request in request(),
        answer_tags in tags(), response in response(),
    ) {
        let header = header.with_request_api_key(KEY).with_request_api_version(version);
        let request = in_version(request, version);
        let answer = ResponseHeader::default()
            .with_correlation_id(header.correlation_id)
            .with_unknown_tagged_fields(answer_tags);
        let mut talk = Talk::new();
        let asked = frame(&header, REQUEST_HEADER, &request, version);
        let expected = [request_header_rows(&header), request_rows(&request, version)].concat();
        prop_assert_eq!(talk.said(Side::A, &asked), with_size(&asked, expected));
        let answered = frame(&answer, RESPONSE_HEADER, &response, version);
        let expected = [response_header_rows(&answer), response_rows(&response)].concat();
        prop_assert_eq!(talk.said(Side::B, &answered), with_size(&answered, expected));
    }
}

#[test]
fn every_table_of_the_schema_reads_a_filled_message_to_its_last_byte() {
    for api in APIS {
        for direction in [Direction::Request, Direction::Response] {
            let message = api.message(direction);
            for version in message.versions.first..=known_to_the_encoder(api, message) {
                reads_to_the_last_byte(message, version, &filled(api, direction, version));
            }
        }
    }
}

#[test]
fn every_api_has_the_header_versions_that_kafka_gives_it() {
    for api in ApiKey::iter() {
        let known = api.valid_versions();
        for version in known.min..=known.max {
            let key = api as i16;
            assert_eq!(
                header::request_version(key, version),
                api.request_header_version(version),
                "{api:?} v{version}"
            );
            assert_eq!(
                header::response_version(key, version),
                api.response_header_version(version),
                "{api:?} v{version}"
            );
        }
    }
}

#[test]
fn every_api_has_its_name_and_the_versions_that_kafka_gives_it() {
    for api in ApiKey::iter() {
        let (known, kafka) = (names::api_key(api as i16).expect("a known key"), api.valid_versions());
        assert_eq!(known.name, format!("{api:?}"));
        assert!(known.versions.has(kafka.min) && known.versions.has(kafka.max), "{api:?}: {:?}", known.versions);
    }
}

/// The newest version that kafka-protocol encodes. What is newer is held against real brokers (`captures.rs`).
fn known_to_the_encoder(api: &Api, message: &Message) -> i16 {
    let encoder = ApiKey::try_from(api.key).expect("a key that kafka-protocol knows").valid_versions();
    message.versions.last.min(encoder.max)
}

/// Decoding takes a message as a whole, meets every field of its version, and stops in every shorter one.
fn reads_to_the_last_byte(message: &'static Message, version: i16, bytes: &[u8]) {
    let mut tape = Tape::new();
    let mut reader = Reader::new(bytes, bytes.len() as u32);
    assert_eq!(decode(message, version, &mut reader, &mut tape), Ok(()), "{} v{version}", message.root.name);
    assert_eq!(reader.left(), 0, "{} v{version}", message.root.name);
    message.walk(&mut |ord, above, field| {
        let is_there = above.iter().chain([&field]).all(|field| field.versions.has(version));
        let is_met = tape.events().iter().any(|event| is_about(event, message.field_id(ord)));
        assert_eq!(is_met, is_there, "{} v{version}: {}", message.root.name, field.name);
    });
    for len in 0..bytes.len() {
        let mut reader = Reader::new(&bytes[..len], len as u32);
        tape.clear();
        assert_eq!(decode(message, version, &mut reader, &mut tape), Err(Stopped), "{} v{version}", message.root.name);
    }
}

fn is_about(event: &Event, id: FieldId) -> bool {
    matches!(*event, Event::Open { field, .. } | Event::Leaf { field, .. } if field == id)
}

/// A message without anything empty or null. Each API has one; an API that has none here fails its test.
fn filled(api: &Api, direction: Direction, version: i16) -> Bytes {
    let mut out = BytesMut::new();
    match (api.key, direction) {
        (KEY, Direction::Request) => in_version(filled_registration(), version).encode(&mut out, version),
        (KEY, Direction::Response) => {
            let response = BrokerRegistrationResponse::default().with_error_code(101).with_broker_epoch(7);
            response.encode(&mut out, version)
        }
        (63, Direction::Request) => filled_heartbeat(version).encode(&mut out, version),
        (63, Direction::Response) => BrokerHeartbeatResponse::default().with_error_code(77).encode(&mut out, version),
        (18, Direction::Request) => {
            let request = ApiVersionsRequest::default();
            if version < 3 {
                request
            } else {
                request.with_client_software_name("kafka".into()).with_client_software_version("4".into())
            }
            .encode(&mut out, version)
        }
        (18, Direction::Response) => filled_api_versions(version).encode(&mut out, version),
        (key, direction) => panic!("no filled {direction:?} of API key {key}"),
    }
    .expect("kafka-protocol encodes what it knows");
    out.freeze()
}

fn filled_heartbeat(version: i16) -> BrokerHeartbeatRequest {
    let heartbeat =
        BrokerHeartbeatRequest::default().with_broker_id(BrokerId(1)).with_broker_epoch(7).with_want_fence(true);
    if version < 1 { heartbeat } else { heartbeat.with_offline_log_dirs(vec![uuid::Uuid::from_u128(3)]) }
}

fn filled_api_versions(version: i16) -> ApiVersionsResponse {
    let offered = ApiVersion::default().with_api_key(62).with_max_version(4);
    let response = ApiVersionsResponse::default().with_error_code(0).with_api_keys(vec![offered]);
    if version < 3 {
        return response;
    }
    let (supported, finalized) = (SupportedFeatureKey::default(), FinalizedFeatureKey::default());
    response
        .with_supported_features(vec![
            supported.with_name("metadata.version".into()).with_min_version(1).with_max_version(25),
        ])
        .with_finalized_features_epoch(7)
        .with_finalized_features(vec![finalized.with_name("metadata.version".into()).with_max_version_level(21)])
        .with_zk_migration_ready(true)
}

fn filled_registration() -> BrokerRegistrationRequest {
    let listener = Listener::default()
        .with_name(StrBytes::from_static_str("INTERNAL"))
        .with_host(StrBytes::from_static_str("broker-1"))
        .with_port(9092)
        .with_security_protocol(2);
    let feature = Feature::default()
        .with_name(StrBytes::from_static_str("metadata.version"))
        .with_min_supported_version(1)
        .with_max_supported_version(25);
    BrokerRegistrationRequest::default()
        .with_broker_id(BrokerId(1))
        .with_cluster_id(StrBytes::from_static_str("3iGUV1m1HTdSD1vw6s_3qA"))
        .with_incarnation_id(uuid::Uuid::from_u128(1))
        .with_listeners(vec![listener.clone(), listener])
        .with_features(vec![feature.clone(), feature])
        .with_rack(Some(StrBytes::from_static_str("rack-a")))
        .with_is_migrating_zk_broker(true)
        .with_log_dirs(vec![uuid::Uuid::from_u128(2), uuid::Uuid::from_u128(3)])
        .with_previous_broker_epoch(7)
}

/// One connection, on which the client has made itself known.
struct Talk {
    history: History,
    connection: ConnectionId,
    frame: u32,
}

impl Talk {
    fn new() -> Talk {
        let mut history = History::new();
        let mut talk = Talk { connection: history.connect(), history, frame: 0 };
        let hello = RequestHeader::default().with_request_api_key(KEY).with_client_id(Some("client".into()));
        talk.said(Side::A, &frame(&hello, REQUEST_HEADER, &BrokerRegistrationRequest::default(), 0));
        talk
    }

    /// The rows of a PDU; all of it is decoded, end to end, and nothing is wrong or odd.
    fn said(&mut self, sender: Side, captured: &[u8]) -> Expected {
        self.frame += 1;
        let pdu = Pdu {
            captured,
            length: captured.len() as u32,
            sighting: Sighting { frame: self.frame, time_ns: 0 },
            connection: self.connection,
            sender,
            server: None,
            source: 0,
            destination: 0,
            is_local: false,
            stray: false,
        };
        let mut tape = Tape::new();
        dissect(&pdu, Look::First, &mut self.history, &mut tape);
        assert_eq!(tiled(tape.events()), pdu.length);
        assert_eq!(tape.stop(), None);
        assert!(!tape.events().iter().any(|event| matches!(event, Event::Note { .. })), "{:?}", tape.events());
        rows(&tape, captured).into_iter().map(|Row { path, is, .. }| (path, is)).collect()
    }
}

/// A header and a body as one PDU.
fn frame(header: &impl Encodable, header_version: i16, body: &impl Encodable, version: i16) -> Bytes {
    let mut message = BytesMut::new();
    header.encode(&mut message, header_version).expect("kafka-protocol encodes every header");
    body.encode(&mut message, version).expect("kafka-protocol encodes every message of its version");
    let size = message.len() as u32;
    [&size.to_be_bytes()[..], &message].concat().into()
}

/// Without what the version does not have; kafka-protocol refuses some of it.
fn in_version(mut request: BrokerRegistrationRequest, version: i16) -> BrokerRegistrationRequest {
    request.is_migrating_zk_broker &= version >= 1;
    request
}

fn with_size(pdu: &[u8], expected: Expected) -> Expected {
    let size = int("Size", pdu.len() as i64 - 4);
    [vec![size], expected].concat()
}

fn request_header_rows(header: &RequestHeader) -> Expected {
    let fields = vec![
        int("RequestHeader.RequestApiKey", header.request_api_key),
        int("RequestHeader.RequestApiVersion", header.request_api_version),
        int("RequestHeader.CorrelationId", header.correlation_id),
        text("RequestHeader.ClientId", header.client_id.as_ref()),
    ];
    [fields, tag_rows("RequestHeader.", &header.unknown_tagged_fields)].concat()
}

fn response_header_rows(header: &ResponseHeader) -> Expected {
    let fields = vec![int("ResponseHeader.CorrelationId", header.correlation_id)];
    [fields, tag_rows("ResponseHeader.", &header.unknown_tagged_fields)].concat()
}

fn request_rows(request: &BrokerRegistrationRequest, version: i16) -> Expected {
    let mut rows = vec![
        int("BrokerId", request.broker_id.0),
        text("ClusterId", Some(&request.cluster_id)),
        ("IncarnationId".to_owned(), Is::Uuid(request.incarnation_id.into_bytes())),
    ];
    rows.extend(array_rows("Listeners", &request.listeners, listener_rows));
    rows.extend(array_rows("Features", &request.features, feature_rows));
    rows.push(text("Rack", request.rack.as_ref()));
    if version >= 1 {
        rows.push(("IsMigratingZkBroker".to_owned(), Is::Bool(request.is_migrating_zk_broker.into())));
    }
    if version >= 2 {
        rows.extend(array_rows("LogDirs", &request.log_dirs, |path, id| vec![(path, Is::Uuid(id.into_bytes()))]));
    }
    if version >= 3 {
        rows.push(int("PreviousBrokerEpoch", request.previous_broker_epoch));
    }
    rows.extend(tag_rows("", &request.unknown_tagged_fields));
    rows
}

fn listener_rows(path: String, listener: &Listener) -> Expected {
    let fields = vec![
        (path.clone(), Is::Struct),
        text(&format!("{path}.Name"), Some(&listener.name)),
        text(&format!("{path}.Host"), Some(&listener.host)),
        int(&format!("{path}.Port"), listener.port),
        int(&format!("{path}.SecurityProtocol"), listener.security_protocol),
    ];
    [fields, tag_rows(&format!("{path}."), &listener.unknown_tagged_fields)].concat()
}

fn feature_rows(path: String, feature: &Feature) -> Expected {
    let fields = vec![
        (path.clone(), Is::Struct),
        text(&format!("{path}.Name"), Some(&feature.name)),
        int(&format!("{path}.MinSupportedVersion"), feature.min_supported_version),
        int(&format!("{path}.MaxSupportedVersion"), feature.max_supported_version),
    ];
    [fields, tag_rows(&format!("{path}."), &feature.unknown_tagged_fields)].concat()
}

fn response_rows(response: &BrokerRegistrationResponse) -> Expected {
    let fields = vec![
        int("ThrottleTimeMs", response.throttle_time_ms),
        int("ErrorCode", response.error_code),
        int("BrokerEpoch", response.broker_epoch),
    ];
    [fields, tag_rows("", &response.unknown_tagged_fields)].concat()
}

fn array_rows<T>(name: &str, elements: &[T], rows: impl Fn(String, &T) -> Expected) -> Expected {
    let array = vec![(name.to_owned(), Is::Array(elements.len() as u32))];
    let elements = elements.iter().enumerate().flat_map(|(i, element)| rows(format!("{name}[{i}]"), element));
    array.into_iter().chain(elements).collect()
}

fn tag_rows(above: &str, tags: &Tags) -> Expected {
    let section = vec![(format!("{above}TaggedFields"), Is::Tags(tags.len() as u32))];
    let field = |(i, (tag, data)): (usize, (&i32, &Bytes))| {
        let path = format!("{above}TaggedFields[{i}]");
        let value = (format!("{path}.Data"), Is::Bytes(data.to_vec()));
        let (tag, size) = (int(&format!("{path}.Tag"), *tag), int(&format!("{path}.Size"), data.len() as i64));
        [(path, Is::Struct), tag, size, value]
    };
    section.into_iter().chain(tags.iter().enumerate().flat_map(field)).collect()
}

fn int(path: &str, value: impl Into<i64>) -> (String, Is) {
    (path.to_owned(), Is::Int(value.into()))
}

fn text(path: &str, value: Option<&StrBytes>) -> (String, Is) {
    (path.to_owned(), value.map_or(Is::Null, |text| Is::Text(text.as_bytes().to_vec())))
}

fn request_header() -> impl Strategy<Value = RequestHeader> {
    (any::<i32>(), nullable(string()), tags()).prop_map(|(correlation_id, client_id, tags)| {
        RequestHeader::default()
            .with_correlation_id(correlation_id)
            .with_client_id(client_id)
            .with_unknown_tagged_fields(tags)
    })
}

fn request() -> impl Strategy<Value = BrokerRegistrationRequest> {
    let ids = (any::<i32>(), string(), uuid(), any::<i64>());
    let lists = (vec(listener(), 0..4), vec(feature(), 0..4), vec(uuid(), 0..4));
    (ids, lists, nullable(string()), any::<bool>(), tags()).prop_map(|(ids, lists, rack, migrating, tags)| {
        BrokerRegistrationRequest::default()
            .with_broker_id(BrokerId(ids.0))
            .with_cluster_id(ids.1)
            .with_incarnation_id(ids.2)
            .with_previous_broker_epoch(ids.3)
            .with_listeners(lists.0)
            .with_features(lists.1)
            .with_log_dirs(lists.2)
            .with_rack(rack)
            .with_is_migrating_zk_broker(migrating)
            .with_unknown_tagged_fields(tags)
    })
}

fn response() -> impl Strategy<Value = BrokerRegistrationResponse> {
    (any::<i32>(), any::<i16>(), any::<i64>(), tags()).prop_map(|(throttle, error, epoch, tags)| {
        BrokerRegistrationResponse::default()
            .with_throttle_time_ms(throttle)
            .with_error_code(error)
            .with_broker_epoch(epoch)
            .with_unknown_tagged_fields(tags)
    })
}

fn listener() -> impl Strategy<Value = Listener> {
    (string(), string(), any::<u16>(), any::<i16>(), tags()).prop_map(|(name, host, port, protocol, tags)| {
        Listener::default()
            .with_name(name)
            .with_host(host)
            .with_port(port)
            .with_security_protocol(protocol)
            .with_unknown_tagged_fields(tags)
    })
}

fn feature() -> impl Strategy<Value = Feature> {
    (string(), any::<i16>(), any::<i16>(), tags()).prop_map(|(name, min, max, tags)| {
        Feature::default()
            .with_name(name)
            .with_min_supported_version(min)
            .with_max_supported_version(max)
            .with_unknown_tagged_fields(tags)
    })
}

/// Text: none, such as Kafka's, any, and as long as the lengths that need another byte.
fn string() -> impl Strategy<Value = StrBytes> {
    prop_oneof!["", "[a-zA-Z0-9._-]{1,20}", ".{0,20}", "[a-z]{125,130}"].prop_map(StrBytes::from_string)
}

fn nullable<T: Clone + std::fmt::Debug>(some: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop_oneof![some.prop_map(Some), Just(None)]
}

fn uuid() -> impl Strategy<Value = uuid::Uuid> {
    any::<[u8; 16]>().prop_map(uuid::Uuid::from_bytes)
}

/// Mostly no unknown tagged field, otherwise some, whose tags and sizes take one byte or more.
fn tags() -> impl Strategy<Value = Tags> {
    let tag = prop_oneof![0..4i32, 126..130i32, any::<u32>().prop_map(|tag| (tag >> 1) as i32)];
    let data = prop_oneof![vec(any::<u8>(), 0..4), vec(any::<u8>(), 126..130)].prop_map(Bytes::from);
    prop_oneof![3 => Just(Tags::new()), 1 => btree_map(tag, data, 0..3)]
}
