//! Numbers, lengths and times as people read them. Times are UTC, as everywhere on the command
//! line.

use crate::cli::{
    plural::noun_of,
    time_text::{duration, duration_us, micros},
};
use jiff::Timestamp;
use prost_types::Duration;

/// A count; from ten thousand on in groups of three digits.
pub(super) fn number(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    if digits.len() < 5 {
        return value.to_string();
    }
    let sign = if value < 0 { "-" } else { "" };
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push('\u{a0}');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}")
}

/// So many of them: `1 task`, `3 tasks`.
pub(super) fn counted(value: i64, noun: &str) -> String {
    format!("{} {}", number(value), noun_of(value == 1, noun))
}

/// So many a second.
pub(super) fn rate(value: f64) -> String {
    match value {
        ..10.0 => format!("{:.1}", value.abs()),
        _ => number(value.round() as i64),
    }
}

/// Microseconds: `850 ms`, `1.2 s`, `42 s`, and from a minute on as everywhere on the command line.
/// The short ones are rounder than those: they change under the eyes of the reader.
pub(super) fn span(us: i64) -> String {
    let us = us.max(0);
    let seconds = us / 1_000_000;
    match seconds {
        0 => format!("{} ms", us / 1000),
        1..10 => format!("{:.1} s", us as f64 / 1e6),
        10..60 => format!("{seconds} s"),
        _ => duration(us),
    }
}

/// A duration of the API; absent: nothing.
pub(super) fn lasting(duration: Option<&Duration>) -> String {
    duration.map_or_else(String::new, |duration| span(duration_us(Some(duration))))
}

/// `3 min 02 s ago`, `in 4.0 s`; absent: nothing.
pub(super) fn ago(time: Option<&prost_types::Timestamp>, now: i64) -> String {
    match time {
        None => String::new(),
        some if micros(some) > now => format!("in {}", span(micros(some) - now)),
        some => format!("{} ago", span((now - micros(some)).max(1_000_000))),
    }
}

/// How long ago that was; absent: nothing.
pub(super) fn since(time: Option<&prost_types::Timestamp>, now: i64) -> String {
    time.map_or_else(String::new, |time| span(now - micros(Some(time))))
}

/// `12:00:07` of today, else with the day; 0: nothing.
pub(super) fn clock(us: i64, now: i64) -> String {
    const DAY: i64 = 86_400_000_000;
    let Ok(time) = Timestamp::from_microsecond(us) else {
        return String::new();
    };
    match us {
        0 => String::new(),
        _ if us.div_euclid(DAY) == now.div_euclid(DAY) => time.strftime("%H:%M:%SZ").to_string(),
        _ => time.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
    }
}

/// As [`clock`], of a time of the API.
pub(super) fn at(time: Option<&prost_types::Timestamp>, now: i64) -> String {
    clock(micros(time), now)
}

/// The end of a handle, which tells it from others; a name as it is.
pub(super) fn short(handle: &str) -> String {
    const HANDLE: usize = 36;
    match handle.char_indices().nth(HANDLE - 8) {
        Some((from, _)) if handle.len() == HANDLE => format!("…{}", &handle[from..]),
        _ => handle.to_owned(),
    }
}

/// The first line of a text.
pub(super) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// `key=value` of each label, by key.
pub(super) fn labels(labels: &std::collections::HashMap<String, String>) -> String {
    let mut pairs: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    pairs.sort();
    pairs.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_numbers_are_shown_by_their_size() {
        let shown = [850_000, 1_200_000, 42_000_000, 125_000_000, 187_200_000_000].map(span);
        assert_eq!(shown, ["850 ms", "1.2 s", "42 s", "2 min 05 s", "2 d 04 h"]);
        assert_eq!(number(9999), "9999");
        assert_eq!(
            (counted(1, "row"), counted(0, "row")),
            ("1 row".into(), "0 rows".into())
        );
        assert_eq!(number(-1_234_567), "-1\u{a0}234\u{a0}567");
        assert_eq!((rate(0.25), rate(12_345.6)), ("0.2".into(), number(12_346)));
    }

    #[test]
    fn a_time_of_another_day_has_its_day() {
        let now = 1_772_366_400_000_000;
        assert_eq!(clock(now - 5_000_000, now), "11:59:55Z");
        assert_eq!(clock(now - 86_400_000_000, now), "2026-02-28 12:00:00Z");
        assert_eq!(clock(0, now), "");
    }
}
