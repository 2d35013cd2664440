//! Registration with epan: the plugin, the protocol, and a field, a subtree and an expert item for each row of the schema.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use super::sys;
use crate::rule::{Finding, Group, Rule, Severity};
use crate::schema::names::Names;
use crate::schema::{self, Field, Kind, Label, header};
use crate::tape::FieldId;
use crate::wire;

/// The version of this plugin, as Wireshark lists it.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static plugin_version: [u8; env!("CARGO_PKG_VERSION").len() + 1] = c_array(concat!(env!("CARGO_PKG_VERSION"), "\0"));

/// The Wireshark this plugin was built for. Another minor version refuses it.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static plugin_want_major: c_int = sys::WIRESHARK_VERSION_MAJOR as c_int;

/// See [`plugin_want_major`].
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static plugin_want_minor: c_int = sys::WIRESHARK_VERSION_MINOR as c_int;

const fn c_array<const N: usize>(text: &str) -> [u8; N] {
    *text.as_bytes().first_chunk().expect("the text has N bytes")
}

/// Called by Wireshark when it has loaded the plugin.
#[unsafe(no_mangle)]
extern "C" fn plugin_register() {
    // SAFETY: Wireshark has initialised epan's registration before it loads plugins.
    unsafe { sys::kraft_register_plugin() };
}

/// What the plugin registers (`WS_PLUGIN_DESC_DISSECTOR`); Wireshark reads it from 4.4 on.
#[unsafe(no_mangle)]
extern "C" fn plugin_describe() -> u32 {
    1
}

/// A field that was registered.
#[derive(Clone, Copy)]
pub struct Hf(*const sys::hf_register_info);

impl Hf {
    /// epan's number of it.
    #[inline]
    pub fn id(self) -> c_int {
        // SAFETY: what is registered lives as long as the process; epan has put the number there.
        unsafe { *(*self.0).p_id }
    }

    /// Whether a filter, a column or an output asks for it, and so wants its item also in a tree that nobody looks at as a
    /// whole (what `proto_field_is_referenced` of epan's proto.h tells).
    #[inline]
    pub fn is_referenced(self) -> bool {
        // SAFETY: as above; epan notes there, before a packet is dissected, what is asked for.
        unsafe { (*self.0).hfinfo.ref_type != sys::HF_REF_TYPE_NONE }
    }
}

/// One row of a schema as epan knows it.
pub struct Item {
    /// The registered field; a message itself has none.
    pub hf: Option<Hf>,
    /// The registered subtree below it.
    pub ett: c_int,
    /// How it is encoded.
    pub kind: Kind,
    /// Names of its values.
    pub names: Names,
    /// How a struct is summed up.
    pub label: Option<Label>,
    /// What an array counts, for one and for many.
    pub unit: Option<(CString, CString)>,
    /// What Wireshark shows as its name, for items whose text is written here.
    pub name: &'static str,
    /// The same for C.
    pub c_name: &'static CStr,
}

/// Everything that was registered.
pub struct Registered {
    /// By message, then by ordinal; messages without schema have no items.
    items: Vec<Vec<Item>>,
    /// A null string or array.
    pub null: Hf,
    /// Kafka's text form of a UUID.
    pub uuid: Hf,
    /// The frame of the response.
    pub response_in: Hf,
    /// The frame of the request.
    pub response_to: Hf,
    /// Time from request to response.
    pub time: Hf,
    /// The previous attempt of the same registration.
    pub retry_of: Hf,
    /// The last accepted registration of the same broker id.
    pub previous_registration: Hf,
    /// What proves a finding.
    pub evidence: Hf,
    /// The subtree of the protocol.
    pub ett: c_int,
    /// Expert items: in the order of [`wire::RULES`], the one for a bug of ours, then check by check of each message.
    experts: Vec<Expert>,
    /// By message: the place of the first of its checks among `experts`.
    checks: Vec<usize>,
}

/// An expert item that was registered. epan, and the user's preferences, may change what is behind it.
#[derive(Clone, Copy)]
pub struct Expert(*mut sys::ei_register_info);

impl Expert {
    /// What epan wants as its name.
    pub fn field(self) -> *mut sys::expert_field {
        // SAFETY: what is registered lives as long as the process, and epan writes there only while it registers.
        unsafe { (*self.0).ids }
    }

    /// The field that a filter names.
    pub fn hf(self) -> Hf {
        // SAFETY: as above; epan registers the field from there.
        Hf(unsafe { &raw const (*self.0).eiinfo.hf_info })
    }

