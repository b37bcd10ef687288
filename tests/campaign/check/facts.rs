//! A history, put in order: by conversation, by request, by stream, by task.

use crate::history::{Answer, Asked, Done, Entry, Logged, Mark};
use std::collections::{BTreeMap, HashMap, HashSet};

/// How long after its end a fault may still be felt.
const AFTERMATH_US: i64 = 4_000_000;

/// All tries of one call.
#[derive(Default)]
pub(crate) struct Request {
    pub handle: String,
    pub tasks: Vec<Asked>,
    pub tries: Vec<Try>,
}

pub(crate) struct Try {
    pub begun: i64,
    pub ended: i64,
    pub answer: Answer<(i64, i32)>,
}

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

/// One undisturbed run of a task by its own word: from the mark of its start to that of its end.
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
    pub twisted: Vec<(String, String, Answer<(i64, i32)>)>,
    pub cancels: Vec<Cancel>,
    /// Calls that were left to the Rust client: which, when, and what came of them.
    pub patrons: Vec<(String, i64, Answer<()>)>,
    /// When a release was first acknowledged.
    pub released: HashMap<String, i64>,
    pub streams: BTreeMap<u64, Stream>,
    /// By handle, by seq.
    pub log: BTreeMap<String, Vec<Logged>>,
    /// By token, in order of time.
    pub marks: HashMap<i64, Vec<Mark>>,
    pub asked: HashMap<i64, Asked>,
    /// Conversations of storms, whose calls nobody waited for.
    pub strays: HashSet<String>,
    pub batches: Vec<(i64, i64, i64, i64)>,
    pub idle_in_transaction: i64,
    pub tails: Vec<(usize, Answer<()>)>,
    /// By kind.
    pub faults: BTreeMap<String, Vec<Fault>>,
    /// When events were heard.
    pub heard: Vec<i64>,
    pub attempts: BTreeMap<i32, i64>,
}

impl Facts {
    pub(crate) fn gather(entries: impl Iterator<Item = Entry>) -> Facts {
        let mut facts = Facts::default();
        entries.for_each(|entry| facts.take(entry));
        facts.heard.sort_unstable();
        facts
    }

    fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Opened { handle, limit } => _ = self.limits.insert(handle, limit),
            Entry::Submit {
                begun,
                ended,
                handle,
                request,
                tasks,
                answer,
            } => {
                self.asked.extend(
                    tasks
                        .iter()
                        .filter(|asked| asked.token > 0)
                        .map(|asked| (asked.token, *asked)),
                );
                let request = self.requests.entry(request).or_default();
                request.handle = handle;
                request.tasks.extend(tasks);
                request.tries.push(Try {
                    begun,
                    ended,
                    answer,
                });
            }
            Entry::Twisted {
                handle,
                request,
                answer,
            } => self.twisted.push((handle, request, answer)),
            Entry::Cancel {
                ended,
                handle,
                seq,
                answer: Answer::Ok(outcome),
                ..
            } => {
                self.cancels.push(Cancel {
                    handle,
                    seq,
                    ended,
                    outcome,
                });
            }
            Entry::Cancel { .. } => {}
            Entry::Caller {
                call,
                begun,
                answer,
                ..
            } => self.patrons.push((call, begun, answer)),
            Entry::Release {
                ended,
                handle,
                answer: Answer::Ok(()),
                ..
            } => _ = self.released.entry(handle).or_insert(ended),
            Entry::Release { .. } => {}
            Entry::Stream {
                id,
                begun,
                handle,
                after,
                all,
            } => {
                self.streams.insert(
                    id,
                    Stream {
                        handle,
                        begun,
                        after,
                        all,
                        done: Vec::new(),
                        answer: None,
                    },
                );
            }
            Entry::Events { stream, at, done } => {
                self.heard.push(at);
                let stream = self.streams.get_mut(&stream).expect("opened before");
                stream.done.extend(done.into_iter().map(|done| (at, done)));
            }
            Entry::StreamEnd { stream, answer, .. } => {
                self.streams.get_mut(&stream).expect("opened before").answer = Some(answer);
            }
            Entry::Fault {
                kind,
                begun,
                ended,
                bites,
                hurt,
                ..
            } => {
                self.faults.entry(kind).or_default().push(Fault {
                    begun,
                    ended,
                    bites,
                    hurt,
                });
            }
            Entry::Stray { handle, token } => {
                self.strays.insert(handle);
                let asked = Asked {
                    token,
                    work: crate::history::Work::Failing,
                    order: None,
                    at_most_once: true,
                    attempts: 1,
                };
                self.asked.insert(token, asked);
            }
            Entry::Logged(row) => self.log.entry(row.handle.clone()).or_default().push(row),
            Entry::Mark(mark) => self.marks.entry(mark.token).or_default().push(mark),
            Entry::Batch {
                first,
                last,
                rows,
                epoch,
            } => self.batches.push((first, last, rows, epoch)),
            Entry::Sessions {
                idle_in_transaction,
            } => self.idle_in_transaction = idle_in_transaction,
            Entry::Tail { server, answer } => self.tails.push((server, answer)),
            Entry::Attempts { kind, count } => _ = self.attempts.insert(kind, count),
        }
    }

    /// The longest time from a fault's beginning to a moment after its end in which nobody heard of any event.
    pub(crate) fn silence(&self, fault: &Fault) -> i64 {
        let after = |at: &&i64| **at >= fault.begun && **at <= fault.ended + AFTERMATH_US;
        let heard: Vec<i64> = [fault.begun]
            .iter()
            .chain(self.heard.iter().filter(after))
            .copied()
            .collect();
        heard
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .max()
            .unwrap_or(0)
    }

    /// Whether something happened to a server in this time that may have taken away what it ran.
    pub(crate) fn was_hurt(&self, server: usize, from: i64, to: i64) -> bool {
        let mut faults = self.faults.values().flatten();
        faults.any(|fault| fault.hurt.contains(&server) && fault.begun <= to && from <= fault.ended)
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

    /// Starts and ends that belong together: of one session, one after the other.
    pub(crate) fn runs_of(&self, token: i64) -> impl Iterator<Item = Run> {
        let marks = self.marks_of(token);
        marks
            .iter()
            .enumerate()
            .filter(|(_, mark)| mark.start)
            .filter_map(move |(at, start)| {
                let end = marks[at + 1..].iter().find(|mark| mark.pid == start.pid)?;
                (!end.start).then_some(Run {
                    start: start.at,
                    end: end.at,
                })
            })
    }

    /// Logs of the conversations of which everything was recorded.
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

impl Request {
    pub(crate) fn accepted(&self) -> Option<(i64, i32)> {
        self.tries.iter().find_map(|one| {
            if let Answer::Ok(ok) = one.answer {
                Some(ok)
            } else {
                None
            }
        })
    }

    pub(crate) fn is_unknown(&self) -> bool {
        self.accepted().is_none()
            && self
                .tries
                .iter()
                .any(|one| matches!(one.answer, Answer::Unknown(_)))
    }
}
