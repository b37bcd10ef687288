//! An executor on a database of its own, driven through its link to an owner.

use crate::harness::postgres::{POSTGRES, connect, database};
use rallypoint::{
    clock::Clock,
    core::{
        Assignment, Attempt, Completion, Delivery, Epoch, Handle, Namespace, Report, Seq,
        SessionOptions, SessionReset, ShardId, Spec, TaskOptions, TaskResult, Time, TimeLimit,
        Work,
    },
    executor::{Executor, ExecutorConfig, Login, SESSION_IDLE, Session, SessionNote, TargetConfig},
    executor_protocol::{Body, Dispatch, Event, ExecutorId, ExecutorReport, Link, Token},
    postgres::TARGET,
};
use sqlx::{ConnectOptions, PgConnection, postgres::PgConnectOptions};
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

/// Long enough for a text that outruns its cancel, however busy the machine is.
pub(super) const GRACE: Duration = Duration::from_secs(1);
pub(super) const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct Fixture {
    pub executor: Executor,
    pub options: PgConnectOptions,
    pub handle: Handle,
    pub clock: Clock,
    /// Sessions that the executor has registered.
    pub notes: mpsc::Receiver<Session>,
    /// Why the end of a session cannot be shown.
    pub pending: mpsc::Receiver<String>,
    /// What an operator says of such sessions.
    pub declared_dead: Arc<AtomicBool>,
    /// Whether the register takes no sessions.
    pub refuses: Arc<AtomicBool>,
    /// Sessions that the register has refused.
    pub refused: mpsc::Receiver<Session>,
    /// Sessions that the register need not keep.
    pub forgotten: mpsc::Receiver<Session>,
    events: mpsc::Receiver<ExecutorReport>,
    waiting: VecDeque<Event>,
    next: Seq,
}

/// A statement and how it is run.
#[derive(Clone, Default)]
pub(super) struct Task {
    pub text: String,
    pub params: Option<&'static str>,
    pub rows: u32,
    /// Of the attempt, from the start of its text on.
    pub timeout: Option<Duration>,
    /// Of the task.
    pub deadline: Option<Time>,
    pub reset: SessionReset,
    pub session: SessionOptions,
    pub namespace: &'static str,
    /// Whose it is.
    pub scheduler: u8,
    /// It is one transaction with its marker.
    pub exactly_once: bool,
    /// It stands in line, and leaves so many slots free.
    pub leaves_free: Option<u32>,
}

impl Fixture {
    /// Starts an executor on a new database of the shared server and waits for its slots.
    pub(super) async fn new(slots: u32) -> Self {
        let options = POSTGRES.options_for(&database(TARGET), TARGET);
        let mut fixture = Fixture::on(options, slots);
        assert_eq!(fixture.slots().await, slots);
        fixture
    }

    /// Starts an executor on any database; its slots are not ready yet.
    pub(super) fn on(options: PgConnectOptions, slots: u32) -> Self {
        let login = login(&options);
        Fixture::with(login, options, slots, SESSION_IDLE)
    }

    /// The same with any login, and sessions that are closed when they have been idle for so long.
    pub(super) fn with(
        login: Login,
        options: PgConnectOptions,
        slots: u32,
        session_idle: Duration,
    ) -> Self {
        let target = TargetConfig {
            session_idle,
            ..TargetConfig::new("app", login, slots)
        };
        Fixture::of(target, options)
    }

