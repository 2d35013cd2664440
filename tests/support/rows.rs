//! A tape as flat rows, each with the path of its field: `Listeners[0].Port`, `RequestHeader.ClientId`, `TaggedFields[1].Tag`.

use kraft::schema::{self, Field, Kind, header};
use kraft::tape::{Event, FieldId, Tape, Value};

/// One value, or the beginning of something that holds values.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Which: names as in Kafka's message definitions, indexes in square brackets.
    pub path: String,
    /// Offset of its first byte.
    pub at: u32,
    /// Bytes it takes, or what is inside it.
    pub len: u32,
    /// Bytes of its length or count.
    pub prefix: u8,
    /// What it is.
    pub is: Is,
}

/// What a [`Row`] is.
#[derive(Clone, Debug, PartialEq)]
pub enum Is {
    /// An integer.
    Int(i64),
    /// A boolean, as the byte that was sent.
    Bool(u8),
    /// A UUID.
    Uuid([u8; 16]),
    /// Text without its length, which need not be UTF-8.
    Text(Vec<u8>),
    /// Bytes without their length.
    Bytes(Vec<u8>),
    /// Null.
    Null,
    /// An array, by the number of its elements.
    Array(u32),
    /// A tagged field section, by the number of its fields.
    Tags(u32),
    /// A struct, or a tagged field.
    Struct,
}

/// What is open around an event: its path, and how many elements of it have passed if it numbers them.
struct Level {
    path: String,
    numbered: Option<u32>,
}

/// The rows of a tape; messages and headers as a whole have none.
pub fn rows(tape: &Tape, pdu: &[u8]) -> Vec<Row> {
    let mut levels: Vec<Level> = Vec::new();
    let mut rows = Vec::new();
    for event in tape.events() {
        match *event {
            Event::Open { field: id, at, len, prefix, count, .. } => {
                let field = schema::field(id).expect("events are about fields");
                let (path, is) = (path(&mut levels, id, field), opened(field, count));
                let numbered = matches!(is, Is::Array(_) | Is::Tags(_)).then_some(0);
                levels.push(Level { path: path.clone(), numbered });
                if id.ord > 0 {
                    rows.push(Row { path, at, len, prefix, is });
                }
            }
            Event::Leaf { field: id, at, len, value } => {
                let field = schema::field(id).expect("events are about fields");
                let bytes = &pdu[at as usize..(at + len) as usize];
                rows.push(Row {
                    path: path(&mut levels, id, field),
                    at,
                    len,
                    prefix: prefix(value, len),
                    is: leaf(value, bytes),
                });
            }
            Event::Close => drop(levels.pop()),
            Event::Note { .. } => {}
        }
    }
    rows
}

/// The path of the field that comes next; the elements of an array are numbered, a message has no name but a header has.
fn path(levels: &mut [Level], id: FieldId, field: &Field) -> String {
    let is_message = id.message >= header::AROUND.len() as u16 || id.message == header::FRAME.id;
    let name = if id.ord == 0 && is_message { "" } else { field.name };
    match levels.last_mut() {
        // A tagged field that the schema knows has no node of its own: its tag, its size and its value follow each other.
        Some(Level { path, numbered: Some(index) }) if matches!(id, header::TAG | header::TAG_SIZE) => {
            let path = format!("{path}[{index}].{name}");
            *index += u32::from(id == header::TAG_SIZE);
            path
        }
        Some(Level { path, numbered: Some(_) }) if path.ends_with("TaggedFields") && id != header::TAGGED_FIELD => {
            format!("{}{name}", path.trim_end_matches("TaggedFields"))
        }
        Some(Level { path, numbered: Some(index) }) => {
            *index += 1;
            format!("{path}[{}]", *index - 1)
        }
        Some(Level { path, .. }) if !path.is_empty() => format!("{path}.{name}"),
        _ => name.to_owned(),
    }
}

fn opened(field: &Field, count: u32) -> Is {
    match field.kind {
        Kind::Array(_) => Is::Array(count),
        Kind::Tags => Is::Tags(count),
        _ => Is::Struct,
    }
}

fn prefix(value: Value, len: u32) -> u8 {
    match value {
        Value::Text { prefix } | Value::Bytes { prefix } => prefix,
        Value::Null => len as u8,
        _ => 0,
    }
}

fn leaf(value: Value, bytes: &[u8]) -> Is {
    let after = |prefix: u8| bytes[usize::from(prefix)..].to_vec();
    match value {
        Value::Int(value) => Is::Int(value),
        Value::Bool(byte) => Is::Bool(byte),
        Value::Uuid => Is::Uuid(bytes.try_into().expect("a UUID has 16 bytes")),
        Value::Text { prefix } => Is::Text(after(prefix)),
        Value::Bytes { prefix } => Is::Bytes(after(prefix)),
        Value::Null => Is::Null,
    }
}
