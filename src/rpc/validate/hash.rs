//! The hash that tells whether a call repeated under its request id has the same payload. It is
//! stored in the journal, so it depends on the payload alone: not on the process, the order of map
//! entries or the version of a library. It is not cryptographic: a caller who constructs a
//! collision deceives only itself.

use crate::core::Naming;
use prost::Message;
use rallypoint_client::api;
use std::collections::HashMap;

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTOR: u64 = 0xd6e8_feb8_6659_fd93;

/// Hashes a payload piece by piece; the boundaries of the pieces count.
#[derive(Clone, Debug)]
pub(super) struct PayloadHash(u64);

impl PayloadHash {
    /// A hash of payloads of `rpc`.
    pub(super) fn new(rpc: &str) -> Self {
        let mut hash = PayloadHash(SEED);
        hash.bytes(rpc.as_bytes());
        hash
    }

    pub(super) fn number(&mut self, number: i64) {
        self.word(number as u64);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(last));
    }

    /// Absent fields do not count, so a field added later changes no hash.
    pub(super) fn settings(&mut self, settings: &api::SchedulerSettings) {
        let mut rest = settings.clone();
        let labels = std::mem::take(&mut rest.labels);
        let options = rest.default_options.take();
        self.bytes(&rest.encode_to_vec());
        self.labels(&labels);
        self.options(options.as_ref());
    }

    pub(super) fn naming(&mut self, naming: Option<&Naming>) {
        if let Some(Naming { name, reuse }) = naming {
            self.bytes(name.as_bytes());
            self.number((*reuse).into());
        }
    }

    pub(super) fn options(&mut self, options: Option<&api::TaskOptions>) {
        let Some(options) = options else {
            return self.number(0);
        };
        let mut rest = options.clone();
        let labels = std::mem::take(&mut rest.labels);
        self.number(1);
        self.bytes(&rest.encode_to_vec());
        self.labels(&labels);
    }

    pub(super) fn task_filter(&mut self, filter: &api::TaskFilter) {
        let mut rest = filter.clone();
        let labels = std::mem::take(&mut rest.labels);
        self.bytes(&rest.encode_to_vec());
        self.labels(&labels);
    }

    pub(super) fn scheduler_filter(&mut self, filter: &api::SchedulerFilter) {
        let mut rest = filter.clone();
        let labels = std::mem::take(&mut rest.labels);
        self.bytes(&rest.encode_to_vec());
        self.labels(&labels);
    }

    pub(super) fn finish(&self) -> i64 {
        (self.0 ^ (self.0 >> 32)).wrapping_mul(FACTOR) as i64
    }

    pub(super) fn labels(&mut self, labels: &HashMap<String, String>) {
        let mut sorted: Vec<_> = labels.iter().collect();
        sorted.sort();
        self.number(sorted.len() as i64);
        for (key, value) in sorted {
            self.bytes(key.as_bytes());
            self.bytes(value.as_bytes());
        }
    }

    /// A folded multiplication: every bit of the word reaches the whole state. Adding the rotated
    /// state keeps a factor of zero from erasing what came before.
    fn word(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(FACTOR);
        self.0 = ((product as u64) ^ ((product >> 64) as u64)).wrapping_add(self.0.rotate_left(23));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pieces: &[&str]) -> i64 {
        let mut hash = PayloadHash::new("test");
        pieces.iter().for_each(|piece| hash.bytes(piece.as_bytes()));
        hash.finish()
    }

    #[test]
    fn hashes_never_change() {
        assert_eq!(of(&[]), 9215735633188427055);
        assert_eq!(of(&["select 1", "select 22"]), 8425697657945720284);
    }

    #[test]
    fn the_boundaries_of_pieces_count() {
        let all = [
            of(&[]),
            of(&[""]),
            of(&["", ""]),
            of(&["ab", "c"]),
            of(&["a", "bc"]),
            of(&["abc"]),
            of(&["abc\0"]),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(!all[..index].contains(one), "{index}");
        }
    }

    #[test]
    fn the_order_of_labels_does_not_count() {
        let labels = |n: u32| {
            (0..n)
                .map(|i| (format!("k{i}"), format!("v{i}")))
                .collect::<HashMap<_, _>>()
        };
        let settings = |n| api::SchedulerSettings {
            labels: labels(n),
            ..Default::default()
        };
        let hash = |settings: &api::SchedulerSettings| {
            let mut hash = PayloadHash::new("GetScheduler");
            hash.settings(settings);
            hash.finish()
        };
        assert_eq!(hash(&settings(50)), hash(&settings(50)));
        assert_ne!(hash(&settings(50)), hash(&settings(49)));
    }
}
