//! URLs of databases on the command line. They hold passwords, so an error names the option and
//! what is wrong, and never shows the URL.

use super::error::CliError;
use crate::database_url::{form_instead, parsed};
use url::ParseError;

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// What names the coordination database.
pub(super) const DATABASE: &str = "--database (RALLYPOINT_DATABASE)";
/// What names a database with an administrator's login.
pub(super) const ADMINISTRATOR: &str = "--url (RALLYPOINT_ADMIN_URL)";

/// The URL that `option` names as `read` takes it: a login, or how the driver connects.
pub(super) fn read<T>(
    option: &str,
    url: &str,
    read: impl FnOnce(&str) -> anyhow::Result<T>,
) -> Result<T, CliError> {
    check(option, url)?;
    read(url).map_err(|error| {
        let next = match parsed(url) {
            Ok(_) => "correct the URL: it is written like postgres://user@host/database?NAME=VALUE",
            Err(error) => form_instead(error),
        };
        CliError::usage(format!("{option} cannot be used"))
            .why(format!("{error:#}"))
            .next(next)
    })
}

/// Checks that `option` names a database that can be one; the driver reads the rest.
fn check(option: &str, url: &str) -> Result<(), CliError> {
    let what = format!("{option} is not the URL of a Postgres database");
    if !SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
        return Err(CliError::usage(what)
            .why("it must begin with postgres:// or postgresql://")
            .next("write it like postgres://user@host/database"));
    }
    match parsed(url) {
        Err(error @ ParseError::EmptyHost) => Err(CliError::usage(what)
            .why("it has a user and names no host")
            .next(form_instead(error))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database_url::options_of;

    #[test]
    fn a_fault_of_a_parameter_is_told() {
        let url = "postgres://u:secret@h/d?sslmod=disable";
        let error = read("--url", url, options_of).expect_err("refused");
        let expected = "--url cannot be used: `sslmod` is not known: did you mean `sslmode`?";
        assert_eq!(error.in_words(), expected);
    }

    #[test]
    fn a_password_that_is_not_encoded_is_thought_of() {
        let error = read("--url", "postgres://u:a#1@h/d", options_of).expect_err("refused");
        assert!(error.next_step().is_some_and(|next| next.contains("%23")));
    }

    #[test]
    fn only_postgres_is_taken_and_no_password_is_shown() {
        assert!(check("--database", "postgres://u:secret@h/d?sslmode=disable").is_ok());
        assert!(check("--database", "postgresql://h").is_ok());
        assert!(check("--database", "postgres://u:secret@/d?host=/run/postgresql").is_ok());
        for wrong in [
            "mysql://u:secret@h/d",
            "h/d?password=secret",
            "postgres://u:secret@/d",
        ] {
            let error = check("--database", wrong).expect_err(wrong);
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        }
    }
}
