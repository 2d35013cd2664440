//! A tape as items of Wireshark's protocol tree, as columns and as expert items.
//!
//! Every call of epan here may leave by `longjmp` to the guard in `shim.c`. So nothing here owns anything: what must be
//! written first is written into a text that outlives the packet.

use std::ffi::{c_char, c_int};
use std::fmt::Write;
use std::ptr;

use super::register::{Expert, GENERATED_API, Hf, Item, Registered, registered};
use super::sys;
use crate::dissect::{Pdu, Summary};
use crate::findings;
use crate::pairing::History;
use crate::rule::{Evidence, Finding};
use crate::schema::names::{self, Names};
use crate::schema::{Direction, Kind, header};
use crate::tape::{Event, FieldId, Place, Tape, Value, View, node};
use crate::wire::{self, Fault};

/// Levels of the tree; the schema needs seven.
const DEPTH: usize = 16;

struct Painter<'p> {
    tvb: *mut sys::tvbuff_t,
    pinfo: *mut sys::packet_info,
    registered: &'static Registered,
    pdu: &'p [u8],
    history: &'p History,
    /// What rules have found of this PDU.
    findings: &'p [Finding],
    text: &'p mut String,
    /// Whether somebody looks at all items. If not, some may be asked for by name.
    visible: bool,
    /// Whether somebody reads what is said.
    heard: bool,
    /// The worst of what nobody reads, and its severity; up to this severity nobody needs to know of it.
    unheard: (c_int, Option<Expert>),
    /// Whether another dissector shows the body.
    handed_over: bool,
    /// The tree that the next item goes to, and those above it.
    trees: [*mut sys::proto_tree; DEPTH],
    depth: usize,
    /// The last item and its field, for a remark about it.
    last: (Option<FieldId>, *mut sys::proto_item),
}

const _: () = assert!(!std::mem::needs_drop::<Painter>());

/// Shows a PDU: columns, tree, expert items.
///
/// # Safety
/// The pointers in `packet` must be those that epan gave for the packet in hand. Runs inside the guard of `shim.c`.
pub unsafe fn paint(
    packet: &sys::kraft_pdu,
    pdu: &Pdu,
    summary: Option<&Summary>,
    tape: &Tape,
    history: &History,
    text: &mut String,
) {
    let Some(registered) = registered() else { return };
    let Some(summary) = summary else {
        // SAFETY: as the caller promises.
        return unsafe { paint_panic(packet) };
    };
    // SAFETY: as the caller promises; `text` ends with NUL whenever it is handed over, and epan copies it.
    unsafe {
        let wanted = packet.is_wanted != 0;
        text.clear();
        if packet.is_labelled != 0 || !packet.columns.is_null() {
            summary.write_info(pdu.captured, tape, text);
            text.push('\0');
        }
        if !packet.columns.is_null() {
            columns(packet.columns, packet.ordinal, text);
        }
        let mut trees = [ptr::null_mut(); DEPTH];
        if wanted {
            trees[0] = protocol_tree(packet, pdu, registered, text);
        }
        let mut painter = Painter {
            tvb: packet.tvb,
            pinfo: packet.pinfo,
            registered,
            pdu: pdu.captured,
            history,
            findings: summary.id.map_or(&[], |id| findings::of(&history.findings, id)),
            text,
            visible: packet.is_visible != 0,
            heard: packet.experts_heard != 0,
            unheard: (packet.severity, None),
            handed_over: packet.handed_over != 0,
            trees,
            depth: 0,
            last: (None, ptr::null_mut()),
        };
        if wanted {
            painter.tape(tape.events());
            painter.conversation(summary);
            painter.links();
        } else {
            painter.notes(tape);
        }
        painter.whole();
        painter.tell_worst();
    }
}

/// Says that the dissector itself failed.
///
/// # Safety
/// As for [`paint`].
pub unsafe fn paint_panic(packet: &sys::kraft_pdu) {
    let Some(registered) = registered() else { return };
    let expert = registered.internal_error().field();
    // SAFETY: as the caller promises.
    unsafe {
        let length = packet.captured_length as c_int;
        sys::proto_tree_add_expert_format(
            packet.tree,
            packet.pinfo,
            expert,
            packet.tvb,
            0,
            length,
            c"%s".as_ptr(),
            c"This dissector failed on this message, which is a bug. Please report it with the capture.".as_ptr(),
        );
    }
}

