//! Bindings to epan and to the C shim, generated from `wrapper.h` for the Wireshark at hand.

#![expect(non_camel_case_types, non_upper_case_globals, dead_code, reason = "C's names, generated")]
#![expect(
    clippy::undocumented_unsafe_blocks,
    clippy::ptr_offset_with_cast,
    reason = "bindgen's accessors of bit fields"
)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
