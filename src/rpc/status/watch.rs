//! WatchExecutions: what runs where, whenever it has changed. It is read, and cut to what a
//! namespace may see, once for all who watch. Each of them has a place, of which a namespace leaves
//! some to others, and keeps no rows but a digest of what it was sent. A message that is not read
//! takes room, as other answers do (`unfetched`).

use super::{executions::Executions, task_notes::TaskNotes, visibility};
use crate::{
    coordinator::{Admission, Capacity, Permit},
    core::Namespace,
    journal::Reader,
    rpc::{errors, validate::Targets},
};
use prost::Message;
use rallypoint_client::api;
use rustc_hash::FxHashMap;
use std::{
    hash::{DefaultHasher, Hasher},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::Mutex,
    time::{Instant, Interval, MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;
use tonic::Status;

/// Slots in one message.
const MAX_SLOTS: usize = 1_000;
/// Streams that are open at a time. One namespace gets half of the places.
const MAX_STREAMS: usize = 512;
/// How long what was read serves those who watch: about the shortest interval between two looks.
const RECENT: Duration = Duration::from_millis(80);

/// All who watch on this port. Clones are the same.
#[derive(Clone)]
pub(in crate::rpc) struct Watchers {
    executions: Executions,
    /// Knows who submitted what; `None`: that is left out.
    reader: Option<Reader>,
    targets: Targets,
    places: Admission,
    latest: Arc<Mutex<Latest>>,
}

/// What was read last.
#[derive(Default)]
struct Latest {
    /// `None`: nothing was read yet.
    read_at: Option<Instant>,
    list: api::ListExecutionsResponse,
    /// Slots that the list leaves out.
    left_out: i64,
    notes: TaskNotes,
    /// What callers of a namespace see of it; `None`: callers who see all.
    views: FxHashMap<Option<Namespace>, Arc<View>>,
}

struct View {
    message: api::WatchExecutionsResponse,
    digest: u64,
}

/// One stream.
pub(super) struct Watch {
    watchers: Watchers,
    /// The namespace of the caller; `None`: it sees all.
    own: Option<Namespace>,
    ticks: Interval,
    /// Cancelled when the server shuts down.
    stopping: CancellationToken,
    /// The digest of what was sent last.
    sent: Option<u64>,
    has_ended: bool,
    _place: Permit,
}

impl Watchers {
    pub(in crate::rpc) fn new(
        executions: Executions,
        reader: Option<Reader>,
        targets: Targets,
    ) -> Watchers {
        Watchers {
            executions,
            reader,
            targets,
            places: Admission::new(Capacity {
                calls: MAX_STREAMS,
                bytes: 0,
            }),
            latest: Arc::default(),
        }
    }

    /// A stream for a caller of `namespace` who sees what `own` sees. Fails when the namespace has
    /// too many.
    pub(super) fn open(
        &self,
        namespace: &Namespace,
        own: Option<Namespace>,
        every: Duration,
        stopping: CancellationToken,
    ) -> Result<Watch, Status> {
        let place = self.places.admit(namespace, 0);
        let place = place.map_err(|_| errors::no_watch_room())?;
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Watch {
            watchers: self.clone(),
            own,
            ticks,
            stopping,
            sent: None,
            has_ended: false,
            _place: place,
        })
    }

    /// What a caller sees of a moment ago: however many watch, the replicas and the journal are
    /// asked so often.
    async fn look(&self, own: Option<&Namespace>) -> Arc<View> {
        let mut latest = self.latest.lock().await;
        let is_recent = latest.read_at.is_some_and(|at| at.elapsed() < RECENT);
        if !is_recent {
            self.read(&mut latest).await;
        }
        let Latest {
            list,
            left_out,
            views,
            ..
        } = &mut *latest;
        let view = views.entry(own.cloned());
        let view = view.or_insert_with(|| {
            let mut list = list.clone();
            visibility::restrict_list(own, &self.targets, &mut list);
            Arc::new(View::of(list, *left_out))
        });
        view.clone()
    }

    async fn read(&self, latest: &mut Latest) {
        let mut list = self.executions.of_all_replicas().await;
        let left_out = cut(&mut list.executions);
        if let Some(reader) = &self.reader
            && !latest.notes.add_to(reader, &mut list.executions).await
        {
            list.unreachable.push("journal".into());
        }
        latest.read_at = Some(Instant::now());
        (latest.list, latest.left_out) = (list, left_out);
        latest.views.clear();
    }
}

impl View {
    fn of(list: api::ListExecutionsResponse, left_out: i64) -> View {
        let message = api::WatchExecutionsResponse {
            executions: list.executions,
            unreachable: list.unreachable,
            targets: list.targets,
            left_out,
        };
        View {
            digest: digest(&message),
            message,
        }
    }
}

impl Watch {
    /// The next message; `None`: that was the last one.
    pub(super) async fn next(&mut self) -> Option<Result<api::WatchExecutionsResponse, Status>> {
        while !self.has_ended {
            let stopping = self.stopping.clone();
            let view = tokio::select! {
                view = self.look() => view.ok_or_else(|| errors::fault("what runs was not read")),
                () = stopping.cancelled() => Err(errors::stopping()),
            };
            let view = match view {
                Ok(view) => view,
                Err(last) => {
                    self.has_ended = true;
                    return Some(Err(last));
                }
            };
            if self.sent.replace(view.digest) != Some(view.digest) {
                return Some(Ok(view.message.clone()));
            }
        }
        None
    }

    /// What there is at the next tick; `None`: it could not be made.
    async fn look(&mut self) -> Option<Arc<View>> {
        self.ticks.tick().await;
        let (watchers, own) = (self.watchers.clone(), self.own.clone());
        // A task of its own: of a stream that is not polled any more it would hold up all others.
        let looked = tokio::spawn(async move { watchers.look(own.as_ref()).await });
        looked.await.ok()
    }
}

/// Leaves as many slots as a message may hold, those that run something first. Returns how many are
/// left out.
fn cut(slots: &mut Vec<api::Execution>) -> i64 {
    let all = slots.len();
    if all > MAX_SLOTS {
        slots.sort_by_key(|slot| slot.handle.is_empty());
        slots.truncate(MAX_SLOTS);
    }
    (all - slots.len()) as i64
}

/// Without elapsed times, which change all the time.
fn digest(message: &api::WatchExecutionsResponse) -> u64 {
    let mut hasher = DefaultHasher::new();
    for row in &message.executions {
        let timeless = api::Execution {
            elapsed: None,
            ..row.clone()
        };
        hasher.write(&timeless.encode_length_delimited_to_vec());
    }
    let beside_rows = api::WatchExecutionsResponse {
        executions: Vec::new(),
        unreachable: message.unreachable.clone(),
        targets: message.targets.clone(),
        left_out: message.left_out,
    };
    hasher.write(&beside_rows.encode_to_vec());
    hasher.finish()
}

#[cfg(test)]
mod tests;
