//! What captures hold is what their sidecars say. NAME.pcap.json lists the PDUs of NAME.pcap field by field, as independent
//! encoders (kio, kafka-protocol) and the tool that wrote the packets know them.

mod support {
    pub mod conversation;
    pub mod corpus;
    pub mod reader;
    pub mod rows;
}

use std::ffi::OsString;
use std::fs;
use std::iter;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use kraft::rule::Severity;
use kraft::schema::Direction;
use kraft::tape::Event;
use kraft::wire::Fault;
use serde_json::Value;
use support::conversation::{Said, conversation};
use support::corpus::{captures, name};
use support::reader::Framing;
use support::rows::{Is, Row, rows};

/// Differences that are shown.
const SHOWN: usize = 20;

#[test]
fn every_pdu_is_read_at_its_place_with_its_bytes() {
    hold(|&Case { want, said, .. }| {
        let read = &said.read;
        let end = |end: &str| (want[end].clone(), want[format!("{end}port")].clone());
        let address = |end: SocketAddr| (Value::from(end.ip().to_string()), Value::from(end.port()));
        same("frame", &want["frame"], &read.frame.into())?;
        same("source", &end("src"), &address(read.source))?;
        same("destination", &end("dst"), &address(read.destination))?;
        same("length", &want["pdu_length"], &read.length.into())?;
        match want.get("hex").map(bytes) {
            Some(sent) => same("bytes", &&sent[..read.bytes.len()], &&read.bytes[..]),
            None => Ok(()),
        }
    });
}

#[test]
fn every_field_is_decoded_at_its_place_with_its_value() {
    hold(|&Case { want, said, .. }| {
        let (wanted, decoded) = (wanted_rows(want, said), decoded_rows(said));
        for (want, got) in iter::zip(&wanted, &decoded) {
            same_row(want, got)?;
        }
        let missing = wanted.get(decoded.len()..).unwrap_or_default().iter().find(|want| is_due(want, said));
        let beyond = decoded.get(wanted.len()).filter(|_| want.get("stopped").is_none());
        match (missing, beyond) {
            (Some(missing), _) => Err(format!("{} is not decoded", missing.row.path)),
            (_, Some(beyond)) => Err(format!("{} is no field", beyond.path)),
            _ => Ok(()),
        }
    });
}

#[test]
fn decoding_stops_where_an_independent_reader_stops() {
    hold(|&Case { want, said, .. }| {
        if severity(want) != Some("error") || is_unknown_version(said) {
            return Ok(());
        }
        let (path, offset) = (text(&want["stopped"]["path"]), number(&want["stopped"]["offset"]));
        let fault = *errors(said).first().ok_or("no error is noted")?;
        // Of a value with a fault inside, what comes before the fault is decoded: tag and size of a tagged field, a count.
        let is_between = |row: &&Row| offset <= row.at && row.at < fault && row.len > 0 && row.is != Is::Struct;
        match decoded_rows(said).iter().filter(is_between).find(|row| !row.path.starts_with(path)) {
            _ if fault < offset => Err(format!("an error is noted at {fault}, before {path} at {offset}")),
            Some(row) => Err(format!("{} is decoded before the error at {fault}, after {path} at {offset}", row.path)),
            None => Ok(()),
        }
    });
}

#[test]
fn an_error_is_noted_where_kafka_rejects_a_message_and_nowhere_else() {
    hold(|&Case { want, said, .. }| {
        let errors = errors(said);
        match severity(want) {
            Some("maybe") => Ok(()),
            Some("error") if errors.is_empty() && !is_unknown_version(said) => Err("no error is noted".to_owned()),
            // Kafka reads this value, an independent reader does not: the sidecar says nothing about what comes after it.
            Some("lenient") if want.get("stopped").is_some() => {
                let at = number(&want["stopped"]["offset"]);
                if errors.contains(&at) { Err(format!("an error is noted at {at}")) } else { Ok(()) }
            }
            None | Some("lenient") if !errors.is_empty() => Err(format!("errors are noted at {errors:?}")),
            _ => Ok(()),
        }
    });
}

#[test]
fn bytes_after_the_end_of_a_message_are_counted() {
    hold(|&Case { want, said, .. }| {
        let count = said.tape.events().iter().find_map(|event| match event {
            Event::Note { fault: Fault::TrailingBytes { count }, .. } => Some(*count),
            _ => None,
        });
        let wanted = want.get("trailing").map(|_| number(&want["pdu_length"]) - end_of_fields(want));
        same("trailing bytes", &wanted, &count)
    });
}

