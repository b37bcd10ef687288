//! How a server is asked about a backend, what it shows, and what that proves. Pure: the decision
//! when a session counts as ended, and why it does not.

use super::register::Session;
use crate::{
    core::Time,
    executor::pg_client::{Error, Row},
    executor_protocol::Postmaster,
};
use std::str::FromStr;

/// The server that answers, as [`Postmaster`] has it.
pub(super) const POSTMASTER: &str =
    "select (select system_identifier from pg_control_system()) as system,
        host(inet_server_addr()) as address,
        coalesce(inet_server_port(), current_setting('port')::int4) as port,
        (extract(epoch from pg_postmaster_start_time()) * 1000000)::int8 as started";

/// What is done with a backend that is still there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Check,
    Cancel,
    Terminate,
}

/// One row: the server, and the backend of that process id if there is one. Only the registered
/// backend of the registered server is cancelled or terminated.
pub(crate) fn control(act: Act, session: &Session) -> String {
    let action = match act {
        Act::Check => "null",
        Act::Cancel => "pg_cancel_backend(b.pid)",
        Act::Terminate => "pg_terminate_backend(b.pid)",
    };
    let server = match &session.postmaster {
        None => "true".to_owned(),
        Some(server) => format!(
            "s.system = {} and s.started = {}",
            server.system, server.started.0
        ),
    };
    let (pid, start) = (session.pid, session.backend_start.0);
    format!(
        "-- control_backend
        select s.system, s.address, s.port, s.started, b.pid, b.backend_start,
            case when b.backend_start = {start} and {server} then {action} end as done
        from ({POSTMASTER}) s
        left join (
            select pid, (extract(epoch from backend_start) * 1000000)::int8 as backend_start
            from pg_stat_activity
            where pid = {pid}
        ) b on true",
    )
}

/// Why it is not known whether a session has ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Obstacle {
    #[error("{0}")]
    Unreachable(#[from] Error),
    #[error(
        "the session was opened on the server {opened}, and {found} answers now: \
         bring the first one back, or declare its session dead once it has ended"
    )]
    OtherServer {
        opened: Postmaster,
        found: Postmaster,
    },
    #[error(
        "the login that watches over this target may not see session {pid}: use the login that \
         opened it, or grant it pg_read_all_stats and pg_signal_backend"
    )]
    Unreadable { pid: i32 },
}

impl Obstacle {
    /// Why the server could not be asked, if that is what is in the way.
    pub(crate) fn unreachable(&self) -> Option<&Error> {
        match self {
            Obstacle::Unreachable(error) => Some(error),
            Obstacle::OtherServer { .. } | Obstacle::Unreadable { .. } => None,
        }
    }

    /// Another login may see more.
    pub(crate) fn is_of_the_login(&self) -> bool {
        match self {
            Obstacle::Unreadable { .. } => true,
            Obstacle::Unreachable(error) => error.is_of_one_login(),
            Obstacle::OtherServer { .. } => false,
        }
    }
}

/// What a server says of itself and of the backend with one process id.
#[derive(Clone, Debug)]
pub(crate) struct Sighting {
    pub postmaster: Postmaster,
    /// `None`: there is no such process.
    pub backend: Option<Backend>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Backend {
    /// `None`: this login may not see it.
    pub started: Option<Time>,
}

impl Sighting {
    /// From the columns of [`POSTMASTER`], and then those of the backend.
    pub(crate) fn of(row: &Row) -> Result<Self, Error> {
        let pid: Option<i32> = number(row, 4)?;
        let started = number(row, 5)?.map(Time);
        Ok(Sighting {
            postmaster: postmaster(row)?,
            backend: pid.map(|_| Backend { started }),
        })
    }

    /// Whether the session is still there.
    pub(crate) fn shows(&self, session: &Session) -> Result<bool, Obstacle> {
        if let Some(opened) = &session.postmaster {
            if opened.ended_before(&self.postmaster) {
                return Ok(false);
            }
            if !opened.is(&self.postmaster) {
                return Err(Obstacle::OtherServer {
                    opened: opened.clone(),
                    found: self.postmaster.clone(),
                });
            }
        }
        match self.backend {
            None => Ok(false),
            Some(Backend { started: None }) => Err(Obstacle::Unreadable { pid: session.pid }),
            Some(Backend { started: Some(at) }) => Ok(at == session.backend_start),
        }
    }
}

/// The server that answered, from the columns of [`POSTMASTER`].
pub(crate) fn postmaster(row: &Row) -> Result<Postmaster, Error> {
    Ok(Postmaster {
        system: known(row, 0)?,
        address: row.get(1).cloned().flatten().map(Into::into),
        port: known(row, 2)?,
        started: Time(known(row, 3)?),
    })
}

/// A column that is never null.
pub(crate) fn known<T: FromStr>(row: &Row, column: usize) -> Result<T, Error> {
    let missing = || Error::Protocol(format!("column {column} of an answer is null"));
    number(row, column)?.ok_or_else(missing)
}

fn number<T: FromStr>(row: &Row, column: usize) -> Result<Option<T>, Error> {
    let Some(text) = row.get(column).and_then(Option::as_deref) else {
        return Ok(None);
    };
    let wrong = |_| Error::Protocol(format!("column {column} of an answer is {text:?}"));
    text.parse().map(Some).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(system: i64, address: &str, started: i64) -> Postmaster {
        Postmaster {
            system,
            address: Some(address.into()),
            port: 5432,
            started: Time(started),
        }
    }

    fn session(postmaster: Option<Postmaster>) -> Session {
        Session {
            host: None,
            target: "app".into(),
            slot: 1,
            pid: 7,
            backend_start: Time(500),
            postmaster,
        }
    }

    /// What `server` shows of a session that was opened on server 1 at `a`, started at 100.
    fn shown(server: Postmaster, backend: Option<Option<i64>>) -> Result<bool, Obstacle> {
        let sighting = Sighting {
            postmaster: server,
            backend: backend.map(|at| Backend {
                started: at.map(Time),
            }),
        };
        sighting.shows(&session(Some(self::server(1, "a", 100))))
    }

    #[test]
    fn only_the_server_of_the_session_can_say_that_it_has_ended() {
        let home = || server(1, "a", 100);
        assert!(matches!(shown(home(), None), Ok(false)));
        assert!(matches!(shown(home(), Some(Some(500))), Ok(true)));
        assert!(
            matches!(shown(home(), Some(Some(501))), Ok(false)),
            "the process id was used again"
        );
        for other in [server(2, "a", 100), server(1, "b", 200), server(2, "b", 9)] {
            for backend in [None, Some(None), Some(Some(500))] {
                let shown = shown(other.clone(), backend);
                assert!(
                    matches!(shown, Err(Obstacle::OtherServer { .. })),
                    "{other:?} {shown:?}"
                );
            }
        }
    }

    #[test]
    fn the_same_server_may_be_reached_in_two_ways() {
        assert!(matches!(shown(server(1, "b", 100), None), Ok(false)));
    }

    #[test]
    fn a_restart_ends_all_sessions_of_a_server() {
        let restarted = server(1, "a", 200);
        assert!(matches!(shown(restarted.clone(), None), Ok(false)));
        assert!(matches!(shown(restarted, Some(None)), Ok(false)));
    }

    #[test]
    fn what_may_not_be_seen_is_not_dead() {
        let shown = shown(server(1, "a", 100), Some(None));
        assert!(
            matches!(shown, Err(Obstacle::Unreadable { pid: 7 })),
            "{shown:?}"
        );
    }
}
