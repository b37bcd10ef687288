//! What a server says that a session waits for: the event, the lock, and who is in the way. Pure:
//! the question, and how its answer reads.
//!
//! Nothing of what other sessions run is asked for, only who they are and what they do.

use super::{
    register::Session,
    session_end::{Obstacle, known},
};
use crate::{
    core::Time,
    executor::{
        pg_client::{Error, Row},
        status::{BlockingSession, SessionWait, WaitedLock},
    },
};
use jiff::SignedDuration;
use serde::Deserialize;

/// How far a chain of those who wait for each other is followed.
const DEPTH: u32 = 4;
/// Sessions in it at most.
const SESSIONS: u32 = 32;

#[derive(Deserialize)]
struct Answer {
    /// `None`: there is no such process, or the login may not see it.
    started_us: Option<i64>,
    /// There is such a process.
    exists: bool,
    state: Option<String>,
    wait_event_type: Option<String>,
    wait_event: Option<String>,
    lock: Option<Lock>,
    blocked_by: Vec<Other>,
}

#[derive(Deserialize)]
struct Lock {
    kind: String,
    mode: String,
    relation: Option<String>,
}

#[derive(Deserialize)]
struct Other {
    pid: i32,
    depth: u32,
    user: Option<String>,
    application: Option<String>,
    backend_type: Option<String>,
    state: Option<String>,
    wait_event_type: Option<String>,
    wait_event: Option<String>,
    transaction_us: Option<i64>,
}

/// One row with one value: the answer as JSON.
pub(super) fn query(session: &Session) -> String {
    format!(
        "-- session_waits
        with recursive blocked (pid, depth) as (
            select pid, 1
            from unnest(pg_blocking_pids({pid})) pid
            union
            select other.pid, blocked.depth + 1
            from blocked, unnest(pg_blocking_pids(blocked.pid)) other (pid)
            where blocked.depth < {DEPTH} and blocked.pid <> 0
        ),
        other as (
            select pid, min(depth) as depth
            from (select * from blocked limit {SESSIONS}) counted
            group by pid
        )
        select json_build_object(
            'exists', a.pid is not null,
            'started_us', (extract(epoch from a.backend_start) * 1000000)::int8,
            'state', a.state,
            'wait_event_type', a.wait_event_type,
            'wait_event', a.wait_event,
            'lock', (
                select json_build_object('kind', l.locktype, 'mode', l.mode, 'relation', case
                    when l.database = (select oid from pg_database where datname = current_database())
                    then l.relation::regclass::text
                end)
                from pg_locks l
                where l.pid = {pid} and not l.granted
                limit 1
            ),
            'blocked_by', (
                select coalesce(json_agg(json_build_object(
                    'pid', other.pid,
                    'depth', other.depth,
                    'user', s.usename,
                    'application', s.application_name,
                    'backend_type', s.backend_type,
                    'state', s.state,
                    'wait_event_type', s.wait_event_type,
                    'wait_event', s.wait_event,
                    'transaction_us',
                    (extract(epoch from clock_timestamp() - s.xact_start) * 1000000)::int8
                ) order by other.depth, other.pid), '[]')
                from other
                left join pg_stat_activity s on s.pid = other.pid
            )
        )
        from (values (1)) one
        left join pg_stat_activity a on a.pid = {pid}",
        pid = session.pid
    )
}

/// `None`: the session has ended.
pub(super) fn read(row: &Row, session: &Session) -> Result<Option<SessionWait>, Obstacle> {
    let json: String = known(row, 0)?;
    let wrong = |error: serde_json::Error| Error::Protocol(error.to_string());
    let answer: Answer = serde_json::from_str(&json).map_err(wrong)?;
    match answer.started_us.map(Time) {
        None if answer.exists => return Err(Obstacle::Unreadable { pid: session.pid }),
        Some(started) if started == session.backend_start => {}
        // The process id is another session's by now, or nobody's.
        _ => return Ok(None),
    }
    Ok(Some(SessionWait {
        state: answer.state.unwrap_or_default(),
        wait_event_type: answer.wait_event_type.unwrap_or_default(),
        wait_event: answer.wait_event.unwrap_or_default(),
        lock: answer.lock.map(|lock| WaitedLock {
            kind: lock.kind,
            mode: lock.mode,
            relation: lock.relation,
        }),
        blocked_by: answer.blocked_by.into_iter().map(blocking).collect(),
    }))
}

