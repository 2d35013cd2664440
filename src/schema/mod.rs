//! Kafka's messages as const tables, written once in the order of the wire with Kafka's own words.
//!
//! From a table come the decode plan of every version, the Wireshark fields (type, names, filter name, description), the
//! dump and the filter reference. Adding an API is one file with an [`Api`] and one word in [`APIS`]; a wrong table fails
//! the build.
//!
//! Source of the model: Kafka's message definitions (`clients/src/main/resources/common/message/README.md`).

pub mod api_versions;
pub mod broker_heartbeat;
pub mod broker_registration;
pub mod feature;
pub mod header;
pub mod names;

use std::fmt::Write;

pub use crate::pdu::Direction;
use crate::register::{Register, Suspicions, Text};
use crate::rule::{Check, Facts};
use crate::tape::{FieldId, View};
use names::Names;

/// The APIs whose bodies are decoded.
pub static APIS: &[&Api] = &[&broker_registration::API, &broker_heartbeat::API, &api_versions::API];

/// A range of versions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// Oldest version.
    pub first: i16,
    /// Newest version.
    pub last: i16,
}

impl Versions {
    /// No version at all.
    pub const NONE: Versions = Versions::range(0, -1);
    /// Every version ("0+").
    pub const ALL: Versions = Versions::since(0);

    /// From `first` to `last` ("1-3").
    pub const fn range(first: i16, last: i16) -> Versions {
        Versions { first, last }
    }

    /// From `first` on ("2+").
    pub const fn since(first: i16) -> Versions {
        Versions { first, last: i16::MAX }
    }

    /// Whether `version` is in the range.
    #[inline]
    pub const fn has(self, version: i16) -> bool {
        self.first <= version && version <= self.last
    }

    const fn is_none(self) -> bool {
        self.first > self.last
    }
}

