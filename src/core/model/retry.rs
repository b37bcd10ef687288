//! When the next attempt of a task may start: pure arithmetic.

use crate::core::{Attempt, RetryPolicy, TaskId, Time};
use std::{
    hash::{Hash, Hasher},
    time::Duration,
};

/// The code of an attempt that was lost with its host.
pub(crate) const LOST: &str = "LOST";
const INITIAL: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);

impl RetryPolicy {
    /// Runs that reported an error or timed out, in all.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts.unwrap_or(1)
    }

    /// Runs lost with their host or ended by a transient error, in all.
    pub fn max_losses(&self) -> u32 {
        self.max_losses.unwrap_or(3)
    }

    /// Wait after the `ended`th attempt that ended badly: initial · multiplier^(ended − 1), at most
    /// the longest, give or take the jitter. The jitter is drawn from the task and its attempt, so
    /// that a replay draws the same.
    pub fn next_at(&self, now: Time, task: TaskId, attempt: Attempt, ended: u32) -> Time {
        let initial = self.initial.unwrap_or(INITIAL).as_secs_f64();
        let longest = self
            .max
            .unwrap_or(LONGEST.max(self.initial.unwrap_or(INITIAL)));
        let longest = longest.as_secs_f64();
        let bound = self.longest_wait().as_secs_f64();
        let factor = self
            .multiplier
            .unwrap_or(2.0)
            .powi(ended.saturating_sub(1).min(1_000) as i32);
        let wait = (initial * factor).min(longest);
        let jitter = self.jitter.unwrap_or(0.2) * (2.0 * draw(task, attempt) - 1.0);
        now + Duration::from_secs_f64((wait * (1.0 + jitter)).clamp(0.0, bound))
    }

    /// No attempt waits longer for its time.
    pub fn longest_wait(&self) -> Duration {
        let initial = self.initial.unwrap_or(INITIAL);
        self.max.unwrap_or(LONGEST).max(initial)
    }

    /// An error of this code is never followed by another attempt.
    pub fn forbids(&self, code: &str) -> bool {
        self.non_retryable.iter().any(|forbidden| forbidden == code)
    }

    /// Whether the task ends when an attempt is lost for the first time.
    pub fn ends_with_a_loss(&self) -> bool {
        self.max_losses() == 1 || self.forbids(LOST)
    }
}

/// A number from 0 to 1, the same for the same task and attempt.
fn draw(task: TaskId, attempt: Attempt) -> f64 {
    let mut hasher = rustc_hash::FxHasher::default();
    (task, attempt).hash(&mut hasher);
    // The high bits of FxHash are the well mixed ones.
    (hasher.finish() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Handle, Seq, ShardId};

    fn wait(policy: &RetryPolicy, ended: u32) -> Duration {
        let task = TaskId {
            handle: Handle::new(ShardId(0), 1, [3; 10]),
            seq: Seq(5),
        };
        policy
            .next_at(Time(0), task, Attempt(ended as i32), ended)
            .since(Time(0))
    }

    #[test]
    fn waits_grow_by_the_multiplier_up_to_the_longest() {
        let policy = RetryPolicy {
            jitter: Some(0.0),
            max: Some(Duration::from_secs(5)),
            ..RetryPolicy::default()
        };
        let waits: Vec<u64> = (1..=5)
            .map(|ended| wait(&policy, ended).as_secs())
            .collect();
        assert_eq!(waits, [1, 2, 4, 5, 5]);
    }

    #[test]
    fn a_first_wait_that_is_longer_than_the_longest_by_default_is_not_cut() {
        let hour = Duration::from_secs(3600);
        let policy = RetryPolicy {
            jitter: Some(0.0),
            initial: Some(hour),
            ..RetryPolicy::default()
        };
        assert_eq!([wait(&policy, 1), wait(&policy, 2)], [hour, hour]);
    }

    #[test]
    fn jitter_stays_in_its_share_and_differs_by_attempt() {
        let policy = RetryPolicy {
            multiplier: Some(1.0),
            jitter: Some(0.5),
            max: Some(Duration::from_secs(9)),
            ..Default::default()
        };
        let waits: Vec<Duration> = (1..=20).map(|ended| wait(&policy, ended)).collect();
        assert!(
            waits.iter().all(|w| (0.5..=1.5).contains(&w.as_secs_f64())),
            "{waits:?}"
        );
        assert!(waits.iter().any(|w| *w != waits[0]));
    }

    #[test]
    fn absurd_policies_do_not_overflow() {
        let policy = RetryPolicy {
            multiplier: Some(100.0),
            max: Some(Duration::from_secs(86_400)),
            ..Default::default()
        };
        assert!(wait(&policy, u32::MAX) <= Duration::from_secs(86_400));
    }
}
