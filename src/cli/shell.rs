//! Text as a word of a shell, for commands that errors and hints show.

/// The word, in quotes if a shell would take it for something else.
pub(super) fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "._-/:=@%+,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => quoted(text),
    }
}

/// The word in quotes.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_takes_for_something_else_stands_in_quotes() {
        assert_eq!(word("deploy/a-1"), "deploy/a-1");
        assert_eq!(word("api/*"), "'api/*'");
        assert_eq!(word("it's"), r"'it'\''s'");
        assert_eq!(word(""), "''");
    }
}