/// Sums up a message or a struct in a few words, written after what is already there.
pub type Label = fn(&View<'_>, &mut String);

/// How a field is encoded.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// One byte, 0 or 1.
    Bool,
    /// Signed 8 bits.
    Int8,
    /// Signed 16 bits.
    Int16,
    /// Unsigned 16 bits.
    Uint16,
    /// Signed 32 bits.
    Int32,
    /// Unsigned 32 bits.
    Uint32,
    /// Unsigned varint; only in tagged field sections.
    Varint,
    /// Signed 64 bits.
    Int64,
    /// Sixteen bytes.
    Uuid,
    /// Text: int16 length, or unsigned varint of length + 1 in a flexible version.
    String,
    /// Bytes up to the end of what holds them.
    Rest,
    /// Its fields, one after the other; in a flexible version a tagged field section closes it.
    Struct(&'static [Field]),
    /// A count, then that many elements: int32, or unsigned varint of count + 1 in a flexible version.
    Array(&'static Field),
    /// A tagged field section.
    Tags,
}

/// One field of a message. Built by the functions named after Kafka's types: [`int32`], [`string()`], [`array()`] and so on.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Kafka's name, in CamelCase; the singular for an array's element.
    pub name: &'static str,
    /// What Kafka's message definition says about it.
    pub about: &'static str,
    /// How it is encoded.
    pub kind: Kind,
    /// Versions of the message that have it.
    pub versions: Versions,
    /// Versions in which it may be null.
    pub nullable: Versions,
    /// Its tag, if it stands in the tagged field section.
    pub tag: Option<u32>,
    /// Names of its values.
    pub names: Names,
    /// What to call it in filters when that does not follow from `name`.
    pub filter: Option<&'static str>,
    /// Keeps its int16 length in flexible versions.
    pub classic: bool,
    /// Sums up a struct.
    pub label: Option<Label>,
    /// What an array counts, for one and for many; just a number where its name says it.
    pub unit: Option<(&'static str, &'static str)>,
    /// Ordinals it takes: itself and all below it.
    span: u16,
}

impl Field {
    const fn new(name: &'static str, kind: Kind) -> Field {
        let span = match kind {
            Kind::Struct(fields) => 1 + span_of(fields),
            Kind::Array(element) => 1 + element.span,
            _ => 1,
        };
        Field {
            name,
            about: "",
            kind,
            versions: Versions::ALL,
            nullable: Versions::NONE,
            tag: None,
            names: Names::None,
            filter: None,
            classic: false,
            label: None,
            unit: None,
            span,
        }
    }

    /// Says what Kafka's message definition says about it.
    pub const fn about(mut self, about: &'static str) -> Field {
        self.about = about;
        self
    }

    /// Only in versions from `first` on.
    pub const fn since(mut self, first: i16) -> Field {
        self.versions = Versions::since(first);
        self
    }

    /// May be null, in every version that has it.
    pub const fn nullable(mut self) -> Field {
        self.nullable = Versions::ALL;
        self
    }

    /// Stands in the tagged field section, under this tag.
    pub const fn tag(mut self, tag: u32) -> Field {
        self.tag = Some(tag);
        self
    }

    /// Its values have names.
    pub const fn names(mut self, names: Names) -> Field {
        self.names = names;
        self
    }

    /// Is called so in filters (the last part, in snake_case).
    pub const fn filter(mut self, filter: &'static str) -> Field {
        self.filter = Some(filter);
        self
    }

    /// Keeps its int16 length in flexible versions (the client id of the request header).
    pub const fn classic(mut self) -> Field {
        self.classic = true;
        self
    }

    /// Is summed up so.
    pub const fn label(mut self, label: Label) -> Field {
        self.label = Some(label);
        self
    }

    /// Counts these: one, many.
    pub const fn unit(mut self, one: &'static str, many: &'static str) -> Field {
        self.unit = Some((one, many));
        self
    }

    /// Ordinals it takes: itself and all below it.
    #[inline]
    pub const fn span(&self) -> u16 {
        self.span
    }

    /// The fields below it: those of a struct, or the element of an array.
    pub const fn below(&self) -> &'static [Field] {
        match self.kind {
            Kind::Struct(fields) => fields,
            Kind::Array(element) => std::slice::from_ref(element),
            _ => &[],
        }
    }

    /// The last part of its filter name: what [`Field::filter`] says, else its name in snake_case.
    pub fn snake(&self) -> String {
        self.filter.map_or_else(|| snake(self.name), str::to_owned)
    }

    const fn validate(&self) {
        assert!(!self.name.is_empty(), "a field has no name");
        assert!(!self.versions.is_none(), "a field is in no version");
        if !self.nullable.is_none() {
            assert!(
                matches!(self.kind, Kind::String | Kind::Array(_) | Kind::Rest),
                "only strings, bytes and arrays can be null"
            );
        }
        assert!(!self.classic || matches!(self.kind, Kind::String), "only strings have a classic form");
        assert!(
            self.names.is_none() || matches!(self.kind, Kind::Int8 | Kind::Int16 | Kind::Int32 | Kind::Uuid),
            "only integers and UUIDs have named values"
        );
        let below = self.below();
        let mut i = 0;
        while i < below.len() {
            below[i].validate();
            let mut j = 0;
            while j < i {
                assert!(!same(below[i].name, below[j].name), "two fields of a struct have the same name");
                j += 1;
            }
            i += 1;
        }
    }
}

