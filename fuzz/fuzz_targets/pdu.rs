//! See `kraft_fuzz::pdu`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| kraft_fuzz::pdu::try_out(input));
