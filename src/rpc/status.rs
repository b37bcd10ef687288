//! StatusService: what the service is doing. A part that does not answer is named in the response
//! and is no error, because this is what operators read when something is wrong.

pub(crate) mod executions;
pub(crate) mod readiness;
pub(in crate::rpc) mod shared;
pub(crate) mod slots;
mod task_notes;
mod visibility;
pub(in crate::rpc) mod watch;

use super::{
    auth::{self, Auth},
    convert::{self, duration, explanation::pending_fence, paused_target, slot_kind, timestamp},
    errors,
    forwarding::route::{Destination, Route},
    validate::{self, ListExecutions, Targets},
};
use crate::{
    coordinator::{Coordinator, ReplicaStatus},
    core::{CoreStatus, Day, Handle, Work},
    journal::{self, Reader},
};
use executions::Executions;
use futures_util::{Stream, stream};
use jiff::{ToSpan, civil::date};
use rallypoint_client::api::{
    self, status_service_client::StatusServiceClient, status_service_server::StatusService,
};
use shared::Shared;
use std::{pin::Pin, time::Duration};
use task_notes::TaskNotes;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use watch::Watchers;

/// Schedulers set aside that one answer names.
const UNREADABLE_SHOWN: usize = 100;
/// How long a part of the service may take to answer.
const PART_TIMEOUT: Duration = Duration::from_secs(2);

/// The service of this replica, or of its peer port.
#[derive(Clone)]
pub(super) struct Statuses {
    /// Counts of tasks, and the state of the journal.
    pub coordinator: Coordinator,
    /// Batches and replicas.
    pub reader: Reader,
    pub auth: Auth,
    /// Slots and targets.
    pub executions: Executions,
    /// Who follows them.
    pub watchers: Watchers,
    /// Which targets are open to whom.
    pub targets: Targets,
    /// Cancelled when the server shuts down: streams end.
    pub stopping: CancellationToken,
    /// Route to the other replicas; `None`: only this one is reported.
    pub route: Option<Route>,
    /// The status of the service, as whoever may see all of it sees it.
    pub latest: Shared<api::GetStatusResponse>,
}

type ExecutionsStream =
    Pin<Box<dyn Stream<Item = Result<api::WatchExecutionsResponse, Status>> + Send>>;

#[tonic::async_trait]
impl StatusService for Statuses {
    type WatchExecutionsStream = ExecutionsStream;

    async fn get_status(
        &self,
        request: Request<api::GetStatusRequest>,
    ) -> Result<Response<api::GetStatusResponse>, Status> {
        let own = auth::visible(&request);
        let whole = self.clone();
        let read = async move { whole.of_service().await };
        let status = self.latest.get(read).await;
        let mut status = status.ok_or_else(|| errors::fault("the status was not read"))?;
        visibility::restrict(own.as_ref(), &self.targets, &mut status);
        Ok(Response::new(status))
    }

    async fn list_executions(
        &self,
        request: Request<api::ListExecutionsRequest>,
    ) -> Result<Response<api::ListExecutionsResponse>, Status> {
        let own = auth::visible(&request);
        let query = ListExecutions::new(request.get_ref())?;
        let mut list = self.executions.of_all_replicas().await;
        let (all, after) = (list.executions.len(), query.after);
        let page = list.executions.into_iter().skip(after).take(query.size);
        list.executions = page.collect();
        let next = after.saturating_add(list.executions.len());
        if next < all {
            list.next_page_token = query.token.after(next as u128);
        }
        visibility::restrict_list(own.as_ref(), &self.targets, &mut list);
        let mut notes = TaskNotes::default();
        self.note(&mut notes, &mut list).await;
        Ok(Response::new(list))
    }