fn blocking(other: Other) -> BlockingSession {
    BlockingSession {
        pid: other.pid,
        depth: other.depth,
        user: other.user.unwrap_or_default(),
        application: other.application.unwrap_or_default(),
        backend_type: other.backend_type.unwrap_or_default(),
        state: other.state,
        wait_event_type: other.wait_event_type.unwrap_or_default(),
        wait_event: other.wait_event.unwrap_or_default(),
        transaction_us: other.transaction_us,
        task: None,
    }
}

/// Who is in the way of the session, in words; `None`: it does not wait for another one.
pub(super) fn who_blocks(wait: &SessionWait) -> Option<String> {
    let other = wait.blocked_by.first()?;
    if other.pid == 0 {
        return Some("waiting for a lock that a prepared transaction holds".into());
    }
    let mut said = format!("waiting for a lock behind session {}", other.pid);
    if !other.user.is_empty() {
        said += &format!(" of {}", other.user);
    }
    if !other.application.is_empty() {
        said += &format!(" ({})", other.application);
    }
    match (&other.state, other.transaction_us.map(u64::try_from)) {
        (Some(state), Some(Ok(age))) => {
            let age = SignedDuration::from_secs((age / 1_000_000) as i64);
            said += &format!(", which is {state}, in a transaction for {age:#}");
        }
        (Some(state), _) => said += &format!(", which is {state}"),
        (None, _) => {}
    }
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        Session {
            host: None,
            target: "app".into(),
            slot: 1,
            pid: 7,
            backend_start: Time(500),
            postmaster: None,
        }
    }

    fn said(started: &str, exists: bool) -> Result<Option<SessionWait>, Obstacle> {
        let json = format!(
            r#"{{"exists": {exists}, "started_us": {started}, "state": "active",
                "wait_event_type": "Lock", "wait_event": "transactionid",
                "lock": {{"kind": "transactionid", "mode": "ShareLock", "relation": null}},
                "blocked_by": [{{"pid": 0, "depth": 1, "user": null, "application": null,
                    "backend_type": null, "state": null, "wait_event_type": null,
                    "wait_event": null, "transaction_us": null}}]}}"#
        );
        read(&vec![Some(json)], &session())
    }

    #[test]
    fn the_nearest_session_in_the_way_is_named() {
        let mut wait = said("500", true).expect("readable").expect("it is there");
        let prepared = "waiting for a lock that a prepared transaction holds";
        assert_eq!(who_blocks(&wait).as_deref(), Some(prepared));
        wait.blocked_by[0] = BlockingSession {
            pid: 7,
            user: "bob".into(),
            application: "psql".into(),
            state: Some("idle in transaction".into()),
            transaction_us: Some(125_000_001),
            ..wait.blocked_by[0].clone()
        };
        let psql = "waiting for a lock behind session 7 of bob (psql), which is idle in transaction, \
                    in a transaction for 2m 5s";
        assert_eq!(who_blocks(&wait).as_deref(), Some(psql));
        wait.blocked_by.clear();
        assert_eq!(who_blocks(&wait), None);
    }

    #[test]
    fn only_the_session_that_was_meant_is_described() {
        let wait = said("500", true).expect("readable").expect("it is there");
        assert_eq!(wait.lock.expect("a lock").mode, "ShareLock");
        assert_eq!((wait.blocked_by.len(), wait.blocked_by[0].pid), (1, 0));
        for (started, exists) in [("501", true), ("null", false)] {
            assert!(matches!(said(started, exists), Ok(None)));
        }
        let hidden = said("null", true);
        assert!(matches!(hidden, Err(Obstacle::Unreadable { pid: 7 })));
    }
}
