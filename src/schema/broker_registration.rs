//! BrokerRegistration, API key 62 (KIP-500): a broker announces itself to the active controller.
//!
//! Source: Kafka's `BrokerRegistrationRequest.json` and `BrokerRegistrationResponse.json`. v0 came with 3.0, v1 with 3.4, v2
//! and v3 with 3.7 (KIP-858, KIP-966), v4 with 3.9; v4 has the layout of v3. The descriptions are Kafka's own, since the
//! object tree of the specification page shows them.

mod request_rules;
mod response_rules;

use std::fmt::Write;

use super::names::Names;
use super::{
    Api, Field, Message, Versions, array, boolean, feature, int16, int32, int64, string, structure, uint16, uuid,
};
use crate::tape::View;
use crate::wire::{write_number, write_text};

/// The API.
pub static API: Api = Api::new(62, REQUEST, RESPONSE);

/// What the broker sends.
pub const REQUEST: Message =
    Message::new("BrokerRegistrationRequest", Versions::range(0, 4), Versions::ALL, REQUEST_FIELDS)
        .info(request_info)
        .subject(request_rules::subject)
        .checks(request_rules::CHECKS)
        .learn(request_rules::learn);

const BROKER_ID: u16 = REQUEST.ord("BrokerId");
const CLUSTER_ID: u16 = REQUEST.ord("ClusterId");

fn request_info(request: &View, out: &mut String) {
    if let Some(broker) = request.int(BROKER_ID) {
        out.push_str(", broker ");
        write_number(broker, out);
    }
    if let Some(cluster) = request.text(CLUSTER_ID) {
        out.push_str(", cluster ");
        write_text(cluster, out);
    }
}

const REQUEST_FIELDS: &[Field] = &[
    int32("BrokerId").about("The broker ID."),
    string("ClusterId").about("The cluster id of the broker process."),
    uuid("IncarnationId").about("The incarnation id of the broker process."),
    array("Listeners", &LISTENER).about("The listeners of this broker."),
    array("Features", &FEATURE)
        .about("The features on this broker. Note: in v0-v3, features with MinSupportedVersion = 0 are omitted."),
    string("Rack").nullable().about("The rack which this broker is in."),
    boolean("IsMigratingZkBroker")
        .since(1)
        .about("If the required configurations for ZK migration are present, this value is set to true."),
    array("LogDirs", &LOG_DIR)
        .unit("directory", "directories")
        .since(2)
        .about("Log directories configured in this broker which are available."),
    int64("PreviousBrokerEpoch").since(3).about("The epoch before a clean shutdown."),
];

const LISTENER: Field = structure(
    "Listener",
    &[
        string("Name").about("The name of the endpoint."),
        string("Host").about("The hostname."),
        uint16("Port").about("The port."),
        int16("SecurityProtocol").names(Names::SecurityProtocols).about("The security protocol."),
    ],
)
.label(listener_label);

/// `EXTERNAL://host:9092 (SASL_SSL)`, as in Kafka's `advertised.listeners`.
fn listener_label(listener: &View, out: &mut String) {
    const NAME: u16 = REQUEST.ord("Listeners.Listener.Name");
    const HOST: u16 = REQUEST.ord("Listeners.Listener.Host");
    const PORT: u16 = REQUEST.ord("Listeners.Listener.Port");
    const SECURITY_PROTOCOL: u16 = REQUEST.ord("Listeners.Listener.SecurityProtocol");
    if let (Some(name), Some(host), Some(port)) = (listener.text(NAME), listener.text(HOST), listener.int(PORT)) {
        write_text(name, out);
        out.push_str("://");
        write_text(host, out);
        out.push(':');
        write_number(port, out);
    }
    if let Some(protocol) = listener.int(SECURITY_PROTOCOL) {
        let _ = match Names::SecurityProtocols.of(protocol) {
            Some(name) => write!(out, " ({name})"),
            None => write!(out, " (security protocol {protocol})"),
        };
    }
}

const FEATURE: Field = structure(
    "Feature",
    &[
        string("Name").about("The feature name."),
        int16("MinSupportedVersion").about("The minimum supported feature level."),
        int16("MaxSupportedVersion").about("The maximum supported feature level."),
    ],
)
.label(feature_label);

fn feature_label(offered: &View, out: &mut String) {
    const NAME: u16 = REQUEST.ord("Features.Feature.Name");
    const MIN: u16 = REQUEST.ord("Features.Feature.MinSupportedVersion");
    const MAX: u16 = REQUEST.ord("Features.Feature.MaxSupportedVersion");
    feature::write_range(offered.text(NAME), offered.int(MIN), offered.int(MAX), out);
}

const LOG_DIR: Field = uuid("LogDir").names(Names::DirectoryIds);

/// What the controller answers.
pub const RESPONSE: Message =
    Message::new("BrokerRegistrationResponse", Versions::range(0, 4), Versions::ALL, RESPONSE_FIELDS)
        .info(response_info)
        .subject(response_rules::subject)
        .checks(response_rules::CHECKS)
        .learn(response_rules::learn);

/// The epoch of an accepted registration, the name of the error of a refused one.
fn response_info(response: &View, out: &mut String) {
    const ERROR_CODE: u16 = RESPONSE.ord("ErrorCode");
    const BROKER_EPOCH: u16 = RESPONSE.ord("BrokerEpoch");
    if super::write_error(response.int(ERROR_CODE), out) {
        return;
    }
    if let Some(epoch) = response.int(BROKER_EPOCH) {
        out.push_str(", epoch ");
        write_number(epoch, out);
    }
}

const RESPONSE_FIELDS: &[Field] = &[
    int32("ThrottleTimeMs").about(
        "Duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request \
         did not violate any quota.",
    ),
    int16("ErrorCode").names(Names::ErrorCodes).about("The error code, or 0 if there was no error."),
    int64("BrokerEpoch").about("The broker's assigned epoch, or -1 if none was assigned."),
];
