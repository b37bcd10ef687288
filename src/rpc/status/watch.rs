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
mod tests {
    use super::*;
    use crate::rpc::status::executions::StatusSource;
    use rallypoint_client::api::peer::ExplainAttemptResponse;
    use std::{
        iter,
        pin::pin,
        sync,
        sync::atomic::{AtomicUsize, Ordering::Relaxed},
        task::{Context, Waker},
    };
    use tokio::{task::yield_now, time::timeout};
    use tonic::Code;
    use tonic_types::StatusExt;

    const EVERY: Duration = Duration::from_millis(100);

    /// Slots and targets that tests change, and how often they were read.
    #[derive(Clone, Default)]
    struct Slots {
        rows: Arc<sync::Mutex<Vec<api::Execution>>>,
        targets: Arc<sync::Mutex<Vec<api::TargetStatus>>>,
        readings: Arc<AtomicUsize>,
    }

    impl Slots {
        fn set(&self, rows: &[api::Execution]) {
            *self.rows.lock().expect("rows") = rows.to_vec();
        }

        fn watchers(&self) -> Watchers {
            let (slots, targets) = (self.clone(), self.targets.clone());
            let source = StatusSource {
                executions: Arc::new(move || {
                    slots.readings.fetch_add(1, Relaxed);
                    slots.rows.lock().expect("rows").clone()
                }),
                targets: Arc::new(move || targets.lock().expect("targets").clone()),
                attempt: Arc::new(|_, _| Box::pin(async { ExplainAttemptResponse::default() })),
            };
            Watchers::new(Executions::new(source, None), None, Targets::default())
        }
    }

    fn name(name: &str) -> Namespace {
        Namespace(name.into())
    }

    fn open(watchers: &Watchers, namespace: &str) -> Result<Watch, Status> {
        let namespace = name(namespace);
        let own = Some(namespace.clone());
        watchers.open(&namespace, own, EVERY, CancellationToken::new())
    }

    fn row(namespace: &str, seq: i64) -> api::Execution {
        api::Execution {
            handle: "h".into(),
            namespace: namespace.into(),
            seq,
            ..Default::default()
        }
    }

    #[tokio::test]
    async fn a_namespace_leaves_places_to_others_and_has_its_own_again() {
        let watchers = Slots::default().watchers();
        let mut flood: Vec<Watch> = iter::from_fn(|| open(&watchers, "flood").ok()).collect();
        assert_eq!(flood.len(), MAX_STREAMS / 2);
        let refused = open(&watchers, "flood").err().expect("no place is left");
        assert_eq!(refused.code(), Code::Unavailable);
        let details = refused.get_error_details();
        let info = details.error_info().expect("a reason");
        assert_eq!(info.reason, "OVERLOADED");
        assert_eq!(info.metadata["limit"], "watchers");
        assert!(open(&watchers, "other").is_ok());
        flood.pop();
        assert!(open(&watchers, "flood").is_ok(), "one has ended");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_watches_shares_what_was_read_and_sees_what_is_its_own() {
        let slots = Slots::default();
        slots.set(&[row("mine", 1), row("theirs", 2)]);
        let watchers = slots.watchers();
        let (mine, theirs) = (name("mine"), name("theirs"));
        let one = watchers.look(Some(&mine)).await;
        let other = watchers.look(Some(&mine)).await;
        assert!(Arc::ptr_eq(&one, &other));
        let (theirs, all) = (
            watchers.look(Some(&theirs)).await,
            watchers.look(None).await,
        );
        for (view, expected) in [(&one, [1, 0]), (&theirs, [0, 2]), (&all, [1, 2])] {
            let rows = &view.message.executions;
            assert_eq!([rows[0].seq, rows[1].seq], expected);
        }
        assert_eq!(slots.readings.load(Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_is_sent_when_anything_but_the_elapsed_time_has_changed() {
        let slots = Slots::default();
        slots.set(&[row("mine", 1)]);
        let watchers = slots.watchers();
        let watch = watchers.open(&name("mine"), None, EVERY, CancellationToken::new());
        let mut watch = watch.expect("a place");
        let first = watch.next().await.expect("a message").expect("no error");
        assert_eq!(first.executions, [row("mine", 1)]);
        let later = api::Execution {
            elapsed: Some(prost_types::Duration::default()),
            ..row("mine", 1)
        };
        slots.set(&[later]);
        assert!(timeout(10 * EVERY, watch.next()).await.is_err());
        slots.set(&[row("mine", 2)]);
        let next = watch.next().await.expect("a message").expect("no error");
        assert_eq!(next.executions, [row("mine", 2)]);
        let away = api::TargetStatus {
            name: "app".into(),
            ..Default::default()
        };
        *slots.targets.lock().expect("targets") = vec![away.clone()];
        let next = watch.next().await.expect("a message").expect("no error");
        assert_eq!(next.targets, [away]);
        watch.stopping.cancel();
        assert!(watch.next().await.is_some_and(|last| last.is_err()));
        assert!(watch.next().await.is_none());
    }

    #[tokio::test]
    async fn a_stream_that_is_not_polled_any_more_holds_nobody_up() {
        let slots = Slots::default();
        slots.set(&[row("mine", 1)]);
        let watchers = slots.watchers();
        let mut left = open(&watchers, "mine").expect("a place");
        let mut left_behind = pin!(left.next());
        // It waits for what is being read.
        while slots.readings.load(Relaxed) == 0 {
            let polled = left_behind
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
            yield_now().await;
        }
        let mut watch = open(&watchers, "mine").expect("a place");
        assert!(watch.next().await.is_some_and(|first| first.is_ok()));
    }
}
