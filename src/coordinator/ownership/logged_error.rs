//! Errors of what is tried again and again: one that comes many times in a row is logged rarely.

use std::{fmt::Display, time::Duration};
use tokio::time::Instant;

/// Until the same error is logged again.
const REPEAT: Duration = Duration::from_secs(30);

/// The last error of one thing that is tried again, and when it was logged.
#[derive(Debug, Default)]
pub(crate) struct LoggedError(Option<(String, Instant)>);

impl LoggedError {
    /// Whether this error is to be logged: it is the first one, another than the last, or was
    /// logged long ago.
    pub(crate) fn is_due(&mut self, error: impl Display) -> bool {
        let (text, now) = (error.to_string(), Instant::now());
        let is_known = self
            .0
            .as_ref()
            .is_some_and(|(last, at)| *last == text && now.duration_since(*at) < REPEAT);
        if !is_known {
            self.0 = Some((text, now));
        }
        !is_known
    }

    /// It works. Whether an error was logged since it did last.
    pub(crate) fn is_over(&mut self) -> bool {
        self.0.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_behind_another_one_is_logged_too_and_none_twice_in_a_row() {
        let mut logged = LoggedError::default();
        let errors = ["late", "late", "read only", "read only", "late"];
        let is_due = errors.map(|error| logged.is_due(error));
        assert_eq!(is_due, [true, false, true, false, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_that_lasts_is_logged_rarely_and_its_end_once() {
        let mut logged = LoggedError::default();
        assert!(!logged.is_over(), "there was none");
        let mut times = 0;
        for _ in 0..70 {
            times += usize::from(logged.is_due("refused"));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(times, 3);
        assert!(logged.is_over());
        assert!(!logged.is_over());
        assert!(logged.is_due("refused"), "it is the first one again");
    }
}
