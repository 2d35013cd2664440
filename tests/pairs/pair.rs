//! Two conversations that are nearly the same: in the one a rule speaks, in the other it does not.

use kraft::tape::Place;

use crate::support::rows::{Row, rows};
use crate::support::talk::{Said, Talk};
use crate::support::told::Told;

/// See the module. Every text of a rule has a pair of its own.
pub struct Pair {
    /// Name of the rule.
    pub rule: &'static str,
    /// Its last message is what the rule speaks of.
    pub said: fn(&mut Talk),
    /// The rule speaks of none of its messages.
    pub unsaid: fn(&mut Talk),
    /// The field it speaks of, or its length or text alone; nothing for the message as a whole.
    pub at: &'static str,
    /// The frame that proves it.
    pub by: Option<u32>,
    /// What it says.
    pub says: &'static str,
}

impl Pair {
    /// The conversation in which the rule speaks.
    pub fn held(&self) -> Talk {
        held(self.said)
    }

    /// What is not as it should be where the rule should speak: once, of the last message.
    pub fn fault_of_said(&self) -> Option<String> {
        let talk = self.held();
        let last = talk.said.last()?;
        let told: Vec<String> = told(&talk, last, self.rule).iter().map(|told| shown(told, last)).collect();
        let by = self.by.map_or(String::new(), |frame| format!(", frame {frame}"));
        let want = vec![format!("{:?}{by}: {}", self.at, self.says)];
        (told != want).then(|| format!("{}\n  want {want:?}\n   got {told:?}", self.rule))
    }

    /// What is not as it should be where the rule should be silent, before a message of the same kind.
    pub fn fault_of_unsaid(&self) -> Option<String> {
        let (said, unsaid) = (self.held(), held(self.unsaid));
        if kind(&said).is_some() && kind(&said) != kind(&unsaid) {
            return Some(format!("{}: another kind of message is no proof of silence", self.rule));
        }
        let told = |last| told(&unsaid, last, self.rule).iter().map(|told| shown(told, last)).collect::<Vec<_>>();
        let spoken: Vec<String> = unsaid.said.iter().flat_map(told).collect();
        (!spoken.is_empty()).then(|| format!("{} speaks: {spoken:?}", self.rule))
    }
}

fn held(conversation: fn(&mut Talk)) -> Talk {
    let mut talk = Talk::new();
    conversation(&mut talk);
    talk
}

/// What a rule says of a message.
fn told(talk: &Talk, said: &Said, rule: &str) -> Vec<Told> {
    talk.told(said).into_iter().filter(|told| told.rule.name == rule).collect()
}

fn shown(told: &Told, said: &Said) -> String {
    let by = told.evidence.map_or(String::new(), |(_, frame)| format!(", frame {frame}"));
    format!("{:?}{by}: {}", spot(told.place, &rows(&said.tape, &said.bytes)), told.text)
}

/// The message that is read last, if it can be read.
fn kind(talk: &Talk) -> Option<u16> {
    Some(talk.said.last()?.summary.body?.id)
}

/// The field that stands in this place: `Rack`, `Rack length`, `Rack text`.
fn spot(place: Place, rows: &[Row]) -> String {
    if place == Place::WHOLE {
        return String::new();
    }
    let whole = |row: &Row| Place { at: row.at, len: row.len };
    let length = |row: &Row| Place { at: row.at, len: row.prefix.into() };
    let text = |row: &Row| Place { at: row.at + u32::from(row.prefix), len: row.len - u32::from(row.prefix) };
    let find = |part: &dyn Fn(&Row) -> Place, name: &str| {
        rows.iter().find(|row| part(row) == place).map(|row| format!("{}{name}", row.path))
    };
    let found = find(&whole, "").or_else(|| find(&length, " length")).or_else(|| find(&text, " text"));
    found.unwrap_or(format!("{place:?}"))
}
