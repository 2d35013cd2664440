//! The flat result of decoding one PDU: a list of small events, strings and UUIDs as ranges of the PDU.
//!
//! A tape is always balanced: every [`Event::Open`] has its [`Event::Close`], also after a fault. Offsets count from the
//! first byte of the size prefix; a range covers exactly the bytes that encode the value, length prefixes included.

use crate::rule::Severity;
use crate::wire::{Fault, Halt};

/// Which field of which message an event is about; [`crate::schema::field`] resolves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldId {
    /// Number of the message, see [`crate::schema::Message::id`].
    pub message: u16,
    /// Place of the field in the message, counted depth first; the message itself is 0.
    pub ord: u16,
}

/// What a leaf holds. Numbers are carried, everything longer is read from the PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// An integer of any width, signed or not.
    Int(i64),
    /// A boolean, as the byte that was sent.
    Bool(u8),
    /// Sixteen bytes: the whole range.
    Uuid,
    /// Text after a length prefix.
    Text {
        /// Bytes of the length prefix, 1 to 5.
        prefix: u8,
    },
    /// Bytes after a length prefix, or without one (`prefix` 0).
    Bytes {
        /// Bytes of the length prefix, 0 to 5.
        prefix: u8,
    },
    /// Null; the range is that of the length prefix.
    Null,
}

/// One step through a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message, a struct, an array or a tagged field section begins.
    Open {
        /// What begins.
        field: FieldId,
        /// Offset of its first byte, that of the count.
        at: u32,
        /// Bytes up to its end, or up to where decoding stopped.
        len: u32,
        /// Bytes of the count, 0 for a struct.
        prefix: u8,
        /// Elements announced by an array or section; the index of a struct in its array.
        count: u32,
        /// Events up to its end, both ends included.
        events: u32,
    },
    /// A value.
    Leaf {
        /// Which.
        field: FieldId,
        /// Offset of its first byte, that of its length prefix.
        at: u32,
        /// Bytes it takes.
        len: u32,
        /// What it holds.
        value: Value,
    },
    /// The innermost open event ends.
    Close,
    /// Something is wrong or odd here; it stands next to the value it speaks of, or where that would stand.
    Note {
        /// The field in question.
        field: FieldId,
        /// Offset of the first byte in question.
        at: u32,
        /// Bytes in question.
        len: u32,
        /// What it is.
        fault: Fault,
    },
}

const _: () = assert!(size_of::<Event>() <= 32 && !std::mem::needs_drop::<Event>());

/// Where and why decoding ended before the end of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Offset of the first byte of the value that could not be read.
    pub at: u32,
    /// Why.
    pub why: Halt,
}

/// The events of one PDU. Meant to be reused: clearing keeps the memory.
#[derive(Debug, Default)]
pub struct Tape {
    events: Vec<Event>,
    notes: usize,
    stop: Option<Stop>,
}

/// Remarks of one PDU that are taken down; nobody would read more, and each is several items in Wireshark's tree.
const MAX_NOTES: usize = 1000;
/// Remarks up to which errors are taken down.
const MAX_ERRORS: usize = 10_000;

/// Names an open event, so that it can be closed.
#[derive(Debug)]
pub struct Mark(usize);

impl Tape {
    /// An empty tape.
    pub const fn new() -> Tape {
        Tape { events: Vec::new(), notes: 0, stop: None }
    }

    /// Forgets the events, keeps the memory.
    pub fn clear(&mut self) {
        self.events.clear();
        self.notes = 0;
        self.stop = None;
    }

    /// The events so far.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The remarks among them, which most messages have none of.
    pub fn notes(&self) -> impl Iterator<Item = &Event> {
        let events: &[Event] = if self.notes > 0 { &self.events } else { &[] };
        events.iter().filter(|event| matches!(event, Event::Note { .. }))
    }

    /// Where decoding stopped early, if it did.
    pub fn stop(&self) -> Option<Stop> {
        self.stop
    }

    /// Appends the beginning of something whose end is not known yet.
    #[inline]
    pub fn open(&mut self, field: FieldId, at: u32, prefix: u8, count: u32) -> Mark {
        self.events.push(Event::Open { field, at, len: u32::from(prefix), prefix, count, events: 1 });
        Mark(self.events.len() - 1)
    }

    /// Appends the end of what `mark` names, which lies at offset `end`.
    #[inline]
    pub fn close(&mut self, mark: Mark, end: u32) {
        self.events.push(Event::Close);
        let behind = self.events.len();
        if let Some(Event::Open { at, len, events, .. }) = self.events.get_mut(mark.0) {
            *len = end - *at;
            *events = (behind - mark.0) as u32;
        }
    }

    /// Appends something that nothing stands in, and that takes `prefix` bytes.
    #[inline]
    pub fn empty(&mut self, field: FieldId, at: u32, prefix: u8) {
        self.events.push(Event::Open { field, at, len: u32::from(prefix), prefix, count: 0, events: 2 });
        self.events.push(Event::Close);
    }

