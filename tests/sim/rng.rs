//! The only source of chance: a seed determines a whole scenario.

use std::time::Duration;

/// A small generator (splitmix64).
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Rng(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 .. n.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// One of `n` places.
    pub(crate) fn place(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// True in `n` of a hundred throws.
    pub(crate) fn percent(&mut self, n: u64) -> bool {
        self.below(100) < n
    }

    pub(crate) fn one_of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.place(items.len())]
    }

    pub(crate) fn up_to(&mut self, longest: Duration) -> Duration {
        Duration::from_micros(self.below(longest.as_micros() as u64 + 1))
    }
}
