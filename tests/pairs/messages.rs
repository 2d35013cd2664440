//! The messages of healthy brokers and of controllers, to be changed where a rule looks.

use kafka_protocol::messages::api_versions_response::FinalizedFeatureKey;
use kafka_protocol::messages::broker_registration_request::{Feature, Listener};
use kafka_protocol::messages::{
    ApiVersionsResponse, BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerId, BrokerRegistrationRequest,
    BrokerRegistrationResponse,
};
use uuid::Uuid;

/// The cluster of all brokers that name no other one.
pub const CLUSTER: &str = "3iGUV1m1HTdSD1vw6s_3qA";

/// Another cluster.
pub const OTHER_CLUSTER: &str = "AAAAAAAAQACAAAAAAAAAAQ";

/// What a healthy broker of Kafka 4.0 sends, with a log directory of its own.
pub fn registration(broker: i32) -> BrokerRegistrationRequest {
    BrokerRegistrationRequest::default()
        .with_broker_id(BrokerId(broker))
        .with_cluster_id(CLUSTER.into())
        .with_incarnation_id(incarnation(1))
        .with_listeners(vec![listener("PLAINTEXT", "broker-1")])
        .with_features(vec![feature("metadata.version", 1, 25), feature("kraft.version", 0, 1)])
        .with_log_dirs(vec![directory(broker)])
        .with_previous_broker_epoch(-1)
}

/// The id of a broker process.
pub fn incarnation(number: u8) -> Uuid {
    Uuid::from_bytes([number; 16])
}

/// The id of a log directory.
pub fn directory(number: i32) -> Uuid {
    Uuid::from_u128(0xd1e_0000 << 64 | number as u128)
}

/// An endpoint.
pub fn listener(name: &'static str, host: &'static str) -> Listener {
    Listener::default().with_name(name.into()).with_host(host.into()).with_port(9092)
}

/// A range of levels.
pub fn feature(name: &'static str, min: i16, max: i16) -> Feature {
    Feature::default().with_name(name.into()).with_min_supported_version(min).with_max_supported_version(max)
}

/// A registration is accepted with this epoch.
pub fn accepted(epoch: i64) -> BrokerRegistrationResponse {
    BrokerRegistrationResponse::default().with_broker_epoch(epoch)
}

/// A registration is refused.
pub fn refused(code: i16) -> BrokerRegistrationResponse {
    BrokerRegistrationResponse::default().with_error_code(code).with_broker_epoch(-1)
}

/// What a broker sends that wants to be unfenced.
pub fn heartbeat(broker: i32, epoch: i64) -> BrokerHeartbeatRequest {
    BrokerHeartbeatRequest::default().with_broker_id(BrokerId(broker)).with_broker_epoch(epoch)
}

/// What a broker gets that is unfenced.
pub fn alive() -> BrokerHeartbeatResponse {
    BrokerHeartbeatResponse::default().with_is_caught_up(true).with_is_fenced(false)
}

/// What a controller offers whose cluster has these levels finalized.
pub fn finalized(levels: &[(&'static str, i16)]) -> ApiVersionsResponse {
    let level = |&(name, level): &(&'static str, i16)| {
        FinalizedFeatureKey::default()
            .with_name(name.into())
            .with_max_version_level(level)
            .with_min_version_level(level)
    };
    ApiVersionsResponse::default()
        .with_finalized_features_epoch(100)
        .with_finalized_features(levels.iter().map(level).collect())
}
