//! Recognizes a variable of psql in a statement that Postgres has refused: tasks run without psql,
//! which would have put its value there. Pure.

/// How Postgres refuses a colon that begins no cast.
const CODE: &str = "42601";
const AT_COLON: &str = "\":\"";

/// Where a statement was written.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Argument,
    File,
}

/// What to do about the variable at which an error of this code and message is; `position` counts
/// characters of the statement from 1.
pub(super) fn hint(
    statement: &str,
    place: Place,
    (code, message): (&str, &str),
    position: Option<i32>,
) -> Option<String> {
    if code != CODE || !message.contains(AT_COLON) {
        return None;
    }
    let before = usize::try_from(position? - 1).ok()?;
    let at = statement.char_indices().nth(before)?.0;
    let variable = variable(&statement[at..])?;
    let else_write = match place {
        Place::Argument => "$1 and pass it by --param",
        Place::File => "the statement as a line of JSON with $1 and `params`",
    };
    Some(format!(
        "{variable} is a variable of psql, which tasks do not have: write its value, or \
         {else_write}"
    ))
}

/// The variable with which a text begins: `:name`, `:'name'` or `:"name"`.
fn variable(text: &str) -> Option<&str> {
    let name = text.strip_prefix(':')?;
    let quotes = usize::from(name.starts_with(['\'', '"']));
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let rest = &name[quotes..];
    let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
    let is_closed = rest[length..].starts_with(&name[..quotes]);
    (length > 0 && is_closed).then(|| &text[..1 + length + 2 * quotes])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_of_psql_is_named() {
        let said = |statement: &str, position| {
            let message = "syntax error at or near \":\"";
            hint(statement, Place::File, ("42601", message), Some(position))
        };
        for (statement, position, variable) in [
            ("select :x", 8, ":x "),
            ("select 'ä', :'day'", 13, ":'day' "),
            ("select :\"a\", 1", 8, ":\"a\" "),
        ] {
            let hint = said(statement, position).expect(statement);
            assert!(hint.starts_with(variable), "{hint}");
        }
        assert_eq!(said("select : x", 8), None);
        assert_eq!(said("select 1", 90), None);
        let other = |code, message| hint("select :x", Place::File, (code, message), Some(8));
        assert_eq!(other("42601", "at or near \"x\""), None);
        assert_eq!(other("42703", "near \":\""), None);
    }
}