#[test]
fn requests_and_responses_know_each_other() {
    hold(|&Case { want, said, talk }| {
        let (direction, partner) = match text(&want["direction"]) {
            "request" => (Direction::Request, &want["response_frame"]),
            _ => (Direction::Response, &want["request_frame"]),
        };
        let is_read = talk.iter().any(|said| *partner == said.read.frame);
        let partner = if is_read { partner } else { &Value::Null };
        same("direction", &direction, &said.summary.direction)?;
        same("partner", partner, &said.summary.partner.map(|partner| partner.frame).into())
    });
}

/// A PDU as its sidecar has it, the same PDU dissected, and all PDUs of its capture.
struct Case<'a> {
    want: &'a Value,
    said: &'a Said,
    talk: &'a [Said],
}

/// Holds `check` against every PDU of every sidecar, and reports all that does not hold.
fn hold(check: impl Fn(&Case) -> Result<(), String>) {
    let mut wrong = Vec::new();
    for (capture, sidecar) in sidecars() {
        let talk = &conversation(&capture).talk;
        for want in array(&sidecar["pdus"]) {
            let held = match talk.iter().find(|said| is_place(want, said)) {
                Some(said) => check(&Case { want, said, talk }),
                None if may_be_missing(want, talk) => Ok(()),
                None => Err("it is not read".to_owned()),
            };
            let what = || format!("{} PDU {} {}", name(&capture), want["index"], want["malformed"]["case"]);
            wrong.extend(held.err().map(|why| format!("\n{}: {why}", what())));
        }
    }
    let shown = wrong[..wrong.len().min(SHOWN)].concat();
    assert!(wrong.is_empty(), "{} PDUs are not as their sidecars say{shown}", wrong.len());
}

fn sidecars() -> Vec<(PathBuf, Value)> {
    let sidecar = |capture: PathBuf| sidecar(&capture).map(|sidecar| (capture, sidecar));
    let sidecars: Vec<_> = captures().into_iter().filter_map(sidecar).collect();
    assert!(!sidecars.is_empty(), "no capture has a sidecar");
    sidecars
}

