//! How conversations begin.

use kafka_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, BrokerHeartbeatRequest, BrokerHeartbeatResponse,
    BrokerRegistrationRequest, BrokerRegistrationResponse,
};

use super::messages::accepted;
use crate::support::talk::{HOST_1, Line, Talk};

/// The version of registrations where nothing depends on it.
pub const NEWEST: i16 = 4;

/// A broker asks to be registered, on a connection of its own.
pub fn asks(talk: &mut Talk, request: &BrokerRegistrationRequest) {
    asking(talk, request);
}

/// The same, with the connection.
pub fn asking(talk: &mut Talk, request: &BrokerRegistrationRequest) -> Line {
    let line = talk.connect(HOST_1);
    talk.ask(line, NEWEST, request);
    line
}

/// A broker asks to be registered, and gets this answer.
pub fn gets(talk: &mut Talk, request: &BrokerRegistrationRequest, answer: &BrokerRegistrationResponse) {
    let line = asking(talk, request);
    talk.answer(line, answer);
}

/// A broker is registered with this epoch.
pub fn joins(talk: &mut Talk, request: &BrokerRegistrationRequest, epoch: i64) -> Line {
    let line = asking(talk, request);
    talk.answer(line, &accepted(epoch));
    line
}

/// A broker learns first what the controller offers: two frames.
pub fn learns(talk: &mut Talk, offered: &ApiVersionsResponse) -> Line {
    let line = talk.connect(HOST_1);
    talk.ask(line, 3, &ApiVersionsRequest::default());
    talk.answer(line, offered);
    line
}

/// A broker that has learned what is finalized asks to be registered in some version.
pub fn asks_knowing(talk: &mut Talk, offered: &ApiVersionsResponse, version: i16, request: &BrokerRegistrationRequest) {
    let line = learns(talk, offered);
    talk.ask(line, version, request);
}

/// A heartbeat on a line, and its answer.
pub fn beats(talk: &mut Talk, line: Line, heartbeat: &BrokerHeartbeatRequest, answer: &BrokerHeartbeatResponse) {
    talk.ask(line, 1, heartbeat);
    talk.answer(line, answer);
}