    async fn watch_executions(
        &self,
        request: Request<api::WatchExecutionsRequest>,
    ) -> Result<Response<ExecutionsStream>, Status> {
        let caller = self.auth.caller(&request)?;
        let every = validate::interval(request.get_ref())?;
        let (own, stopping) = (auth::visible(&request), self.stopping.clone());
        let watch = self
            .watchers
            .open(&caller.namespace, own, every, stopping)?;
        Ok(Response::new(Box::pin(stream::unfold(
            watch,
            |mut watch| async move {
                let message = watch.next().await?;
                Some((message, watch))
            },
        ))))
    }
}

impl Statuses {
    /// The status of the whole service. Only the owner has counts; without its answer it is what
    /// this replica knows.
    async fn of_service(&self) -> api::GetStatusResponse {
        let destination = self.route.as_ref().map(Route::destination);
        let is_here = matches!(destination, None | Some(Destination::Local));
        if let Some(Destination::Remote(owner)) = destination {
            let mut client = StatusServiceClient::new(owner.channel);
            let asked = client.get_status(api::GetStatusRequest {});
            if let Ok(Ok(status)) = timeout(PART_TIMEOUT, asked).await {
                return self.with_targets(status.into_inner()).await;
            }
        }
        let mut status = self.status().await;
        if !is_here && status.backlog.is_none() {
            // That of this replica has nothing to say.
            status.unreachable.retain(|part| part != "coordinator");
            status.unreachable.push("owner".into());
        }
        self.with_targets(status).await
    }

    /// Adds what the journal says of the tasks that run; not for another replica, which does so.
    async fn note(&self, notes: &mut TaskNotes, list: &mut api::ListExecutionsResponse) {
        if self.route.is_some() && !notes.add_to(&self.reader, &mut list.executions).await {
            list.unreachable.push("journal".into());
        }
    }

    /// The status with the targets of all replicas, which know of their own only.
    async fn with_targets(&self, mut status: api::GetStatusResponse) -> api::GetStatusResponse {
        let found = self.executions.of_all_replicas().await;
        status.targets = found.targets;
        status.unreachable.extend(found.unreachable);
        status
    }

    /// The status as this replica knows it.
    async fn status(&self) -> api::GetStatusResponse {
        let (core, journal) = tokio::join!(
            timeout(PART_TIMEOUT, self.coordinator.status()),
            timeout(PART_TIMEOUT, self.reader.status())
        );
        let mut status = api::GetStatusResponse {
            version: env!("CARGO_PKG_VERSION").into(),
            ..Default::default()
        };
        match core {
            Ok(Ok(core)) => self::core(&mut status, &core),
            Ok(Err(_)) | Err(_) => status.unreachable.push("coordinator".into()),
        }
        match journal {
            Ok(Ok(journal)) => self::journal(&mut status, &journal),
            Ok(Err(_)) | Err(_) => {
                status.unreachable.push("journal".into());
                status.journal.get_or_insert_default().error = "it does not answer".into();
            }
        }
        let replica = self.coordinator.replica_status();
        let set_aside = |one: &journal::Unreadable| api::UnreadableScheduler {
            handle: one.handle.to_string(),
            namespace: one.namespace.0.to_string(),
            why: one.why.clone(),
        };
        let shown = replica.unreadable.iter().take(UNREADABLE_SHOWN);
        status.unreadable_schedulers = shown.map(set_aside).collect();
        status.unreadable = replica.unreadable.len() as i64;
        health(&mut status, replica);
        status
    }
}

fn core(status: &mut api::GetStatusResponse, core: &CoreStatus) {
    status.backlog = Some(api::Backlog {
        schedulers: core.schedulers,
        blocked: core.counts.blocked,
        queued: core.counts.queued,
        running: core.counts.running,
        retrying: core.counts.retrying,
        oldest_queued_at: core.oldest_queued.map(timestamp),
        ended: core.ended,
        failed: core.failed,
    });
    status.slots = slots_of(core);
    status.paused_targets = core.pauses.iter().map(paused_target).collect();
    status.claims = Some(api::ClaimCounts {
        holds: core.claims.holds as i64,
        waiting: core.claims.waiting as i64,
    });
    status.jobs = Some(convert::job_counts(&core.jobs));
}

