//! What is said of the bytes of a message.

use super::edit::{replaced, shortened, with_length};
use super::messages::{heartbeat, listener, registration};
use super::pair::Pair;
use super::scenes::{NEWEST, asking, asks};
use crate::support::talk::{HOST_1, Talk};

/// All pairs.
pub const PAIRS: &[&[Pair]] = &[REJECTED, TOLERATED, UNDECODED];

/// What Kafka's reader rejects.
const REJECTED: &[Pair] = &[
    Pair {
        rule: "truncated",
        said: |talk| asks_with(talk, |bytes| shortened(bytes, 5)),
        unsaid: |talk| asks_with(talk, |bytes| shortened(bytes, 0)),
        at: "Undecoded",
        by: None,
        says: "needs 8 bytes, 4 are left in the frame",
    },
    Pair {
        rule: "count_too_large",
        said: |talk| asks_with(talk, |bytes| with_length(bytes, "LogDirs", &[27])),
        unsaid: |talk| asks_with(talk, |bytes| with_length(bytes, "LogDirs", &[26])),
        at: "Undecoded",
        by: None,
        says: "counts 26 elements, 25 bytes are left in the frame",
    },
    Pair {
        rule: "varint_too_long",
        said: |talk| asks_with(talk, |bytes| replaced(bytes, "Rack", &[0x80, 0x80, 0x80, 0x80, 0x80, 0x00])),
        unsaid: |talk| asks_with(talk, |bytes| replaced(bytes, "Rack", &[0x80, 0x80, 0x80, 0x80, 0x00])),
        at: "Undecoded",
        by: None,
        says: "the varint goes on after its fifth byte",
    },
    Pair {
        rule: "null_not_allowed",
        said: |talk| asks_with(talk, |bytes| replaced(bytes, "ClusterId", &[0])),
        unsaid: |talk| asks_with(talk, |bytes| replaced(bytes, "Rack", &[0])),
        at: "ClusterId",
        by: None,
        says: "is null, which Kafka does not allow here",
    },
    Pair {
        rule: "string_too_long",
        said: |talk| has_host_of(talk, 32_768),
        unsaid: |talk| has_host_of(talk, 32_767),
        at: "Listeners[0].Host length",
        by: None,
        says: "has 32768 bytes, Kafka takes at most 32767",
    },
    Pair {
        rule: "frame_length",
        said: |talk| asks_with(talk, |bytes| [&[0xff; 4], &bytes[4..]].concat()),
        unsaid: |talk| asks_with(talk, |bytes| bytes),
        at: "Size",
        by: None,
        says: "a size of -1 bytes cannot be right: framing is lost here",
    },
];

