//! Ids, durations, times, enumerations and labels: the values every request is made of. Each
//! function returns a usable value even when it reports a violation, so that one pass finds all of
//! them.

use crate::{
    core::{
        Handle, MalformedHandle, Order, Seq, ShardId, Time,
        model::limits::{self, length_text},
    },
    rpc::errors::{
        reason::Reason,
        violations::{Path, Violations},
    },
};
use std::{
    collections::{BTreeMap, HashMap},
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};
use uuid::Uuid;

/// Of a name, and of a display name.
pub(super) const MAX_NAME_BYTES: usize = 255;
const MAX_LABELS: usize = 64;
const MAX_LABEL_KEY_BYTES: usize = 63;
const MAX_LABEL_VALUE_BYTES: usize = 255;
/// 9999-12-31T23:59:59Z, the last second of `google.protobuf.Timestamp`.
const MAX_SECONDS: i64 = 253_402_300_799;

pub(super) fn handle(v: &mut Violations, path: Path<'_>, text: &str) -> Handle {
    text.parse().unwrap_or_else(|malformed: MalformedHandle| {
        let message = match text {
            "" => "missing: GetScheduler returns it when it opens a scheduler".to_owned(),
            _ => malformed.to_string(),
        };
        v.add(path, Reason::IdMalformed, message);
        Handle::new(ShardId(0), 0, [0; 10])
    })
}

/// A request id; empty: none.
pub(super) fn request_id(v: &mut Violations, path: Path<'_>, text: &str) -> Option<Uuid> {
    if text.is_empty() {
        return None;
    }
    let message = match Uuid::try_parse(text) {
        Ok(id) if !id.is_nil() => return Some(id),
        Ok(_) => "expected a UUID of your choice, and this is the nil UUID",
        Err(_) => "expected a UUID of your choice, like 018f9c5e-7b1a-7c43-9a51-3d6f0e2b8c17",
    };
    v.add(path, Reason::RequestIdMalformed, message);
    None
}

/// A name of a scheduler; empty: none. Names are printable ASCII, so that names that look the same
/// are the same, and no handles, so that one word may stand for either. A `/` stands between a
/// scheduler and the number of a task.
pub(super) fn name(v: &mut Violations, path: Path<'_>, text: &str) -> Option<Arc<str>> {
    if text.len() > MAX_NAME_BYTES {
        let message = format!("at most {MAX_NAME_BYTES} bytes");
        v.add(path, Reason::NameTooLong, message);
    } else if !text.bytes().all(|b| b.is_ascii_graphic()) {
        let message = "a name is printable ASCII characters without spaces";
        v.add(path, Reason::NameInvalid, message);
    } else if text.contains('/') {
        let message = "a name has no `/`, which stands between a scheduler and a task";
        v.add(path, Reason::NameInvalid, message);
    } else if text.parse::<Handle>().is_ok() {
        let message = "this is the form of a handle, which the service gives";
        v.add(path, Reason::NameInvalid, message);
    }
    (!text.is_empty()).then(|| text.into())
}

pub(super) fn seq(v: &mut Violations, path: Path<'_>, seq: i64) -> Seq {
    if seq < 1 {
        v.add(path, Reason::SeqOutOfRange, "tasks are numbered from 1");
    }
    Seq(seq)
}

pub(super) fn order(v: &mut Violations, path: Path<'_>, order: i64) -> Order {
    if !(0..=limits::MAX_ORDER).contains(&order) {
        v.add(
            path,
            Reason::OrderOutOfRange,
            format!("must be 0 to {}", limits::MAX_ORDER),
        );
    }
    Order(order)
}

/// A duration within `range`.
pub(super) fn duration(
    v: &mut Violations,
    path: Path<'_>,
    duration: &prost_types::Duration,
    range: RangeInclusive<Duration>,
) -> Option<Duration> {
    let value = well_formed(duration).filter(|value| range.contains(value));
    if value.is_none() {
        v.add(
            path,
            Reason::DurationOutOfRange,
            format!(
                "must be {} to {}",
                length_text(*range.start()),
                length_text(*range.end())
            ),
        );
    }
    value
}

