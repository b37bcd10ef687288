//! Arguments of `exec` that are names of files, and no SQL: somebody has mistyped a name, or takes
//! any file for one of SQL.

use crate::cli::{error::CliError, shell};
use std::path::Path;

/// Refuses what is a file, or looks like the name of one.
pub(in crate::cli) fn refuse(text: &str) -> Result<(), CliError> {
    if text.contains(char::is_whitespace) {
        return Ok(());
    }
    let path = Path::new(text);
    if path.is_file() {
        let file = shell::word(text);
        return Err(CliError::usage(format!("{text} is a file, and not SQL"))
            .next(format!("read tasks from it: `rallypoint exec -f {file}`")));
    }
    let has_letters = text.contains(char::is_alphabetic);
    if path.is_dir() && (looks_like_a_name(text) || !has_letters) {
        return Err(CliError::usage(format!("{text} is a folder, and not SQL"))
            .next("name a file in it: `rallypoint exec -f FILE`"));
    }
    match looks_like_a_name(text) {
        true => {
            let what = format!("{text} looks like the name of a file, and there is none");
            Err(CliError::new(what).next(
                "check the name: a file of SQL ends in .sql, and `-f FILE` reads any other one",
            ))
        }
        false => Ok(()),
    }
}

/// One word with a folder or an extension. No statement has that form, but one that computes.
fn looks_like_a_name(text: &str) -> bool {
    let is_of_names = |c: char| c.is_alphanumeric() || "._-/~".contains(c);
    let path = Path::new(text);
    let extension = path.extension().and_then(|extension| extension.to_str());
    let has_extension =
        extension.is_some_and(|extension| extension.starts_with(char::is_alphabetic));
    let computes = text
        .get(..6)
        .is_some_and(|word| word.eq_ignore_ascii_case("select"));
    text.chars().all(is_of_names) && (text.contains('/') || has_extension) && !computes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_named_as_a_shell_takes_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("night(1)");
        fs::write(&file, "select 1").expect("written");
        let file = file.display().to_string();
        let error = refuse(&file).expect_err("a file");
        let next = format!("read tasks from it: `rallypoint exec -f '{file}'`");
        assert_eq!(error.next_step(), Some(&*next));
    }

    #[test]
    fn a_mistyped_name_is_no_statement() {
        for name in ["night.sq", "./night", "jobs/night.txt", "/no/such", "a.b.C"] {
            let error = refuse(name).expect_err(name);
            assert!(format!("{error:?}").contains("-f FILE"), "{error:?}");
        }
        let folder = refuse(".").expect_err("a folder");
        assert!(format!("{folder:?}").contains(". is a folder, and not SQL"));
        for statement in [
            "commit",
            "select-1/2",
            "select.5",
            "select(1.5)",
            "select/**/1",
            "select 'night.sq'",
            "values(1.e1)",
        ] {
            assert!(refuse(statement).is_ok(), "{statement}");
        }
    }
}
