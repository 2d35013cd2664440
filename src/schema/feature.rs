//! How the levels of a feature are written, wherever they stand.

use super::names;
use crate::wire::{write_number, write_text};

/// The feature whose levels have releases.
pub const METADATA_VERSION: &[u8] = b"metadata.version";

/// `metadata.version 1-25 (3.0-IV1 to 4.0-IV3)`, `group.version 1`: the levels, and for metadata.version the releases.
pub fn write_range(name: Option<&[u8]>, min: Option<i64>, max: Option<i64>, out: &mut String) {
    let (Some(name), Some(min), Some(max)) = (name, min, max) else { return };
    write_text(name, out);
    out.push(' ');
    write_number(min, out);
    if max != min {
        out.push('-');
        write_number(max, out);
    }
    if name == METADATA_VERSION {
        let release = |level| names::metadata_version(level).unwrap_or("unknown release");
        out.push_str(" (");
        out.push_str(release(min));
        if max != min {
            out.push_str(" to ");
            out.push_str(release(max));
        }
        out.push(')');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(name: &str, min: i64, max: i64) -> String {
        let mut out = String::new();
        write_range(Some(name.as_bytes()), Some(min), Some(max), &mut out);
        out
    }

    #[test]
    fn levels_of_metadata_version_have_releases() {
        assert_eq!(range("metadata.version", 1, 25), "metadata.version 1-25 (3.0-IV1 to 4.0-IV3)");
        assert_eq!(range("metadata.version", 21, 21), "metadata.version 21 (3.9-IV0)");
        assert_eq!(range("metadata.version", 1, 99), "metadata.version 1-99 (3.0-IV1 to unknown release)");
        assert_eq!(range("group.version", 0, 1), "group.version 0-1");
    }
}
