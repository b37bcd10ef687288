//! Lengths of time, as people write them.

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use std::{
    fmt::{self, Formatter},
    time::Duration,
};

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
        deserializer.deserialize_str(Written)
    }
}

/// Reads a text. A number has no unit, and could mean any.
struct Written;

impl Visitor<'_> for Written {
    type Value = Length;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a length of time in quotes, with its unit, like \"30s\" or \"5m\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Length, E> {
        let expected = "not a length of time with its unit: write it like \"30s\", \"5m\", \"1h30m\" or \"2d\"";
        let has_unit = text.parse::<f64>().is_err();
        let length = Length::parse(text).filter(|_| has_unit).map(Length);
        length.ok_or_else(|| E::custom(expected))
    }
}
