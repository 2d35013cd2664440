//! BrokerHeartbeat, API key 63 (KIP-500): a registered broker keeps its session, asks to be unfenced, or to shut down.
//!
//! Source: Kafka's `BrokerHeartbeatRequest.json` and `BrokerHeartbeatResponse.json`. v1 came with 3.7 (KIP-858), v2 with 4.3
//! (KIP-1066).

use std::fmt::Write;

use super::names::Names;
use super::{Api, Field, Message, Versions, array, boolean, int16, int32, int64, uuid};
use crate::tape::View;

/// The API.
pub static API: Api = Api::new(63, REQUEST, RESPONSE);

/// What the broker sends.
pub const REQUEST: Message =
    Message::new("BrokerHeartbeatRequest", Versions::range(0, 2), Versions::ALL, REQUEST_FIELDS).info(request_info);

const REQUEST_FIELDS: &[Field] = &[
    int32("BrokerId").about("Node id of the broker."),
    int64("BrokerEpoch").about("Epoch that the controller gave to this registration; -1 if none."),
    int64("CurrentMetadataOffset").about("Highest metadata offset that the broker has reached."),
    boolean("WantFence").about("Whether the broker wants to be (or stay) fenced."),
    boolean("WantShutDown").about("Whether the broker wants to shut down."),
    array("OfflineLogDirs", &OFFLINE_LOG_DIR).since(1).tag(0).about("Log directories that have failed."),
    array("CordonedLogDirs", &CORDONED_LOG_DIR)
        .since(2)
        .tag(1)
        .nullable()
        .about("Log directories that take no new partitions; null until the broker has recovered."),
];

const OFFLINE_LOG_DIR: Field = uuid("OfflineLogDir").names(Names::DirectoryIds);
const CORDONED_LOG_DIR: Field = uuid("CordonedLogDir").names(Names::DirectoryIds);

/// `, broker 3, epoch 6001, wants to shut down`.
fn request_info(request: &View, out: &mut String) {
    const BROKER_ID: u16 = REQUEST.ord("BrokerId");
    const BROKER_EPOCH: u16 = REQUEST.ord("BrokerEpoch");
    const WANT_FENCE: u16 = REQUEST.ord("WantFence");
    const WANT_SHUT_DOWN: u16 = REQUEST.ord("WantShutDown");
    if let (Some(broker), Some(epoch)) = (request.int(BROKER_ID), request.int(BROKER_EPOCH)) {
        let _ = write!(out, ", broker {broker}, epoch {epoch}");
    }
    if request.boolean(WANT_SHUT_DOWN) == Some(true) {
        out.push_str(", wants to shut down");
    } else if request.boolean(WANT_FENCE) == Some(true) {
        out.push_str(", wants to be fenced");
    }
}

/// What the controller answers.
pub const RESPONSE: Message =
    Message::new("BrokerHeartbeatResponse", Versions::range(0, 2), Versions::ALL, RESPONSE_FIELDS).info(response_info);

const RESPONSE_FIELDS: &[Field] = &[
    int32("ThrottleTimeMs").about("Milliseconds for which a quota held the request back; 0 if none did."),
    int16("ErrorCode").names(Names::ErrorCodes).about("Error code; 0 if there was no error."),
    boolean("IsCaughtUp").about("Whether the broker has caught up with the metadata."),
    boolean("IsFenced").about("Whether the broker is fenced: no client is sent to it."),
    boolean("ShouldShutDown").about("Whether the broker should go on with its shutdown."),
];

fn response_info(response: &View, out: &mut String) {
    const ERROR_CODE: u16 = RESPONSE.ord("ErrorCode");
    const IS_FENCED: u16 = RESPONSE.ord("IsFenced");
    const SHOULD_SHUT_DOWN: u16 = RESPONSE.ord("ShouldShutDown");
    if super::write_error(response.int(ERROR_CODE), out) {
        return;
    }
    if response.boolean(IS_FENCED) == Some(true) {
        out.push_str(", fenced");
    }
    if response.boolean(SHOULD_SHUT_DOWN) == Some(true) {
        out.push_str(", should shut down");
    }
}