    /// Its severity (`PI_CHAT` to `PI_ERROR`), which users may change.
    pub fn severity(self) -> c_int {
        // SAFETY: as above; preferences are applied between dissections.
        unsafe { (*self.0).eiinfo.severity }
    }
}

struct Cell(OnceLock<Registered>);

// SAFETY: epan registers and dissects in one thread.
unsafe impl Sync for Cell {}

static REGISTERED: Cell = Cell(OnceLock::new());

/// Everything that was registered; `None` before that.
pub fn registered() -> Option<&'static Registered> {
    REGISTERED.0.get()
}

impl Registered {
    /// The item of a field.
    #[inline]
    pub fn item(&self, field: FieldId) -> Option<&Item> {
        self.items.get(usize::from(field.message))?.get(usize::from(field.ord))
    }

    /// The expert item of a fault.
    pub fn fault(&self, fault: wire::Fault) -> Expert {
        self.experts[fault.index()]
    }

    /// The expert item of a finding.
    pub fn check(&self, finding: &Finding) -> Option<Expert> {
        let first = self.checks.get(usize::from(finding.message))?;
        self.experts.get(first + usize::from(finding.check)).copied()
    }

    /// The expert item for a bug of ours.
    pub fn internal_error(&self) -> Expert {
        self.experts[wire::RULES.len()]
    }
}

/// Registers the protocol; the first of Wireshark's two calls.
#[unsafe(no_mangle)]
extern "C" fn kraft_register_protocol() {
    // SAFETY: called by epan during registration; all that is handed over lives for ever.
    unsafe {
        let protocol =
            sys::proto_register_protocol(c"Kafka KRaft Control Plane".as_ptr(), c"KRaft".as_ptr(), c"kraft".as_ptr());
        sys::proto_kraft = protocol;
        let registered = Registration::default().register(protocol);
        REGISTERED.0.get_or_init(|| registered);
        sys::kraft_register_gate();
        sys::kraft_register_preferences(sys::prefs_register_protocol(protocol, None));
        sys::kraft_register_tap();
    }
}

/// Registers where the protocol is found; the second of Wireshark's two calls.
#[unsafe(no_mangle)]
extern "C" fn kraft_register_handoff() {
    // SAFETY: called by epan during registration, after the protocol is known.
    unsafe {
        sys::kraft_register_dissectors();
        sys::kraft_register_statistics();
    }
}

/// Collects what is registered. epan keeps pointers to all of it, so it is leaked: it lives as long as the process.
#[derive(Default)]
struct Registration {
    fields: Vec<sys::hf_register_info>,
    subtrees: Vec<*mut c_int>,
}

/// Where epan writes an id that it gives out.
type Slot = &'static mut c_int;

/// A row of a message with its field and the place for the id of its subtree.
struct Row {
    /// Its place among the fields; a message itself has none.
    hf: Option<usize>,
    ett: Slot,
    field: &'static Field,
}

impl Registration {
    /// # Safety
    /// Only during epan's registration.
    unsafe fn register(mut self, protocol: c_int) -> Registered {
        let slots: Vec<(u16, Vec<Row>)> =
            schema::messages().map(|message| (message.id, self.message(message))).collect();
        let null = self.field("Null", "kraft.null", sys::FT_NONE, "a string or an array that is null");
        let uuid = self.field(
            "UUID",
            "kraft.uuid",
            sys::FT_STRING,
            "the UUID as Kafka writes it in logs and meta.properties: url-safe base64",
        );
        let response_in = self.frame_number(
            "Response in",
            "kraft.response_in",
            sys::FT_FRAMENUM_RESPONSE,
            "the frame of the response",
        );
        let response_to =
            self.frame_number("Response to", "kraft.response_to", sys::FT_FRAMENUM_REQUEST, "the frame of the request");
        let retry_of = self.frame_number(
            "Retry of",
            "kraft.retry_of",
            sys::FT_FRAMENUM_NONE,
            "the previous attempt of the same registration",
        );
        let previous_registration = self.frame_number(
            "Previous registration",
            "kraft.previous_registration",
            sys::FT_FRAMENUM_NONE,
            "the last accepted registration of the same broker id",
        );
        let evidence =
            self.frame_number("Evidence", "kraft.evidence", sys::FT_FRAMENUM_NONE, "the frame that proves a finding");
        let time = self.field("Time", "kraft.time", sys::FT_RELATIVE_TIME, "time from the request to the response");
        let ett = self.subtree();
        let (fields, subtrees) = (self.fields.leak(), self.subtrees.leak());
        // SAFETY: both arrays and all they point to are leaked.
        unsafe {
            sys::proto_register_field_array(protocol, fields.as_mut_ptr(), fields.len() as c_int);
            sys::proto_register_subtree_array(subtrees.as_ptr(), subtrees.len() as c_int);
        }
        // SAFETY: as the caller promises.
        let (experts, checks) = unsafe { register_experts(protocol) };
        let hf = |place: usize| Hf(&raw const fields[place]);
        Registered {
            items: by_message(slots, hf),
            null: hf(null),
            uuid: hf(uuid),
            response_in: hf(response_in),
            response_to: hf(response_to),
            time: hf(time),
            retry_of: hf(retry_of),
            previous_registration: hf(previous_registration),
            evidence: hf(evidence),
            ett: *ett,
            experts,
            checks,
        }
    }

