//! Which captures there are: `captures/ok/` holds what healthy and troubled brokers say in sound bytes, `captures/bad/` holds
//! bytes that are malformed, odd or missing.

use std::fs;
use std::path::{Path, PathBuf};

/// Every file of both folders, in order of path.
pub fn files() -> Vec<PathBuf> {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("captures");
    let mut files: Vec<PathBuf> = ["ok", "bad"].iter().flat_map(|folder| listing(&captures.join(folder))).collect();
    files.sort();
    files
}

/// The captures that can be read offline. One whose name says `tls` or `ssl` cannot: it takes Wireshark to decrypt it.
pub fn captures() -> Vec<PathBuf> {
    files().into_iter().filter(|path| is_capture(path) && !is_encrypted(path)).collect()
}

/// Whether a file is a capture, by its extension.
pub fn is_capture(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "pcap" || extension == "pcapng")
}

/// The name of a file without its folder.
pub fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("a capture has a plain name")
}

fn is_encrypted(path: &Path) -> bool {
    name(path).contains("tls") || name(path).contains("ssl")
}

fn listing(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.expect("a folder can be listed to its end").path()).collect()
}
