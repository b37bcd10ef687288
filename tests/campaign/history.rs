//! What happened, as lines of JSON: every call with its answer, every event of every stream, every
//! fault, and at the end what the databases hold. The verdict (`check`) knows nothing but these
//! lines.
//!
//! Times are microseconds since 1970 by a clock that nobody sets: the monotonic one of this
//! machine, which begins with its time of day. Times in the rows of the databases are by clocks
//! that faults may have set.

use crate::{
    claims::{ClaimEntry, Definition},
    jobs::JobEntry,
    proxy::Purpose,
    stock_client::StockAnswer,
};
use rallypoint_client::api;
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{BufRead, BufReader, BufWriter, Write},
    path::Path,
    sync::{LazyLock, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The fault that we bring about when a Postgres runs and does not serve.
pub(crate) const REVIVAL: &str = "Revival";

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer<T> {
    Ok(T),
    /// An error of the service which promises that nothing was done: with a reason, and neither
    /// UNAVAILABLE nor DEADLINE_EXCEEDED, which mostly promise nothing.
    Refused(String),
    /// Anything else: it may have had its effect, or not.
    Unknown(String),
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Work {
    Noop,
    /// Marks its start and its end in the table of witnesses.
    Marked,
    /// Marks its start, and fails.
    Failing,
    /// As FAILING when it starts for the first time, as MARKED later.
    FailingOnce,
    /// Marks its start, and runs into its time limit.
    Endless,
    /// Exactly once: both marks come with its commit.
    Exact,
}

/// A task as it was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asked {
    /// Names it in the table of witnesses; 0 for work that leaves no mark.
    pub token: i64,
    pub work: Work,
    pub order: Option<i64>,
    pub at_most_once: bool,
    /// How often it may start while nothing goes wrong around it.
    pub attempts: i32,
    /// What it declares, as a place in `load::resources::TASK_USES`.
    #[serde(default)]
    pub uses: Option<usize>,
}

/// An AsyncDone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub done_no: i64,
    pub seq: i64,
    pub order: Option<i64>,
    pub outcome: i32,
    pub attempt: i32,
    pub started: i64,
    pub ended: i64,
    pub error: String,
    /// The task of which this one is a copy.
    pub retry_of: Option<i64>,
}

/// A task and its retry, as the answer to a call names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Retried {
    pub seq: i64,
    pub copy: i64,
    /// It had this retry before the call.
    pub already: bool,
}

impl Retried {
    /// What a page of RetryFailed says.
    pub(crate) fn of(page: &api::RetryFailedResponse) -> Vec<Retried> {
        let copies = page.first_seq.unwrap_or_default()..;
        let pairs = page.retried.iter().zip(copies);
        let retried = pairs.map(|(seq, copy)| Retried {
            seq: *seq,
            copy,
            already: false,
        });
        retried.collect()
    }
}

/// A row of the execution log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Logged {
    pub handle: String,
    pub seq: i64,
    pub token: i64,
    pub kind: String,
    pub submitted: i64,
    /// The task of which this one is a copy.
    pub retry_of: Option<i64>,
    /// The copy of this one.
    pub retried_as: Option<i64>,
    /// `None`: it has no outcome.
    pub done: Option<Done>,
}

/// A row of the table of witnesses, written by a task itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub token: i64,
    /// The task that made it: a task and its retries have one token.
    pub seq: Option<i64>,
    /// It marks the start, or the end.
    pub start: bool,
    /// In the order in which marks were made.
    pub number: i64,
    pub pid: i32,
    /// Where it ran.
    pub server: usize,
    /// The fencing token of the attempt, if it holds resources.
    #[serde(default)]
    pub hold: Option<i64>,
}