/// Protocol and Info. Several PDUs of a frame are joined by `; `.
unsafe fn columns(columns: *mut sys::column_info, ordinal: u32, info: &str) {
    // SAFETY: as for `paint`; `info` ends with NUL.
    unsafe {
        sys::col_set_str(columns, sys::COL_PROTOCOL as c_int, c"KRaft".as_ptr());
        if ordinal == 0 {
            sys::col_add_str(columns, sys::COL_INFO as c_int, info.as_ptr().cast());
        } else {
            sys::col_append_str(columns, sys::COL_INFO as c_int, c"; ".as_ptr());
            sys::col_append_str(columns, sys::COL_INFO as c_int, info.as_ptr().cast());
        }
    }
}

/// The item of the whole PDU, which says what the Info column says.
unsafe fn protocol_tree(
    packet: &sys::kraft_pdu,
    pdu: &Pdu,
    registered: &Registered,
    info: &str,
) -> *mut sys::proto_tree {
    // SAFETY: as for `paint`.
    unsafe {
        let length = pdu.captured.len() as c_int;
        let (proto, format) = (sys::proto_kraft, c"Kafka KRaft Control Plane, %s".as_ptr());
        let item = if packet.is_labelled != 0 {
            sys::proto_tree_add_protocol_format(packet.tree, proto, packet.tvb, 0, length, format, info.as_ptr())
        } else {
            sys::proto_tree_add_item(packet.tree, proto, packet.tvb, 0, length, sys::ENC_NA)
        };
        sys::proto_item_add_subtree(item, registered.ett)
    }
}

