//! From (message, version, bytes) to events on a tape: the one walk over the schema, for every message and version.
//!
//! Every loop consumes bytes; a count is held against the bytes left before anything is done with it; nothing is sized by
//! a wire value; nesting is bounded by the schema. After a fault the tape is balanced and holds all before the fault.

use crate::schema::{Field, Kind, Message, header};
use crate::tape::{FieldId, Tape, Value};
use crate::wire::{Fault, Halt, Reader};

/// Events that one PDU may put on the tape. Far above what Kafka sends (a registration has some fifty), and below what
/// makes Wireshark give up on a packet: its preference `gui.max_tree_items` is a million items.
pub const MAX_EVENTS: usize = 400_000;

/// The longest string that Kafka's reader takes: lengths were 16 bits wide before they were varints.
const MAX_STRING: u32 = 0x7fff;

/// Decoding stopped early; the tape knows where and why.
#[derive(Debug, PartialEq, Eq)]
pub struct Stopped;

/// Reads `message` in `version` from where `reader` stands.
///
/// # Errors
/// [`Stopped`] where the bytes end too soon, or break the encoding so that what follows has no place any more. The tape
/// then names the place ([`Tape::stop`]), and a note on it says what is wrong unless only the capture ends there.
pub fn decode(message: &'static Message, version: i16, reader: &mut Reader, tape: &mut Tape) -> Result<(), Stopped> {
    let flexible = message.flexible.has(version);
    let mut walk = Walk { message: message.id, version, flexible, reader: *reader, tape };
    let mark = walk.tape.open(message.field_id(0), walk.reader.pos(), 0, 0);
    let done = walk.structure(message.root.below(), 1);
    *reader = walk.reader;
    tape.close(mark, reader.pos());
    done
}

/// The lengths that stand before strings and arrays.
enum Length {
    /// Null, with the bytes of the prefix.
    Null(u8),
    /// A length or count, with the bytes of the prefix.
    Of(u32, u8),
}

struct Walk<'w, 'a> {
    message: u16,
    version: i16,
    flexible: bool,
    /// A copy, which stays in reach; the caller's is brought up to it in the end.
    reader: Reader<'a>,
    tape: &'w mut Tape,
}

impl Walk<'_, '_> {
    /// The fields of a struct, the first of which has the ordinal `first`, and the tagged field section behind them.
    fn structure(&mut self, fields: &'static [Field], first: u16) -> Result<(), Stopped> {
        let mut ord = first;
        for field in fields {
            if field.tag.is_none() && field.versions.has(self.version) {
                self.value(field, ord)?;
            }
            ord += field.span();
        }
        if self.flexible { self.section(fields, first) } else { Ok(()) }
    }

    /// The tagged field section of a struct, which as a rule is empty.
    #[inline(always)]
    fn section(&mut self, fields: &'static [Field], first: u16) -> Result<(), Stopped> {
        let at = self.reader.pos();
        match self.reader.next_is(0) {
            true => {
                self.tape.empty(header::TAGGED_FIELDS, at, 1);
                Ok(())
            }
            false => self.tagged_fields(fields, first),
        }
    }

    #[inline(always)]
    fn value(&mut self, field: &'static Field, ord: u16) -> Result<(), Stopped> {
        let id = FieldId { message: self.message, ord };
        match field.kind {
            Kind::Int8 => self.number(id, |[byte]: [u8; 1]| i64::from(byte as i8)),
            Kind::Int16 => self.number(id, |bytes| i64::from(i16::from_be_bytes(bytes))),
            Kind::Uint16 => self.number(id, |bytes| i64::from(u16::from_be_bytes(bytes))),
            Kind::Int32 => self.number(id, |bytes| i64::from(i32::from_be_bytes(bytes))),
            Kind::Uint32 => self.number(id, |bytes| i64::from(u32::from_be_bytes(bytes))),
            Kind::Int64 => self.number(id, i64::from_be_bytes),
            Kind::Varint => self.varint_leaf(id).map(|_| ()),
            Kind::Bool => self.boolean(id),
            Kind::Uuid => {
                let at = self.reader.pos();
                self.take::<16>(id)?;
                self.tape.leaf(id, at, 16, Value::Uuid);
                Ok(())
            }
            Kind::String => self.string(id, field),
            Kind::Rest => self.rest(id),
            Kind::Array(element) => self.array(id, field, element),
            Kind::Struct(fields) => self.element(id, fields, 0),
            Kind::Tags => self.section(&[], ord),
        }
    }