    /// Appends a value.
    #[inline]
    pub fn leaf(&mut self, field: FieldId, at: u32, len: u32, value: Value) {
        self.events.push(Event::Leaf { field, at, len, value });
    }

    /// Appends a remark. Only so many are taken down, more of those that Kafka's reader gives up at, and in any case why
    /// decoding has stopped.
    pub fn note(&mut self, field: FieldId, at: u32, len: u32, fault: Fault) {
        let most = if fault.rule().severity > Severity::Note { MAX_ERRORS } else { MAX_NOTES };
        if self.notes < most || self.stop.is_some() {
            self.notes += 1;
            self.events.push(Event::Note { field, at, len, fault });
        }
    }

    /// A place to come back to with [`rewind`](Tape::rewind).
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether nothing has been decoded.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Forgets all events after the first `len`, and why decoding stopped.
    pub fn rewind(&mut self, len: usize) {
        self.events.truncate(len);
        self.stop = None;
    }

    /// Remembers where decoding stopped. The first stop counts.
    #[cold]
    pub fn stopped(&mut self, at: u32, why: Halt) {
        self.stop.get_or_insert(Stop { at, why });
    }
}

/// Access to the values of one message, or of one element of an array, by the ordinals of its fields.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    events: &'a [Event],
    pdu: &'a [u8],
    message: u16,
    firsts: Option<&'a Firsts>,
}

/// Where in a tape the fields of a message stand, so that a view need not search for them.
#[derive(Debug)]
pub struct Firsts([u32; Firsts::FIELDS]);

impl Firsts {
    /// Fields of a message that are noted; what has a higher ordinal is searched for.
    const FIELDS: usize = 64;

    /// Notes the fields of a message.
    pub fn of(view: &View) -> Firsts {
        let mut firsts = [u32::MAX; Firsts::FIELDS];
        for (at, ord) in view.members() {
            if let Some(first) = firsts.get_mut(usize::from(ord)) {
                *first = (*first).min(at as u32);
            }
        }
        Firsts(firsts)
    }
}

/// The fields of a message or of a struct, as places among its events and ordinals: not what stands in its arrays and structs,
/// which is stepped over, but those in its section of tagged fields.
#[derive(Clone, Debug)]
struct Members<'a> {
    events: &'a [Event],
    message: u16,
    at: usize,
}

impl Iterator for Members<'_> {
    type Item = (usize, u16);

    fn next(&mut self) -> Option<(usize, u16)> {
        loop {
            let at = self.at;
            let (field, step) = match *self.events.get(at)? {
                // The struct itself.
                Event::Open { .. } if at == 0 => (None, 1),
                Event::Open { field, events, .. } if field.message == self.message && field.ord > 0 => {
                    (Some(field), events as usize)
                }
                Event::Leaf { field, .. } if field.message == self.message => (Some(field), 1),
                _ => (None, 1),
            };
            self.at += step;
            if let Some(field) = field {
                return Some((at, field.ord));
            }
        }
    }
}

/// The elements of an array: the events of each.
#[derive(Clone, Debug)]
struct Elements<'a>(&'a [Event]);

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [Event];

    fn next(&mut self) -> Option<&'a [Event]> {
        loop {
            let (element, rest) = self.0.split_at_checked(match *self.0.first()? {
                Event::Open { events, .. } => events as usize,
                _ => 1,
            })?;
            self.0 = rest;
            if !matches!(element, [Event::Close | Event::Note { .. }]) {
                return Some(element);
            }
        }
    }
}

/// A value where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// Offset of its first byte.
    pub at: u32,
    /// The bytes it takes, its length prefix included.
    pub bytes: &'a [u8],
    /// What it holds.
    pub value: Value,
}