fn sidecar(capture: &Path) -> Option<Value> {
    let mut path = OsString::from(capture);
    path.push(".json");
    let text = fs::read(path).ok()?;
    Some(serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", capture.display())))
}

fn is_place(want: &Value, said: &Said) -> bool {
    let read = &said.read;
    want["stream"] == read.stream
        && want["stream_offset"] == read.stream_offset
        && want["srcport"] == read.source.port()
}

/// A PDU is not there for the reader if the capture has not all of it, or if it comes after one with a wrong size.
fn may_be_missing(want: &Value, talk: &[Said]) -> bool {
    let is_before = |said: &&Said| {
        want["stream"] == said.read.stream
            && want["srcport"] == said.read.source.port()
            && want["stream_offset"].as_u64() > Some(said.read.stream_offset)
    };
    want["incomplete"] == true || talk.iter().filter(is_before).any(|said| said.read.framing == Framing::Lost)
}

/// One row of a sidecar. It has no length where the reader that wrote it stopped inside.
struct Wanted {
    row: Row,
    is_whole: bool,
}

/// Whether a row can be decoded: its own bytes are captured, and the version of its message is known. A struct has no byte of
/// its own, so none begins where the bytes end.
fn is_due(want: &Wanted, said: &Said) -> bool {
    let Row { at, len, prefix, ref is, .. } = want.row;
    let own = match is {
        Is::Struct => 1,
        Is::Array(_) | Is::Tags(_) => u32::from(prefix),
        _ => len,
    };
    at + own <= said.read.bytes.len() as u32 && said.summary.api.is_some()
}

/// The rows of a sidecar: of the headers, and of the body if its API has a schema here.
fn wanted_rows(want: &Value, said: &Said) -> Vec<Wanted> {
    let is_header =
        |path: &str| path == "Size" || path.starts_with("RequestHeader") || path.starts_with("ResponseHeader");
    let rows = array(&want["fields"]).iter().filter(|row| said.summary.body.is_some() || is_header(text(&row[0])));
    let wanted = rows.flat_map(|row| if row[1] == "tagged_field" { tagged_field(row) } else { vec![wanted(row)] });
    wanted.map(|wanted| as_captured(wanted, said)).collect()
}

/// What the capture cuts off reaches as far as the capture does.
fn as_captured(mut wanted: Wanted, said: &Said) -> Wanted {
    let captured = said.read.bytes.len() as u32;
    if matches!(wanted.row.is, Is::Array(_) | Is::Tags(_) | Is::Struct) && wanted.row.at + wanted.row.len > captured {
        (wanted.row.len, wanted.is_whole) = (0, false);
    }
    wanted
}

fn wanted(row: &Value) -> Wanted {
    let prefix = row.get(5).and_then(Value::as_u64).unwrap_or(0) as u8;
    let (at, len) = (number(&row[2]), row[3].as_u64());
    let row = Row { path: text(&row[0]).to_owned(), at, len: len.unwrap_or(0) as u32, prefix, is: is(row) };
    Wanted { row, is_whole: len.is_some() }
}

fn is(row: &Value) -> Is {
    let (kind, value) = (text(&row[1]), &row[4]);
    let hex = row[6].get("value_hex").map(bytes);
    match kind.trim_start_matches("compact_").trim_start_matches("nullable_") {
        "struct" => Is::Struct,
        "tagged_fields" => Is::Tags(number(value)),
        _ if value.is_null() => Is::Null,
        "array" => Is::Array(number(value)),
        "bool" => Is::Bool(value.as_bool().expect("a boolean").into()),
        "uuid" => Is::Uuid(uuid::Uuid::parse_str(text(value)).expect("a UUID").into_bytes()),
        "string" => Is::Text(hex.unwrap_or_else(|| text(value).into())),
        _ => Is::Int(value.as_i64().unwrap_or_else(|| panic!("{kind} {value}"))),
    }
}

/// One row of the sidecar for what are four rows here, or two if the schema knows the field, whose value has its own rows.
fn tagged_field(row: &Value) -> Vec<Wanted> {
    let (path, at, more) = (text(&row[0]), number(&row[2]), &row[6]);
    let part = |name: &str, at, len, is| Wanted {
        row: Row { path: format!("{path}{name}"), at, len, prefix: 0, is },
        is_whole: true,
    };
    let int = |key: &str| Is::Int(number(&more[key]).into());
    let (tag_length, size_length) = (number(&more["tag_length"]), number(&more["size_length"]));
    let tag = part(".Tag", at, tag_length, int("tag"));
    let size = part(".Size", at + tag_length, size_length, int("size"));
    if !more["known"].is_null() {
        return vec![tag, size];
    }
    let data = bytes(&row[4]);
    let data = part(".Data", number(&more["data_offset"]), data.len() as u32, Is::Bytes(data));
    vec![part("", at, number(&row[3]), Is::Struct), tag, size, data]
}

fn decoded_rows(said: &Said) -> Vec<Row> {
    rows(&said.tape, &said.read.bytes).into_iter().filter(|row| !row.path.ends_with("Undecoded")).collect()
}

/// What is not whole has no length to hold: the independent reader stopped inside, or the capture ends there.
fn same_row(want: &Wanted, got: &Row) -> Result<(), String> {
    let mut got = got.clone();
    if !want.is_whole {
        got.len = 0;
    }
    if let Is::Bool(byte) = &mut got.is {
        *byte = (*byte != 0).into();
    }
    same(&want.row.path, &want.row, &got)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, want: &T, got: &T) -> Result<(), String> {
    if want == got { Ok(()) } else { Err(format!("{what}: want {want:?}, got {got:?}")) }
}

fn severity(want: &Value) -> Option<&str> {
    want["malformed"]["severity"].as_str()
}

/// Where the things are that Kafka rejects.
fn errors(said: &Said) -> Vec<u32> {
    let error = |event: &Event| match event {
        Event::Note { at, fault, .. } if fault.rule().severity == Severity::Error => Some(*at),
        _ => None,
    };
    said.tape.events().iter().filter_map(error).collect()
}

/// Kafka rejects a version that it does not know. Here it may just be newer than the schema, which is worth a warning.
fn is_unknown_version(said: &Said) -> bool {
    let is_so = |event: &Event| matches!(event, Event::Note { fault: Fault::UnknownVersion { .. }, .. });
    said.tape.events().iter().any(is_so)
}

fn end_of_fields(want: &Value) -> u32 {
    array(&want["fields"]).iter().map(|row| number(&row[2]) + row[3].as_u64().unwrap_or(0) as u32).max().unwrap_or(0)
}

fn array(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no array"))
}

fn bytes(hex: &Value) -> Vec<u8> {
    data_encoding::HEXLOWER.decode(text(hex).as_bytes()).expect("bytes in hex")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

fn number(value: &Value) -> u32 {
    value.as_u64().and_then(|value| value.try_into().ok()).unwrap_or_else(|| panic!("{value} is no number"))
}
