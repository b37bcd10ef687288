//! Settings of a resource as options, the same for the verb that makes one and the verb that
//! changes one.

use crate::cli::{number::whole, time_text};
use clap::Args;
use rallypoint_client::api::{Refill, ResourceSettings};
use std::time::Duration;

#[derive(Args, Debug)]
pub(super) struct Settings {
    /// Permits: so many readers, or users, at a time [default of a new one: 1]
    #[arg(long, value_name = "N", value_parser = whole::<i32>(0..))]
    capacity: Option<i32>,
    /// How long nobody else gets what a holder has lost [default: 0]
    #[arg(long, value_parser = time_text::parse_or_zero, value_name = "TIME")]
    lock_delay: Option<Duration>,
    /// The longest hold, renewed or not; none: any [default of a new one: none]
    #[arg(long, value_parser = max_hold, value_name = "TIME|none")]
    max_hold: Option<Limit<Duration>>,
    /// Permits come back by time: so many in a time, as 10/1s (a rate limit); none: by release
    /// [default of a new one: none]
    #[arg(long, value_parser = rate, value_name = "N/TIME|none")]
    refill: Option<Limit<Refill>>,
    /// Readers pass the writers in line [default: nobody passes]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    reader_preferred: Option<bool>,
}

/// A setting that a resource may have or not.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit<T>(Option<T>);

impl Settings {
    /// The names of those that the command line names.
    pub(super) fn paths(&self) -> Vec<String> {
        let given = [
            ("capacity", self.capacity.is_some()),
            ("lock_delay", self.lock_delay.is_some()),
            ("max_hold", self.max_hold.is_some()),
            ("refill", self.refill.is_some()),
            ("reader_preferred", self.reader_preferred.is_some()),
        ];
        let given = given.into_iter().filter(|(_, is_given)| *is_given);
        given.map(|(name, _)| name.to_owned()).collect()
    }

    pub(super) fn message(&self, capacity: i32) -> ResourceSettings {
        let max_hold = self.max_hold.and_then(|limit| limit.0);
        ResourceSettings {
            capacity: self.capacity.unwrap_or(capacity),
            lock_delay: self.lock_delay.map(time_text::message),
            max_hold: max_hold.map(time_text::message),
            refill: self.refill.and_then(|limit| limit.0),
            reader_preferred: self.reader_preferred.unwrap_or(false),
        }
    }
}

fn max_hold(text: &str) -> Result<Limit<Duration>, String> {
    limit(text, time_text::parse)
}

fn rate(text: &str) -> Result<Limit<Refill>, String> {
    limit(text, refill)
}

/// `none`, or what `read` makes of the text.
fn limit<T>(text: &str, read: fn(&str) -> Result<T, String>) -> Result<Limit<T>, String> {
    match text {
        "none" => Ok(Limit(None)),
        text => read(text).map(|value| Limit(Some(value))),
    }
}

/// `10/1s`, or `10/s`.
fn refill(text: &str) -> Result<Refill, String> {
    let parts = text.split_once('/');
    let (permits, period) = parts.ok_or("write permits and a time, as 10/1s")?;
    let permits = permits.parse();
    let one_unit = match period.starts_with(|first: char| first.is_ascii_alphabetic()) {
        true => format!("1{period}"),
        false => period.to_owned(),
    };
    let period = time_text::parse(&one_unit).map_err(|wrong| format!("after the `/`, {wrong}"))?;
    Ok(Refill {
        permits: permits.map_err(|_| "not a number of permits before the `/`")?,
        period: Some(time_text::message(period)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_may_leave_out_the_1_of_its_time() {
        assert_eq!(refill("10/s"), refill("10/1s"));
        assert_eq!(refill("10/min"), refill("10/60s"));
        for wrong in ["10", "s/10", "10/", "10/fortnight", "10/s/s"] {
            assert!(refill(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn none_takes_a_limit_away() {
        assert_eq!(max_hold("none"), Ok(Limit(None)));
        assert_eq!(rate("none"), Ok(Limit(None)));
        let hour = Duration::from_secs(3_600);
        assert_eq!(max_hold("1h"), Ok(Limit(Some(hour))));
        assert!(max_hold("0").is_err() && rate("0").is_err());
    }
}