/// What Kafka's reader takes without a word.
const TOLERATED: &[Pair] = &[
    Pair {
        rule: "negative_length",
        said: |talk| asks_with(talk, |bytes| replaced(bytes, "RequestHeader.ClientId", &[0xff, 0xfe])),
        unsaid: |talk| asks_with(talk, |bytes| replaced(bytes, "RequestHeader.ClientId", &[0xff, 0xff])),
        at: "RequestHeader.ClientId",
        by: None,
        says: "length -2 is read as null",
    },
    Pair {
        rule: "odd_bool",
        said: |talk| asks_with(talk, |bytes| replaced(bytes, "IsMigratingZkBroker", &[2])),
        unsaid: |talk| asks_with(talk, |bytes| replaced(bytes, "IsMigratingZkBroker", &[1])),
        at: "IsMigratingZkBroker",
        by: None,
        says: "byte 0x02 is read as true",
    },
    Pair {
        rule: "invalid_utf8",
        said: |talk| asks_with(talk, |bytes| replaced(bytes, "Rack", &[3, 0xc3, 0x28])),
        unsaid: |talk| asks_with(talk, |bytes| replaced(bytes, "Rack", &[3, 0xc3, 0xa9])),
        at: "Rack text",
        by: None,
        says: "is not UTF-8; Kafka reads U+FFFD in its place",
    },
    Pair {
        rule: "padded_varint",
        said: |talk| asks_with(talk, |bytes| replaced(bytes, "Rack", &[0x80, 0x00])),
        unsaid: |talk| asks_with(talk, |bytes| replaced(bytes, "Rack", &[0x00])),
        at: "Rack",
        by: None,
        says: "the varint has more bytes than it needs",
    },
    Pair {
        rule: "varint_overflow",
        said: |talk| asks_with(talk, |bytes| replaced(bytes, "Rack", &[0x80, 0x80, 0x80, 0x80, 0x10])),
        unsaid: |talk| asks_with(talk, |bytes| replaced(bytes, "Rack", &[0x80, 0x80, 0x80, 0x80, 0x00])),
        at: "Rack",
        by: None,
        says: "the varint has more than 32 bits; Kafka drops the excess",
    },
    Pair {
        rule: "tag_order",
        said: |talk| asks_with(talk, |bytes| replaced(bytes, "TaggedFields", &[2, 9, 0, 8, 0])),
        unsaid: |talk| asks_with(talk, |bytes| replaced(bytes, "TaggedFields", &[2, 8, 0, 9, 0])),
        at: "TaggedFields[1].Tag",
        by: None,
        says: "tag 8 after tag 9",
    },
    Pair {
        rule: "tag_order",
        said: |talk| asks_with(talk, |bytes| replaced(bytes, "TaggedFields", &[2, 9, 0, 9, 0])),
        unsaid: |talk| asks_with(talk, |bytes| replaced(bytes, "TaggedFields", &[1, 9, 0])),
        at: "TaggedFields[1].Tag",
        by: None,
        says: "tag 9 is there twice",
    },
    Pair {
        rule: "trailing_bytes",
        said: |talk| asks_with(talk, |bytes| replaced(bytes, "TaggedFields", &[0, 1, 2, 3])),
        unsaid: |talk| asks_with(talk, |bytes| replaced(bytes, "TaggedFields", &[1, 1, 2, 3, 4])),
        at: "Undecoded",
        by: None,
        says: "3 bytes after the end of the message",
    },
    Pair {
        rule: "tag_size",
        said: |talk| beats_with_tags(talk, &[1, 0, 3, 1, 0xaa, 0xbb]),
        unsaid: |talk| beats_with_tags(talk, &[1, 0, 1, 1]),
        at: "Undecoded",
        by: None,
        says: "2 bytes of the tagged field are not part of its value",
    },
];

/// What cannot be read here.
const UNDECODED: &[Pair] = &[
    Pair {
        rule: "unknown_version",
        said: |talk| asks_with(talk, |bytes| replaced(bytes, "RequestHeader.RequestApiVersion", &[0, 5])),
        unsaid: |talk| asks_with(talk, |bytes| replaced(bytes, "RequestHeader.RequestApiVersion", &[0, 4])),
        at: "RequestHeader.RequestApiVersion",
        by: None,
        says: "no schema for v5, this dissector knows v0 to v4: the body is not decoded",
    },
    Pair {
        rule: "unframed",
        said: |talk| {
            let line = asking(talk, &registration(1));
            talk.stray(line, vec![1, 2, 3, 4, 5]);
        },
        unsaid: |talk| {
            let line = asking(talk, &registration(1));
            talk.hear(line, vec![0, 0, 0, 1, 5]);
        },
        at: "Undecoded",
        by: None,
        says: "framing is not known here (it was lost, or the capture begins in the middle); the next segment that begins \
               with a message is decoded again",
    },
    Pair {
        rule: "too_many_values",
        said: |talk| has_tags(talk, 80_000),
        unsaid: |talk| has_tags(talk, 60_000),
        at: "Undecoded",
        by: None,
        says: "the rest of the PDU is not shown after 400000 values",
    },
];

/// A registration that is changed.
fn asks_with(talk: &mut Talk, change: fn(Vec<u8>) -> Vec<u8>) {
    let line = talk.connect(HOST_1);
    talk.ask_with(line, NEWEST, &registration(1), change);
}

fn has_host_of(talk: &mut Talk, bytes: usize) {
    let listener = listener("PLAINTEXT", "").with_host("h".repeat(bytes).into());
    asks(talk, &registration(1).with_listeners(vec![listener]));
}

fn beats_with_tags(talk: &mut Talk, tags: &[u8]) {
    let line = talk.connect(HOST_1);
    talk.ask_with(line, 1, &heartbeat(1, 7), |bytes| replaced(bytes, "TaggedFields", tags));
}

/// A registration with that many empty tagged fields, all of tag 0.
fn has_tags(talk: &mut Talk, count: usize) {
    let count_bytes = [count as u8 | 0x80, (count >> 7) as u8 | 0x80, (count >> 14) as u8];
    let tags = [&count_bytes[..], &vec![0; 2 * count]].concat();
    let line = talk.connect(HOST_1);
    talk.ask_with(line, NEWEST, &registration(1), |bytes| replaced(bytes, "TaggedFields", &tags));
}
