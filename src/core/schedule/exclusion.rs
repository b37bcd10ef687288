//! Dates on which a job is not due. A due time is of the date of the local time that its schedule
//! names; one in a window is of the date on which the window opens.

use jiff::civil::Date;
use std::str::FromStr;

/// Dates on which a job is not due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// One date.
    Date(Date),
    /// From the first date to the last, both included.
    Span(Date, Date),
    /// This month and day of every year.
    Yearly(i8, i8),
}

impl Exclusion {
    pub(super) fn holds(self, date: Date) -> bool {
        match self {
            Exclusion::Date(excluded) => date == excluded,
            Exclusion::Span(first, last) => (first..=last).contains(&date),
            Exclusion::Yearly(month, day) => (date.month(), date.day()) == (month, day),
        }
    }
}

impl FromStr for Exclusion {
    type Err = String;

    /// Reads `2026-12-24`, `2026-12-24..2027-01-02` or, of every year, `12-25`.
    fn from_str(text: &str) -> Result<Exclusion, String> {
        let wrong = || {
            "not a date: write \"2026-12-24\", \"2026-12-24..2027-01-02\" or, for every year, \
             \"12-25\""
                .to_owned()
        };
        let date = |text: &str| {
            // The time of one would have no effect.
            let text = Some(text.trim()).filter(|text| text.len() == "2026-12-24".len());
            let date = text.and_then(|text| text.parse::<Date>().ok());
            date.ok_or_else(wrong)
        };
        if let Some((first, last)) = text.split_once("..") {
            let (first, last) = (date(first)?, date(last)?);
            return match first <= last {
                true => Ok(Exclusion::Span(first, last)),
                false => Err(format!("it ends before it begins: write {last}..{first}")),
            };
        }
        if text.len() == "12-25".len() {
            // 2024 is a leap year.
            let date = date(&format!("2024-{text}"))?;
            return Ok(Exclusion::Yearly(date.month(), date.day()));
        }
        date(text).map(Exclusion::Date)
    }
}
