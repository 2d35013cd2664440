//! Golden test: every capture of `captures/` gives the text that lies beside it, PDU by PDU.
//!
//! `KRAFT_BLESS=1 cargo test --test captures` writes the texts anew; read the difference before you commit it.
//! Captures that are encrypted cannot be read here: their texts are held against Wireshark's own reading.

mod support {
    pub mod conversation;
    pub mod corpus;
    pub mod reader;
    pub mod told;
}

use std::env;
use std::fmt::Write;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};

use kraft::dump;
use kraft::rule::Severity;
use kraft::schema::Direction;
use kraft::tape::{Event, Tape};
use support::conversation::{Conversation, Said, as_sent, conversation};
use support::corpus::{captures, files, is_capture, name};
use support::told::told;

/// Lines of a difference that are shown.
const SHOWN: usize = 6;

#[test]
fn every_capture_gives_the_text_beside_it() {
    let bless = env::var_os("KRAFT_BLESS").is_some();
    assert!(!(bless && env::var_os("CI").is_some()), "texts are blessed by people, not by CI");
    let mut wrong = String::new();
    for capture in captures() {
        let (golden, text) = (capture.with_extension("txt"), text(&conversation(&capture)));
        if bless {
            fs::write(&golden, text).unwrap_or_else(|error| panic!("{}: {error}", golden.display()));
        } else {
            difference(&golden, &text, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn every_other_file_belongs_to_a_capture() {
    let files = files();
    let orphans: Vec<&PathBuf> = files.iter().filter(|file| !is_capture(file) && !has_capture(file, &files)).collect();
    assert!(orphans.is_empty(), "no capture for {orphans:?}");
}

#[test]
fn nothing_is_wrong_with_the_bytes_of_the_ok_captures() {
    for capture in captures().iter().filter(|capture| folder(capture) == "ok") {
        for said in conversation(capture).talk {
            let worst = worst_note(&said.tape);
            assert!(worst <= Some(Severity::Note), "{}: frame {}: {worst:?}", name(capture), said.read.frame);
            assert_eq!(said.tape.stop(), None, "{}: frame {}", name(capture), said.read.frame);
        }
    }
}

#[test]
fn something_is_odd_in_each_of_the_bad_captures() {
    for capture in captures().iter().filter(|capture| folder(capture) == "bad") {
        let talk = conversation(capture).talk;
        assert!(talk.iter().any(is_odd), "{} belongs into captures/ok", name(capture));
    }
}

fn folder(path: &Path) -> &str {
    path.parent().map_or("", name)
}

/// A capture has files beside it: NAME.txt, NAME.log.json, and NAME.pcap.json or NAME.pcapng.json.
fn has_capture(file: &Path, files: &[PathBuf]) -> bool {
    let whole = file.with_extension("");
    let stem = if whole.extension().is_some_and(|end| end == "log") { whole.with_extension("") } else { whole.clone() };
    let beside = |capture: &&PathBuf| **capture == whole || capture.with_extension("") == stem;
    files.iter().filter(|file| is_capture(file)).any(|capture| beside(&capture))
}

fn worst_note(tape: &Tape) -> Option<Severity> {
    tape.events().iter().filter_map(severity).max()
}

fn severity(event: &Event) -> Option<Severity> {
    match event {
        Event::Note { fault, .. } => Some(fault.rule().severity),
        _ => None,
    }
}

fn is_odd(said: &Said) -> bool {
    let is_orphan = said.summary.direction == Direction::Response && said.summary.partner.is_none();
    worst_note(&said.tape).is_some() || said.tape.stop().is_some() || is_orphan
}

fn text(conversation: &Conversation) -> String {
    let mut out = String::new();
    for said in &conversation.talk {
        heading(said, &mut out);
        links(said, &mut out);
        findings(said, conversation, &mut out);
        dump::tree(&as_sent(&said.read), &said.tape, &said.summary, &mut out);
        out.push('\n');
    }
    out
}

fn heading(said: &Said, out: &mut String) {
    let Said { read, tape, summary } = said;
    let _ = write!(out, "frame {}, {} > {}: ", read.frame, read.source, read.destination);
    summary.write_info(&read.bytes, tape, out);
    out.push('\n');
}

fn links(said: &Said, out: &mut String) {
    let summary = &said.summary;
    let _ = match (summary.direction, summary.partner) {
        (Direction::Request, Some(response)) => writeln!(out, "[response in {}]", response.frame),
        (Direction::Request, None) => writeln!(out, "[no response]"),
        (Direction::Response, Some(request)) => {
            writeln!(out, "[response to {}, {} s]", request.frame, seconds(summary.time_ns.unwrap_or(0)))
        }
        (Direction::Response, None) => writeln!(out, "[no request]"),
    };
}

fn findings(said: &Said, conversation: &Conversation, out: &mut String) {
    let id = said.summary.id.expect("every PDU of a capture is recorded");
    for told in told(&conversation.history, id) {
        let _ = writeln!(out, "{told}");
    }
}

fn seconds(time_ns: i64) -> String {
    let (sign, ns) = (if time_ns < 0 { "-" } else { "" }, time_ns.unsigned_abs());
    format!("{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// Says where `text` is not what the golden file holds.
fn difference(golden: &Path, text: &str, out: &mut String) {
    let want = fs::read_to_string(golden).unwrap_or_else(|error| format!("({error})"));
    if want == text {
        return;
    }
    let same = iter::zip(want.lines(), text.lines()).take_while(|(want, got)| want == got).count();
    let _ = writeln!(out, "{}:{}", golden.display(), same + 1);
    for (sign, text) in [('-', &*want), ('+', text)] {
        for line in text.lines().skip(same).take(SHOWN) {
            let _ = writeln!(out, "  {sign} {line}");
        }
    }
}
