//! What can be said about a PDU beyond its fields, as data: each rule becomes one expert item `kraft.expert.<name>`. Rules
//! about the bytes stand in [`crate::wire`], rules about a message in the file of its API.

use std::ops::Deref;

use crate::pdu::{ConnectionId, PduId, Sighting};
use crate::register::{Address, Broker, Cluster, Register, Suspicion, Suspicions, Text};
use crate::tape::{Place, View};

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
    /// What a request asks for.
    Request,
    /// What a response says.
    Response,
    /// How messages follow each other.
    Sequence,
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

/// A rule of a message.
#[derive(Debug)]
pub struct Check {
    /// Its name, how much it should worry the reader, what it is about.
    pub rule: Rule,
    /// What it says; [`Finding::text`] picks one. `{frame}` is the frame of the evidence, `{0}` to `{2}` are the arguments:
    /// as a number, or `{0:text}` (of the register), `{0:range}` (two packed numbers), `{0:seconds}` (from nanoseconds),
    /// `{0:release}` (of a metadata.version level, in brackets, empty for 0), `{0:error}`; `{0:uuid}` takes two, 0 and 1.
    pub texts: &'static [&'static str],
    /// Which frame its evidence is.
    pub evidence: Evidence,
    /// Looks at a message.
    pub look: fn(&Case, &mut Report),
}

impl Check {
    /// A rule with its texts, the evidence being a cause.
    pub const fn new(rule: Rule, texts: &'static [&'static str], look: fn(&Case, &mut Report)) -> Check {
        Check { rule, texts, evidence: Evidence::Cause, look }
    }

    /// Its evidence is this to the message.
    pub const fn evidence(mut self, evidence: Evidence) -> Check {
        self.evidence = evidence;
        self
    }
}

/// What the evidence of a rule is to the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Something that explains it (`kraft.evidence`).
    Cause,
    /// The previous attempt of the same registration (`kraft.retry_of`).
    RetryOf,
    /// The last accepted registration of the same broker id (`kraft.previous_registration`).
    PreviousRegistration,
}

/// A message before the eyes of the rules: what it tells, and what was known before it.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// What it tells.
    pub facts: Facts<'a>,
    /// What was known before it.
    pub register: &'a Register,
    /// What was known of the broker that it is about.
    pub broker: Option<&'a Broker>,
    /// What was known of that broker's cluster.
    pub cluster: Option<&'a Cluster>,
}

impl<'a> Case<'a> {
    /// A message, the cluster and the broker that it is about, and what was known before it.
    pub fn new(facts: Facts<'a>, register: &'a Register, subject: Option<(Text, i32)>) -> Case<'a> {
        Case {
            facts,
            register,
            broker: subject.and_then(|(cluster, broker)| register.broker(cluster, broker)),
            cluster: subject.and_then(|(cluster, _)| register.cluster(cluster)),
        }
    }
}

impl<'a> Deref for Case<'a> {
    type Target = Facts<'a>;

    fn deref(&self) -> &Facts<'a> {
        &self.facts
    }
}

/// What a message tells, and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Its fields.
    pub message: View<'a>,
    /// Its version.
    pub version: i16,
    /// The PDU.
    pub id: PduId,
    /// Where and when it was complete.
    pub sighting: Sighting,
    /// Its connection.
    pub connection: ConnectionId,
    /// The address of the client.
    pub client: Address,
    /// Whether both ends are the same machine (loopback addresses).
    pub is_local: bool,
    /// Whether it was captured and read to its end: only then is what is not there known to be missing.
    pub is_whole: bool,
    /// The request that a response answers.
    pub request: Option<PduId>,
}

/// What a rule has found.
#[derive(Clone, Copy, Debug)]
pub struct Finding {
    /// The PDU it is about.
    pub pdu: PduId,
    /// The message, and the place of the rule in it.
    pub message: u16,
    /// See `message`.
    pub check: u8,
    /// Which of the rule's texts.
    pub text: u8,
    /// The bytes it is about.
    pub place: Place,
    /// The PDU that proves it.
    pub evidence: Option<PduId>,
    /// What the text names.
    pub arguments: [i64; 3],
}

const _: () = assert!(size_of::<Finding>() <= 56);

/// Findings of one PDU that are taken down.
const MAX_FINDINGS: usize = 100;

/// Takes down what the rules find.
#[derive(Debug)]
pub struct Report<'a> {
    findings: &'a mut Vec<Finding>,
    /// How many there were before those of this PDU.
    before: usize,
    suspicions: Suspicions,
    pdu: PduId,
    message: u16,
    check: u8,
}

impl<'a> Report<'a> {
    /// What is found of a PDU goes to the end of `findings`.
    pub fn new(pdu: PduId, message: u16, findings: &'a mut Vec<Finding>) -> Report<'a> {
        Report { before: findings.len(), findings, suspicions: Suspicions::new(), pdu, message, check: 0 }
    }

    /// The next rule looks.
    pub fn next_check(&mut self) {
        self.check += 1;
    }

    /// What has been suspected.
    pub fn suspicions(self) -> Suspicions {
        self.suspicions
    }

    /// The rule that is looking has found something: which of its texts says it, where, by what evidence.
    ///
    /// Of one PDU so many are taken down that nobody would read more.
    pub fn find(&mut self, text: u8, place: Place, evidence: Option<PduId>, arguments: [i64; 3]) {
        let Report { pdu, message, check, before, .. } = *self;
        if self.findings.len() - before >= MAX_FINDINGS {
            return;
        }
        self.findings.push(Finding { pdu, message, check, text, place, evidence, arguments });
    }

    /// The request may be refused for this reason.
    pub fn suspect(&mut self, suspicion: Suspicion) {
        self.suspicions.push(suspicion);
    }
}
