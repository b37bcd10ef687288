//! The notices of a task: the last ones, however many it sends. Pure.

use crate::executor::pg_client::Report;
use std::fmt::Write;

/// Bytes that are kept.
const NOTICE_BYTES: usize = 8 << 10;

#[derive(Debug, Default)]
pub(crate) struct Notices(String);

impl Notices {
    pub(crate) fn add(&mut self, report: &Report) {
        let text = &mut self.0;
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}: {}", report.severity, report.message);
        for (label, part) in [("DETAIL", &report.detail), ("HINT", &report.hint)] {
            if let Some(part) = part {
                let _ = writeln!(text, "{label}: {part}");
            }
        }
        // Not at every notice, or each would move all others.
        if text.len() > 2 * NOTICE_BYTES {
            self.cut();
        }
    }

    /// The last ones, a line each.
    pub(crate) fn into_text(mut self) -> String {
        self.cut();
        self.0
    }

    /// Drops the first ones: whole lines, when there are any.
    fn cut(&mut self) {
        let Some(surplus) = self.0.len().checked_sub(NOTICE_BYTES) else {
            return;
        };
        let at = self.0.ceil_char_boundary(surplus);
        let line = match surplus {
            0 => Some(0),
            _ => self.0[at..].find('\n').map(|end| at + end + 1),
        };
        let from = line.filter(|line| *line < self.0.len()).unwrap_or(at);
        self.0.drain(..from);
    }
}

/// Notices behind earlier ones.
pub(crate) fn joined(earlier: &str, later: &str) -> String {
    Notices(format!("{earlier}{later}")).into_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(message: String) -> Report {
        Report {
            severity: "NOTICE".into(),
            message,
            ..Report::default()
        }
    }

    #[test]
    fn the_last_notices_are_kept_line_by_line() {
        let mut notices = Notices::default();
        for number in 0..10_000 {
            notices.add(&notice(format!("number {number}")));
            assert!(notices.0.len() <= 2 * NOTICE_BYTES + 100);
        }
        let text = notices.into_text();
        assert!(text.len() <= NOTICE_BYTES && text.len() > NOTICE_BYTES - 100);
        assert!(text.starts_with("NOTICE: number ") && text.ends_with("NOTICE: number 9999\n"));
    }

    #[test]
    fn one_notice_that_is_too_long_is_cut_between_two_characters() {
        let mut notices = Notices::default();
        notices.add(&notice("ä".repeat(NOTICE_BYTES)));
        let text = notices.into_text();
        assert!(text.len() <= NOTICE_BYTES && text.ends_with("ää\n"));
    }

    #[test]
    fn few_notices_stay_whole() {
        let mut notices = Notices::default();
        assert_eq!(Notices::default().into_text(), "");
        notices.add(&Report {
            hint: Some("how".into()),
            ..notice("what".into())
        });
        assert_eq!(notices.into_text(), "NOTICE: what\nHINT: how\n");
    }
}