impl Painter<'_> {
    /// # Safety
    /// As for [`paint`], likewise for all that follow.
    unsafe fn tape(&mut self, events: &[Event]) {
        for (i, event) in events.iter().enumerate() {
            // SAFETY: as the caller promises.
            unsafe {
                match *event {
                    Event::Open { field, at, len, count, .. } => self.open(field, at, len, count, &events[i..]),
                    Event::Leaf { field: header::UNDECODED, .. } if self.handed_over => {}
                    Event::Leaf { field, at, len, value } => self.leaf(field, at, len, value),
                    Event::Note { field, at, len, fault } => self.note(field, at, len, fault),
                    Event::Close => self.depth = self.depth.saturating_sub(1),
                }
            }
        }
    }

    /// Without a tree only remarks are of interest.
    unsafe fn notes(&mut self, tape: &Tape) {
        for event in tape.notes() {
            if let Event::Note { field, at, len, fault } = *event {
                // SAFETY: as the caller promises.
                unsafe { self.note(field, at, len, fault) };
            }
        }
    }

    fn tree(&self) -> *mut sys::proto_tree {
        self.trees[self.depth]
    }

    /// Whether somebody looks at this field.
    #[inline]
    fn shows(&self, hf: Hf) -> bool {
        self.visible || hf.is_referenced()
    }

    unsafe fn open(&mut self, field: FieldId, at: u32, len: u32, count: u32, events: &[Event]) {
        let registered = self.registered;
        let mut tree = self.tree();
        // A message itself has no item: its fields stand right below the protocol.
        let item = registered.item(field).and_then(|item| Some((item, item.hf.filter(|hf| self.shows(*hf))?.id())));
        if let Some((item, hf)) = item {
            // SAFETY: as the caller promises.
            unsafe {
                let added = match item.kind {
                    Kind::Struct(_) => self.structure(item, hf, field, at, len, events),
                    _ => self.count_of(item, hf, at, len, count),
                };
                tree = sys::proto_item_add_subtree(added, item.ett);
                self.last = (Some(field), added);
                self.findings_at(Place { at, len }, added);
            }
        }
        self.depth = (self.depth + 1).min(DEPTH - 1);
        self.trees[self.depth] = tree;
    }

    /// The number of elements of an array or a section, `2 directories` where that says more.
    unsafe fn count_of(&self, item: &Item, hf: c_int, at: u32, len: u32, count: u32) -> *mut sys::proto_item {
        let (tree, tvb, start, length) = (self.tree(), self.tvb, at as c_int, len as c_int);
        // SAFETY: as the caller promises; epan copies the text.
        unsafe {
            let Some((one, many)) = &item.unit else {
                return sys::proto_tree_add_uint(tree, hf, tvb, start, length, count);
            };
            let (format, unit) = (c"%u %s".as_ptr(), if count == 1 { one } else { many });
            sys::proto_tree_add_uint_format_value(tree, hf, tvb, start, length, count, format, count, unit.as_ptr())
        }
    }

    unsafe fn structure(
        &mut self,
        item: &Item,
        hf: c_int,
        field: FieldId,
        at: u32,
        len: u32,
        events: &[Event],
    ) -> *mut sys::proto_item {
        // SAFETY: as the caller promises.
        unsafe {
            let (tree, start, length) = (self.tree(), at as c_int, len as c_int);
            let Some(label) = item.label else {
                return sys::proto_tree_add_item(tree, hf, self.tvb, start, length, sys::ENC_NA);
            };
            self.text.clear();
            self.text.push_str(item.name);
            self.text.push_str(": ");
            label(&View::new(node(events), self.pdu, field.message), self.text);
            self.end_text();
            let text: *const c_char = self.text.as_ptr().cast();
            sys::proto_tree_add_none_format(tree, hf, self.tvb, start, length, c"%s".as_ptr(), text)
        }
    }

    unsafe fn leaf(&mut self, field: FieldId, at: u32, len: u32, value: Value) {
        let registered = self.registered;
        let Some((item, hf)) = registered.item(field).and_then(|item| Some((item, item.hf?))) else { return };
        let shown = if value == Value::Null { registered.null } else { hf };
        // Below a UUID stands another field.
        let below = value == Value::Uuid && self.shows(registered.uuid);
        if !below && !self.shows(shown) {
            return;
        }
        let (tree, tvb, hf) = (self.tree(), self.tvb, shown.id());
        let (start, length) = (at as c_int, len as c_int);
        // SAFETY: as the caller promises; the tape's ranges lie within the captured bytes.
        unsafe {
            let added = match value {
                Value::Int(n) => match item.kind {
                    Kind::Int64 => sys::proto_tree_add_int64(tree, hf, tvb, start, length, n),
                    Kind::Int8 | Kind::Int16 | Kind::Int32 => {
                        sys::proto_tree_add_int(tree, hf, tvb, start, length, n as i32)
                    }
                    _ => sys::proto_tree_add_uint(tree, hf, tvb, start, length, n as u32),
                },
                Value::Bool(byte) => sys::proto_tree_add_boolean(tree, hf, tvb, start, length, byte.into()),
                Value::Uuid => self.uuid(item, hf, at),
                Value::Text { prefix } => self.string(hf, at, len, prefix),
                Value::Bytes { .. } => sys::proto_tree_add_item(tree, hf, tvb, start, length, sys::ENC_NA),
                Value::Null => {
                    let format = c"%s: null".as_ptr();
                    let name = item.c_name.as_ptr();
                    sys::proto_tree_add_none_format(tree, hf, tvb, start, length, format, name)
                }
            };
            self.last = (Some(field), added);
            self.findings_at(Place { at, len }, added);
        }
    }

    /// What rules have found of this place, at its item.
    unsafe fn findings_at(&mut self, place: Place, item: *mut sys::proto_item) {
        if !self.visible {
            return;
        }
        for finding in self.findings.iter().filter(|finding| finding.place == place) {
            // SAFETY: as the caller promises.
            unsafe { self.finding(finding, item) };
        }
    }

    /// What rules have found of the PDU as a whole; all that they have found where nobody looks at their places.
    unsafe fn whole(&mut self) {
        let anywhere = !self.visible;
        for finding in self.findings.iter().filter(|finding| anywhere || finding.place == Place::WHOLE) {
            // SAFETY: as the caller promises; a tree is a node like an item.
            unsafe { self.finding(finding, self.trees[0]) };
        }
    }

    /// Whether somebody reads what is said under this name. If not, it may still be the worst of this PDU.
    fn hears(&mut self, expert: Expert) -> bool {
        if self.heard || self.shows(expert.hf()) {
            return true;
        }
        if expert.severity() > self.unheard.0 {
            self.unheard = (expert.severity(), Some(expert));
        }
        false
    }

    /// Nobody reads what is said, but Wireshark still shows how bad the worst of it is.
    unsafe fn tell_worst(&self) {
        if let (_, Some(expert)) = self.unheard {
            // SAFETY: as the caller promises.
            unsafe { sys::expert_add_info(self.pinfo, ptr::null_mut(), expert.field()) };
        }
    }

    /// A finding with its evidence, which can be followed by a click.
    unsafe fn finding(&mut self, finding: &Finding, item: *mut sys::proto_item) {
        let Some((check, expert)) = finding.check().zip(self.registered.check(finding)) else { return };
        if !self.hears(expert) {
            return;
        }
        let evidence = finding.evidence.and_then(|id| self.history.sighting(id)).map(|sighting| sighting.frame);
        self.text.clear();
        finding.write(check, evidence, &self.history.register, self.text);
        self.end_text();
        // SAFETY: as the caller promises; epan copies the text.
        unsafe {
            sys::expert_add_info_format(self.pinfo, item, expert.field(), c"%s".as_ptr(), self.text.as_ptr());
            // Links to other messages of the broker stand with those of the conversation.
            if let (Evidence::Cause, Some(frame), false) = (check.evidence, evidence, item.is_null()) {
                self.frame_number(item, self.registered.evidence, frame);
            }
        }
    }

    /// A link to another frame.
    unsafe fn frame_number(&self, tree: *mut sys::proto_tree, hf: Hf, frame: u32) {
        // SAFETY: as the caller promises.
        unsafe {
            if self.shows(hf) {
                generated(sys::proto_tree_add_uint(tree, hf.id(), self.tvb, 0, 0, frame));
            }
        }
    }

    /// The frames of the messages of this broker that a message follows.
    unsafe fn links(&mut self) {
        for finding in self.findings {
            let link = match finding.check().map(|check| check.evidence) {
                Some(Evidence::RetryOf) => self.registered.retry_of,
                Some(Evidence::PreviousRegistration) => self.registered.previous_registration,
                Some(Evidence::Cause) | None => continue,
            };
            if let Some(seen) = finding.evidence.and_then(|id| self.history.sighting(id)) {
                // SAFETY: as the caller promises.
                unsafe { self.frame_number(self.trees[0], link, seen.frame) };
            }
        }
    }

    unsafe fn string(&mut self, hf: c_int, at: u32, len: u32, prefix: u8) -> *mut sys::proto_item {
        let bytes = self.pdu.get(at as usize + usize::from(prefix)..(at + len) as usize).unwrap_or_default();
        self.text.clear();
        match std::str::from_utf8(bytes) {
            Ok(text) => self.text.push_str(text),
            Err(_) => self.text.push_str(&String::from_utf8_lossy(bytes)),
        }
        self.end_text();
        // SAFETY: as the caller promises.
        unsafe {
            let text = self.text.as_ptr().cast();
            sys::proto_tree_add_string(self.tree(), hf, self.tvb, at as c_int, len as c_int, text)
        }
    }

    /// A UUID: RFC 4122 is its value, Kafka's own text stands behind it and, for filters, below it.
    unsafe fn uuid(&mut self, item: &Item, hf: c_int, at: u32) -> *mut sys::proto_item {
        let (mut added, mut below) = (self.tree(), self.tree());
        let Some(&id) = self.pdu.get(at as usize..).and_then(|bytes| bytes.first_chunk()) else { return added };
        let mut kafka = [0; 23];
        kafka[..22].copy_from_slice(&wire::kafka_uuid(id));
        // SAFETY: as the caller promises; the text ends with NUL.
        unsafe {
            if item.hf.is_some_and(|hf| self.shows(hf)) {
                added = self.rfc4122(item, hf, at, id, &kafka);
                below = sys::proto_item_add_subtree(added, item.ett);
            }
            let (text, of_text) = (kafka.as_ptr().cast(), self.registered.uuid);
            if self.shows(of_text) {
                generated(sys::proto_tree_add_string(below, of_text.id(), self.tvb, at as c_int, 0, text));
            }
        }
        added
    }

    /// The item of a UUID itself.
    unsafe fn rfc4122(
        &mut self,
        item: &Item,
        hf: c_int,
        at: u32,
        id: [u8; 16],
        kafka: &[u8; 23],
    ) -> *mut sys::proto_item {
        let mut rfc4122 = [0; 37];
        rfc4122[..36].copy_from_slice(&wire::rfc4122(id));
        let reserved = if item.names == Names::DirectoryIds { names::reserved_directory(id) } else { None };
        // SAFETY: as the caller promises; all texts end with NUL.
        unsafe {
            let (tree, tvb, start, value) = (self.tree(), self.tvb, at as c_int, guid(id));
            let (name, rfc4122) = (item.c_name.as_ptr(), rfc4122.as_ptr());
            let format = c"%s: %s (%s)".as_ptr();
            let kafka: *const c_char = kafka.as_ptr().cast();
            let added = sys::proto_tree_add_guid_format(tree, hf, tvb, start, 16, &value, format, name, rfc4122, kafka);
            if let Some(name) = reserved {
                self.text.clear();
                self.text.push_str(name);
                self.end_text();
                sys::proto_item_append_text(added, c" %s".as_ptr(), self.text.as_ptr());
            }
            added
        }
    }

    /// A remark, at the item it is about if that is there, else at its bytes.
    unsafe fn note(&mut self, field: FieldId, at: u32, len: u32, fault: Fault) {
        let expert = self.registered.fault(fault);
        if !self.hears(expert) {
            return;
        }
        let expert = expert.field();
        let name = self.registered.item(field).map_or("", |item| item.name);
        self.text.clear();
        let _ = write!(self.text, "{name}: {fault}");
        self.end_text();
        let captured = (self.pdu.len() as u32).saturating_sub(at).min(len) as c_int;
        // SAFETY: as the caller promises; epan copies the text.
        unsafe {
            let (format, text): (_, *const c_char) = (c"%s".as_ptr(), self.text.as_ptr().cast());
            match self.last {
                (Some(last), item) if last == field && !item.is_null() => {
                    sys::expert_add_info_format(self.pinfo, item, expert, format, text);
                }
                _ => {
                    let (tree, tvb) = (self.tree(), self.tvb);
                    sys::proto_tree_add_expert_format(
                        tree,
                        self.pinfo,
                        expert,
                        tvb,
                        at as c_int,
                        captured,
                        format,
                        text,
                    );
                }
            }
        }
    }

    /// What is not in the bytes of this PDU: its API, its partner, the time between them.
    unsafe fn conversation(&mut self, summary: &Summary) {
        let (tree, tvb, registered) = (self.trees[0], self.tvb, self.registered);
        // SAFETY: as the caller promises.
        unsafe {
            if let (Direction::Response, Some((key, version))) = (summary.direction, summary.api) {
                for (field, value) in GENERATED_API.into_iter().zip([key, version]) {
                    let hf = registered.item(field).and_then(|item| item.hf);
                    if let Some(hf) = hf.filter(|hf| self.shows(*hf)) {
                        generated(sys::proto_tree_add_int(tree, hf.id(), tvb, 0, 0, value.into()));
                    }
                }
            }
            let Some(partner) = summary.partner else { return };
            let link = match summary.direction {
                Direction::Request => registered.response_in,
                Direction::Response => registered.response_to,
            };
            self.frame_number(tree, link, partner.frame);
            if let Some(ns) = summary.time_ns.filter(|_| self.shows(registered.time)) {
                let time =
                    sys::nstime_t { secs: ns.div_euclid(1_000_000_000), nsecs: ns.rem_euclid(1_000_000_000) as c_int };
                generated(sys::proto_tree_add_time(tree, registered.time.id(), tvb, 0, 0, &time));
            }
        }
    }

    /// Closes the text for C. A NUL inside it (legal in Kafka's strings) would end it early and is shown as its symbol.
    fn end_text(&mut self) {
        if self.text.contains('\0') {
            let shown = self.text.replace('\0', "\u{2400}");
            self.text.clear();
            self.text.push_str(&shown);
        }
        self.text.push('\0');
    }
}

unsafe fn generated(item: *mut sys::proto_item) {
    // SAFETY: epan gave the item; NULL is fine.
    unsafe { sys::kraft_set_generated(item) };
}

fn guid(id: [u8; 16]) -> sys::e_guid_t {
    let [a0, a1, a2, a3, b0, b1, c0, c1, data4 @ ..] = id;
    sys::e_guid_t {
        data1: u32::from_be_bytes([a0, a1, a2, a3]),
        data2: u16::from_be_bytes([b0, b1]),
        data3: u16::from_be_bytes([c0, c1]),
        data4,
    }
}
