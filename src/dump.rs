//! A tape as text: the object tree of the specification page, offset for offset.
//!
//! ```text
//! BrokerRegistrationResponse message v4 [0x0000, 24B]
//! +-- Frame [0x0000, 4B] length-delimited framing
//! |   +-- size int32 = 20 [0x0000, 4B] number of bytes that follow, patched after encoding
//! ```
//!
//! As on that page, a value has its name behind it unless it is zero.

use std::borrow::Cow;
use std::fmt::Write;

use crate::dissect::{Pdu, Summary};
use crate::schema::names::{self, Names};
use crate::schema::{self, Direction, Field, Kind, Message, header};
use crate::tape::{Event, FieldId, Tape, Value, node};
use crate::wire::{self, Halt};

/// Longest description that is shown whole; of a longer one the beginning and three dots.
const ABOUT_WIDTH: usize = 78;
/// Bytes of raw data that are shown; of longer data the beginning and three dots.
const DATA_WIDTH: usize = 32;

/// The object tree of a PDU, with what [`crate::dissect::dissect`] found in it.
pub fn tree(pdu: &Pdu, tape: &Tape, summary: &Summary, out: &mut String) {
    let _ = writeln!(out, "{} [0x0000, {}B]", title(summary), pdu.length);
    let version = summary.body_version;
    let mut printer = Printer { pdu: pdu.captured, summary, out, last: Vec::new(), message: &header::FRAME, version };
    printer.nodes(tape.events(), false);
    if let Some(stop) = tape.stop() {
        let _ = write!(out, "decoding stopped at 0x{:04x}", stop.at);
        if let Halt::NotCaptured { needs } = stop.why {
            let _ = write!(out, ": {needs} bytes were sent, not all of them captured");
        }
        out.push('\n');
    }
}

fn title(summary: &Summary) -> String {
    let direction = match summary.direction {
        Direction::Request => "Request",
        Direction::Response => "Response",
    };
    match (summary.api, summary.api_name()) {
        (Some((_, version)), Some(name)) => format!("{name}{direction} message v{version}"),
        (Some((key, version)), None) => format!("{direction} of API key {key} message v{version}"),
        (None, _) => format!("{direction} of an unknown API"),
    }
}

struct Printer<'p> {
    pdu: &'p [u8],
    summary: &'p Summary,
    out: &'p mut String,
    /// For every level above the current node, and for the node itself, whether it is the last of its siblings.
    last: Vec<bool>,
    /// The message (or header) that the current node belongs to, and its version.
    message: &'static Message,
    version: i16,
}