/// A line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Entry {
    Opened {
        handle: String,
        limit: Option<i32>,
        /// A failure halts it, and nothing but retries lifts the halt.
        repaired: bool,
    },
    Submit {
        begun: i64,
        ended: i64,
        handle: String,
        request: String,
        tasks: Vec<Asked>,
        answer: Answer<(i64, i32)>,
    },
    /// The request id of an accepted call, with another payload.
    Reused {
        handle: String,
        request: String,
        answer: Answer<(i64, i32)>,
    },
    Cancel {
        begun: i64,
        ended: i64,
        handle: String,
        seq: i64,
        answer: Answer<i32>,
    },
    /// RetryTask, or a page of RetryFailed; calls with the same `request` are one.
    Retry {
        begun: i64,
        ended: i64,
        handle: String,
        request: String,
        /// The task to retry; `None`: those that failed.
        seq: Option<i64>,
        answer: Answer<Vec<Retried>>,
    },
    /// A halt is to be lifted though its failures are not repaired.
    FailuresIgnored {
        handle: String,
    },
    /// The outcome of a call through the Rust client.
    Caller {
        call: String,
        begun: i64,
        ended: i64,
        answer: Answer<()>,
    },
    Release {
        begun: i64,
        ended: i64,
        handle: String,
        cancel: bool,
        answer: Answer<()>,
    },
    /// `all`: until all tasks submitted so far have ended.
    Stream {
        id: u64,
        begun: i64,
        handle: String,
        after: i64,
        all: bool,
    },
    Events {
        stream: u64,
        at: i64,
        done: Vec<Done>,
    },
    StreamEnd {
        stream: u64,
        at: i64,
        answer: Answer<i32>,
    },
    Fault {
        kind: String,
        begun: i64,
        ended: i64,
        bites: u64,
        /// Servers that may have lost their tasks.
        hurt: Vec<usize>,
        what: String,
    },
    /// A line of the log of a Postgres that tells of a crash or a stop, and when it was read.
    Crash {
        database: String,
        at: i64,
        line: String,
    },
    /// A scheduler of callers that hang up or do not read, or a task of it.
    Stray {
        handle: String,
        token: i64,
    },
    Logged(Logged),
    Mark(Mark),
    /// A mark with a higher number was made after this was asked for, one with a lower number
    /// before it was answered.
    Moment {
        number: i64,
        asked: i64,
        answered: i64,
    },
    /// The last batch of the journal.
    Progress {
        at: i64,
        batch: i64,
    },
    /// The shard has another owner.
    Epoch {
        at: i64,
        epoch: i64,
    },
    /// The owner of the shard has renewed its lease.
    Renewed {
        at: i64,
    },
    /// A claim on resources, by a number of ours.
    Claim {
        id: u64,
        what: ClaimEntry,
    },
    /// A resource or a pattern is made, changed or deleted (`None`).
    Resource {
        begun: i64,
        ended: i64,
        name: String,
        definition: Option<Definition>,
        answer: Answer<()>,
    },
    /// Something about jobs.
    Job(JobEntry),
    /// Claims that are open at the end, though nobody keeps them.
    OpenClaims {
        count: i64,
    },
    /// A connection that went silent for good, and how long the service kept it, in microseconds;
    /// `open`: it still does.
    Silenced {
        purpose: Purpose,
        kept: i64,
        open: bool,
    },
    Batch {
        first: i64,
        last: i64,
        rows: i64,
        epoch: i64,
    },
    Sessions {
        idle_in_transaction: i64,
    },
    /// Rows about attempts, by kind: 1 start, 2 cancel requested, 3 lost, 4 failed.
    Attempts {
        kind: i32,
        count: i64,
    },
    /// What stock clients were answered, and how often.
    Stock {
        answer: StockAnswer,
        count: u64,
    },
    /// A call to every server, before the first fault and after the last one.
    FinalCall {
        server: usize,
        answer: Answer<()>,
    },
    /// Calls and streams that the callers gave up.
    GivenUp {
        count: u64,
    },
    /// What a server did that it should not have to.
    Complaints {
        server: usize,
        complaints: Vec<String>,
    },
}

impl Entry {
    /// When a caller had an answer, if this tells of one.
    pub(crate) fn answered(&self) -> Option<i64> {
        match self {
            Entry::Submit { ended, .. }
            | Entry::Cancel { ended, .. }
            | Entry::Retry { ended, .. }
            | Entry::Caller { ended, .. }
            | Entry::Release { ended, .. } => Some(*ended),
            Entry::Events { at, .. } | Entry::StreamEnd { at, .. } => Some(*at),
            _ => None,
        }
    }
}

/// Where lines are written.
pub(crate) struct History(Mutex<BufWriter<File>>);

impl History {
    pub(crate) fn create(path: &Path) -> std::io::Result<History> {
        Ok(History(Mutex::new(BufWriter::new(File::create(path)?))))
    }

    pub(crate) fn write(&self, entry: &Entry) {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::to_writer(&mut *file, entry).expect("the history can be written");
        file.write_all(b"\n").expect("the history can be written");
    }

    pub(crate) fn flush(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .flush()
            .expect("the history can be written");
    }
}

/// The lines of a history.
pub(crate) fn read(path: &Path) -> std::io::Result<impl Iterator<Item = Entry>> {
    let lines = BufReader::new(File::open(path)?).lines();
    Ok(lines
        .map(|line| serde_json::from_str(&line.expect("a line")).expect("a line of the history")))
}

/// The present time.
pub(crate) fn now() -> i64 {
    static BEGUN: LazyLock<(Instant, Duration)> = LazyLock::new(|| {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        (Instant::now(), wall.expect("after 1970"))
    });
    (BEGUN.1 + BEGUN.0.elapsed()).as_micros() as i64
}
