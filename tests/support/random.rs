//! Numbers that are the same in every run.

/// A small generator of numbers that are random enough (xorshift64).
pub struct Random(u64);

impl Random {
    /// The generator at its beginning.
    pub fn new() -> Random {
        Random(0x9e37_79b9_7f4a_7c15)
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}
