//! What the fuzz targets do with their inputs, and what must hold then. `tests/hostile.rs` does the same in every
//! `cargo test`, with inputs that are the same in every run.
//!
//! ```text
//! cargo install cargo-fuzz
//! cargo run --release --manifest-path fuzz/Cargo.toml --example seeds # fuzz/corpus/<target>, from captures/
//! cargo +nightly fuzz run --sanitizer none --no-trace-compares pdu -- -max_len=512 -entropic=0 -reduce_inputs=0
//! cargo +nightly fuzz run connection -- -max_total_time=600 # with AddressSanitizer: leaks
//! ```
//!
//! Likewise `connection`, `opening`, and other lengths. The half of the plugin that these look at has no unsafe code, so that a
//! sanitizer finds nothing in it but leaks; without one it runs ten times faster, and what libFuzzer itself does for an input
//! is then most of the work, which is what the other options are for. All keep debug assertions and overflow checks. Corpora
//! are not kept in the repository: what a target has found is, as a capture `captures/bad/fuzz-*` or as a case in
//! `tests/hostile.rs`.

pub mod connection;
pub mod opening;
pub mod pdu;
pub mod sound;

#[path = "../../tests/support/tiling.rs"]
mod tiling;

#[path = "../../tests/support/told.rs"]
mod told;
