//! For how long the rules are run forward: while somebody waits for the answer, and not for longer
//! than an answer may take.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// How long the rules are run forward; on a machine with too much to do until there are so many
/// runs, but no longer than that.
const RUN_TIMEOUT: Duration = Duration::from_secs(4);
const RUNS: usize = 60;
const LONGEST_RUN: Duration = Duration::from_secs(20);

/// Somebody waits for an answer. A call whose caller has gone is dropped, and this with it.
#[derive(Debug, Default)]
pub(super) struct Asking {
    has_gone: Arc<AtomicBool>,
}

impl Asking {
    /// From now on: whether there is time for one more run after so many.
    pub(super) fn go_on(&self) -> impl Fn(usize) -> bool + Send + use<> {
        let (has_gone, begun) = (self.has_gone.clone(), Instant::now());
        move |runs| {
            let until = match runs < RUNS {
                true => LONGEST_RUN,
                false => RUN_TIMEOUT,
            };
            !has_gone.load(Ordering::Relaxed) && begun.elapsed() < until
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.has_gone.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_the_caller_goes_away_no_further_run_begins() {
        let asking = Asking::default();
        let go_on = asking.go_on();
        assert!(go_on(0));
        drop(asking);
        assert!(!go_on(0) && !go_on(RUNS));
    }
}