    /// A field and a subtree for each row of a message.
    fn message(&mut self, message: &'static schema::Message) -> Vec<Row> {
        let mut rows = Vec::new();
        message.walk(&mut |_, above, field| rows.push((schema::filter_name(above, field), field)));
        rows.into_iter()
            .map(|(filter, field)| {
                let hf = filter.map(|filter| {
                    let (kind, display) = field_type(field.kind);
                    self.add(
                        &schema::display_name(field),
                        &filter,
                        kind,
                        display,
                        value_strings(field.names),
                        field.about,
                    )
                });
                Row { hf, ett: self.subtree(), field }
            })
            .collect()
    }

    fn field(&mut self, name: &str, filter: &str, kind: sys::ftenum, about: &str) -> usize {
        self.add(name, filter, kind, sys::BASE_NONE, ptr::null(), about)
    }

    fn frame_number(&mut self, name: &str, filter: &str, kind: sys::ft_framenum_type_t, about: &str) -> usize {
        // What FRAMENUM_TYPE() of epan's proto.h does: the number itself in place of a pointer.
        let kind = ptr::without_provenance(kind as usize);
        self.add(name, filter, sys::FT_FRAMENUM, sys::BASE_NONE, kind, about)
    }

    fn add(
        &mut self,
        name: &str,
        filter: &str,
        kind: sys::ftenum,
        display: sys::field_display_e,
        strings: *const c_void,
        about: &str,
    ) -> usize {
        let blurb = if about.is_empty() { ptr::null() } else { c_text(about) };
        self.fields.push(sys::hf_register_info {
            p_id: slot(),
            hfinfo: sys::header_field_info {
                name: c_text(name),
                abbrev: c_text(filter),
                type_: kind,
                display: display as c_int,
                strings,
                bitmask: 0,
                blurb,
                // The rest is epan's own (HFILL in proto.h).
                id: -1,
                parent: 0,
                ref_type: sys::HF_REF_TYPE_NONE,
                same_name_prev_id: -1,
                same_name_next: ptr::null_mut(),
            },
        });
        self.fields.len() - 1
    }

    fn subtree(&mut self) -> Slot {
        let slot = slot();
        self.subtrees.push(slot);
        slot
    }
}

fn slot() -> Slot {
    Box::leak(Box::new(-1))
}

fn c_text(text: &str) -> *const c_char {
    c_string(text).into_raw()
}

fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

fn by_message(slots: Vec<(u16, Vec<Row>)>, of: impl Fn(usize) -> Hf) -> Vec<Vec<Item>> {
    let mut items: Vec<Vec<Item>> = Vec::new();
    for (message, rows) in slots {
        items.resize_with(items.len().max(usize::from(message) + 1), Vec::new);
        items[usize::from(message)] = rows
            .into_iter()
            .map(|Row { hf, ett, field }| Item {
                hf: hf.map(&of),
                ett: *ett,
                kind: field.kind,
                names: field.names,
                label: field.label,
                unit: field.unit.map(|(one, many)| (c_string(one), c_string(many))),
                name: schema::display_name(field).leak(),
                c_name: Box::leak(c_string(&schema::display_name(field)).into_boxed_c_str()),
            })
            .collect();
    }
    items
}

