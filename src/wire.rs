//! Reading Kafka's primitive types from the bytes of one PDU.
//!
//! Offsets count from the first byte of the size prefix. Two ends are told apart: the end of the *frame*, which the size
//! prefix declares, and the end of what was *captured*. Passing the first is a [`Fault`]; passing only the second is
//! [`Halt::NotCaptured`], which says nothing against the sender.
//!
//! Source of the encodings: Kafka's `ByteUtils`, `ByteBufferAccessor` and the protocol guide.

use std::fmt;

use crate::rule::{Group, Rule, Severity};

/// Something wrong or odd about the bytes themselves. The first group makes Kafka's reader reject the message, the second
/// is read by Kafka all the same, the third is not Kafka's view but the limit of this dissector's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A value needs more bytes than its frame (or the tagged field around it) has left.
    Truncated {
        /// Bytes the value needs, its length prefix included.
        needs: u64,
        /// Bytes left from its first byte on.
        left: u32,
    },
    /// An array counts more elements than bytes are left (Kafka: "tried to allocate a collection").
    CountTooLarge {
        /// Elements announced.
        count: u64,
        /// Bytes left after the count.
        left: u32,
    },
    /// An unsigned varint whose fifth byte still has its continuation bit.
    VarintTooLong,
    /// Null for a value that the schema does not let be null.
    NullNotAllowed,
    /// A string longer than the 32767 bytes that Kafka takes.
    StringTooLong {
        /// Bytes of its text.
        len: u32,
    },
    /// The size prefix is negative or larger than the frame can be.
    FrameLength {
        /// The size prefix as sent.
        size: i32,
    },

    /// A negative length other than -1, read as null.
    NegativeLength {
        /// The length or count as sent.
        length: i32,
    },
    /// A boolean other than 0 and 1, read as true.
    OddBool {
        /// The byte as sent.
        byte: u8,
    },
    /// Text that is not UTF-8; Kafka puts U+FFFD in its place.
    InvalidUtf8,
    /// A varint with needless groups of zeros at its end.
    PaddedVarint,
    /// A fifth varint byte with more than 32 bits in all; Kafka drops the excess.
    VarintOverflow,
    /// A tag that is not greater than the one before it.
    TagOrder {
        /// This tag.
        tag: u32,
        /// The tag before it.
        before: u32,
    },
    /// Bytes in the frame after the end of the message.
    TrailingBytes {
        /// How many.
        count: u32,
    },
    /// A tagged field whose value ends before its size does.
    TagSize {
        /// Bytes of the tagged field that its value leaves over.
        left: u32,
    },

    /// A version that the schema does not know.
    UnknownVersion {
        /// The version as sent.
        version: i16,
        /// Oldest version of the schema.
        first: i16,
        /// Newest version of the schema.
        last: i16,
    },
    /// Bytes after framing was lost.
    Unframed,
    /// More values than one PDU is shown with.
    TooManyValues {
        /// Where showing stopped.
        limit: u32,
    },
}

use Group::{Malformed, Protocol, Undecoded};
use Severity::{Error, Note, Warn};

/// The rules of all faults; [`Fault::rule`] picks one.
pub static RULES: [Rule; 17] = [
    Rule::new("truncated", Error, Malformed, "A value passes the end of its frame"),
    Rule::new("count_too_large", Error, Malformed, "An array counts more elements than bytes are left"),
    Rule::new("varint_too_long", Error, Malformed, "A varint is longer than five bytes"),
    Rule::new("null_not_allowed", Error, Malformed, "Null for a value that must not be null"),
    Rule::new("string_too_long", Error, Malformed, "A string longer than Kafka takes"),
    Rule::new("frame_length", Error, Malformed, "The size prefix cannot be right"),
    Rule::new("negative_length", Note, Protocol, "A negative length other than -1, read as null"),
    Rule::new("odd_bool", Note, Protocol, "A boolean other than 0 and 1, read as true"),
    Rule::new("invalid_utf8", Note, Protocol, "Text that is not UTF-8"),
    Rule::new("padded_varint", Note, Protocol, "A varint longer than it needs to be"),
    Rule::new("varint_overflow", Note, Protocol, "A varint of more than 32 bits"),
    Rule::new("tag_order", Note, Protocol, "Tags out of order or repeated"),
    Rule::new("trailing_bytes", Note, Protocol, "Bytes after the end of the message"),
    Rule::new("tag_size", Note, Protocol, "A tagged field is larger than its value"),
    Rule::new("unknown_version", Warn, Undecoded, "A version that this dissector does not know"),
    Rule::new("unframed", Note, Undecoded, "Bytes of which is not known to which message they belong"),
    Rule::new("too_many_values", Warn, Undecoded, "More values than are shown of one PDU"),
];

