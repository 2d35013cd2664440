//! See `kraft_fuzz::connection`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| kraft_fuzz::connection::try_out(input));