impl Printer<'_> {
    /// The nodes that `events` hold, all on one level; the values among them are `numbered` where they are elements.
    fn nodes(&mut self, mut events: &[Event], numbered: bool) {
        let mut index = 0;
        while !events.is_empty() {
            let (node, rest) = events.split_at(node(events).len());
            self.last.push(rest.is_empty());
            self.node(node, numbered.then_some(index));
            self.last.pop();
            index += u32::from(!matches!(node[0], Event::Note { .. }));
            events = rest;
        }
    }

    fn node(&mut self, node: &[Event], index: Option<u32>) {
        match node[0] {
            Event::Open { field: id, at, len, prefix, count, .. } => {
                let Some(field) = schema::field(id) else { return };
                self.enter(id);
                self.line(&self.open_text(id, field, count), at, len, &self.open_about(id, field));
                let below = &node[1..node.len() - 1];
                if let Kind::Array(element) = field.kind {
                    self.count_line(at, prefix, count, below.is_empty());
                    self.nodes(below, !matches!(element.kind, Kind::Struct(_)));
                } else {
                    self.nodes(below, false);
                }
            }
            Event::Leaf { field: id, at, len, value } => {
                let Some(field) = schema::field(id) else { return };
                let kind = self.type_name(field, value);
                let name = index.map_or_else(|| self.name(field), |index| format!("{kind}[{index}]").into());
                let text = format!("{name} {kind} = {}", self.value(field, at, len, value));
                self.line(&text, at, len, field.about);
            }
            Event::Note { field: id, at, len, fault } => {
                let name = schema::field(id).map_or("", |field| field.name);
                let rule = fault.rule();
                self.line(&format!("! {:?} {}: {name}: {fault}", rule.severity, rule.name), at, len, "");
            }
            Event::Close => {}
        }
    }

    /// Notes which message the nodes below belong to.
    fn enter(&mut self, id: FieldId) {
        if id.ord != 0 {
            return;
        }
        let (key, version) = self.summary.api.unwrap_or((-1, -1));
        (self.message, self.version) = match id.message {
            id if id == header::FRAME.id => (&header::FRAME, 0),
            id if id == header::REQUEST.id => (&header::REQUEST, header::request_version(key, version)),
            id if id == header::RESPONSE.id => (&header::RESPONSE, header::response_version(key, version)),
            _ => (self.summary.body.unwrap_or(&header::FRAME), self.summary.body_version),
        };
    }

    fn line(&mut self, text: &str, at: u32, len: u32, about: &str) {
        if let Some((_, above)) = self.last.split_last() {
            for last in above {
                self.out.push_str(if *last { "    " } else { "|   " });
            }
            self.out.push_str("+-- ");
        }
        let _ = write!(self.out, "{text} [0x{at:04x}, {len}B]");
        if !about.is_empty() {
            let _ = write!(self.out, " {}", clip(about));
        }
        self.out.push('\n');
    }

    fn count_line(&mut self, at: u32, prefix: u8, count: u32, is_last: bool) {
        let text = if self.is_compact() {
            format!("length uvarint = {} (compact, n+1)", u64::from(count) + 1)
        } else {
            format!("length int32 = {count}")
        };
        let about = match count {
            0 => "no element follows".to_owned(),
            1 => "one sample element follows".to_owned(),
            n => format!("{n} elements follow"),
        };
        self.last.push(is_last);
        self.line(&text, at, u32::from(prefix), &about);
        self.last.pop();
    }

    fn is_compact(&self) -> bool {
        self.message.flexible.has(self.version)
    }

    fn is_header(&self) -> bool {
        usize::from(self.message.id) < header::AROUND.len()
    }

    /// What surrounds a message goes by Kafka's lower case, the fields of a message by their own names.
    fn name(&self, field: &Field) -> Cow<'static, str> {
        if self.is_header() { schema::snake(field.name).into() } else { field.name.into() }
    }

    fn open_text(&self, id: FieldId, field: &Field, count: u32) -> String {
        match (id, field.kind) {
            (header::TAGGED_FIELDS, _) => format!("tagged_fields uvarint = {count}"),
            (header::TAGGED_FIELD, _) => format!("tagged_field[{count}]"),
            (_, Kind::Array(element)) => {
                let element = if let Kind::Struct(_) = element.kind { element.name } else { kind_name(element.kind) };
                let plural = if count == 1 { "" } else { "s" };
                format!("{} []{element} = {count} element{plural}", field.name)
            }
            (FieldId { ord: 0, .. }, _) if self.message.id == header::FRAME.id => field.name.to_owned(),
            (FieldId { ord: 0, .. }, _) if self.is_header() => format!("{} v{}", field.name, self.version),
            (FieldId { ord: 0, .. }, _) => format!("{} struct", field.name),
            _ => format!("{}[{count}] {} = struct", field.name, field.name),
        }
    }

    fn open_about(&self, id: FieldId, field: &'static Field) -> Cow<'static, str> {
        match id {
            FieldId { ord: 0, .. } if !self.is_header() => format!("{}, version {}", field.about, self.version).into(),
            header::TAGGED_FIELDS if self.is_header() => "number of tagged fields in the header".into(),
            header::TAGGED_FIELD => "".into(),
            _ => field.about.into(),
        }
    }

    /// The type as the specification page names it: `nullable_string` only for the int16 form.
    fn type_name(&self, field: &Field, value: Value) -> &'static str {
        match value {
            Value::Text { .. } | Value::Null if field.classic => "nullable_string",
            _ => kind_name(field.kind),
        }
    }

    fn value(&self, field: &Field, at: u32, len: u32, value: Value) -> String {
        let bytes = self.pdu.get(at as usize..(at + len) as usize).unwrap_or_default();
        match value {
            Value::Int(0) => "0".to_owned(),
            Value::Int(n) => match field.names.of(n) {
                Some(name) => format!("{n} ({name})"),
                None => n.to_string(),
            },
            Value::Bool(byte) => (byte != 0).to_string(),
            Value::Uuid => uuid_text(field, bytes),
            Value::Text { prefix } => {
                let text = bytes.get(usize::from(prefix)..).unwrap_or_default();
                format!("{:?} ({})", String::from_utf8_lossy(text), self.length_form(field, text.len() as i64))
            }
            Value::Bytes { prefix } => hex(bytes.get(usize::from(prefix)..).unwrap_or_default()),
            Value::Null if self.is_compact() && !field.classic => "null (compact, len+1=0)".to_owned(),
            Value::Null => {
                let length = bytes.first_chunk().map_or(-1, |length| i16::from_be_bytes(*length));
                format!("null ({})", self.length_form(field, length.into()))
            }
        }
    }

    /// How a length was written.
    fn length_form(&self, field: &Field, len: i64) -> String {
        if self.is_compact() && !field.classic {
            format!("compact, len+1={}", len + 1)
        } else {
            format!("int16 len={len}")
        }
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "bool",
        Kind::Int8 => "int8",
        Kind::Int16 => "int16",
        Kind::Uint16 => "uint16",
        Kind::Int32 => "int32",
        Kind::Uint32 => "uint32",
        Kind::Varint | Kind::Tags => "uvarint",
        Kind::Int64 => "int64",
        Kind::Uuid => "uuid",
        Kind::String => "string",
        Kind::Rest => "bytes",
        Kind::Struct(_) => "struct",
        Kind::Array(_) => "array",
    }
}

fn uuid_text(field: &Field, bytes: &[u8]) -> String {
    let Some(&id) = bytes.first_chunk() else { return String::new() };
    let rfc4122 = String::from_utf8_lossy(&wire::rfc4122(id)).into_owned();
    if id == [0; 16] {
        return rfc4122;
    }
    match names::reserved_directory(id) {
        Some(name) if field.names == Names::DirectoryIds => format!("{rfc4122} ({name})"),
        _ => format!("{rfc4122} ({})", String::from_utf8_lossy(&wire::kafka_uuid(id))),
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = data_encoding::HEXLOWER.encode(&bytes[..bytes.len().min(DATA_WIDTH)]);
    if bytes.len() > DATA_WIDTH {
        text.push_str("...");
    }
    text
}

fn clip(about: &str) -> Cow<'_, str> {
    if about.chars().count() <= ABOUT_WIDTH {
        return about.into();
    }
    about.chars().take(ABOUT_WIDTH - 3).chain("...".chars()).collect::<String>().into()
}