impl Fault {
    /// Position of this fault's rule in [`RULES`].
    pub const fn index(self) -> usize {
        match self {
            Fault::Truncated { .. } => 0,
            Fault::CountTooLarge { .. } => 1,
            Fault::VarintTooLong => 2,
            Fault::NullNotAllowed => 3,
            Fault::StringTooLong { .. } => 4,
            Fault::FrameLength { .. } => 5,
            Fault::NegativeLength { .. } => 6,
            Fault::OddBool { .. } => 7,
            Fault::InvalidUtf8 => 8,
            Fault::PaddedVarint => 9,
            Fault::VarintOverflow => 10,
            Fault::TagOrder { .. } => 11,
            Fault::TrailingBytes { .. } => 12,
            Fault::TagSize { .. } => 13,
            Fault::UnknownVersion { .. } => 14,
            Fault::Unframed => 15,
            Fault::TooManyValues { .. } => 16,
        }
    }

    /// What Wireshark should make of this fault.
    pub fn rule(self) -> &'static Rule {
        &RULES[self.index()]
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Fault::Truncated { needs, left } => write!(f, "needs {needs} bytes, {left} are left in the frame"),
            Fault::CountTooLarge { count, left } => {
                write!(f, "counts {count} elements, {left} bytes are left in the frame")
            }
            Fault::VarintTooLong => f.write_str("the varint goes on after its fifth byte"),
            Fault::NullNotAllowed => f.write_str("is null, which Kafka does not allow here"),
            Fault::StringTooLong { len } => write!(f, "has {len} bytes, Kafka takes at most 32767"),
            Fault::FrameLength { size } => write!(f, "a size of {size} bytes cannot be right: framing is lost here"),
            Fault::NegativeLength { length } => write!(f, "length {length} is read as null"),
            Fault::OddBool { byte } => write!(f, "byte {byte:#04x} is read as true"),
            Fault::InvalidUtf8 => f.write_str("is not UTF-8; Kafka reads U+FFFD in its place"),
            Fault::PaddedVarint => f.write_str("the varint has more bytes than it needs"),
            Fault::VarintOverflow => f.write_str("the varint has more than 32 bits; Kafka drops the excess"),
            Fault::TagOrder { tag, before } if tag == before => write!(f, "tag {tag} is there twice"),
            Fault::TagOrder { tag, before } => write!(f, "tag {tag} after tag {before}"),
            Fault::TrailingBytes { count } => write!(f, "{count} bytes after the end of the message"),
            Fault::TagSize { left } => write!(f, "{left} bytes of the tagged field are not part of its value"),
            Fault::UnknownVersion { version, first, last } => {
                write!(f, "no schema for v{version}, this dissector knows v{first} to v{last}: the body is not decoded")
            }
            Fault::Unframed => f.write_str(
                "framing is not known here (it was lost, or the capture begins in the middle); the next segment that begins \
                 with a message is decoded again",
            ),
            Fault::TooManyValues { limit } => write!(f, "the rest of the PDU is not shown after {limit} values"),
        }
    }
}

/// Why reading cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The sender's bytes are at fault.
    Fault(Fault),
    /// The frame goes on, but the capture does not have these bytes (snap length, or a segment that was never captured).
    NotCaptured {
        /// Bytes the value needs from its first byte on.
        needs: u32,
    },
}

/// An unsigned varint with what is odd about its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Varint {
    /// The value, cut to 32 bits as Kafka does.
    pub value: u32,
    /// Bytes it takes, 1 to 5.
    pub len: u8,
    /// Padding or excess bits.
    pub oddity: Option<Fault>,
}

/// A cursor over the captured bytes of one PDU. It moves only when a read succeeds.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    captured: &'a [u8],
    /// What can be read: captured, and before the end.
    rest: &'a [u8],
    pos: u32,
    end: u32,
}

