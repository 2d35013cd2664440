//! What can be said about a PDU beyond its fields, as data: each rule becomes one expert item `kraft.expert.<name>`.

/// How much a remark should worry the reader; Wireshark's own four levels (`PI_CHAT` to `PI_ERROR`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Part of the normal conversation.
    Chat,
    /// Legal, but notable.
    Note,
    /// Likely trouble.
    Warn,
    /// A refused request, or bytes that Kafka rejects.
    Error,
}

/// What kind of remark it is; Wireshark's expert groups (`PI_MALFORMED` and so on).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The bytes break the encoding.
    Malformed,
    /// Bytes that nobody here can read: unknown, not wrong.
    Undecoded,
    /// The encoding is unusual, yet Kafka reads it.
    Protocol,
}

/// One thing the dissector may say.
#[derive(Debug)]
pub struct Rule {
    /// Last part of the filter name `kraft.expert.<name>`.
    pub name: &'static str,
    /// How much it should worry the reader.
    pub severity: Severity,
    /// What kind of remark it is.
    pub group: Group,
    /// One line for the list of expert items; what is said of one PDU has the particulars.
    pub summary: &'static str,
}

impl Rule {
    /// A rule.
    pub const fn new(name: &'static str, severity: Severity, group: Group, summary: &'static str) -> Rule {
        Rule { name, severity, group, summary }
    }
}
