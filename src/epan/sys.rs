//! Bindings to epan and to the C shim, generated from `wrapper.h` for the Wireshark at hand.

#![expect(non_camel_case_types, non_upper_case_globals, dead_code, reason = "C's names, generated")]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