    /// An executor with this target.
    pub(super) fn of(target: TargetConfig, options: PgConnectOptions) -> Self {
        let (out, events) = mpsc::channel(4);
        let (sessions, register) = mpsc::channel(100);
        let clock = Clock::new();
        let config = ExecutorConfig {
            targets: vec![target],
            replica: "test".into(),
            clock: clock.clone(),
            sessions: Some(sessions),
            cancel_grace: GRACE,
        };
        let executor = Executor::start(config);
        let link = Link {
            epoch: Epoch(1),
            member: ExecutorId(1),
            out,
        };
        let snapshot = executor
            .attach(link, Epoch(1))
            .expect("nobody else owns it");
        let waiting = snapshot
            .slots
            .into_iter()
            .map(|(work, total)| Event::Slots { work, total })
            .collect();
        let handle = scheduler(0);
        let (say, pending) = mpsc::channel(100);
        let (declared_dead, refuses) = (Arc::default(), Arc::default());
        let answers = (Arc::clone(&declared_dead), Arc::clone(&refuses));
        let [notes, refused, forgotten] = registered(register, say, answers);
        Fixture {
            executor,
            options,
            handle,
            clock,
            notes,
            pending,
            declared_dead,
            refuses,
            refused,
            forgotten,
            events,
            waiting,
            next: Seq(1),
        }
    }

    pub(super) fn start(&mut self, task: Task) -> Seq {
        let first = self.next;
        self.next = first.plus(1);
        let options = TaskOptions {
            result_rows: Some(task.rows),
            session: task.session,
            delivery: task.exactly_once.then_some(Delivery::ExactlyOnce),
            ..TaskOptions::default()
        };
        let assignment = Assignment {
            leaves_free: task.leaves_free,
            handle: scheduler(task.scheduler),
            first,
            count: 1,
            attempt: Attempt(1),
            order: None,
            spec: Arc::new(Spec {
                work: Work::Sql {
                    target: "app".into(),
                },
                options,
                trace: None,
            }),
            namespace: Namespace(task.namespace.into()),
            caller: "test".into(),
            time_limit: match task.timeout {
                Some(timeout) => Some(TimeLimit::Timeout(timeout)),
                None => task.deadline.map(TimeLimit::Deadline),
            },
            deadline: task.deadline,
            resource_token: None,
            session_reset: task.reset,
        };
        let body = Body {
            payload: task.text.into(),
            params: task.params.map(Into::into),
        };
        self.executor.dispatch(vec![Dispatch {
            leaves_free: task.leaves_free,
            token: token(first),
            assignment,
            body,
        }]);
        first
    }

    pub(super) async fn ended(&mut self, seq: Seq) -> Completion {
        let found = |event: &Event| match event {
            Event::Completed(_, completion) => completion.first == seq,
            _ => false,
        };
        match self.event(found).await {
            Event::Completed(token, completion) => {
                self.executor.acknowledge(&[token]);
                completion
            }
            other => panic!("{other:?}"),
        }
    }

    /// The next announcement of slots.
    pub(super) async fn slots(&mut self) -> u32 {
        let found = |event: &Event| matches!(event, Event::Slots { .. });
        match self.event(found).await {
            Event::Slots { total, .. } => total,
            other => panic!("{other:?}"),
        }
    }

    async fn event(&mut self, wanted: impl Fn(&Event) -> bool) -> Event {
        loop {
            if let Some(event) = self
                .waiting
                .iter()
                .position(&wanted)
                .and_then(|at| self.waiting.remove(at))
            {
                return event;
            }
            let more = timeout(WAIT_TIMEOUT, self.events.recv())
                .await
                .expect("an event in time");
            self.waiting
                .extend(more.expect("the executor lives").events);
        }
    }

    /// Asserts that nothing is reported of a task for a while.
    pub(super) async fn silent(&mut self, seq: Seq) {
        let ended = timeout(Duration::from_millis(300), self.ended(seq)).await;
        assert!(ended.is_err(), "{ended:?}");
    }

    pub(super) async fn run(&mut self, task: Task) -> Report {
        let seq = self.start(task);
        self.ended(seq).await.report
    }

    pub(super) async fn text(&mut self, text: &str) -> Report {
        self.run(sql(text)).await
    }

    /// The result of a task that must succeed; given back, it is handed out again as by an owner.
    pub(super) async fn result(&mut self, task: Task) -> TaskResult {
        let begun = async {
            loop {
                match self.run(task.clone()).await {
                    Report::NotStarted => sleep(Duration::from_millis(20)).await,
                    report => return report,
                }
            }
        };
        let report = timeout(WAIT_TIMEOUT, begun).await;
        succeeded(report.expect("it begins in time"))
    }