impl<'a> Reader<'a> {
    /// A reader at offset 0 of a PDU of which `captured` is there and `length` bytes were sent.
    pub fn new(captured: &'a [u8], length: u32) -> Reader<'a> {
        let captured = &captured[..captured.len().min(length as usize)];
        Reader { captured, rest: captured, pos: 0, end: length }
    }

    /// Offset of the next byte.
    #[inline]
    pub fn pos(&self) -> u32 {
        self.pos
    }

    /// Bytes left in the frame (or in the tagged field that [`narrow`](Reader::narrow) set), captured or not.
    #[inline]
    pub fn left(&self) -> u32 {
        self.end - self.pos
    }

    /// Bytes left that were captured.
    #[inline]
    pub fn captured_left(&self) -> u32 {
        self.rest.len() as u32
    }

    /// Goes back to an offset that was passed before.
    pub fn rewind(&mut self, pos: u32) {
        debug_assert!(pos <= self.pos);
        (self.pos, self.rest) = (pos, self.between(pos, self.end));
    }

    /// Lets the frame seem to end `size` bytes from here; gives the end to hand to [`widen`](Reader::widen) later.
    /// The caller has checked that `size` bytes are left.
    pub fn narrow(&mut self, size: u32) -> u32 {
        debug_assert!(size <= self.left());
        let end = self.pos + size;
        self.rest = self.between(self.pos, end);
        std::mem::replace(&mut self.end, end)
    }

    /// Undoes [`narrow`](Reader::narrow).
    pub fn widen(&mut self, end: u32) {
        (self.end, self.rest) = (end, self.between(self.pos, end));
    }

    /// The captured bytes between two offsets.
    fn between(&self, from: u32, end: u32) -> &'a [u8] {
        let end = self.captured.len().min(end as usize);
        self.captured.get(from as usize..end).unwrap_or_default()
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// [`Halt`] where fewer are left.
    #[inline(always)]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Halt> {
        match self.rest.split_first_chunk() {
            Some((bytes, rest)) => {
                self.rest = rest;
                self.pos += N as u32;
                Ok(*bytes)
            }
            None => Err(self.halt(N as u64)),
        }
    }

    /// Moves past `len` bytes and gives them.
    ///
    /// # Errors
    /// [`Halt`] where fewer are left.
    #[inline(always)]
    pub fn bytes(&mut self, len: u64) -> Result<&'a [u8], Halt> {
        match usize::try_from(len).ok().and_then(|len| self.rest.split_at_checked(len)) {
            Some((bytes, rest)) => {
                self.rest = rest;
                self.pos += len as u32;
                Ok(bytes)
            }
            None => Err(self.halt(len)),
        }
    }

    /// Moves past the next byte if it is this one.
    #[inline(always)]
    pub fn next_is(&mut self, byte: u8) -> bool {
        let is_it = self.rest.first() == Some(&byte);
        if is_it {
            self.rest = &self.rest[1..];
            self.pos += 1;
        }
        is_it
    }

    /// An unsigned varint (Kafka's `ByteUtils.readUnsignedVarint`) that takes one byte, as nearly all do.
    #[inline(always)]
    pub fn short_varint(&mut self) -> Option<u32> {
        match self.rest {
            [byte @ ..0x80, rest @ ..] => {
                self.rest = rest;
                self.pos += 1;
                Some(u32::from(*byte))
            }
            _ => None,
        }
    }

    /// An unsigned varint of any length.
    ///
    /// # Errors
    /// [`Halt`] where it does not end, or not in time.
    pub fn varint(&mut self) -> Result<Varint, Halt> {
        let mut value = 0u64;
        for (len, byte) in (1..=5u8).zip(self.rest) {
            value |= u64::from(byte & 0x7f) << (7 * (len - 1));
            if *byte < 0x80 {
                self.rest = &self.rest[usize::from(len)..];
                self.pos += u32::from(len);
                let oddity = match byte {
                    0 if len > 1 => Some(Fault::PaddedVarint),
                    _ if value > u64::from(u32::MAX) => Some(Fault::VarintOverflow),
                    _ => None,
                };
                return Ok(Varint { value: value as u32, len, oddity });
            }
        }
        if self.rest.len() < 5 {
            return Err(self.halt(self.rest.len() as u64 + 1));
        }
        Err(Halt::Fault(Fault::VarintTooLong))
    }

    /// Why `needs` bytes from here cannot be had.
    #[cold]
    pub fn halt(&self, needs: u64) -> Halt {
        if needs > u64::from(self.left()) {
            Halt::Fault(Fault::Truncated { needs, left: self.left() })
        } else {
            Halt::NotCaptured { needs: needs as u32 }
        }
    }
}

/// Writes text from the wire for a person to read: what is not UTF-8 as U+FFFD, and control characters as their pictures
/// (U+2400 and following), since a terminal would obey them.
pub fn write_text(bytes: &[u8], out: &mut String) {
    // All control characters are one of these bytes or begin with 0xc2.
    let is_plain = |text: &&str| !text.bytes().any(|byte| matches!(byte, ..0x20 | 0x7f | 0xc2));
    match std::str::from_utf8(bytes).ok().filter(is_plain) {
        Some(text) => out.push_str(text),
        None => write_odd_text(bytes, out),
    }
}

