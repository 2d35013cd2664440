//! What the rules say of a PDU, as a reader of Wireshark's expert items has it.

use std::fmt::{self, Display, Formatter};

use kraft::findings;
use kraft::pairing::{History, PduId};
use kraft::rule::{Evidence, Finding, Rule};
use kraft::tape::Place;

/// One remark on a PDU.
pub struct Told {
    /// The rule that speaks.
    pub rule: &'static Rule,
    /// What it says.
    pub text: String,
    /// The bytes it speaks of.
    pub place: Place,
    /// What proves it: what that is to the message, and its frame.
    pub evidence: Option<(Evidence, u32)>,
}

/// What the rules of its message say of a recorded PDU.
pub fn told(history: &History, pdu: PduId) -> Vec<Told> {
    findings::of(&history.findings, pdu).iter().map(|finding| tell(history, finding)).collect()
}

fn tell(history: &History, finding: &Finding) -> Told {
    let check = finding.check().expect("a finding is of a rule");
    let frame = finding.evidence.map(|pdu| history.sighting(pdu).expect("evidence is recorded").frame);
    let mut text = String::new();
    finding.write(check, frame, &history.register, &mut text);
    Told { rule: &check.rule, text, place: finding.place, evidence: frame.map(|frame| (check.evidence, frame)) }
}

impl Display for Told {
    /// `[Warn level_not_supported at 0x0065, 22B: text (evidence: frame 105)]`; what is said of the PDU as a whole has no
    /// bytes.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Told { rule, text, place, evidence } = self;
        write!(f, "[{:?} {}", rule.severity, rule.name)?;
        if *place != Place::WHOLE {
            write!(f, " at 0x{:04x}, {}B", place.at, place.len)?;
        }
        write!(f, ": {text}")?;
        match evidence {
            Some((Evidence::Cause, frame)) => write!(f, " (evidence: frame {frame})]"),
            Some((Evidence::RetryOf, frame)) => write!(f, " (retry of: frame {frame})]"),
            Some((Evidence::PreviousRegistration, frame)) => write!(f, " (previous registration: frame {frame})]"),
            None => f.write_str("]"),
        }
    }
}