    /// The one value that a query returns, as it stands in the JSON.
    pub(super) async fn value(&mut self, text: &str) -> String {
        let result = self
            .result(Task {
                rows: 1,
                ..sql(&format!("select ({text})::text as v"))
            })
            .await;
        let rows: serde_json::Value = serde_json::from_slice(&result.rows_json).expect("JSON");
        rows[0]["v"].as_str().unwrap_or("null").to_owned()
    }

    /// A session beside the executor's.
    pub(super) async fn session(&self) -> PgConnection {
        connect(&self.options).await
    }

    /// Waits until a backend sleeps; returns its pid.
    pub(super) async fn asleep(&self) -> i32 {
        let mut session = self.session().await;
        let query = "select pid
            from pg_stat_activity
            where wait_event = 'PgSleep'
              and datname = current_database()";
        let asleep = async {
            loop {
                let look = sqlx::query_scalar::<_, i32>(query);
                match look.fetch_optional(&mut session).await.expect("a look") {
                    Some(pid) => return pid,
                    None => sleep(Duration::from_millis(5)).await,
                }
            }
        };
        timeout(WAIT_TIMEOUT, asleep).await.expect("it sleeps")
    }
}

fn scheduler(number: u8) -> Handle {
    Handle::new(ShardId(0), 1_800_000_000_000, [7 + number; 10])
}

/// The same login for a target.
pub(super) fn login(options: &PgConnectOptions) -> Login {
    let url = options.to_url_lossy();
    url.as_str().parse().expect("a login")
}

/// The token of the attempt of a task.
pub(super) fn token(seq: Seq) -> Token {
    Token {
        epoch: Epoch(1),
        serial: seq.0 as u64,
    }
}

pub(super) fn sql(text: &str) -> Task {
    Task {
        text: text.into(),
        ..Task::default()
    }
}

pub(super) fn with_params(text: &str, params: &'static str) -> Task {
    Task {
        params: Some(params),
        rows: 10,
        ..sql(text)
    }
}

pub(super) fn limited(text: &str, timeout: Duration) -> Task {
    Task {
        timeout: Some(timeout),
        ..sql(text)
    }
}

pub(super) fn succeeded(report: Report) -> TaskResult {
    match report {
        Report::Succeeded(Some(result)) => (*result).clone(),
        other => panic!("{other:?}"),
    }
}

/// Code and transience of a failure.
pub(super) fn failed(report: Report) -> (String, bool) {
    match report {
        Report::Failed { error, transient } => (error.code.clone(), transient),
        other => panic!("{other:?}"),
    }
}

pub(super) fn json(result: &TaskResult) -> &str {
    std::str::from_utf8(&result.rows_json).expect("UTF-8")
}

/// A register that stores nothing, but passes on what is registered, refused and forgotten, and
/// what cannot be shown.
fn registered(
    mut register: mpsc::Receiver<SessionNote>,
    say: mpsc::Sender<String>,
    (is_dead, refuses): (Arc<AtomicBool>, Arc<AtomicBool>),
) -> [mpsc::Receiver<Session>; 3] {
    let (tell, notes) = mpsc::channel(100);
    let (refuse, refused) = mpsc::channel(100);
    let (forget, forgotten) = mpsc::channel(100);
    tokio::spawn(async move {
        while let Some(note) = register.recv().await {
            match note {
                SessionNote::Register { session, .. } if refuses.load(Ordering::Acquire) => {
                    let _ = refuse.try_send(session);
                }
                SessionNote::Register { session, done } => {
                    let _ = done.send(());
                    let _ = tell.try_send(session);
                }
                SessionNote::Pending {
                    why, declared_dead, ..
                } => {
                    let _ = declared_dead.send(is_dead.load(Ordering::Acquire));
                    let _ = say.try_send(why);
                }
                SessionNote::Forget(session) => {
                    let _ = forget.try_send(session);
                }
            }
        }
    });
    [notes, refused, forgotten]
}
