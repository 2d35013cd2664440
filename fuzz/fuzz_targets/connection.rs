//! See `kraft_fuzz::connection`.
#![no_main]

use kraft_fuzz::sound::is_shown;

libfuzzer_sys::fuzz_target!(|input: &[u8]| kraft_fuzz::connection::try_out(input, is_shown(input)));
