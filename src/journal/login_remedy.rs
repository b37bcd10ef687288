//! What to do about a database that does not let a login in, by what its server or the driver says.

use super::JournalError;
use crate::database_url::NO_POSTGRES;

/// Where the password of the coordination database stands.
pub(super) const PASSWORD: &str =
    "in its URL, in PGPASSWORD, or in the file that PGPASSFILE names (else ~/.pgpass)";

/// What to do about an error of a login that says what is wrong with it. `password`: where the
/// password stands.
pub(crate) fn login_remedy(sqlstate: Option<&str>, error: &str, password: &str) -> Option<String> {
    let remedy = match sqlstate {
        Some("3D000") => {
            Some("create the database (`create database NAME owner LOGIN`), or correct its name")
        }
        Some("28P01") => {
            return Some(format!(
                "correct the user or the password, which stands {password}"
            ));
        }
        _ if error.contains("asks for a password") => {
            return Some(format!("write the password {password}"));
        }
        Some("42501") => Some("let it in: `grant connect on database NAME to LOGIN`"),
        Some("28000") if error.contains("does not exist") => {
            Some("create it (`create role LOGIN login`), or correct the user")
        }
        Some("28000") => Some("correct the user, or let it in: pg_hba.conf of the server"),
        Some("53300") => Some(
            "end sessions of it, or let it have more: max_connections of the server, or \
             `alter role LOGIN connection limit N`",
        ),
        Some(code) if code.starts_with("57P") => Some("wait until it has started"),
        _ if error.contains("failed to lookup address") => Some("correct the host"),
        _ if error.contains("sslmode") => {
            Some("set TLS up on the server, or correct sslmode and sslrootcert in the URL")
        }
        _ if error.contains("Connection refused") => {
            Some("start it, or correct the host and the port: nothing listens there")
        }
        _ if error.contains(NO_POSTGRES) => {
            Some("correct the host and the port: another program listens there")
        }
        _ if error.contains("no answer within") || error.contains("timed out") => Some(
            "start it, or correct the host and the port: a firewall may be between, or another \
             program may listen there, which waits for what it understands",
        ),
        _ if error.contains(".s.PGSQL.") && error.contains("No such file") => {
            Some("start it, or correct the folder of the socket and the port: it is not there")
        }
        _ => None,
    };
    remedy.map(str::to_owned)
}

/// What to do about a coordination database that does not let this login in, or is none.
pub(crate) fn refusal_remedy(error: &JournalError) -> Option<String> {
    let sqlstate = error.sqlstate();
    let is_refusal = |code: &&str| code.starts_with("28") || *code == "3D000";
    let code = sqlstate.as_deref().filter(is_refusal);
    if code.is_none() && !matches!(error, JournalError::NoPostgres(_)) {
        return None;
    }
    login_remedy(code, &error.to_string(), PASSWORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_for_a_password_learns_where_it_stands() {
        let said = |code, error| login_remedy(code, error, "HERE").unwrap_or_default();
        for (code, error) in [
            (Some("28P01"), "password authentication failed"),
            (None, "the server asks for a password"),
        ] {
            assert!(said(code, error).ends_with("HERE"), "{error}");
        }
        assert!(!said(Some("3D000"), "no such database").contains("HERE"));
    }
}
