//! Values of the API that options name by words.

use crate::likeness::did_you_mean;
use rallypoint_client::api::{Delivery, Isolation};

/// The values of an enumeration of the API, as words.
pub(super) struct Words(Vec<(i32, String)>);

/// What becomes of a task whose attempt is lost.
pub(super) fn delivery() -> Words {
    let name = |number| Some(Delivery::try_from(number).ok()?.as_str_name());
    Words::new("DELIVERY_", name)
}

/// What a transaction sees of others.
pub(super) fn isolation() -> Words {
    let name = |number| Some(Isolation::try_from(number).ok()?.as_str_name());
    Words::new("ISOLATION_", name)
}

impl Words {
    fn new(prefix: &str, name: impl Fn(i32) -> Option<&'static str>) -> Words {
        let word = |name: &str| {
            name.trim_start_matches(prefix)
                .to_lowercase()
                .replace('_', " ")
        };
        let values = (1..).map_while(|number| Some((number, word(name(number)?))));
        Words(values.collect())
    }

    /// The value of a word; what to write if it is none.
    pub(super) fn number(&self, text: &str) -> Result<i32, String> {
        let wanted = text.to_lowercase().replace(['_', '-'], " ");
        let found = self.0.iter().find(|(_, word)| *word == wanted);
        found.map(|(number, _)| *number).ok_or_else(|| {
            // As one word, which a shell leaves whole.
            let known = self.0.iter().map(|(_, word)| word.replace(' ', "-"));
            let known: Vec<String> = known.collect();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let all = known.join("`, `");
            format!("`{text}` is none of `{all}`{}", did_you_mean(text, &known))
        })
    }

    /// The word of a value; `None`: it has none, or is not said.
    pub(super) fn word(&self, number: i32) -> Option<String> {
        let found = self.0.iter().find(|(one, _)| *one == number);
        found.map(|(_, word)| word.clone())
    }
}
