//! What surrounds a message: the size prefix, the headers, tagged field sections; and which version of an API has which
//! header, as data.
//!
//! Source: Kafka's `RequestHeader.json`, `ResponseHeader.json` and `ApiMessageTypeGenerator`; KIP-482 for tagged fields.

use super::names::{self, Names};
use super::{Field, Kind, Message, Versions, int16, int32, string, structure};
use crate::tape::FieldId;

/// All structures around messages; the place is the message id.
pub static AROUND: [&Message; 4] = [&FRAME, &TAGS, &REQUEST, &RESPONSE];

/// The size prefix, and bytes that nobody here can read.
pub static FRAME: Message = Message::around(
    0,
    Versions::ALL,
    Versions::NONE,
    structure("Frame", FRAME_FIELDS).about("length-delimited framing"),
);

const FRAME_FIELDS: &[Field] = &[
    int32("Size").filter("length").about("number of bytes that follow, patched after encoding"),
    Field::new("Undecoded", Kind::Rest).about("bytes that are shown as they are"),
];

/// The size prefix.
pub const SIZE: FieldId = FRAME.field_id(FRAME.ord("Size"));
/// Bytes shown raw.
pub const UNDECODED: FieldId = FRAME.field_id(FRAME.ord("Undecoded"));

/// A tagged field section, with the fields that the schema does not know.
pub static TAGS: Message = Message::around(1, Versions::ALL, Versions::NONE, structure("Tags", TAGS_FIELDS));

const TAGS_FIELDS: &[Field] = &[
    Field::new("TaggedFields", Kind::Tags).about("number of tagged fields in this struct"),
    structure(
        "TaggedField",
        &[
            Field::new("Tag", Kind::Varint).about("number of the tagged field"),
            Field::new("Size", Kind::Varint).about("bytes of the tagged field's value"),
            Field::new("Data", Kind::Rest).about("value of a tagged field that the schema does not know"),
        ],
    )
    .about("a tagged field that the schema does not know"),
];

/// A tagged field section.
pub const TAGGED_FIELDS: FieldId = TAGS.field_id(TAGS.ord("TaggedFields"));
/// One tagged field that the schema does not know.
pub const TAGGED_FIELD: FieldId = TAGS.field_id(TAGS.ord("TaggedField"));
/// Its tag.
pub const TAG: FieldId = TAGS.field_id(TAGS.ord("TaggedField.Tag"));
/// Its size.
pub const TAG_SIZE: FieldId = TAGS.field_id(TAGS.ord("TaggedField.Size"));
/// Its value.
pub const TAG_DATA: FieldId = TAGS.field_id(TAGS.ord("TaggedField.Data"));

/// The request header, v0 to v2.
pub static REQUEST: Message = Message::around(
    2,
    Versions::range(0, 2),
    Versions::since(2),
    structure("RequestHeader", REQUEST_FIELDS).about("common request header"),
);

const REQUEST_FIELDS: &[Field] = &[
    int16("RequestApiKey").filter("api_key").names(Names::ApiKeys).about("numeric id of the API being invoked"),
    int16("RequestApiVersion").filter("api_version").about("version of the API being invoked"),
    int32("CorrelationId").about("echoed back by the broker in the response"),
    string("ClientId").since(1).nullable().classic().about("always a non-flexible int16-prefixed string"),
];

/// The API key in the request header.
pub const API_KEY: FieldId = REQUEST.field_id(REQUEST.ord("RequestApiKey"));
/// The API version in the request header.
pub const API_VERSION: FieldId = REQUEST.field_id(REQUEST.ord("RequestApiVersion"));
/// The client id in the request header.
pub const CLIENT_ID: FieldId = REQUEST.field_id(REQUEST.ord("ClientId"));

/// The response header, v0 and v1.
pub static RESPONSE: Message = Message::around(
    3,
    Versions::range(0, 1),
    Versions::since(1),
    structure("ResponseHeader", RESPONSE_FIELDS).about("common response header"),
);

const RESPONSE_FIELDS: &[Field] = &[int32("CorrelationId").about("matches the correlation_id of the request")];

const _: () = {
    let mut id = 0;
    while id < AROUND.len() {
        assert!(AROUND[id].id as usize == id, "a structure around messages is not in its place");
        id += 1;
    }
};

/// The header version of a request. A key that nobody knows is read with header v1, whose fields every newer header
/// begins with.
pub fn request_version(key: i16, version: i16) -> i16 {
    match names::api_key(key) {
        Some(api) if api.bare_request_header.has(version) => 0,
        Some(api) if is_flexible(api, version) => 2,
        _ => 1,
    }
}

/// The header version of a response.
pub fn response_version(key: i16, version: i16) -> i16 {
    match names::api_key(key) {
        Some(api) if !api.plain_response_header && is_flexible(api, version) => 1,
        _ => 0,
    }
}

/// An API that is flexible from its first version on is so in any version, even one that does not exist (-1).
fn is_flexible(api: &names::ApiKey, version: i16) -> bool {
    api.flexible.has(version) || api.flexible == Versions::ALL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_versions_follow_kafkas_generator() {
        for (key, version, request, response) in [
            (62, 0, 2, 1),
            (62, -1, 2, 1),
            (7, 0, 0, 0),
            (7, 1, 1, 0),
            (7, 3, 2, 1),
            (18, 2, 1, 0),
            (18, 3, 2, 0),
            (17, 1, 1, 0),
            (53, 0, 1, 0),
            (53, 1, 2, 1),
            (200, 0, 1, 0),
        ] {
            assert_eq!(
                (request_version(key, version), response_version(key, version)),
                (request, response),
                "API key {key} v{version}"
            );
        }
    }
}
