//! The parameters of a task in JSON, as they are written: a number may have more digits than a
//! float holds, and Postgres reads them all.

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    params: Option<Vec<&'a RawValue>>,
}

/// The values of the object, `None` for null; `None`: it has none, or no list of them.
pub(super) fn of(object: &str) -> Option<Vec<Option<String>>> {
    let read: Params<'_> = serde_json::from_str(object).ok()?;
    Some(read.params?.into_iter().map(verbatim).collect())
}

fn verbatim(value: &RawValue) -> Option<String> {
    match value.get() {
        "null" => None,
        text => Some(serde_json::from_str(text).unwrap_or_else(|_| text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn parameters_are_text_as_it_stands_or_null() {
        let object = r#"{"statement": "a", "params": ["\u0078", 1, true, null, {"a": [2]},
            12345678901234567.890, 1e3]}"#;
        let number = "12345678901234567.890";
        let texts = ["x", "1", "true", "", r#"{"a": [2]}"#, number, "1e3"];
        let texts = texts.map(|text| (!text.is_empty()).then(|| text.to_owned()));
        assert_eq!(of(object), Some(texts.to_vec()));
        assert_eq!(of(r#"{"statement": "a"}"#), None);
        assert_eq!(of(r#"{"params": "1"}"#), None);
    }
}