    #[inline(always)]
    fn number<const N: usize>(&mut self, id: FieldId, read: impl Fn([u8; N]) -> i64) -> Result<(), Stopped> {
        let at = self.reader.pos();
        let value = read(self.take(id)?);
        self.tape.leaf(id, at, N as u32, Value::Int(value));
        Ok(())
    }

    fn boolean(&mut self, id: FieldId) -> Result<(), Stopped> {
        let at = self.reader.pos();
        let [byte] = self.take(id)?;
        self.tape.leaf(id, at, 1, Value::Bool(byte));
        if byte > 1 {
            self.tape.note(id, at, 1, Fault::OddBool { byte });
        }
        Ok(())
    }

    #[inline(always)]
    fn string(&mut self, id: FieldId, field: &Field) -> Result<(), Stopped> {
        let at = self.reader.pos();
        let (len, prefix) = match self.length(id, field)? {
            Length::Of(len, prefix) => (len, prefix),
            Length::Null(prefix) => return self.null(id, field, at, prefix),
        };
        match self.reader.bytes(u64::from(len)) {
            Ok(text) => {
                self.tape.leaf(id, at, u32::from(prefix) + len, Value::Text { prefix });
                if len > MAX_STRING || !text.is_ascii() {
                    self.odd_text(id, at, prefix, text);
                }
                Ok(())
            }
            Err(_) => {
                // The value as a whole is what does not fit, so that is where reading stops.
                self.reader.rewind(at);
                let halt = self.reader.halt(u64::from(prefix) + u64::from(len));
                self.stop(id, halt)
            }
        }
    }

    /// What is to be said of a text that is long, or not plain.
    #[cold]
    fn odd_text(&mut self, id: FieldId, at: u32, prefix: u8, text: &[u8]) {
        let (prefix, len) = (u32::from(prefix), text.len() as u32);
        if len > MAX_STRING {
            self.tape.note(id, at, prefix, Fault::StringTooLong { len });
        }
        if std::str::from_utf8(text).is_err() {
            self.tape.note(id, at + prefix, len, Fault::InvalidUtf8);
        }
    }

    fn rest(&mut self, id: FieldId) -> Result<(), Stopped> {
        let (at, len) = (self.reader.pos(), self.reader.left());
        match self.reader.bytes(u64::from(len)) {
            Ok(_) => self.tape.leaf(id, at, len, Value::Bytes { prefix: 0 }),
            Err(halt) => return self.stop(id, halt),
        }
        Ok(())
    }

    fn array(&mut self, id: FieldId, field: &Field, element: &'static Field) -> Result<(), Stopped> {
        let at = self.reader.pos();
        let (count, prefix) = match self.length(id, field)? {
            Length::Of(count, prefix) => (count, prefix),
            Length::Null(prefix) => return self.null(id, field, at, prefix),
        };
        let mark = self.tape.open(id, at, prefix, count);
        // Kafka refuses a count that is larger than the bytes left before it reads an element.
        let left = self.reader.left();
        let fits = count <= left;
        let done = if fits { self.elements(FieldId { ord: id.ord + 1, ..id }, element, count) } else { Ok(()) };
        self.tape.close(mark, self.reader.pos());
        if fits { done } else { self.stop(id, Halt::Fault(Fault::CountTooLarge { count: u64::from(count), left })) }
    }