/// A duration that is not negative.
pub(super) fn well_formed(duration: &prost_types::Duration) -> Option<Duration> {
    let good = duration.seconds >= 0 && (0..1_000_000_000).contains(&duration.nanos);
    good.then(|| Duration::new(duration.seconds as u64, duration.nanos as u32))
}

/// A duration within `range`, if there is one.
pub(super) fn optional_duration(
    v: &mut Violations,
    path: Path<'_>,
    duration: &Option<prost_types::Duration>,
    range: RangeInclusive<Duration>,
) -> Option<Duration> {
    duration
        .as_ref()
        .and_then(|duration| self::duration(v, path, duration, range))
}

/// A time from 1970 to 9999.
pub(super) fn time(
    v: &mut Violations,
    path: Path<'_>,
    time: &prost_types::Timestamp,
) -> Option<Time> {
    if !(0..=MAX_SECONDS).contains(&time.seconds) || !(0..1_000_000_000).contains(&time.nanos) {
        v.add(
            path,
            Reason::TimestampOutOfRange,
            "must be 1970-01-01T00:00:00Z to 9999-12-31T23:59:59Z, nanos 0 to 999999999",
        );
        return None;
    }
    Some(Time(
        time.seconds * 1_000_000 + i64::from(time.nanos) / 1_000,
    ))
}

/// A value of a proto enumeration. An unknown number is never taken for the default.
pub(super) fn enumeration<E: TryFrom<i32>>(
    v: &mut Violations,
    path: Path<'_>,
    number: i32,
) -> Option<E> {
    let value = E::try_from(number).ok();
    if value.is_none() {
        v.add(
            path,
            Reason::EnumUnknown,
            format!("{number} is not a value this server knows"),
        );
    }
    value
}

/// What [`is_error_code`] takes.
pub(super) const ERROR_CODE: &str = "write a SQLSTATE of five characters like 22012, or a reason \
                                     in capitals like TARGET_UNKNOWN";
const MAX_ERROR_CODE_BYTES: usize = 64;

/// Whether a task can end with it: Postgres has names for its codes as well, which are none.
pub(super) fn is_error_code(code: &str) -> bool {
    let is_good = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    let is_long_enough = match code.starts_with(|first: char| first.is_ascii_digit()) {
        true => code.len() == 5,
        false => (1..=MAX_ERROR_CODE_BYTES).contains(&code.len()),
    };
    is_long_enough && code.bytes().all(is_good)
}

/// Labels. Keys are printable ASCII, so that keys that look the same are the same.
pub(super) fn labels(
    v: &mut Violations,
    path: Path<'_>,
    labels: &HashMap<String, String>,
) -> BTreeMap<String, String> {
    if labels.len() > MAX_LABELS {
        v.add(
            path,
            Reason::LabelsInvalid,
            format!("at most {MAX_LABELS} labels"),
        );
        return BTreeMap::new();
    }
    for (key, value) in labels {
        if !(1..=MAX_LABEL_KEY_BYTES).contains(&key.len())
            || !key.bytes().all(|b| b.is_ascii_graphic())
        {
            v.add(
                path.key(key),
                Reason::LabelsInvalid,
                "a key is 1 to 63 printable ASCII characters without spaces",
            );
        } else if value.len() > MAX_LABEL_VALUE_BYTES || value.chars().any(char::is_control) {
            v.add(
                path.key(key),
                Reason::LabelsInvalid,
                "a value is up to 255 bytes without control characters",
            );
        }
    }
    labels
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_postgres_is_no_error_code() {
        for code in ["22012", "P0001", "LEASE_LOST"] {
            assert!(is_error_code(code), "{code}");
        }
        for code in ["division_by_zero", "22p02", "2201", "220123", "", "A B"] {
            assert!(!is_error_code(code), "{code}");
        }
    }
}
