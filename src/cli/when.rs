//! Instants as people write them, the same in all options: a local time, one that is the same
//! everywhere, or how long ago.

use super::time_text;
use crate::core::schedule::{Moment, Zone};
use jiff::{Timestamp, tz::TimeZone};
use std::str::FromStr;

/// An instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// By some clock, or everywhere.
    At(Moment),
    /// It was so long ago when the command line was read, or just then.
    Ago(Timestamp),
}

impl When {
    /// The instant; a local time is one by the clock of this zone.
    pub(super) fn in_zone(self, zone: &Zone) -> Timestamp {
        match self {
            When::At(moment) => moment.resolve(zone),
            When::Ago(at) => at,
        }
    }

    /// The instant; a local time is one of UTC, as times are printed.
    pub(super) fn in_utc(self) -> Timestamp {
        match self {
            When::At(Moment::Absolute(at)) | When::Ago(at) => at,
            When::At(Moment::Local(local)) => {
                let zoned = local.to_zoned(TimeZone::UTC);
                zoned.map_or(Timestamp::MAX, |zoned| zoned.timestamp())
            }
        }
    }

    /// Some clock says which instant it is.
    pub(super) fn is_local(self) -> bool {
        matches!(self, When::At(Moment::Local(_)))
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<When, String> {
        if text == "now" {
            return Ok(When::Ago(Timestamp::now()));
        }
        if let Ok(moment) = text.parse() {
            return Ok(When::At(moment));
        }
        let ago = || {
            let at = Timestamp::now().checked_sub(time_text::parse(text).ok()?);
            at.ok().filter(|at| *at >= Timestamp::UNIX_EPOCH)
        };
        ago().map(When::Ago).ok_or_else(|| {
            "write a time like 2026-03-01, 2026-03-01T12:00 or 2026-03-01T12:00:00Z, or how long \
             ago it was, like 30m, 1h30m or 2d; now is this moment"
                .to_owned()
        })
    }
}

/// As the API has it.
pub(super) fn message(at: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: at.as_second(),
        nanos: at.subsec_nanosecond(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_has_one_of_three_forms() {
        let noon = 1_772_366_400;
        for text in [
            "2026-03-01T12:00:00Z",
            "2026-03-01 12:00:00.000Z",
            "2026-03-01T13:00+01:00",
            "2026-03-01T12:00",
        ] {
            let when: When = text.parse().expect(text);
            assert_eq!(when.in_utc().as_second(), noon, "{text}");
        }
        let day: When = "2026-03-01".parse().expect("a date");
        assert_eq!(day.in_utc().as_second(), noon - 12 * 3600);
        for (text, seconds) in [("now", 0), ("1h", 3600), ("1h30m", 5400), ("2d", 172_800)] {
            let ago: When = text.parse().expect(text);
            let passed = Timestamp::now().as_second() - ago.in_utc().as_second();
            assert!((seconds..seconds + 10).contains(&passed), "{passed}");
        }
        for wrong in ["", "yesterday", "-1h", "100 years", "60000d"] {
            let said = wrong.parse::<When>().expect_err(wrong);
            assert!(said.contains("2026-03-01T12:00:00Z"), "{said}");
        }
    }
}
