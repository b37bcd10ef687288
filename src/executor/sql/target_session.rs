//! A session on a target: registered before its first task, clean before every task that must find
//! it so.
//!
//! Invariants: no task runs on a session that is not durably in the register, so that a new owner
//! can end it. A session counts as clean only when the server has answered that it is; what a text
//! looks like says nothing.

pub(crate) mod exactly_once;

use super::{
    answer::{Answer, Answered, Left},
    error::Failure,
    register::{Register, Session, Unregistered},
    session_end,
    statement::{self, Conditions},
};
use crate::{
    core::{Handle, SessionOptions, SessionReset, Time},
    executor::pg_client::{Connection, Error, Login, within},
    executor_protocol::{Body, Postmaster},
};
use std::{mem, sync::Arc, time::Duration};
use tokio::time::Instant;

/// How long the target may take to say who it is, or that it is still there.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long cleaning may take: it drops temporary tables.
const CLEAN_TIMEOUT: Duration = Duration::from_secs(60);
/// A session that has been idle for so long is asked whether it is still there, since a network
/// that has failed silently says nothing.
const PING_AFTER: Duration = Duration::from_secs(5);
/// Tries of a cleaning that late cancels hit.
const CLEANINGS: usize = 4;

/// An open session.
pub(crate) struct Live {
    connection: Connection,
    pub(crate) session: Session,
    /// As whom it was opened.
    login: Arc<Login>,
    /// The scheduler whose tasks it has run since it was clean, and what they began with.
    used_by: Option<(Handle, SessionOptions)>,
    /// What the last text has left behind.
    left: Left,
    /// What the cleaning consists of.
    cleaned_by: &'static [&'static str],
    /// The cleaning has been sent with the text, and its answer is still to be read.
    cleaning: bool,
    idle_since: Instant,
}

