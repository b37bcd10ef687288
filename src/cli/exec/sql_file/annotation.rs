//! Comments that say something of tasks, like `-- @order 100`: their names and values, and what is
//! wrong with one. Pure.
//!
//! A comment that begins with `@` and says nothing of a task is refused, never passed over: it may
//! have been meant to. Only `@` right before something that is no name, as in `@@` or `@1`, says
//! nothing.

use super::super::{fault::Fault, task_option};
use crate::likeness::closest;

/// The name and the value of a comment like `-- @order 100`; `None`: it says nothing of tasks.
pub(super) fn read(line: usize, comment: &str) -> Result<Option<(&str, &str)>, Fault> {
    let Some(text) = signed(comment) else {
        return Ok(None);
    };
    if is_alone(text) {
        let next = match text.trim() {
            "" => "write a name behind it, as in `-- @order 100`, or leave it out".to_owned(),
            text => format!("write `-- @{text}`, or leave the `@` out"),
        };
        return Err(Fault::new(line, "a space stands behind the `@`", next));
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic());
    Ok(begins.then(|| (&text[..end], text[end..].trim())))
}

/// Whether a comment says something of tasks, or was meant to.
pub(super) fn begins(comment: &str) -> bool {
    let begins = |c: char| c.is_ascii_alphabetic();
    signed(comment).is_some_and(|text| is_alone(text) || text.starts_with(begins))
}

/// What stands behind the `@` with which a comment begins.
fn signed(comment: &str) -> Option<&str> {
    let text = comment.trim_start_matches('-').trim_start();
    text.strip_prefix('@')
}

/// Nothing stands right behind the `@`.
fn is_alone(text: &str) -> bool {
    text.is_empty() || text.starts_with(char::is_whitespace)
}

/// All names.
fn known() -> Vec<&'static str> {
    let known = ["order", "task", "end", "label", "resource"].into_iter();
    known.chain(task_option::names()).collect()
}

/// What is written as an annotation in a block comment would be passed over.
pub(super) fn refuse_in_block(line: usize, comment: &str) -> Result<(), Fault> {
    let text = comment.strip_prefix("/*").and_then(signed);
    let name = text.and_then(|text| {
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .next()
    });
    match name.filter(|name| known().contains(name)) {
        None => Ok(()),
        Some(name) => {
            let why = format!("`@{name}` stands in a block comment");
            let next = format!("write `-- @{name}` and what is behind it on a line of its own");
            Err(Fault::new(line, why, next))
        }
    }
}

pub(super) fn unknown(line: usize, name: &str) -> Fault {
    let known = known();
    let meant = closest(name, &known);
    let meant = meant.map_or_else(String::new, |meant| format!("did you mean `@{meant}`? "));
    let next = format!(
        "{meant}known are @{}; a comment whose first word does not begin with @ may say anything",
        known.join(", @")
    );
    Fault::new(line, format!("`@{name}` is unknown"), next)
}

pub(super) fn misplaced(line: usize, comment: &str) -> Fault {
    let why = format!(
        "`{}` must stand on a line of its own between statements",
        comment.trim()
    );
    Fault::new(
        line,
        why,
        "put it on a line ahead of the statement that it is for",
    )
}

pub(super) fn nothing_behind(line: usize, name: &str, value: &str) -> Result<(), Fault> {
    match value {
        "" => Ok(()),
        _ => {
            let why = format!("nothing stands behind `@{name}`, not `{value}`");
            Err(Fault::new(line, why, "a name is `-- @name TEXT`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_without_a_name_is_refused_with_what_was_meant() {
        for (comment, next) in [
            ("-- @ order 5", "write `-- @order 5`, or leave the `@` out"),
            ("--@\torder 5", "write `-- @order 5`, or leave the `@` out"),
            ("-- @", "write a name behind it, as in `-- @order 100`"),
        ] {
            let fault = read(3, comment).expect_err(comment);
            assert_eq!(fault.line, 3);
            assert!(fault.next.starts_with(next), "{fault:?}");
            assert!(begins(comment));
        }
        for other in ["-- at 5 @ noon", "-- @1", "-- @@", "--"] {
            assert_eq!(read(1, other), Ok(None));
            assert!(!begins(other));
        }
        assert_eq!(read(1, "-- @order 5"), Ok(Some(("order", "5"))));
    }

    #[test]
    fn an_annotation_in_a_block_comment_is_not_passed_over() {
        let refused = |comment| refuse_in_block(7, comment).err().map(|fault| fault.next);
        let said = refused("/* @order 400 */").unwrap_or_default();
        assert!(said.contains("`-- @order`"), "{said}");
        for other in [
            "/* @author me */",
            "/* order 400 */",
            "/** @order */",
            "\n  ",
        ] {
            assert_eq!(refused(other), None);
        }
    }
}
