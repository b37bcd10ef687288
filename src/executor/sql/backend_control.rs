//! The control connection of a target: cancels and terminates backends, and finds out whether one
//! is gone.
//!
//! It is open before it is needed, as a full server would have no place for it then, but takes none
//! from a task. It runs no task. A backend counts as gone only when the very server it was started
//! on says so, or an operator does: a server that cannot be reached, another server under the same
//! name, and a session that this login may not see prove nothing. Logins of before a change are
//! kept: what they opened may run on, and the present one may have no right to it, or not get in.

use super::{
    RECONNECT_BACKOFF,
    control_logins::ControlLogins,
    markers::{self, Found},
    register::{Register, Session},
    session_end::{self, Act, Obstacle, Sighting, control},
    session_waits,
    stops::{Place, Stops},
};
use crate::{
    core::{TaskId, Time},
    executor::{
        pg_client::{Connection, Error, Login, Row, within},
        status::SessionWait,
    },
};
use std::{
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use tokio::{
    sync::{Mutex, Notify},
    time::{sleep, timeout},
};

/// How long the target may take for one statement.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it may take until it has said what a session waits for.
const WAIT_TIMEOUT: Duration = Duration::from_millis(1_500);
/// Interval between checks of a backend that was asked to end.
const END_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Interval between checks of a backend that should be running.
const LIVENESS_POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Markers that are deleted in one transaction.
const PRUNED_AT_ONCE: u32 = 1_000;

pub(crate) struct Admin {
    logins: ControlLogins,
    register: Register,
    /// Of the present login. Taken out while in use, so that a connection that was left in the
    /// middle of a statement is not used again.
    connection: Mutex<Option<(Login, Connection)>>,
    /// `connection` was there when it was used last.
    is_connected: AtomicBool,
    /// Who asks about a backend, which goes before anything else.
    stops: Stops,
    /// The server has a place for the connection again, or is back.
    worth_asking: Notify,
    /// Who only asks what a session waits for goes alone: whoever ends a session waits behind one
    /// such question at most.
    asking: Mutex<()>,
}

impl Admin {
    pub(crate) fn new(login: Login, register: Register) -> Self {
        Admin {
            logins: ControlLogins::new(login),
            register,
            connection: Mutex::new(None),
            is_connected: AtomicBool::new(false),
            stops: Stops::default(),
            worth_asking: Notify::new(),
            asking: Mutex::new(()),
        }
    }

    /// Logs in like this from now on.
    pub(crate) fn log_in_as(&self, login: Login) {
        self.logins.change(login);
    }

    /// The server has taken this login, with which it may be asked too.
    pub(crate) fn note_got_in(&self, login: &Login) {
        self.logins.note_got_in(login);
    }

    /// Cancels what the backend runs, terminates it after `grace`, and returns when it is gone.
    pub(crate) async fn interrupt(&self, session: &Session, grace: Duration) {
        if self.until_answered(Act::Cancel, session).await {
            // In the middle of it the connection is not given up.
            let stopping = self.stops.begin();
            sleep(grace).await;
            drop(stopping);
            self.end(session).await;
        }
    }

    /// Terminates the backend, and returns when it is gone, however long that takes to show.
    pub(crate) async fn end(&self, session: &Session) {
        while self.until_answered(Act::Terminate, session).await {
            let _stopping = self.stops.begin();
            sleep(END_POLL_INTERVAL).await;
        }
    }

    /// Returns when the backend has gone silently: a broken network reports nothing.
    pub(crate) async fn vanished(&self, session: &Session) {
        loop {
            sleep(LIVENESS_POLL_INTERVAL).await;
            let present = match Box::pin(self.query(Act::Check, session)).await {
                Ok(present) => present,
                Err(obstacle @ Obstacle::OtherServer { .. }) => {
                    let why = obstacle.to_string();
                    !self.register.is_declared_dead(session, why).await
                }
                Err(_) => true,
            };
            if !present {
                // Its last answer may still be under way.
                return sleep(QUERY_TIMEOUT).await;
            }
        }
    }

    /// What the server says that a session waits for; the error says why that is not known.
    pub(crate) async fn wait_of(&self, session: &Session) -> Result<SessionWait, String> {
        let asked = async {
            let _alone = self.asking.lock().await;
            let row = self.row(&session_waits::query(session)).await?;
            session_waits::read(&row, session)
        };
        match timeout(WAIT_TIMEOUT, asked).await {
            Ok(Ok(Some(wait))) => Ok(wait),
            Ok(Ok(None)) => Err("its session has ended".into()),
            Ok(Err(obstacle)) => Err(obstacle.to_string()),
            Err(_) => Err("its target has not answered in time".into()),
        }
    }

    /// Who keeps a session waiting for a lock, as far as the server says it in time.
    pub(crate) async fn lock_wait(&self, session: &Session) -> Option<String> {
        session_waits::who_blocks(&self.wait_of(session).await.ok()?)
    }

    /// Asks until it is known whether the backend is still there. The register shows meanwhile what
    /// is in the way, and an operator may decide it there.
    async fn until_answered(&self, act: Act, session: &Session) -> bool {
        let mut stopping = self.stops.begin();
        let mut failures = 0;
        let mut last = String::new();
        loop {
            stopping.set(true);
            // From before the query on, so that nothing is missed.
            let mut worth_asking = pin!(self.worth_asking.notified());
            worth_asking.as_mut().enable();
            let obstacle = match self.query(act, session).await {
                Ok(present) => return present,
                Err(obstacle) => {
                    // What a connection does not remove keeps no place from others.
                    let error = obstacle.unreachable();
                    stopping.set(error.is_some_and(Error::may_pass));
                    obstacle.to_string()
                }
            };
            if last != obstacle {
                tracing::warn!(
                    target = %session.target,
                    pid = session.pid,
                    error = %obstacle,
                    "cannot show yet that a session has ended"
                );
                last.clone_from(&obstacle);
            }
            if self.register.is_declared_dead(session, obstacle).await {
                tracing::warn!(
                    target = %session.target,
                    pid = session.pid,
                    "an operator has declared this session dead"
                );
                return false;
            }
            let _ = timeout(RECONNECT_BACKOFF.delay(failures), worth_asking).await;
            failures += 1;
        }
    }

    /// Asks for the marker of a task of which nothing runs any more, until the target has said.
    pub(crate) async fn find_marker(&self, task: TaskId) -> Found {
        let mut stopping = self.stops.begin();
        let mut failures = 0;
        let mut last = String::new();
        loop {
            stopping.set(true);
            let mut worth_asking = pin!(self.worth_asking.notified());
            worth_asking.as_mut().enable();
            let error = match self.marker_of(task).await {
                Ok(found) => return found,
                Err(error) => {
                    stopping.set(error.may_pass());
                    error.to_string()
                }
            };
            if last != error {
                tracing::warn!(
                    %task,
                    %error,
                    "cannot show yet whether an EXACTLY_ONCE task has committed; its target must be \
                     there, and prepared by `rallypoint prepare-target`"
                );
                last = error;
            }
            let _ = timeout(RECONNECT_BACKOFF.delay(failures), worth_asking).await;
            failures += 1;
        }
    }

    /// Deletes the markers of tasks that ended before this time, a slice at a time; returns how
    /// many.
    pub(crate) async fn prune_markers(&self, before: Time) -> Result<u64, Error> {
        let mut pruned = 0;
        loop {
            let row = self.row(&markers::prune(before, PRUNED_AT_ONCE)).await?;
            let count: u32 = session_end::known(&row, 0)?;
            pruned += u64::from(count);
            if count < PRUNED_AT_ONCE {
                return Ok(pruned);
            }
        }
    }

    /// Does it; returns whether the backend was there. Asks as those of before when the present
    /// login may not.
    async fn query(&self, act: Act, session: &Session) -> Result<bool, Obstacle> {
        let shown = async {
            let row = self.row(&control(act, session)).await?;
            Sighting::of(&row)?.shows(session)
        };
        let shown = shown.await;
        if !matches!(&shown, Err(obstacle) if obstacle.is_of_the_login()) {
            return shown;
        }
        for login in self.logins.former() {
            let row = self.ask_as(&login, &control(act, session)).await;
            let seen = row.and_then(|row| Sighting::of(&row));
            if let Ok(Ok(present)) = seen.map(|seen| seen.shows(session)) {
                return Ok(present);
            }
        }
        shown
    }

    /// What the target says of a task. Asks as those of before likewise.
    async fn marker_of(&self, task: TaskId) -> Result<Found, Error> {
        let query = markers::lookup(task);
        let asked = self.row(&query).await;
        if asked.as_ref().is_err_and(Error::is_of_one_login) {
            for login in self.logins.former() {
                if let Ok(row) = self.ask_as(&login, &query).await {
                    return Ok(Found::of(&row));
                }
            }
        }
        asked.map(|row| Found::of(&row))
    }

    /// Whether a session of this login is to give its place, as a backend cannot be stopped
    /// otherwise.
    pub(crate) fn needs_place_of(&self, login: &Login) -> bool {
        match self.stops.lack_place() {
            None => false,
            Some(Place::Any) => true,
            Some(Place::OfLogin) => self.is_of(login),
        }
    }

    /// Whether it logs in as the same user.
    pub(crate) fn is_of(&self, login: &Login) -> bool {
        self.logins.is_of(login.user())
    }

    /// Whether a login could have a session if the connection were not there.
    pub(crate) fn may_be_in_the_way(&self, refusal: &Error, login: &Login) -> bool {
        refusal.is_about_room() && (!refusal.is_about_room_of_login() || self.is_of(login))
    }

    /// Whether a backend is being stopped, over a connection that is there.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stops.are_under_way() && self.is_connected.load(Ordering::Relaxed)
    }

    /// Opens the connection if there is none, before it is needed.
    pub(crate) async fn connect(&self) -> Result<(), Error> {
        let mut idle = self.connection.lock().await;
        let opened = self.connection(idle.take()).await;
        *idle = Some(opened.inspect_err(|error| self.failed(error))?);
        self.note_place();
        Ok(())
    }

    /// Closes the connection if it is there and nobody needs it; returns whether its place is free
    /// now.
    pub(crate) async fn release(&self) -> bool {
        if self.stops.are_under_way() {
            return false;
        }
        let idle = self
            .connection
            .try_lock()
            .ok()
            .and_then(|mut idle| idle.take());
        match idle {
            Some((_, connection)) => {
                self.is_connected.store(false, Ordering::Relaxed);
                connection.close().await;
                true
            }
            None => false,
        }
    }

    fn failed(&self, error: &Error) {
        self.is_connected.store(false, Ordering::Relaxed);
        self.stops.failed(error);
    }

    /// An outage of the target is over: whoever could not ask does so now.
    pub(crate) fn target_is_back(&self) {
        self.worth_asking.notify_waiters();
    }

    /// The answer to one of our queries, asked as the present login.
    async fn row(&self, query: &str) -> Result<Row, Error> {
        let mut idle = self.connection.lock().await;
        let former = idle.take();
        let asked = async {
            let (login, mut connection) = self.connection(former).await?;
            let row = ask(&mut connection, query).await?;
            Ok((row, (login, connection)))
        };
        let (row, connection) = asked.await.inspect_err(|error| self.failed(error))?;
        *idle = Some(connection);
        self.note_place();
        Ok(row)
    }

    /// There is a connection, which has answered, if only to its login.
    fn note_place(&self) {
        self.is_connected.store(true, Ordering::Relaxed);
        if self.stops.have_place() {
            self.worth_asking.notify_waiters();
        }
    }

    /// The idle one, if it is of the present login and has not ended, or a new one.
    async fn connection(
        &self,
        idle: Option<(Login, Connection)>,
    ) -> Result<(Login, Connection), Error> {
        let login = self.logins.present();
        if let Some((as_whom, mut connection)) = idle
            && as_whom == login
            && connection.is_quiet()
        {
            return Ok((login, connection));
        }
        let connection = Box::pin(Connection::open(&login)).await?;
        self.logins.note_got_in(&login);
        Ok((login, connection))
    }

    /// The answer to one of our queries, asked as somebody else.
    async fn ask_as(&self, login: &Login, query: &str) -> Result<Row, Error> {
        let mut connection = Box::pin(Connection::open(login)).await?;
        self.logins.note_got_in(login);
        ask(&mut connection, query).await
    }
}

async fn ask(connection: &mut Connection, query: &str) -> Result<Row, Error> {
    within(QUERY_TIMEOUT, connection.row(query)).await
}
