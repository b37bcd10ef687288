//! A history in order: by conversation, request, stream and task.

use super::{
    claims::Claims,
    copies::{self, Retries},
    crash::Crash,
    jobs::Jobs,
    moments::Moments,
    request::{Request, Try},
};
use crate::{
    history::{Answer, Asked, Done, Entry, Logged, Mark, REVIVAL, Work},
    proxy::Purpose,
    stock_client::StockAnswer,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// How long after its end a fault may still have an effect.
pub(super) const AFTERMATH_US: i64 = 4_000_000;
/// Faults in which a Postgres crashes, or may.
const CRASHING: [&str; 4] = [
    "PostgresCrash",
    "BackendKilled",
    "DiskFull",
    "ClockOfTarget",
];

pub(crate) struct Stream {
    pub handle: String,
    pub begun: i64,
    pub after: i64,
    pub all: bool,
    pub done: Vec<(i64, Done)>,
    pub answer: Option<Answer<i32>>,
}

pub(crate) struct Cancel {
    pub handle: String,
    pub seq: i64,
    pub ended: i64,
    pub outcome: i32,
}

/// One undisturbed run of a task: from the number of the mark of its start to that of its end.
pub(crate) struct Run {
    pub start: i64,
    pub end: i64,
}

pub(crate) struct Fault {
    pub begun: i64,
    pub ended: i64,
    pub bites: u64,
    pub hurt: Vec<usize>,
}

#[derive(Default)]
pub(crate) struct Facts {
    /// Limits by handle.
    pub limits: HashMap<String, Option<i32>>,
    pub requests: BTreeMap<String, Request>,
    pub reused: Vec<(String, String, Answer<(i64, i32)>)>,
    pub cancels: Vec<Cancel>,
    pub retries: Retries,
    pub claims: Claims,
    pub jobs: Jobs,
    /// Calls through the Rust client: name, time and outcome.
    pub client_calls: Vec<(String, i64, Answer<()>)>,
    /// Calls through stock clients: the answer, and how often it was given.
    pub stock_calls: Vec<(StockAnswer, u64)>,
    /// When a release was first acknowledged.
    pub released: HashMap<String, i64>,
    pub streams: BTreeMap<u64, Stream>,
    /// By handle, by seq.
    pub log: BTreeMap<String, Vec<Logged>>,
    /// By token, in order of their numbers.
    pub marks: HashMap<i64, Vec<Mark>>,
    /// When marks were made.
    pub moments: Moments,
    pub asked: HashMap<i64, Asked>,
    /// Schedulers whose callers hung up or did not read.
    pub strays: HashSet<String>,
    pub batches: Vec<(i64, i64, i64, i64)>,
    pub idle_in_transaction: i64,
    pub final_calls: Vec<(usize, Answer<()>)>,
    /// Calls and streams that the callers gave up, if they told.
    pub given_up: Option<u64>,
    /// What each server did that it should not have to.
    pub complaints: Vec<(usize, Vec<String>)>,
    /// By kind.
    pub faults: BTreeMap<String, Vec<Fault>>,
    pub crashes: Vec<Crash>,
    /// When events were received.
    pub received: Vec<i64>,
    /// When the journal had another batch.
    pub progress: Vec<i64>,
    /// Connections that went silent: for what, how long they were kept, and whether they still are.
    pub silenced: Vec<(Purpose, i64, bool)>,
    pub attempts: BTreeMap<i32, i64>,
    /// When the last caller had its last answer: until then the shard had work.
    pub last_answer: i64,
}

impl Facts {
    pub(crate) fn gather(entries: impl Iterator<Item = Entry>) -> Facts {
        let mut facts = Facts::default();
        entries.for_each(|entry| facts.take(entry));
        facts.received.sort_unstable();
        facts.retries.copies =
            copies::separated(&mut facts.log, &mut facts.marks, &mut facts.asked);
        facts
    }

    fn take(&mut self, entry: Entry) {
        self.last_answer = self.last_answer.max(entry.answered().unwrap_or(0));
        self.retries.take(&entry);
        self.claims.take(&entry);
        self.jobs.take(&entry);
        match entry {
            Entry::Opened { .. }
            | Entry::Submit { .. }
            | Entry::Reused { .. }
            | Entry::Cancel { .. }
            | Entry::Retry { .. }
            | Entry::FailuresIgnored { .. }
            | Entry::Caller { .. }
            | Entry::Release { .. }
            | Entry::FinalCall { .. }
            | Entry::GivenUp { .. }
            | Entry::Stock { .. }
            | Entry::Stray { .. } => self.take_call(entry),
            Entry::Stream { .. } | Entry::Events { .. } | Entry::StreamEnd { .. } => {
                self.take_stream(entry);
            }
            Entry::Fault { .. }
            | Entry::Crash { .. }
            | Entry::Logged(_)
            | Entry::Mark(_)
            | Entry::Moment { .. }
            | Entry::Progress { .. }
            | Entry::Silenced { .. }
            | Entry::Batch { .. }
            | Entry::Sessions { .. }
            | Entry::Complaints { .. }
            | Entry::Attempts { .. } => self.take_row(entry),
            Entry::Claim { .. }
            | Entry::Resource { .. }
            | Entry::Job(_)
            | Entry::OpenClaims { .. }
            | Entry::Renewed { .. }
            | Entry::Epoch { .. } => {}
        }
    }

    /// A call and its answer.
    fn take_call(&mut self, entry: Entry) {
        match entry {
            Entry::Opened { handle, limit, .. } => _ = self.limits.insert(handle, limit),
            Entry::Submit {
                begun,
                ended,
                handle,
                request,
                tasks,
                answer,
            } => {
                let named = tasks.iter().filter(|asked| asked.token > 0);
                self.asked.extend(named.map(|asked| (asked.token, *asked)));
                let request = self.requests.entry(request).or_default();
                request.handle = handle;
                request.tasks.extend(tasks);
                request.tries.push(Try {
                    begun,
                    ended,
                    answer,
                });
            }
            Entry::Reused {
                handle,
                request,
                answer,
            } => self.reused.push((handle, request, answer)),
            Entry::Cancel {
                ended,
                handle,
                seq,
                answer: Answer::Ok(outcome),
                ..
            } => self.cancels.push(Cancel {
                handle,
                seq,
                ended,
                outcome,
            }),
            Entry::Caller {
                call,
                begun,
                answer,
                ..
            } => self.client_calls.push((call, begun, answer)),
            Entry::Release {
                ended,
                handle,
                answer: Answer::Ok(()),
                ..
            } => _ = self.released.entry(handle).or_insert(ended),
            Entry::Stock { answer, count } => self.stock_calls.push((answer, count)),
            Entry::FinalCall { server, answer } => self.final_calls.push((server, answer)),
            Entry::GivenUp { count } => self.given_up = Some(count),
            Entry::Stray { handle, token } => self.take_stray(handle, token),
            // A cancel or a release without an answer shows nothing.
            _ => {}
        }
    }

    /// A task whose caller may not have waited for the answer.
    fn take_stray(&mut self, handle: String, token: i64) {
        self.strays.insert(handle);
        let asked = Asked {
            token,
            work: Work::Failing,
            order: None,
            at_most_once: true,
            attempts: 1,
            uses: None,
        };
        self.asked.insert(token, asked);
    }

    fn take_stream(&mut self, entry: Entry) {
        match entry {
            Entry::Stream {
                id,
                begun,
                handle,
                after,
                all,
            } => {
                let stream = Stream {
                    handle,
                    begun,
                    after,
                    all,
                    done: Vec::new(),
                    answer: None,
                };
                self.streams.insert(id, stream);
            }
            Entry::Events { stream, at, done } => {
                self.received.push(at);
                let stream = self.streams.get_mut(&stream).expect("opened before");
                stream.done.extend(done.into_iter().map(|done| (at, done)));
            }
            Entry::StreamEnd { stream, answer, .. } => {
                self.streams.get_mut(&stream).expect("opened before").answer = Some(answer);
            }
            other => unreachable!("no line of a stream: {other:?}"),
        }
    }

    /// A fault, or what the databases held at the end.
    fn take_row(&mut self, entry: Entry) {
        match entry {
            Entry::Fault {
                kind,
                begun,
                ended,
                bites,
                hurt,
                ..
            } => self.faults.entry(kind).or_default().push(Fault {
                begun,
                ended,
                bites,
                hurt,
            }),
            Entry::Crash { database, at, line } => self.crashes.push(Crash { database, at, line }),
            Entry::Logged(row) => self.log.entry(row.handle.clone()).or_default().push(row),
            Entry::Mark(mark) => self.marks.entry(mark.token).or_default().push(mark),
            Entry::Moment {
                number,
                asked,
                answered,
            } => self.moments.add(number, asked, answered),
            Entry::Progress { at, .. } => self.progress.push(at),
            Entry::Silenced {
                purpose,
                kept,
                open,
            } => self.silenced.push((purpose, kept, open)),
            Entry::Batch {
                first,
                last,
                rows,
                epoch,
            } => self.batches.push((first, last, rows, epoch)),
            Entry::Sessions {
                idle_in_transaction,
            } => self.idle_in_transaction = idle_in_transaction,
            Entry::Complaints { server, complaints } => self.complaints.push((server, complaints)),
            Entry::Attempts { kind, count } => _ = self.attempts.insert(kind, count),
            other => unreachable!("no fault and no row: {other:?}"),
        }
    }

    /// Up to here the time of the service is that of this machine.
    pub(crate) fn clock_set(&self) -> i64 {
        let faults = self.faults.get("ClockOfJournal").into_iter().flatten();
        faults.map(|fault| fault.begun).min().unwrap_or(i64::MAX)
    }

    /// Whether a fault between these two marks may have cost a server the tasks it ran.
    pub(crate) fn was_hurt(&self, server: usize, from: &Mark, to: &Mark) -> bool {
        let from = self.moments.earliest(from.number);
        let to = self.moments.latest(to.number);
        let mut faults = self.faults.values().flatten();
        faults.any(|fault| fault.hurt.contains(&server) && fault.begun <= to && from <= fault.ended)
    }

    /// How many owners the shard had had when this mark was made.
    pub(crate) fn ownership(&self, mark: &Mark) -> usize {
        let at = self.moments.latest(mark.number);
        let epochs = self.claims.epochs.iter();
        epochs.filter(|epoch| **epoch <= at).count()
    }

    /// Crashes that no fault of the plan explains: of this machine, or of Postgres itself.
    pub(crate) fn unplanned_crashes(&self) -> impl Iterator<Item = &Crash> {
        let may_crash = |kind: &str| CRASHING.contains(&kind) || kind == REVIVAL;
        let is_planned = move |at: i64| {
            let kinds = self.faults.iter().filter(|(kind, _)| may_crash(kind));
            let mut faults = kinds.flat_map(|(_, faults)| faults);
            faults.any(|fault| fault.begun <= at && at <= fault.ended + AFTERMATH_US)
        };
        self.crashes
            .iter()
            .filter(move |crash| crash.is_abort() || !is_planned(crash.at))
    }

    /// Whether a Postgres crashed between these two marks though no fault had it do so.
    pub(crate) fn crashed_unplanned(&self, from: &Mark, to: &Mark) -> bool {
        let from = self.moments.earliest(from.number);
        let to = self.moments.latest(to.number).saturating_add(AFTERMATH_US);
        self.unplanned_crashes()
            .any(|crash| from <= crash.at && crash.at <= to)
    }

    pub(crate) fn marks_of(&self, token: i64) -> &[Mark] {
        self.marks
            .get(&token)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    pub(crate) fn starts_of(&self, token: i64) -> impl Iterator<Item = &Mark> {
        self.marks_of(token).iter().filter(|mark| mark.start)
    }

    /// Pairs of start and end: marks of one session, one after the other.
    pub(crate) fn runs_of(&self, token: i64) -> impl Iterator<Item = Run> {
        let marks = self.marks_of(token);
        marks
            .iter()
            .enumerate()
            .filter(|(_, mark)| mark.start)
            .filter_map(move |(at, start)| {
                let end = marks[at + 1..].iter().find(|mark| mark.pid == start.pid)?;
                (!end.start).then_some(Run {
                    start: start.number,
                    end: end.number,
                })
            })
    }

    /// Logs of the conversations whose calls were all recorded.
    pub(crate) fn conversations(&self) -> impl Iterator<Item = (&String, &Vec<Logged>)> {
        self.log
            .iter()
            .filter(|(handle, _)| !self.strays.contains(*handle))
    }

    /// Calls that submit, by scheduler.
    pub(crate) fn requests_by_handle(&self) -> HashMap<&str, Vec<&Request>> {
        let mut by_handle: HashMap<&str, Vec<&Request>> = HashMap::new();
        self.requests
            .values()
            .for_each(|request| by_handle.entry(&request.handle).or_default().push(request));
        by_handle
    }

    /// A row of the log.
    pub(crate) fn logged(&self, handle: &str, seq: i64) -> Option<&Logged> {
        let rows = self.log.get(handle)?;
        rows.binary_search_by_key(&seq, |row| row.seq)
            .ok()
            .map(|at| &rows[at])
    }
}