    fn elements(&mut self, id: FieldId, element: &'static Field, count: u32) -> Result<(), Stopped> {
        for index in 0..count {
            self.within_limit(id)?;
            match element.kind {
                Kind::Struct(fields) => self.element(id, fields, index)?,
                _ => self.value(element, id.ord)?,
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn element(&mut self, id: FieldId, fields: &'static [Field], index: u32) -> Result<(), Stopped> {
        let mark = self.tape.open(id, self.reader.pos(), 0, index);
        let done = self.structure(fields, id.ord + 1);
        self.tape.close(mark, self.reader.pos());
        done
    }

    /// A tagged field section (KIP-482): a count, then tag, size and value of each. `fields` are those of the struct it
    /// closes, the first with the ordinal `first`; the tagged ones among them are known.
    fn tagged_fields(&mut self, fields: &'static [Field], first: u16) -> Result<(), Stopped> {
        let (id, at) = (header::TAGGED_FIELDS, self.reader.pos());
        let count = self.varint(id)?;
        let mark = self.tape.open(id, at, (self.reader.pos() - at) as u8, count);
        let done = self.each_tagged_field(fields, first, count);
        self.tape.close(mark, self.reader.pos());
        done
    }

    fn each_tagged_field(&mut self, fields: &'static [Field], first: u16, count: u32) -> Result<(), Stopped> {
        let mut before = None;
        for index in 0..count {
            self.within_limit(header::TAGGED_FIELD)?;
            let at = self.reader.pos();
            let tag = self.varint(header::TAG)?;
            let known = known(fields, first, tag, self.version);
            let mark = known.is_none().then(|| self.tape.open(header::TAGGED_FIELD, at, 0, index));
            let len = self.reader.pos() - at;
            self.tape.leaf(header::TAG, at, len, Value::Int(i64::from(tag)));
            if let Some(before) = before.replace(tag).filter(|before| tag <= *before) {
                self.tape.note(header::TAG, at, len, Fault::TagOrder { tag, before });
            }
            let done = self.tagged_value(known);
            if let Some(mark) = mark {
                self.tape.close(mark, self.reader.pos());
            }
            done?;
        }
        Ok(())
    }

    /// Size and value of a tagged field.
    fn tagged_value(&mut self, known: Option<(&'static Field, u16)>) -> Result<(), Stopped> {
        let size = self.varint_leaf(header::TAG_SIZE)?;
        if size > self.reader.left() {
            let halt = self.reader.halt(u64::from(size));
            return self.stop(header::TAG_DATA, halt);
        }
        let end = self.reader.narrow(size);
        let done = match known {
            Some((field, ord)) => self.known_tagged_field(field, ord),
            None => self.rest(header::TAG_DATA),
        };
        self.reader.widen(end);
        done
    }

    fn known_tagged_field(&mut self, field: &'static Field, ord: u16) -> Result<(), Stopped> {
        self.value(field, ord)?;
        let left = self.reader.left();
        if left > 0 {
            let id = FieldId { message: self.message, ord };
            self.tape.note(id, self.reader.pos(), left, Fault::TagSize { left });
            self.rest(header::UNDECODED)?;
        }
        Ok(())
    }

    /// The length of a string, or the count of an array.
    #[inline(always)]
    fn length(&mut self, id: FieldId, field: &Field) -> Result<Length, Stopped> {
        if self.flexible && !field.classic {
            let at = self.reader.pos();
            if let Some(value) = self.reader.short_varint() {
                return Ok(value.checked_sub(1).map_or(Length::Null(1), |len| Length::Of(len, 1)));
            }
            let value = self.varint(id)?;
            let prefix = (self.reader.pos() - at) as u8;
            // Kafka computes in 32 signed bits, and reads every negative length as null.
            let length = value.wrapping_sub(1) as i32;
            if length < -1 && field.nullable.has(self.version) {
                self.tape.note(id, at, u32::from(prefix), Fault::NegativeLength { length });
                return Ok(Length::Null(prefix));
            }
            return Ok(value.checked_sub(1).map_or(Length::Null(prefix), |len| Length::Of(len, prefix)));
        }
        if let Kind::Array(_) = field.kind {
            let count = i32::from_be_bytes(self.take(id)?);
            return Ok(self.signed_length(id, count, 4));
        }
        let length = i16::from_be_bytes(self.take(id)?);
        Ok(self.signed_length(id, i32::from(length), 2))
    }

    /// A signed length: Kafka reads every negative one as null.
    fn signed_length(&mut self, id: FieldId, length: i32, prefix: u8) -> Length {
        if length < -1 {
            let len = u32::from(prefix);
            self.tape.note(id, self.reader.pos() - len, len, Fault::NegativeLength { length });
        }
        u32::try_from(length).map_or(Length::Null(prefix), |len| Length::Of(len, prefix))
    }

    /// A null. Kafka gives up on the message where null is not allowed, but its bytes leave no doubt about what follows.
    #[inline(never)]
    fn null(&mut self, id: FieldId, field: &Field, at: u32, prefix: u8) -> Result<(), Stopped> {
        self.tape.leaf(id, at, u32::from(prefix), Value::Null);
        if !field.nullable.has(self.version) {
            self.tape.note(id, at, u32::from(prefix), Fault::NullNotAllowed);
        }
        Ok(())
    }

    fn varint_leaf(&mut self, id: FieldId) -> Result<u32, Stopped> {
        let at = self.reader.pos();
        let value = self.varint(id)?;
        self.tape.leaf(id, at, self.reader.pos() - at, Value::Int(i64::from(value)));
        Ok(value)
    }

    #[inline(always)]
    fn varint(&mut self, id: FieldId) -> Result<u32, Stopped> {
        match self.reader.short_varint() {
            Some(value) => Ok(value),
            None => self.long_varint(id),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self, id: FieldId) -> Result<u32, Stopped> {
        match self.reader.varint() {
            Ok(varint) => {
                if let Some(oddity) = varint.oddity {
                    let len = u32::from(varint.len);
                    self.tape.note(id, self.reader.pos() - len, len, oddity);
                }
                Ok(varint.value)
            }
            Err(halt) => self.stop(id, halt),
        }
    }

    #[inline(always)]
    fn take<const N: usize>(&mut self, id: FieldId) -> Result<[u8; N], Stopped> {
        match self.reader.array() {
            Ok(bytes) => Ok(bytes),
            Err(halt) => self.stop(id, halt),
        }
    }

    fn within_limit(&mut self, id: FieldId) -> Result<(), Stopped> {
        if self.tape.events().len() < MAX_EVENTS {
            return Ok(());
        }
        self.stop(id, Halt::Fault(Fault::TooManyValues { limit: MAX_EVENTS as u32 }))
    }

    /// Ends decoding at the value that begins where the reader stands. A fault is noted over all bytes that are left, and
    /// they are shown raw, so that what the fault left open holds them.
    #[cold]
    fn stop<T>(&mut self, id: FieldId, why: Halt) -> Result<T, Stopped> {
        let at = self.reader.pos();
        self.tape.stopped(at, why);
        if let Halt::Fault(fault) = why {
            self.tape.note(id, at, self.reader.left(), fault);
            undecoded(&mut self.reader, self.tape);
        }
        Err(Stopped)
    }
}

/// Shows what is left raw, as far as it was captured.
pub fn undecoded(reader: &mut Reader, tape: &mut Tape) {
    let (at, captured) = (reader.pos(), reader.captured_left());
    if captured > 0 && reader.bytes(u64::from(captured)).is_ok() {
        tape.leaf(header::UNDECODED, at, captured, Value::Bytes { prefix: 0 });
    }
    if reader.left() > 0 {
        tape.stopped(reader.pos(), Halt::NotCaptured { needs: reader.left() });
    }
}

/// The tagged field of a struct with this tag, and its ordinal.
fn known(fields: &'static [Field], first: u16, tag: u32, version: i16) -> Option<(&'static Field, u16)> {
    let mut ord = first;
    for field in fields {
        if field.tag == Some(tag) && field.versions.has(version) {
            return Some((field, ord));
        }
        ord += field.span();
    }
    None
}
