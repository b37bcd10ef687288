//! Lengths of time.

use serde::{Deserialize, Deserializer, de::Error};
use std::time::Duration;

/// A length of time, written like `30s` or `5m`.
pub(crate) struct Length(pub(crate) Duration);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let length: Option<Duration> = text
            .parse::<jiff::SignedDuration>()
            .ok()
            .and_then(|length| length.try_into().ok());
        let expected = "not a length of time: write it like \"30s\" or \"5m\"";
        length.map(Length).ok_or_else(|| D::Error::custom(expected))
    }
}