fn write_odd_text(bytes: &[u8], out: &mut String) {
    for chunk in bytes.utf8_chunks() {
        if chunk.valid().contains(char::is_control) {
            out.extend(chunk.valid().chars().map(picture));
        } else {
            out.push_str(chunk.valid());
        }
        if !chunk.invalid().is_empty() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Writes a number.
pub fn write_number(number: impl itoa::Integer, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(number));
}

/// What stands for a control character; every other character stands for itself.
fn picture(c: char) -> char {
    match c {
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(c)).unwrap_or(char::REPLACEMENT_CHARACTER),
        '\x7f' => '\u{2421}',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

/// Kafka's text form of a UUID, as logs and `meta.properties` show it: 22 characters of url-safe base64 without padding
/// (Kafka's `Uuid.toString`).
pub fn kafka_uuid(bytes: [u8; 16]) -> [u8; 22] {
    let mut text = [0; 22];
    data_encoding::BASE64URL_NOPAD.encode_mut(&bytes, &mut text);
    text
}

/// The RFC 4122 text form of a UUID: 36 characters.
pub fn rfc4122(bytes: [u8; 16]) -> [u8; 36] {
    let mut text = [0; 36];
    uuid::Uuid::from_bytes(bytes).hyphenated().encode_lower(&mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varint(bytes: &[u8]) -> Result<Varint, Halt> {
        Reader::new(bytes, bytes.len() as u32).varint()
    }

    #[test]
    fn every_fault_has_the_rule_of_its_place() {
        let names: std::collections::HashSet<_> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(names.len(), RULES.len());
        assert_eq!(Fault::TooManyValues { limit: 1 }.rule().name, "too_many_values");
        assert_eq!(Fault::NegativeLength { length: -2 }.rule().name, "negative_length");
        assert_eq!(Fault::TrailingBytes { count: 1 }.rule().name, "trailing_bytes");
    }

    #[test]
    fn reads_varints_of_each_length() {
        for (bytes, value) in [
            (&[0x7f][..], 127),
            (&[0x80, 0x01], 128),
            (&[0xff, 0xff, 0x7f], 2_097_151),
            (&[0xff, 0xff, 0xff, 0xff, 0x0f], u32::MAX),
        ] {
            let got = varint(bytes).expect("a whole varint");
            assert_eq!((got.value, usize::from(got.len), got.oddity), (value, bytes.len(), None));
        }
    }

    #[test]
    fn names_odd_varints_and_reads_them_as_kafka_does() {
        assert_eq!(varint(&[0x81, 0x00]), Ok(Varint { value: 1, len: 2, oddity: Some(Fault::PaddedVarint) }));
        let excess = varint(&[0xff, 0xff, 0xff, 0xff, 0x7f]).expect("Kafka reads it");
        assert_eq!((excess.value, excess.oddity), (u32::MAX, Some(Fault::VarintOverflow)));
        assert_eq!(varint(&[0xff; 6]), Err(Halt::Fault(Fault::VarintTooLong)));
    }

    #[test]
    fn tells_the_end_of_the_frame_from_the_end_of_the_capture() {
        let mut cut_by_sender = Reader::new(&[1, 2], 2);
        assert_eq!(cut_by_sender.array::<4>(), Err(Halt::Fault(Fault::Truncated { needs: 4, left: 2 })));
        let mut cut_by_capture = Reader::new(&[1, 2], 100);
        assert_eq!(cut_by_capture.array::<4>(), Err(Halt::NotCaptured { needs: 4 }));
        assert_eq!(cut_by_capture.bytes(101), Err(Halt::Fault(Fault::Truncated { needs: 101, left: 100 })));
        assert_eq!(cut_by_capture.pos(), 0);
    }

    #[test]
    fn a_narrowed_reader_ends_where_its_tagged_field_ends() {
        let mut reader = Reader::new(&[1, 2, 3, 4], 4);
        let end = reader.narrow(2);
        assert_eq!(reader.array::<4>(), Err(Halt::Fault(Fault::Truncated { needs: 4, left: 2 })));
        reader.widen(end);
        assert_eq!(reader.array::<4>(), Ok([1, 2, 3, 4]));
    }

    #[test]
    fn text_from_the_wire_cannot_command_a_terminal() {
        let mut out = String::new();
        write_text(b"a\x1b[31m\n\xff\xc2\x9b\x7f\xc3\xa9", &mut out);
        assert_eq!(out, "a\u{241b}[31m\u{240a}\u{fffd}\u{fffd}\u{2421}\u{e9}");
    }

    #[test]
    fn writes_uuids_as_kafka_and_as_rfc_4122_do() {
        let mut one = [0; 16];
        one[15] = 1;
        assert_eq!(&kafka_uuid(one), b"AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!(&rfc4122(one), b"00000000-0000-0000-0000-000000000001");
    }
}
