//! Databases that an administrator names and that do not let us in: what is to be done about it.

use crate::{executor::TargetError, journal::login_remedy};
use std::fmt;

/// The context of an error: no connection was opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unreached;

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot connect to the database")
    }
}

/// What to do if no connection was opened; `None`: one was. `password`: where it stands.
pub(crate) fn connection_remedy(error: &anyhow::Error, password: &str) -> Option<String> {
    error.downcast_ref::<Unreached>().map(|_| {
        let sqlstate = sqlstate(error);
        let known = login_remedy(sqlstate.as_deref(), &format!("{error:#}"), password);
        known.unwrap_or_else(|| {
            match sqlstate {
                None => "start that server, or correct the URL",
                Some(_) => "correct the URL: Postgres answers there, and does not let the login in",
            }
            .to_owned()
        })
    })
}

/// The SQLSTATE, when a server reported an error, by whichever driver.
pub(super) fn sqlstate(error: &anyhow::Error) -> Option<String> {
    let of_driver = |error: &sqlx::Error| {
        let code = error.as_database_error()?.code()?;
        Some(code.into_owned())
    };
    let of_target = |error: &TargetError| error.sqlstate().map(str::to_owned);
    error.chain().find_map(|cause| {
        let driver = cause.downcast_ref().and_then(of_driver);
        driver.or_else(|| cause.downcast_ref().and_then(of_target))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

    #[test]
    fn what_to_do_is_said_where_no_connection_was_opened() {
        let refused = || Err::<(), _>(anyhow!("refused"));
        let unreached = refused().context(Unreached).context("cannot install");
        let unreached = unreached.expect_err("no connection");
        assert_eq!(
            connection_remedy(&unreached, "the URL").as_deref(),
            Some("start that server, or correct the URL")
        );
        // A server that only says so was reached.
        let said = refused().context(Unreached.to_string());
        let said = said.expect_err("a refusal");
        assert_eq!(connection_remedy(&said, "the URL"), None);
    }
}
