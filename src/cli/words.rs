//! The words of the command line, as they are meant.

use super::time_text;
use std::ffi::{OsStr, OsString};

/// Behind it a value stands, whatever it looks like.
const PARAM: &str = "--param";

/// A word like `-5s` behind an option is its value, and no option: it becomes `--timeout=-5s`, so
/// that the option says what it takes. A statement behind a line of comment gets a space before it,
/// so that it is not read as an option; a parameter stays as it is. What stands behind `--` is
/// another command's.
pub(super) fn of(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let (mut meant, mut is_over): (Vec<OsString>, bool) = (Vec::new(), false);
    for word in words {
        is_over |= word == "--";
        match meant.last_mut() {
            Some(option) if !is_over && takes_value(option) && is_negative(&word) => {
                option.push("=");
                option.push(word);
            }
            Some(before) if !is_over && before != PARAM && is_commented(&word) => {
                let mut statement = OsString::from(" ");
                statement.push(word);
                meant.push(statement);
            }
            _ => meant.push(word),
        }
    }
    meant
}

/// What is wrong where the unit of a length of time stands apart from its number, as in
/// `--timeout 30 m`: it would be read as another argument. `takes_time` says it of an option.
pub(super) fn unit_apart(words: &[OsString], takes_time: impl Fn(&str) -> bool) -> Option<String> {
    let words = words.iter().take_while(|word| *word != "--");
    let words: Vec<&str> = words.map_while(|word| word.to_str()).collect();
    let mut apart = words.windows(3).filter_map(|three| {
        let [option, number, unit] = three.try_into().ok()?;
        let is_unit = !unit.is_empty() && unit.chars().all(|c| c.is_ascii_lowercase());
        let is_length = |text: &str| time_text::parse_or_zero(text).is_ok();
        let has_unit = |text: &str| text.ends_with(|c: char| c.is_ascii_lowercase());
        // `30 m`, or `1h 30m`.
        let parts = is_unit && number.parse::<f64>().is_ok()
            || [number, unit]
                .iter()
                .all(|part| has_unit(part) && is_length(part));
        let is_apart = parts
            && is_length(&format!("{number}{unit}"))
            && takes_time(option.strip_prefix("--")?);
        is_apart.then(|| {
            format!(
                "a length of time is written without a space: `{option} \
                 {number}{unit}` (if `{unit}` is an argument of its own: `{option}={number} \
                 {unit}`)"
            )
        })
    });
    apart.next()
}

fn takes_value(word: &OsStr) -> bool {
    let word = word.to_string_lossy();
    word.len() > 2 && word.starts_with("--") && !word.contains('=')
}

/// `-- why`, the end of a line, and a statement: of an option no space comes before its `=`.
fn is_commented(word: &OsStr) -> bool {
    let word = word.to_string_lossy();
    let end = word.find(|c: char| c == '=' || c.is_whitespace());
    let is_option = end.is_none_or(|end| word[end..].starts_with('='));
    word.starts_with("--") && word.contains('\n') && !is_option
}

/// Something negative that is no plain number: those are read as values in any case.
fn is_negative(word: &OsStr) -> bool {
    let word = word.to_string_lossy();
    let begins = word.starts_with('-') && word[1..].starts_with(|c: char| c.is_ascii_digit());
    begins && word.parse::<f64>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(line: &str) -> String {
        let words = of(line.split(' ').map(OsString::from));
        words.join(" ".as_ref()).to_string_lossy().into_owned()
    }

    #[test]
    fn a_negative_length_belongs_to_the_option_before_it() {
        for (line, expected) in [
            ("exec --timeout -5s x", "exec --timeout=-5s x"),
            ("exec --timeout -5 x", "exec --timeout -5 x"),
            ("exec --timeout 5s -5s", "exec --timeout 5s -5s"),
            ("exec --timeout=5s -5s", "exec --timeout=5s -5s"),
            (
                "lock run a -- sleep --for -5s",
                "lock run a -- sleep --for -5s",
            ),
        ] {
            assert_eq!(meant(line), expected);
        }
    }

    #[test]
    fn a_unit_apart_from_its_number_is_pointed_out() {
        let said = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            unit_apart(&words, |option| option == "timeout")
        };
        for (line, advice) in [
            ("exec --timeout 30 m x", "`--timeout 30m`"),
            ("exec --timeout 1.5 min", "`--timeout 1.5min`"),
            ("exec --timeout 1h 30m x", "`--timeout 1h30m`"),
            ("lock run --timeout 9 h a -- b", "`--timeout=9 h`"),
        ] {
            let said = said(line).expect(line);
            assert!(said.contains(advice), "{said}");
        }
        for line in [
            "exec --timeout 30m m",
            "exec --timeout=30 m",
            "exec --timeout 30 x",
            "exec --order 30 m",
            "lock run a -- sleep --timeout 30 m",
        ] {
            assert_eq!(said(line), None);
        }
        let empty = ["exec", "--timeout", "30", ""].map(OsString::from);
        assert_eq!(unit_apart(&empty, |_| true), None);
    }

    #[test]
    fn a_comment_before_a_statement_is_no_option() {
        for (word, expected) in [
            ("-- why\nselect 1", " -- why\nselect 1"),
            ("--why\nselect 1", " --why\nselect 1"),
            ("--reason=a\nb", "--reason=a\nb"),
            ("--timeout 5s", "--timeout 5s"),
            ("--reason", "--reason"),
        ] {
            let words = of(["exec", word].map(OsString::from));
            assert_eq!(words[1], expected);
        }
        for before in ["--", PARAM] {
            let words = of(["exec", before, "-- x\ny"].map(OsString::from));
            assert_eq!(words[2], "-- x\ny");
        }
    }
}
