//! What a PDU is called: its number, its connection, the frame that completes it.

/// A connection of this capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId(pub u32);

/// A PDU of this capture; PDUs are numbered in the order in which the first pass meets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PduId(pub u32);

/// Where and when a PDU was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Number of the frame that completes it.
    pub frame: u32,
    /// Time of that frame, in nanoseconds since the epoch.
    pub time_ns: i64,
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From broker to controller.
    Request,
    /// From controller to broker.
    Response,
}
