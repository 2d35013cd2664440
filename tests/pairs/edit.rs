//! Small changes by hand of what the encoder wrote.

use crate::support::rows::{Row, rows};
use crate::support::talk::{HOST_1, Talk};

/// A request with other bytes in the place of a field, its length included.
pub fn replaced(request: Vec<u8>, path: &str, bytes: &[u8]) -> Vec<u8> {
    let Row { at, len, .. } = field(&request, path);
    spliced(request, at, len, bytes)
}

/// A request with other bytes in the place of the length of a field.
pub fn with_length(request: Vec<u8>, path: &str, bytes: &[u8]) -> Vec<u8> {
    let Row { at, prefix, .. } = field(&request, path);
    spliced(request, at, prefix.into(), bytes)
}

/// A request without its last bytes.
pub fn shortened(request: Vec<u8>, by: usize) -> Vec<u8> {
    let at = request.len() - by;
    spliced(request, at as u32, by as u32, &[])
}

/// The beginning of a request, up to a field.
pub fn up_to<'a>(request: &'a [u8], path: &str) -> &'a [u8] {
    &request[..field(request, path).at as usize]
}

/// Puts bytes in the place of others, and makes the size prefix right again.
fn spliced(mut request: Vec<u8>, at: u32, len: u32, bytes: &[u8]) -> Vec<u8> {
    request.splice(at as usize..(at + len) as usize, bytes.iter().copied());
    let size = request.len() as u32 - 4;
    request[..4].copy_from_slice(&size.to_be_bytes());
    request
}

fn field(request: &[u8], path: &str) -> Row {
    let mut talk = Talk::new();
    let line = talk.connect(HOST_1);
    talk.hear(line, request.to_vec());
    let rows = rows(&talk.said[0].tape, request);
    rows.into_iter().find(|row| row.path == path).unwrap_or_else(|| panic!("the request has no {path}"))
}
