//! What is said of a message beyond its fields: rules, each a piece of data with a function that looks, and what they find.
//!
//! Rules look once, on the first pass, at a message and at the [`Register`] as it stood before that message. What they find
//! is small and is kept with the capture, so that every later look says the same. The text is put together only when
//! somebody reads it.

use std::fmt::Write;

use crate::pdu::PduId;
use crate::register::{Register, Suspicions, Text, unpack};
use crate::rule::{Case, Check, Finding, Report};
use crate::schema;
use crate::schema::names::{self, Names};
use crate::wire;

/// Lets all rules of a message look at it. What they suspect is for whoever takes down the request.
pub fn look(checks: &[Check], message: u16, case: &Case, findings: &mut Vec<Finding>) -> Suspicions {
    let mut report = Report::new(case.id, message, findings);
    for check in checks {
        (check.look)(case, &mut report);
        report.next_check();
    }
    report.suspicions()
}

/// What is found of one PDU, among all findings of the capture, which are in the order of the PDUs.
pub fn of(findings: &[Finding], pdu: PduId) -> &[Finding] {
    let start = findings.partition_point(|finding| finding.pdu < pdu);
    let end = findings.partition_point(|finding| finding.pdu <= pdu);
    &findings[start..end]
}

impl Finding {
    /// The rule that has found it.
    pub fn check(&self) -> Option<&'static Check> {
        let message = schema::messages().find(|message| message.id == self.message)?;
        message.checks.get(usize::from(self.check))
    }

    /// What is said: the rule's text with its arguments. `evidence` is the frame of the evidence.
    pub fn write(&self, check: &Check, evidence: Option<u32>, register: &Register, out: &mut String) {
        let mut rest = check.texts.get(usize::from(self.text)).copied().unwrap_or_default();
        while let Some((before, after)) = rest.split_once('{') {
            out.push_str(before);
            let Some((what, after)) = after.split_once('}') else { break };
            self.write_argument(what, evidence, register, out);
            rest = after;
        }
        out.push_str(rest);
    }

    fn write_argument(&self, what: &str, evidence: Option<u32>, register: &Register, out: &mut String) {
        let (which, how) = what.split_once(':').unwrap_or((what, ""));
        if which == "frame" {
            return wire::write_number(evidence.unwrap_or(0), out);
        }
        let value = which.parse().ok().and_then(|i: usize| self.arguments.get(i).copied()).unwrap_or(0);
        match how {
            "text" => wire::write_text(&register.bytes(Text(value as u32)), out),
            "uuid" => {
                let [high, low, _] = self.arguments;
                let id = (u128::from(high as u64) << 64 | u128::from(low as u64)).to_be_bytes();
                out.push_str(std::str::from_utf8(&wire::kafka_uuid(id)).unwrap_or_default());
            }
            "range" => {
                let (low, high) = unpack(value);
                wire::write_number(low, out);
                out.push('-');
                wire::write_number(high, out);
            }
            "seconds" => {
                let _ = write!(out, "{:.3} s", value as f64 / 1e9);
            }
            "error" => out.push_str(Names::ErrorCodes.of(value).unwrap_or("an unknown error")),
            "release" => {
                if let Some(release) = names::metadata_version(value) {
                    out.extend([" (", release, ")"]);
                }
            }
            _ => wire::write_number(value, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::register::{pack, with_id};
    use crate::rule::{Evidence, Group, Rule, Severity};
    use crate::tape::Place;

    fn check(texts: &'static [&'static str]) -> Check {
        let rule = Rule::new("test", Severity::Note, Group::Protocol, "a test");
        Check { rule, texts, evidence: Evidence::Cause, look: |_, _| {} }
    }

    #[test]
    fn texts_name_their_arguments_and_the_evidence() {
        let register = Register::default();
        let name = i64::from(register.text(b"metadata.version").0);
        let arguments = [name, pack(1, 14), 21];
        let place = Place::WHOLE;
        let finding = Finding { pdu: PduId(1), message: 0, check: 0, text: 0, place, evidence: None, arguments };
        let text = |finding: &Finding, texts| {
            let mut out = String::new();
            finding.write(&check(texts), Some(12), &register, &mut out);
            out
        };
        assert_eq!(
            text(&finding, &["{0:text} {1:range} does not hold {2}{2:release}, see frame {frame}"]),
            "metadata.version 1-14 does not hold 21 (3.9-IV0), see frame 12"
        );
        let finding = Finding { arguments: with_id([0xff; 16], 3), ..finding };
        assert_eq!(text(&finding, &["{0:uuid} of broker {2}"]), "_____________________w of broker 3");
        let finding = Finding { arguments: [2_500_000_000, 101, 0], ..finding };
        assert_eq!(text(&finding, &["{0:seconds}, {1:error}"]), "2.500 s, DUPLICATE_BROKER_REGISTRATION");
    }

    #[test]
    fn findings_of_a_pdu_are_found_among_all() {
        let one = |pdu| Finding {
            pdu: PduId(pdu),
            message: 0,
            check: 0,
            text: 0,
            place: Place::WHOLE,
            evidence: None,
            arguments: [0; 3],
        };
        let all = [one(1), one(3), one(3), one(7)];
        assert_eq!([0, 1, 2, 3, 7, 8].map(|pdu| of(&all, PduId(pdu)).len()), [0, 1, 0, 2, 1, 0]);
    }
}