/// Why a session cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("{0}")]
    Target(#[from] Error),
    #[error("{0}")]
    Register(#[from] Unregistered),
    /// The next place is for the connection that stops a text.
    #[error("the next place on the server is for the connection that stops a text")]
    NoPlace,
    /// The login of the target was refused a moment ago, and those of namespaces were not.
    #[error("{0}")]
    Refused(String),
    /// The login of the task's namespace cannot be used, which is nobody else's concern.
    #[error("the login of the namespace cannot be used")]
    OwnLogin(Failure),
}

impl Live {
    /// Opens one and has it registered. `checks`: the server notices a dead client by itself.
    pub(crate) async fn open(
        login: &Arc<Login>,
        checks: bool,
        target: &Arc<str>,
        slot: u32,
        register: &Register,
    ) -> Result<Box<Self>, OpenError> {
        let mut connection = match checks {
            true => Connection::open(&with_connection_check(login)).await?,
            false => Connection::open(login).await?,
        };
        let known = Identity::of(&mut connection).await?;
        let session = Session {
            host: None,
            target: Arc::clone(target),
            slot,
            pid: known.pid,
            backend_start: known.backend_start,
            postmaster: Some(known.postmaster),
        };
        register.register(&session).await?;
        Ok(Box::new(Live {
            connection,
            session,
            login: Arc::clone(login),
            used_by: None,
            left: Left::Nothing,
            cleaned_by: statement::cleaning(known.has_role),
            cleaning: false,
            idle_since: Instant::now(),
        }))
    }

    /// Whether it lives, as far as can be seen, and is as such a task must find it; cleans it when
    /// it has run what the task must not meet, or what began with other options.
    pub(crate) async fn is_ready_for(&mut self, conditions: &Conditions) -> bool {
        if !self.connection.is_quiet() {
            return false;
        }
        let may_meet = |(handle, session): &(Handle, SessionOptions)| {
            conditions.reset == SessionReset::Scheduler
                && (*handle, session) == (conditions.task.handle, &conditions.session)
        };
        if !self.used_by.as_ref().is_none_or(may_meet) {
            return Box::pin(self.clean()).await;
        }
        if self.idle_since.elapsed() < PING_AFTER {
            return true;
        }
        let answered = within(ANSWER_TIMEOUT, self.connection.ping());
        Box::pin(answered).await.is_ok()
    }

    /// Runs the text of a task, and behind it in the same write the cleaning, if that is due after
    /// every task. Returns when the text has. When it is dropped before its end, the session must
    /// be dropped too.
    pub(crate) async fn run(&mut self, body: &Body, conditions: &Conditions) -> Answered {
        let mut answer = Answer::new(conditions.max_rows);
        let read = self.read(&mut answer, body, conditions).await;
        answer.finish(read)
    }

    async fn read(
        &mut self,
        answer: &mut Answer,
        body: &Body,
        conditions: &Conditions,
    ) -> Result<(), Failure> {
        let out = self.connection.out();
        match statement::put(body, conditions, self.cleaned_by, out) {
            Ok(awaited) => answer.expect(awaited),
            Err(refused) => {
                out.clear();
                return Err(refused);
            }
        }
        self.cleaning = conditions.reset == SessionReset::Task;
        self.used_by = Some((conditions.task.handle, conditions.session.clone()));
        self.connection.send().await?;
        loop {
            if let Some(left) = answer.take(self.connection.receive().await?)? {
                self.left = left;
                return Ok(());
            }
        }
    }

    /// The text that has returned left a transaction open.
    pub(crate) fn has_open_transaction(&self) -> bool {
        self.left == Left::Transaction
    }

    /// Leaves the session as the next task of its scheduler may find it: reads the answer to the
    /// cleaning that was sent, and ends a transaction that was left open. False: it must not be
    /// used again.
    pub(crate) async fn settle(&mut self) -> bool {
        let settled = !self.cleaning && self.left == Left::Nothing;
        let usable = settled || self.clean().await;
        self.idle_since = Instant::now();
        usable
    }

    /// Whether its server has ended it while it was idle, as far as can be seen.
    pub(crate) fn has_died(&mut self) -> bool {
        !self.connection.is_quiet()
    }

    /// How long it has run nothing.
    pub(crate) fn idle_for(&self) -> Duration {
        self.idle_since.elapsed()
    }

    /// As whom it was opened.
    pub(crate) fn login(&self) -> &Arc<Login> {
        &self.login
    }

    /// The scheduler whose tasks it has run since it was clean.
    pub(crate) fn used_by(&self) -> Option<Handle> {
        self.used_by.as_ref().map(|(handle, _)| *handle)
    }

    /// Ends it in order.
    pub(crate) async fn close(self) {
        self.connection.close().await;
    }

    async fn clean(&mut self) -> bool {
        within(CLEAN_TIMEOUT, self.discard()).await.is_ok()
    }

    async fn discard(&mut self) -> Result<(), Error> {
        let mut answered = None;
        if mem::take(&mut self.cleaning) {
            answered = Some(self.cleaned().await);
        }
        if mem::replace(&mut self.left, Left::Nothing) == Left::Transaction {
            // The server refuses to clean a session inside of one.
            self.connection.run("rollback").await?;
            answered = None;
        }
        let mut left = CLEANINGS;
        let cleaned = loop {
            let cleaned = match answered.take() {
                Some(answered) => answered,
                None => {
                    statement::put_cleaning(self.cleaned_by, self.connection.out())?;
                    self.connection.send().await?;
                    self.cleaned().await
                }
            };
            left -= 1;
            // A cancel that came too late for the text has hit the cleaning.
            let cancelled = matches!(&cleaned, Err(error) if error.sqlstate() == Some("57014"));
            if !cancelled || left == 0 {
                break cleaned;
            }
        };
        cleaned?;
        self.used_by = None;
        Ok(())
    }

    /// Reads the answers to the cleaning: what has failed first, if anything has.
    async fn cleaned(&mut self) -> Result<(), Error> {
        let mut cleaned = Ok(());
        for _ in self.cleaned_by {
            let answered = self.connection.completed().await;
            cleaned = cleaned.and(answered);
        }
        cleaned
    }
}

/// What the server says of a session that has just been opened.
pub(crate) struct Identity {
    /// Its login brings a role.
    has_role: bool,
    pid: i32,
    backend_start: Time,
    postmaster: Postmaster,
}

impl Identity {
    /// Asks for it. A login for which the server does not say it cannot be used, though it gets in.
    pub(crate) async fn of(connection: &mut Connection) -> Result<Self, Error> {
        let asked = async {
            let rows = within(ANSWER_TIMEOUT, connection.query(&identity())).await?;
            let [has_role, row] = &*rows else {
                return Err(Error::Protocol("not one row of each".into()));
            };
            Ok(Identity {
                has_role: session_end::known::<String>(has_role, 0)? == "t",
                pid: session_end::known(row, 4)?,
                backend_start: Time(session_end::known(row, 5)?),
                postmaster: session_end::postmaster(row)?,
            })
        };
        asked.await.map_err(|error| match error.may_pass() {
            true => error,
            false => Error::Login(format!(
                "the login gets in, and the server does not say which session it has: {error}"
            )),
        })
    }
}

fn identity() -> String {
    format!(
        "-- session_identity
        select current_user <> session_user as has_role;
        set local role none;
        select s.system, s.address, s.port, s.started, a.pid,
            (extract(epoch from a.backend_start) * 1000000)::int8 as backend_start
        from ({postmaster}) s, pg_stat_activity a
        where a.pid = pg_backend_pid()",
        postmaster = session_end::POSTMASTER
    )
}

/// The operator's login, prepared for tasks: values look the same on every target, and dead peers
/// are noticed.
pub(crate) fn task_login(login: Login) -> Login {
    [
        ("client_encoding", "UTF8"),
        ("DateStyle", "ISO, MDY"),
        ("TimeZone", "UTC"),
        ("extra_float_digits", "2"),
        ("tcp_keepalives_idle", "10"),
        ("tcp_keepalives_interval", "5"),
        ("tcp_keepalives_count", "3"),
    ]
    .into_iter()
    .fold(login, |login, (name, value)| login.with(name, value))
    .or("application_name", "rallypoint")
}

/// Has the backend of a dead client end within half a second, on servers that support it.
fn with_connection_check(login: &Login) -> Login {
    login.with("client_connection_check_interval", "500ms")
}
