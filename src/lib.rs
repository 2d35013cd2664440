//! Decoder and Wireshark dissector for Kafka's KRaft control plane.
//!
//! The crate has two halves. The *pure half* knows bytes and Kafka and nothing of Wireshark: it turns one PDU into a flat
//! [`tape`] of events and a [`Summary`](dissect::Summary), without unsafe code, without global state, and without an
//! allocation whose size a wire value decides. The half in `epan`, behind the feature `plugin`, shows a tape in Wireshark;
//! all unsafe code lives there.
//!
//! ```text
//! bytes of one PDU ──► dissect ──► Tape + Summary ──► epan (protocol tree, columns, expert items, statistics)
//!                                               ├──► tally (what it counts as)
//!                                               └──► dump (object tree, as text)
//! ```
//!
//! Imports point one way: [`pdu`], [`wire`], [`tape`], [`register`], [`rule`] (data, which know of each other) < [`schema`] <
//! [`decode`], [`findings`] < [`recognize`] < [`framing`] < [`pairing`] < [`dissect`] < [`dump`], [`tally`], `epan`.

#![cfg_attr(not(feature = "plugin"), forbid(unsafe_code))]
#![deny(unsafe_code)]

pub mod decode;
pub mod dissect;
pub mod dump;
#[cfg(feature = "plugin")]
mod epan;
pub mod findings;
pub mod framing;
pub mod pairing;
pub mod pdu;
pub mod recognize;
pub mod register;
pub mod rule;
pub mod schema;
pub mod tally;
pub mod tape;
pub mod wire;
