//! The words of the command line, as they are meant.

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
