//! What real brokers said is what Kafka's own logs say they said. NAME.log.json holds every registration of the run that
//! NAME.pcap was captured in, as the controller's request log shows it.

mod support {
    pub mod conversation;
    pub mod corpus;
    pub mod reader;
    pub mod rows;
}

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use kraft::schema::Direction;
use kraft::schema::broker_registration::API;
use kraft::wire::kafka_uuid;
use serde_json::{Map, Value, json};
use support::conversation::{Said, conversation};
use support::corpus::{captures, name};
use support::rows::{Is, Row, rows};

/// A registration: the port of its broker and its correlation id.
type Call = (u64, i64);

#[test]
fn every_registration_is_decoded_as_kafka_logged_it() {
    let mut runs = 0;
    for capture in captures() {
        let Ok(log) = fs::read(capture.with_extension("log.json")) else { continue };
        let (logged, decoded) = (logged(&log), decoded(&capture));
        assert!(!logged.is_empty(), "{}: the log has no registration", name(&capture));
        for (call, registration) in &logged {
            assert_eq!(decoded.get(call), Some(registration), "{}: {call:?}", name(&capture));
        }
        let unlogged: Vec<_> = decoded.iter().filter(|(call, _)| !logged.contains_key(call)).collect();
        assert!(unlogged.is_empty(), "{}: not in the log: {unlogged:?}", name(&capture));
        runs += 1;
    }
    assert!(runs > 0, "no capture has a log");
}

fn logged(log: &[u8]) -> BTreeMap<Call, Value> {
    let log: Value = serde_json::from_slice(log).expect("a log is JSON");
    let registrations = log["registrations"].as_array().expect("a log has registrations");
    registrations.iter().map(|registration| (call(registration), facts(registration))).collect()
}

fn call(registration: &Value) -> Call {
    let number = |key: &str| registration[key].as_i64().unwrap_or_else(|| panic!("{key} of {registration}"));
    (number("client_port") as u64, number("correlation_id"))
}

/// A registration without the quotations from the logs.
fn facts(registration: &Value) -> Value {
    let keys = ["client_id", "api_version", "request", "response"];
    keys.iter().map(|key| (key.to_string(), registration[key].clone())).collect::<Map<_, _>>().into()
}

fn decoded(capture: &Path) -> BTreeMap<Call, Value> {
    let talk = conversation(capture).talk;
    let requests = talk.iter().filter(|said| is_registration(said, Direction::Request));
    requests.map(|request| (place(request), registration(request, answer(request, &talk)))).collect()
}

fn is_registration(said: &Said, direction: Direction) -> bool {
    said.summary.direction == direction && said.summary.body.is_some_and(|body| body.id == API.message(direction).id)
}

fn place(request: &Said) -> Call {
    match header(request, "RequestHeader.CorrelationId") {
        Value::Number(id) => (request.read.source.port().into(), id.as_i64().unwrap_or(-1)),
        other => panic!("a correlation id of {other}"),
    }
}

fn answer<'a>(request: &Said, talk: &'a [Said]) -> Option<&'a Said> {
    let partner = request.summary.partner?;
    let is_answer = |said: &&Said| {
        said.read.frame == partner.frame
            && said.read.destination == request.read.source
            && is_registration(said, Direction::Response)
    };
    talk.iter().find(is_answer)
}

fn registration(request: &Said, response: Option<&Said>) -> Value {
    json!({
        "client_id": header(request, "RequestHeader.ClientId"),
        "api_version": request.summary.body_version,
        "request": body(request),
        "response": response.map(body),
    })
}

fn header(said: &Said, path: &str) -> Value {
    let rows = rows(&said.tape, &said.read.bytes);
    let row = rows.into_iter().find(|row| row.path == path).unwrap_or_else(|| panic!("no {path}"));
    value(row.is)
}

/// The body of a message as Kafka's request log shows it.
fn body(said: &Said) -> Value {
    let mut body = Value::Null;
    for row in rows(&said.tape, &said.read.bytes) {
        if is_logged(&row.path) {
            let Row { path, is, .. } = row;
            *at_path(&mut body, &path) = value(is);
        }
    }
    body
}

/// The log shows neither framing nor header, nor tagged fields that Kafka does not know.
fn is_logged(path: &str) -> bool {
    let unlogged = ["Size", "RequestHeader", "ResponseHeader"];
    !unlogged.iter().any(|first| path.starts_with(first)) && !path.contains("TaggedFields")
}

/// The place of `Listeners[0].Port` in a JSON object: `["listeners"][0]["port"]`.
fn at_path<'a>(mut json: &'a mut Value, path: &str) -> &'a mut Value {
    for part in path.split('.') {
        let (name, index) = part.split_once('[').unwrap_or((part, ""));
        json = &mut json[camel(name)];
        if let Ok(index) = index.trim_end_matches(']').parse::<usize>() {
            json = &mut json[index];
        }
    }
    json
}

fn camel(name: &str) -> String {
    let (first, rest) = name.split_at(1);
    first.to_lowercase() + rest
}

fn value(is: Is) -> Value {
    match is {
        Is::Int(value) => value.into(),
        Is::Bool(byte) => (byte != 0).into(),
        Is::Uuid(id) => String::from_utf8_lossy(&kafka_uuid(id)).into(),
        Is::Text(text) => String::from_utf8_lossy(&text).into(),
        Is::Array(count) => vec![Value::Null; count as usize].into(),
        Is::Null | Is::Struct => Value::Null,
        Is::Bytes(_) | Is::Tags(_) => panic!("no part of a registration: {is:?}"),
    }
}
