//! See `kraft_fuzz::opening`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| kraft_fuzz::opening::try_out(input));
