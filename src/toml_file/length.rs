//! Lengths of time, as people write them.

use serde::{Deserialize, Deserializer, de::Error};
use std::time::Duration;

/// A length of time, written like `30s`, `5m` or `2d`.
pub(crate) struct Length(pub(crate) Duration);

impl Length {
    /// Reads `500ms`, `2m`, `1h30m`, `2d` (of 24 hours each), and `90` or `0.5`, which are seconds.
    pub(crate) fn parse(text: &str) -> Option<Duration> {
        if let Ok(seconds) = text.parse() {
            return Duration::try_from_secs_f64(seconds).ok();
        }
        let span: jiff::Span = text.parse().ok()?;
        let length = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours());
        length.ok()?.try_into().ok()
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let expected = "not a length of time: write it like \"30s\" or \"5m\"";
        let length = Length::parse(&text).map(Length);
        length.ok_or_else(|| D::Error::custom(expected))
    }
}