impl<'a> View<'a> {
    /// The values of message number `message` among `events`, which were decoded from `pdu`.
    pub fn new(events: &'a [Event], pdu: &'a [u8], message: u16) -> View<'a> {
        View { events: body(events, message), pdu, message, firsts: None }
    }

    /// The same, for a view that is asked for many fields. `firsts` are its own.
    pub fn indexed(self, firsts: &'a Firsts) -> View<'a> {
        View { firsts: Some(firsts), ..self }
    }

    /// The events from the field on, if it is there.
    #[inline]
    fn from(&self, ord: u16) -> Option<&'a [Event]> {
        let at = match self.firsts.and_then(|firsts| firsts.0.get(usize::from(ord))) {
            Some(first) => *first as usize,
            None => self.in_order(ord).or_else(|| self.search(ord))?,
        };
        self.events.get(at..)
    }

    /// Where the field stands if all before it in its struct are there and are values.
    #[inline]
    fn in_order(&self, ord: u16) -> Option<usize> {
        let Some(Event::Open { field: FieldId { ord: first, .. }, .. }) = self.events.first() else { return None };
        let at = usize::from(ord.checked_sub(*first)?);
        let (Event::Open { field, .. } | Event::Leaf { field, .. }) = *self.events.get(at)? else { return None };
        (field == FieldId { message: self.message, ord }).then_some(at)
    }

    fn search(&self, ord: u16) -> Option<usize> {
        Some(self.members().find(|(_, of)| *of == ord)?.0)
    }

    fn members(&self) -> Members<'a> {
        Members { events: self.events, message: self.message, at: 0 }
    }

    /// The value of the field.
    #[inline]
    pub fn find(&self, ord: u16) -> Option<Found<'a>> {
        self.found(self.from(ord)?.first()?)
    }

    fn found(&self, event: &Event) -> Option<Found<'a>> {
        match *event {
            Event::Leaf { at, len, value, .. } => {
                Some(Found { at, bytes: self.pdu.get(at as usize..(at + len) as usize)?, value })
            }
            _ => None,
        }
    }

    /// The elements of an array, by its ordinal.
    fn elements(&self, ord: u16) -> Elements<'a> {
        let array = self.from(ord).map(node).unwrap_or_default();
        Elements(array.get(1..).unwrap_or_default())
    }

    /// The elements of an array of values, by the ordinal of the array.
    pub fn values(&self, ord: u16) -> impl Iterator<Item = Found<'a>> + Clone + use<'a> {
        let view = *self;
        self.elements(ord).filter_map(move |element| view.found(element.first()?))
    }

    /// The elements of an array of structs, by the ordinal of the array.
    pub fn structs(&self, ord: u16) -> impl Iterator<Item = View<'a>> + Clone + use<'a> {
        let view = View { firsts: None, ..*self };
        self.elements(ord).map(move |events| View { events, ..view })
    }

    /// The count of an array, by its ordinal, and where it stands.
    pub fn count(&self, ord: u16) -> Option<(u32, Place)> {
        match *self.from(ord)?.first()? {
            Event::Open { at, len, count, .. } => Some((count, Place { at, len })),
            _ => None,
        }
    }

    /// Where the view as a whole stands.
    pub fn place(&self) -> Place {
        match self.events.first() {
            Some(&Event::Open { at, len, .. }) => Place { at, len },
            _ => Place::WHOLE,
        }
    }

    /// An integer.
    #[inline]
    pub fn int(&self, ord: u16) -> Option<i64> {
        match self.from(ord)?.first()? {
            Event::Leaf { value: Value::Int(value), .. } => Some(*value),
            _ => None,
        }
    }

    /// A boolean.
    pub fn boolean(&self, ord: u16) -> Option<bool> {
        match self.from(ord)?.first()? {
            Event::Leaf { value: Value::Bool(byte), .. } => Some(*byte != 0),
            _ => None,
        }
    }

    /// The bytes of a text, without its length.
    #[inline]
    pub fn text(&self, ord: u16) -> Option<&'a [u8]> {
        match *self.from(ord)?.first()? {
            Event::Leaf { at, len, value: Value::Text { prefix }, .. } => {
                self.pdu.get((at + u32::from(prefix)) as usize..(at + len) as usize)
            }
            _ => None,
        }
    }

    /// A UUID.
    pub fn uuid(&self, ord: u16) -> Option<[u8; 16]> {
        self.find(ord)?.uuid()
    }
}

impl<'a> Found<'a> {
    /// The bytes it stands in.
    pub fn place(&self) -> Place {
        Place { at: self.at, len: self.bytes.len() as u32 }
    }

    /// An integer.
    pub fn int(&self) -> Option<i64> {
        if let Value::Int(value) = self.value { Some(value) } else { None }
    }

    /// The bytes of a text, without its length.
    pub fn text(&self) -> Option<&'a [u8]> {
        match self.value {
            Value::Text { prefix } => self.bytes.get(usize::from(prefix)..),
            _ => None,
        }
    }

    /// A UUID.
    pub fn uuid(&self) -> Option<[u8; 16]> {
        matches!(self.value, Value::Uuid).then(|| self.bytes.first_chunk().copied()).flatten()
    }
}

/// Bytes of a PDU that something is said of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Offset of the first.
    pub at: u32,
    /// How many.
    pub len: u32,
}

impl Place {
    /// The PDU as a whole.
    pub const WHOLE: Place = Place { at: 0, len: 0 };
}

/// The events of a message among those of its PDU: behind those of its size prefix and its header.
fn body(events: &[Event], message: u16) -> &[Event] {
    let mut rest = events;
    while let Some(Event::Open { field, .. }) = rest.first() {
        if *field == (FieldId { message, ord: 0 }) {
            return rest;
        }
        rest = &rest[node(rest).len()..];
    }
    events
}

/// The events of the node that `events` begin with, both ends included.
pub fn node(events: &[Event]) -> &[Event] {
    let of_it = match events.first() {
        Some(Event::Open { events, .. }) => *events as usize,
        Some(_) => 1,
        None => 0,
    };
    events.get(..of_it).unwrap_or(events)
}
