//! Turns of the callers of one connection: so many answers of each may be under way at a time.
//! Behind a proxy that has one connection for many callers, none waits for what another one leaves
//! unread.

use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// Answers of one caller that may be under way at a time.
const PER_CALLER: usize = 16;
/// Callers that are remembered before those without a call are forgotten.
const MANY: usize = 64;

/// The turns of a connection, by caller.
#[derive(Debug, Default)]
pub struct Turns(Mutex<FxHashMap<Arc<str>, Arc<Semaphore>>>);

impl Turns {
    /// Those of one caller.
    pub fn of(&self, caller: &str) -> Arc<Semaphore> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turns) = all.get(caller) {
            return turns.clone();
        }
        if all.len() >= MANY {
            // Whoever has a turn, or waits for one, holds them.
            all.retain(|_, turns| Arc::strong_count(turns) > 1);
        }
        let turns = Arc::new(Semaphore::new(PER_CALLER));
        all.insert(caller.into(), turns.clone());
        turns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_have_their_own_and_idle_ones_are_forgotten() {
        let all = Turns::default();
        let (ann, ben) = (all.of("ann"), all.of("ben"));
        let all_of_ann = ann.clone().try_acquire_many_owned(PER_CALLER as u32);
        assert!(all_of_ann.is_ok() && all.of("ann").available_permits() == 0);
        assert_eq!(ben.available_permits(), PER_CALLER);
        drop((ann, ben));
        for number in 0..10 * MANY {
            all.of(&number.to_string());
        }
        assert_eq!(all.of("ann").available_permits(), 0, "she has a call");
        assert!(all.0.lock().expect("kept").len() <= MANY + 1);
    }
}