/// The slots of every kind.
fn slots_of(core: &CoreStatus) -> Vec<api::SlotStatus> {
    let startable = |work: &Work| {
        let found = core.startable.iter().find(|(kind, _)| kind == work);
        found.map_or(0, |(_, count)| *count)
    };
    let slot = |(work, total, busy, reserved): &(Work, u32, u32, u32)| api::SlotStatus {
        kind: Some(slot_kind(work)),
        startable: Some(startable(work)),
        total: *total as i32,
        busy: *busy as i32,
        reserved: *reserved as i32,
    };
    core.slots.iter().map(slot).collect()
}

fn journal(status: &mut api::GetStatusResponse, journal: &journal::JournalStatus) {
    status.journal = Some(api::JournalStatus {
        batch_no: journal.last_batch.0,
        last_durable_age: Some(duration(journal.now.since(journal.last_at))),
        available: true,
        error: String::new(),
        oldest_day: journal.oldest_day.map(iso).unwrap_or_default(),
        retention_days: journal.retention_days as i32,
        pin: journal.pin.as_ref().map(pin),
    });
    let replica = |row: &journal::ReplicaRow| api::ReplicaStatus {
        name: row.name.clone(),
        owner: row.owner,
        epoch: row.epoch.0,
        started_at: Some(timestamp(row.started_at)),
        seen_at: Some(timestamp(row.seen_at)),
    };
    status.replicas = journal.replicas.iter().map(replica).collect();
    status.pending_fences = journal.pending_fences.iter().map(pending_fence).collect();
}

fn pin(pin: &journal::RetentionPin) -> api::DayPin {
    use api::day_pin::Reason;
    let of = |reason: Reason, handle: &Handle| api::DayPin {
        reason: reason.into(),
        handle: handle.to_string(),
        ..Default::default()
    };
    match pin {
        journal::RetentionPin::Due => api::DayPin {
            reason: Reason::Due.into(),
            ..Default::default()
        },
        journal::RetentionPin::Checkpoint(handle) => of(Reason::Checkpoint, handle),
        journal::RetentionPin::Unfinished(handle) => of(Reason::Unfinished, handle),
        journal::RetentionPin::Reader {
            backend_pid,
            application,
        } => api::DayPin {
            reason: Reason::Reader.into(),
            backend_pid: *backend_pid,
            application: application.clone(),
            ..Default::default()
        },
    }
}

/// Overwrites what the coordinator knows better: it is up to date, and there even when the journal
/// does not answer. A replica that is not the owner writes nothing, and knows the journal only by
/// reading it.
fn health(status: &mut api::GetStatusResponse, health: ReplicaStatus) {
    let journal = status.journal.get_or_insert_default();
    if health.role.is_owner() {
        journal.available = health.available;
        journal.error = health.error;
    }
    if let Some((no, age)) = health.last_batch {
        journal.batch_no = no.0;
        journal.last_durable_age = Some(duration(age));
    }
}

/// YYYY-MM-DD.
fn iso(day: Day) -> String {
    date(1970, 1, 1)
        .checked_add(day.0.days())
        .map(|day| day.to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::ReplicaState;

    #[test]
    fn a_replica_that_is_not_the_owner_knows_the_journal_by_reading_it() {
        let mut read = api::GetStatusResponse::default();
        read.journal.get_or_insert_default().available = true;
        let standby = ReplicaState::default();
        health(&mut read, standby.status());
        assert!(read.journal.is_some_and(|journal| journal.available));
    }

    #[test]
    fn a_day_reads_as_a_date() {
        assert_eq!(iso(Day(0)), "1970-01-01");
        assert_eq!(iso(Day(20_778)), "2026-11-21");
    }
}
