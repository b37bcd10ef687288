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

/// The text with a value in place of a word, and not of a part of another one: that may be of a
/// name which was filled in before.
pub(super) fn filled(text: &str, placeholder: &str, value: &str) -> String {
    let is_between = |c: char| c.is_whitespace() || c == '`';
    let filled = |word: &str| match word.strip_prefix(placeholder) {
        Some(end) if end.chars().all(is_between) => format!("{value}{end}"),
        _ => word.to_owned(),
    };
    text.split_inclusive(is_between).map(filled).collect()
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

    #[test]
    fn a_name_that_holds_a_placeholder_stays_whole() {
        let advice = "wait for it (`rallypoint wait HANDLE`), or `rallypoint retry HANDLE SEQ -x`";
        let named = filled(advice, "HANDLE", "MY_SEQ");
        assert_eq!(
            filled(&named, "SEQ", "5"),
            "wait for it (`rallypoint wait MY_SEQ`), or `rallypoint retry MY_SEQ 5 -x`"
        );
        assert_eq!(filled("NAME=URL NAME", "NAME", "a"), "NAME=URL a");
    }
}
