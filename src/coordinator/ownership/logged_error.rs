//! Errors of what is tried again and again: one that comes many times in a row is logged once.

use crate::journal::JournalError;

/// The last error of one thing that is tried again.
#[derive(Debug, Default)]
pub(super) struct LoggedError(Option<String>);

impl LoggedError {
    /// Whether this error is to be logged: it is the first one, or another than the last.
    pub(super) fn is_new(&mut self, error: &JournalError) -> bool {
        let text = Some(error.to_string());
        let is_new = self.0 != text;
        self.0 = text;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_behind_another_one_is_logged_too_and_none_twice_in_a_row() {
        use JournalError::{ReadOnly, Timeout};
        let mut logged = LoggedError::default();
        let errors = [Timeout, Timeout, ReadOnly, ReadOnly, Timeout];
        let is_new = errors.map(|error| logged.is_new(&error));
        assert_eq!(is_new, [true, false, true, false, true]);
    }
}