fn field_type(kind: Kind) -> (sys::ftenum, sys::field_display_e) {
    match kind {
        Kind::Bool => (sys::FT_BOOLEAN, sys::BASE_NONE),
        Kind::Int8 => (sys::FT_INT8, sys::BASE_DEC),
        Kind::Int16 => (sys::FT_INT16, sys::BASE_DEC),
        Kind::Uint16 => (sys::FT_UINT16, sys::BASE_DEC),
        Kind::Int32 => (sys::FT_INT32, sys::BASE_DEC),
        Kind::Uint32 | Kind::Varint | Kind::Array(_) | Kind::Tags => (sys::FT_UINT32, sys::BASE_DEC),
        Kind::Int64 => (sys::FT_INT64, sys::BASE_DEC),
        Kind::Uuid => (sys::FT_GUID, sys::BASE_NONE),
        Kind::String => (sys::FT_STRING, sys::BASE_NONE),
        Kind::Rest => (sys::FT_BYTES, sys::BASE_NONE),
        Kind::Struct(_) => (sys::FT_NONE, sys::BASE_NONE),
    }
}

/// The names of integer values as epan wants them: an array closed by an empty entry. Null where there are none.
fn value_strings(names: Names) -> *const c_void {
    let mut strings: Vec<sys::value_string> = names
        .all()
        .map(|(value, name)| sys::value_string { value: i32::from(value) as u32, strptr: c_text(name) })
        .collect();
    if strings.is_empty() {
        return ptr::null();
    }
    strings.push(sys::value_string { value: 0, strptr: ptr::null() });
    strings.leak().as_ptr().cast()
}

/// Registers all expert items; see `experts` and `checks` of [`Registered`].
///
/// # Safety
/// Only during epan's registration.
unsafe fn register_experts(protocol: c_int) -> (Vec<Expert>, Vec<usize>) {
    static INTERNAL_ERROR: Rule = Rule::new(
        "internal_error",
        Severity::Error,
        Group::Undecoded,
        "A bug of this dissector: please report it with the capture",
    );
    let mut rules: Vec<&'static Rule> = wire::RULES.iter().chain([&INTERNAL_ERROR]).collect();
    let mut checks = Vec::new();
    for message in schema::messages() {
        let id = usize::from(message.id);
        checks.resize(checks.len().max(id + 1), 0);
        checks[id] = rules.len();
        rules.extend(message.checks.iter().map(|check| &check.rule));
    }
    let infos = rules.into_iter().map(expert_info).collect::<Vec<_>>().leak();
    let (first, count) = (infos.as_mut_ptr(), infos.len());
    // SAFETY: the array and all it points to are leaked; the places are within it.
    unsafe {
        sys::expert_register_field_array(sys::expert_register_protocol(protocol), first, count as c_int);
        ((0..count).map(|i| Expert(first.add(i))).collect(), checks)
    }
}

fn expert_info(rule: &'static Rule) -> sys::ei_register_info {
    let group = match rule.group {
        Group::Malformed => sys::PI_MALFORMED,
        Group::Protocol => sys::PI_PROTOCOL,
        Group::Undecoded => sys::PI_UNDECODED,
        Group::Request => sys::PI_REQUEST_CODE,
        Group::Response => sys::PI_RESPONSE_CODE,
        Group::Sequence => sys::PI_SEQUENCE,
    };
    let severity = match rule.severity {
        Severity::Chat => sys::PI_CHAT,
        Severity::Note => sys::PI_NOTE,
        Severity::Warn => sys::PI_WARN,
        Severity::Error => sys::PI_ERROR,
    };
    sys::ei_register_info {
        ids: Box::leak(Box::new(sys::expert_field { ei: -1, hf: -1 })),
        eiinfo: sys::expert_field_info {
            name: c_text(&format!("kraft.expert.{}", rule.name)),
            group: group as c_int,
            severity: severity as c_int,
            summary: c_text(rule.summary),
            // The rest is epan's own (EXPFILL in expert.h).
            id: 0,
            protocol: ptr::null(),
            orig_severity: 0,
            hf_info: sys::hf_register_info {
                p_id: ptr::null_mut(),
                hfinfo: sys::header_field_info {
                    name: ptr::null(),
                    abbrev: ptr::null(),
                    type_: sys::FT_NONE,
                    display: sys::BASE_NONE as c_int,
                    strings: ptr::null(),
                    bitmask: 0,
                    blurb: ptr::null(),
                    id: 0,
                    parent: 0,
                    ref_type: sys::HF_REF_TYPE_NONE,
                    same_name_prev_id: 0,
                    same_name_next: ptr::null_mut(),
                },
            },
        },
    }
}

/// The field that a header item is generated from in a response.
pub const GENERATED_API: [FieldId; 2] = [header::API_KEY, header::API_VERSION];