const fn span_of(fields: &[Field]) -> u16 {
    let mut span = 0;
    let mut i = 0;
    while i < fields.len() {
        span += fields[i].span;
        i += 1;
    }
    span
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// `BrokerId` as `broker_id`.
pub fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for (i, c) in name.char_indices() {
        if c.is_ascii_uppercase() && i > 0 {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// A boolean field.
pub const fn boolean(name: &'static str) -> Field {
    Field::new(name, Kind::Bool)
}

/// A signed 16-bit field.
pub const fn int16(name: &'static str) -> Field {
    Field::new(name, Kind::Int16)
}

/// An unsigned 16-bit field.
pub const fn uint16(name: &'static str) -> Field {
    Field::new(name, Kind::Uint16)
}

/// A signed 32-bit field.
pub const fn int32(name: &'static str) -> Field {
    Field::new(name, Kind::Int32)
}

/// A signed 64-bit field.
pub const fn int64(name: &'static str) -> Field {
    Field::new(name, Kind::Int64)
}

/// A UUID.
pub const fn uuid(name: &'static str) -> Field {
    Field::new(name, Kind::Uuid)
}

/// A string.
pub const fn string(name: &'static str) -> Field {
    Field::new(name, Kind::String)
}

/// A struct; as the element of an array it has the array's singular name.
pub const fn structure(name: &'static str, fields: &'static [Field]) -> Field {
    Field::new(name, Kind::Struct(fields))
}

/// An array of elements.
pub const fn array(name: &'static str, element: &'static Field) -> Field {
    Field::new(name, Kind::Array(element))
}

/// One message, or one of the structures around it ([`header::FRAME`], [`header::REQUEST`] and so on).
#[derive(Debug)]
pub struct Message {
    /// Its number in [`FieldId::message`]: a few small ones for the structures around messages, then two an API key.
    pub id: u16,
    /// Versions that are known.
    pub versions: Versions,
    /// Versions with compact lengths and tagged field sections.
    pub flexible: Versions,
    /// The message as a struct: its name, what it is about, its fields.
    pub root: Field,
    /// Ordinal of the field that names a broker, if it has one.
    pub broker_id: Option<u16>,
    /// Which broker of which cluster it is about, as far as it and the register tell.
    pub subject: Option<Subject>,
    /// What may be said of it.
    pub checks: &'static [Check],
    /// What the register keeps of it.
    pub learn: Option<Learn>,
}

/// Which broker of which cluster a message is about.
pub type Subject = fn(&Facts, &Register) -> Option<(Text, i32)>;

/// Takes down in the register what a message tells. `suspicions` are those of the message's own rules.
pub type Learn = fn(&Facts, &mut Register, Suspicions);

impl Message {
    /// Is summed up so: what identifies it, for the Info column; written after API, version and direction.
    pub const fn info(mut self, info: Label) -> Message {
        self.root.label = Some(info);
        self
    }

    /// Is about this broker.
    pub const fn subject(mut self, subject: Subject) -> Message {
        self.subject = Some(subject);
        self
    }

    /// Has these rules.
    pub const fn checks(mut self, checks: &'static [Check]) -> Message {
        self.checks = checks;
        self
    }

    /// Tells the register this.
    pub const fn learn(mut self, learn: Learn) -> Message {
        self.learn = Some(learn);
        self
    }

    const fn around(id: u16, versions: Versions, flexible: Versions, root: Field) -> Message {
        root.validate();
        Message { id, versions, flexible, root, broker_id: None, subject: None, checks: &[], learn: None }
    }

    /// A message of an API, to be handed to [`Api::new`]: `name` with its `Request` or `Response`, the versions that are
    /// known, those that are flexible, and its fields in the order of the wire.
    pub const fn new(name: &'static str, versions: Versions, flexible: Versions, fields: &'static [Field]) -> Message {
        let root = structure(name, fields).about("message body");
        let broker_id = top_level(fields, "BrokerId");
        Message { id: u16::MAX, versions, flexible, root, broker_id, subject: None, checks: &[], learn: None }
    }

    /// The ordinal of the field at `path` (`"Listeners.Listener.Port"`), at compile time: a path that does not exist
    /// fails the build.
    ///
    /// ```compile_fail
    /// use kraft::schema::broker_registration::REQUEST;
    /// const NO_SUCH_FIELD: u16 = REQUEST.ord("BrokerName");
    /// ```
    pub const fn ord(&self, path: &str) -> u16 {
        find(&self.root, path.as_bytes(), 0)
    }

    /// The ordinal of the field of this name that stands right below the message, if it has one.
    pub const fn top_level(&self, name: &str) -> Option<u16> {
        top_level(self.root.below(), name)
    }

    /// The id of the field with this ordinal.
    #[inline]
    pub const fn field_id(&self, ord: u16) -> FieldId {
        FieldId { message: self.id, ord }
    }

    /// Every field with its ordinal and the fields above it, outermost first, depth first; the root comes first.
    pub fn walk(&'static self, visit: &mut dyn FnMut(u16, &[&'static Field], &'static Field)) {
        walk(&self.root, 0, &mut Vec::new(), visit);
    }
}

const fn top_level(fields: &[Field], name: &str) -> Option<u16> {
    let (mut next, mut i) = (1, 0);
    while i < fields.len() {
        if same(fields[i].name, name) {
            return Some(next);
        }
        next += fields[i].span;
        i += 1;
    }
    None
}

const fn find(parent: &Field, path: &[u8], ord: u16) -> u16 {
    let mut end = 0;
    while end < path.len() && path[end] != b'.' {
        end += 1;
    }
    let (head, rest) = path.split_at(end);
    let (below, mut next, mut i) = (parent.below(), ord + 1, 0);
    while i < below.len() {
        if bytes_equal(below[i].name.as_bytes(), head) {
            return match rest.split_first() {
                None => next,
                Some((_, rest)) => find(&below[i], rest, next),
            };
        }
        next += below[i].span;
        i += 1;
    }
    panic!("no field has this path")
}

const fn bytes_equal(a: &[u8], b: &[u8]) -> bool {
    match (a.split_first(), b.split_first()) {
        (None, None) => true,
        (Some((x, a)), Some((y, b))) => *x == *y && bytes_equal(a, b),
        _ => false,
    }
}

fn walk(
    field: &'static Field,
    ord: u16,
    above: &mut Vec<&'static Field>,
    visit: &mut dyn FnMut(u16, &[&'static Field], &'static Field),
) {
    visit(ord, above, field);
    above.push(field);
    let mut next = ord + 1;
    for child in field.below() {
        walk(child, next, above, visit);
        next += child.span;
    }
    above.pop();
}

/// Writes the error of a response, `, DUPLICATE_BROKER_REGISTRATION (101)`, and says whether there is one.
pub fn write_error(code: Option<i64>, out: &mut String) -> bool {
    let Some(code) = code.filter(|code| *code != 0) else { return false };
    let _ = match Names::ErrorCodes.of(code) {
        Some(name) => write!(out, ", {name} ({code})"),
        None => write!(out, ", error {code}"),
    };
    true
}

/// One Kafka API whose bodies are decoded: its key and both messages.
#[derive(Debug)]
pub struct Api {
    /// The API key.
    pub key: i16,
    /// What the client sends.
    pub request: Message,
    /// What the server answers.
    pub response: Message,
    /// Ordinal of the response's error code.
    pub error_code: u16,
    /// A server refuses a version that it does not know in the oldest version, with error 35.
    pub refuses_in_oldest: bool,
}

impl Api {
    /// An API. Fails the build where a table contradicts itself or [`names::API_KEYS`].
    pub const fn new(key: i16, mut request: Message, mut response: Message) -> Api {
        let known = match names::api_key(key) {
            Some(known) => known,
            None => panic!("the API key is not in names::API_KEYS"),
        };
        assert!(request.versions.last <= known.versions.last, "the schema is newer than names::API_KEYS");
        assert!(
            request.flexible.is_none() == known.flexible.is_none()
                && (request.flexible.is_none() || request.flexible.first == known.flexible.first),
            "the schema and names::API_KEYS disagree about flexible versions"
        );
        request.root.validate();
        response.root.validate();
        request.id = message_id(key, Direction::Request);
        response.id = message_id(key, Direction::Response);
        let error_code = response.ord("ErrorCode");
        Api { key, request, response, error_code, refuses_in_oldest: false }
    }

    /// A server refuses a version that it does not know in the oldest version, with error 35.
    pub const fn refuses_in_oldest(mut self) -> Api {
        self.refuses_in_oldest = true;
        self
    }

    /// The message of one direction.
    pub const fn message(&'static self, direction: Direction) -> &'static Message {
        match direction {
            Direction::Request => &self.request,
            Direction::Response => &self.response,
        }
    }
}

const fn message_id(key: i16, direction: Direction) -> u16 {
    header::AROUND.len() as u16 + 2 * key as u16 + matches!(direction, Direction::Response) as u16
}

/// The API with this key, if its bodies are decoded here.
#[inline]
pub fn api(key: i16) -> Option<&'static Api> {
    APIS.iter().copied().find(|api| api.key == key)
}

/// All messages: the structures around them, then requests and responses.
pub fn messages() -> impl Iterator<Item = &'static Message> {
    header::AROUND.iter().copied().chain(APIS.iter().flat_map(|api| [&api.request, &api.response]))
}

/// The field that `id` names.
pub fn field(id: FieldId) -> Option<&'static Field> {
    let message = messages().find(|message| message.id == id.message)?;
    let mut found = None;
    message.walk(&mut |ord, _, field| {
        if ord == id.ord {
            found = Some(field);
        }
    });
    found
}

/// The filter name of a field below `above` (outermost first, the message itself included), as `FIELDS.md` rules: `kraft.`,
/// the name of the innermost struct or array element, the field's own name. The message itself has none.
pub fn filter_name(above: &[&'static Field], field: &'static Field) -> Option<String> {
    let own = field.snake();
    let (parent, grandparents) = above.split_last()?;
    let inside_element = matches!(parent.kind, Kind::Struct(_)) && !grandparents.is_empty();
    Some(if inside_element { format!("kraft.{}.{own}", parent.snake()) } else { format!("kraft.{own}") })
}

/// The name Wireshark shows: `BrokerId` as `Broker ID`, `ThrottleTimeMs` as `Throttle Time (ms)`. A field that goes by
/// another name in filters goes by it here too.
pub fn display_name(field: &Field) -> String {
    let words = field.snake();
    let words = words.split('_').map(|word| match word {
        "id" => "ID".to_owned(),
        "zk" => "ZK".to_owned(),
        "api" => "API".to_owned(),
        "ms" => "(ms)".to_owned(),
        word => word[..1].to_ascii_uppercase() + &word[1..],
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    static ELEMENT: Field = structure("Part", &[int32("A"), int16("B").since(1)]);
    static MESSAGE: Message = Message::new(
        "TestRequest",
        Versions::range(0, 2),
        Versions::since(1),
        &[string("S"), array("Parts", &ELEMENT), int64("L")],
    );

    #[test]
    fn ordinals_count_depth_first() {
        const B: u16 = MESSAGE_ORD_B;
        assert_eq!(
            (B, MESSAGE.ord("S"), MESSAGE.ord("Parts"), MESSAGE.ord("Parts.Part"), MESSAGE.ord("L")),
            (5, 1, 2, 3, 6)
        );
        assert_eq!(["S", "L", "A"].map(|name| MESSAGE.top_level(name)), [Some(1), Some(6), None]);
        let mut seen = Vec::new();
        MESSAGE.walk(&mut |ord, above, field| seen.push((ord, above.len(), field.name)));
        assert_eq!(
            seen,
            [
                (0, 0, "TestRequest"),
                (1, 1, "S"),
                (2, 1, "Parts"),
                (3, 2, "Part"),
                (4, 3, "A"),
                (5, 3, "B"),
                (6, 1, "L"),
            ]
        );
    }
    const MESSAGE_ORD_B: u16 = 5;

    #[test]
    fn filter_names_follow_from_the_path() {
        let mut names = Vec::new();
        broker_registration::API.request.walk(&mut |_, above, field| names.extend(filter_name(above, field)));
        for name in [
            "kraft.broker_id",
            "kraft.listeners",
            "kraft.listener",
            "kraft.listener.port",
            "kraft.log_dirs",
            "kraft.log_dir",
        ] {
            assert!(names.iter().any(|n| n == name), "{name} is missing in {names:?}");
        }
    }

    #[test]
    fn display_names_are_words() {
        assert_eq!(display_name(&int32("ThrottleTimeMs")), "Throttle Time (ms)");
        assert_eq!(display_name(&boolean("IsMigratingZkBroker")), "Is Migrating ZK Broker");
    }

    #[test]
    fn two_fields_share_a_filter_name_only_with_the_same_type() {
        let mut types = std::collections::HashMap::new();
        for message in messages() {
            message.walk(&mut |_, above, field| {
                if let Some(name) = filter_name(above, field) {
                    let kind = std::mem::discriminant(&field.kind);
                    assert_eq!(*types.entry(name.clone()).or_insert(kind), kind, "{name} has two types");
                }
            });
        }
    }
}
