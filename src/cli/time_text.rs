//! Times and durations as text. Times are UTC, so that they read the same as in the log and for
//! every reader.

use crate::{core::model::limits::length_text, toml_file::Length};
use jiff::Timestamp;
use std::{ops::RangeInclusive, time::Duration};

/// `2026-03-01 12:00:00.123Z`, or `-`.
pub(super) fn time(us: i64) -> String {
    match Timestamp::from_microsecond(us) {
        Ok(time) if us != 0 => time.strftime("%Y-%m-%d %H:%M:%S%.3fZ").to_string(),
        _ => "-".to_owned(),
    }
}

/// `2026-03-01T12:00:00.123456Z` as commands take it, to the microsecond, or `-`. All six digits of
/// a fraction: without zeros at its end, times would differ in length.
pub(super) fn exact(time: Option<&prost_types::Timestamp>) -> String {
    match Timestamp::from_microsecond(micros(time)) {
        Ok(at) if time.is_some() && at.subsec_nanosecond() == 0 => at.to_string(),
        Ok(at) if time.is_some() => format!("{at:.6}"),
        _ => "-".to_owned(),
    }
}

/// Microseconds since 1970 of a message's timestamp; absent: 0.
pub(super) fn micros(time: Option<&prost_types::Timestamp>) -> i64 {
    time.map_or(0, |time| {
        time.seconds
            .saturating_mul(1_000_000)
            .saturating_add(i64::from(time.nanos) / 1000)
    })
}

/// Microseconds of a message's duration; absent: 0.
pub(super) fn duration_us(duration: Option<&prost_types::Duration>) -> i64 {
    duration.map_or(0, |duration| {
        let micros = i64::from(duration.nanos) / 1000;
        duration
            .seconds
            .saturating_mul(1_000_000)
            .saturating_add(micros)
    })
}

/// `0.013 s`, `41.512 s`, `12 min 03 s`, `5 h 07 min`, `3 d 02 h`.
pub(super) fn duration(us: i64) -> String {
    let seconds = us / 1_000_000;
    match seconds {
        ..60 => format!("{:.3} s", us as f64 / 1e6),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {:02} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// How long ago that was by the clock of this machine.
pub(super) fn ago(us: i64) -> String {
    if us == 0 {
        return "-".to_owned();
    }
    let passed = Timestamp::now().as_microsecond() - us;
    if passed.abs() < 60_000_000 {
        format!("{:.1} s ago", passed as f64 / 1e6)
    } else {
        format!("{} ago", duration(passed))
    }
}

/// Seconds of a duration in microseconds, to the microsecond.
pub(super) fn seconds(us: i64) -> f64 {
    us as f64 / 1e6
}

/// Reads a length of time (see [`Length::parse`]), which is not zero.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    match parse_or_zero(text)? {
        Duration::ZERO => Err("it must be longer than 0s".to_owned()),
        duration => Ok(duration),
    }
}

/// Reads a length of time, which may be zero.
pub(super) fn parse_or_zero(text: &str) -> Result<Duration, String> {
    let length = Length::parse(text);
    length.ok_or_else(|| {
        "write a length of time like 30s, 500ms, 2m, 5 min, 1h30m or 2d; a number alone is seconds"
            .to_owned()
    })
}

/// A length of time as the API has it.
pub(super) fn message(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: duration.subsec_nanos() as i32,
    }
}

/// What reads a length of time of this range.
pub(super) fn within(
    range: RangeInclusive<Duration>,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let length = parse_or_zero(text)?;
        let (least, most) = (length_text(*range.start()), length_text(*range.end()));
        let said = || format!("it must be {least} to {most}");
        range.contains(&length).then_some(length).ok_or_else(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_out_of_its_range_is_answered_by_the_range() {
        let read = within(Duration::from_millis(1)..=Duration::from_secs(30 * 86_400));
        assert_eq!(read("30d"), Ok(Duration::from_secs(30 * 86_400)));
        for wrong in ["31d", "0.0001", "0"] {
            assert_eq!(read(wrong), Err("it must be 1ms to 30 days".to_owned()));
        }
        let or_zero = within(Duration::ZERO..=Duration::from_secs(60));
        assert_eq!(or_zero("0"), Ok(Duration::ZERO));
        assert!(read("soon").is_err_and(|said| said.starts_with("write a length of time")));
    }

    #[test]
    fn durations_read_as_people_write_them() {
        assert_eq!(parse("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("1h 30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse("1h30m"), parse("1h 30m"));
        assert_eq!(parse("2d"), parse("48h"));
        assert_eq!(parse("0s"), Err("it must be longer than 0s".to_owned()));
        assert_eq!(parse_or_zero("0s"), Ok(Duration::ZERO));
        for wrong in ["", "soon", "-3s", "0", "1e300"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_are_shown_by_their_size() {
        let shown = [
            13_000,
            41_512_000,
            723_000_000,
            18_420_000_000,
            266_400_000_000,
        ]
        .map(duration);
        assert_eq!(
            shown,
            [
                "0.013 s",
                "41.512 s",
                "12 min 03 s",
                "5 h 07 min",
                "3 d 02 h"
            ]
        );
    }

    #[test]
    fn exact_times_with_fractions_are_equally_long() {
        let at = |nanos| exact(Some(&prost_types::Timestamp { seconds: 1, nanos }));
        assert_eq!(at(0), "1970-01-01T00:00:01Z");
        assert_eq!(at(734_910_000), "1970-01-01T00:00:01.734910Z");
    }

    #[test]
    fn an_absent_time_is_a_dash() {
        assert_eq!((time(0), exact(None)), ("-".to_owned(), "-".to_owned()));
        assert_eq!(time(1_000_000), "1970-01-01 00:00:01.000Z");
    }
}
