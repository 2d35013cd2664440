//! What users are handed: a plugin that Wireshark refuses with a clear sentence where it does not fit, and a package that
//! names whose work is in it.
#![cfg(feature = "plugin")]

mod support {
    pub mod tshark;
}

use std::fs;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol};
use support::tshark::{Tshark, minor_version, plugin, tshark};

/// What the plugin exports to say which Wireshark it was compiled for.
const WANTED: [&str; 2] = ["plugin_want_major", "plugin_want_minor"];

#[test]
fn a_plugin_of_another_version_is_refused_in_one_sentence_and_the_rest_goes_on() {
    let [major, minor] = version();
    for other in [[major, minor + 2], [major, minor + 1], [major + 1, minor], [major - 1, minor]] {
        let wanted = format!("{}.{}", other[0], other[1]);
        let tshark = Tshark::with_plugin(&wanted, &compiled_for(other));
        let capture = tshark.readable(&root().join("captures/ok/v4-kafka-3.9.pcap"));

        let (frames, said) = tshark.output(&["-r", &capture, "-T", "fields", "-e", "frame.number"]);

        let sentence = format!("The plugin 'kraft.so' was compiled for Wireshark version {wanted}");
        assert_eq!(said.lines().filter(|line| line.contains("kraft")).count(), 1, "{said}");
        assert!(said.contains(&sentence), "{said}");
        assert_eq!(frames.lines().next(), Some("1"), "tshark goes on");
        assert!(!tshark.run(&["-G", "plugins"]).contains("kraft.so"), "{wanted} is loaded");
    }
}

#[test]
fn the_package_names_whose_work_is_in_it() {
    let manifest = read("Cargo.toml");
    let copyright = read("docs/debian/copyright");
    let (_, rest) = manifest.split_once("\n[dependencies]\n").expect("a manifest has dependencies");
    let names = rest.lines().take_while(|line| !line.starts_with('[')).filter_map(|line| line.split_once(" = "));
    for (name, _) in names {
        assert!(copyright.lines().any(|line| line == format!("Files: {name}")), "docs/debian/copyright lacks {name}");
    }
}

/// The plugin, as if the headers of another Wireshark had been used.
fn compiled_for(version: [u32; 2]) -> Vec<u8> {
    let mut bytes = plugin();
    for (name, number) in WANTED.into_iter().zip(version) {
        let at = place_of(&bytes, name);
        bytes[at..at + 4].copy_from_slice(&number.to_ne_bytes());
    }
    bytes
}

/// Where in a library the value of an exported variable lies.
fn place_of(library: &[u8], name: &str) -> usize {
    let file = object::File::parse(library).expect("the plugin is a library");
    let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(name)).expect("the plugin exports it");
    let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok()).expect("it has a value");
    let (start, _) = section.file_range().expect("its value is in the file");
    (start + symbol.address() - section.address()) as usize
}

/// The Wireshark of this test run.
fn version() -> [u32; 2] {
    let version = minor_version(&tshark().run(&["--version"]));
    let (major, minor) = version.split_once('.').expect("a version has two numbers");
    [major, minor].map(|number| number.parse().expect("a number"))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
