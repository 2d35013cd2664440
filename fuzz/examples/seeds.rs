//! Writes the first inputs of the fuzz targets from the captures of the repository: `fuzz/corpus/<target>/<capture>-<n>`.

use std::fs;
use std::path::{Path, PathBuf};

use kraft::dissect::{Look, Pdu, dissect};
use kraft::pairing::{ConnectionId, History, Sighting};
use kraft::recognize::Side;
use kraft::schema::Direction;
use kraft::tape::Tape;
use kraft_fuzz::{connection, pdu};

#[path = "../../tests/support/reader/mod.rs"]
mod reader;

const CONTROLLER: u16 = 9093;
/// PDUs of one input of a connection.
const TALK: usize = 12;

fn main() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in ["ok", "bad"] {
        let entries = fs::read_dir(here.join("../captures").join(folder)).expect("the captures are there");
        for path in entries.map(|entry| entry.expect("a folder can be listed").path()) {
            if path.extension().is_some_and(|end| end == "pcap" || end == "pcapng") {
                seed(here, &path);
            }
        }
    }
}

fn seed(here: &Path, capture: &Path) {
    let name = capture.file_stem().expect("a capture has a name").to_string_lossy().into_owned();
    let Ok(capture) = reader::read(capture, &[CONTROLLER]) else { return };
    let (mut history, mut tape) = (History::new(), Tape::new());
    let streams = capture.pdus.iter().map(|pdu| pdu.stream + 1).max().unwrap_or(0);
    let connections: Vec<ConnectionId> = (0..streams).map(|_| history.connect()).collect();
    for (i, read) in capture.pdus.iter().enumerate() {
        let from_server = read.source.port() == CONTROLLER;
        let about = Pdu {
            captured: &read.bytes,
            length: read.length,
            sighting: Sighting { frame: read.frame, time_ns: read.time_ns },
            connection: connections[read.stream as usize],
            sender: if from_server { Side::B } else { Side::A },
            server: Some(Side::B),
            source: 0,
            destination: 0,
            is_local: false,
            stray: false,
        };
        let summary = dissect(&about, Look::First, &mut history, &mut tape);
        let (key, version) = summary.api.unwrap_or((62, 4));
        let flags = if summary.direction == Direction::Response { pdu::RESPONSE } else { 0 };
        let bytes = read.bytes.get(4..).unwrap_or_default();
        write(here, "pdu", &name, i, &[&[key as u8, version as u8, flags], bytes].concat());
        write(here, "opening", &name, i, &[&[0, 0], &read.bytes[..]].concat());
    }
    for (i, talk) in capture.pdus.chunks(TALK).enumerate() {
        let segments = talk.iter().map(|pdu| {
            let from_server = if pdu.source.port() == CONTROLLER { connection::FROM_SERVER } else { 0 };
            let other = if pdu.stream % 2 == 1 { connection::OTHER } else { 0 };
            let cut = if (pdu.bytes.len() as u32) < pdu.length { connection::CUT } else { 0 };
            (from_server | other | cut, &pdu.bytes[..])
        });
        write(here, "connection", &name, i, &connection::input(segments));
    }
}

fn write(here: &Path, target: &str, name: &str, number: usize, input: &[u8]) {
    let folder: PathBuf = here.join("corpus").join(target);
    fs::create_dir_all(&folder).expect("the corpus can be written");
    fs::write(folder.join(format!("{name}-{number}")), input).expect("the corpus can be written");
}
