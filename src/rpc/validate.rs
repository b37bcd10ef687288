//! Requests become core types here, or a list of everything that is wrong with them. Pure: it knows
//! no state, so what it refuses is wrong whatever the service is doing. Limits of the rules are in
//! `core::model::limits`; nothing is defaulted silently.

mod cancel;
mod filter;
mod forecast;
mod hash;
pub(super) mod job;
mod options;
mod paging;
pub(super) mod resource;
mod resume_token;
mod retry;
mod roles;
mod scalar;
mod session;
mod settings;
mod submit;
#[cfg(test)]
mod tests;

pub(super) use cancel::CancelTasks;
pub(super) use forecast::Forecast;
pub(super) use paging::{ListAttempts, ListExecutions, ListSchedulers, ListTasks};
pub(super) use retry::{RetryFailed, RetryFailedPage};
pub(super) use roles::Roles;
pub(super) use submit::{Replacement, exec_async};

use super::errors::{
    reason::Reason,
    violations::{Path, Violations},
};
use crate::{
    core::{
        DoneNo, Handle, Namespace, Naming, Open, ReleaseMode, Request, Seq, TaskId, Until, Update,
    },
    likeness::closest,
};
use hash::PayloadHash;
use rallypoint_client::api::{self, until::Kind};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
    time::Duration,
};

const WATCH_INTERVAL: Duration = Duration::from_secs(1);
const WATCH_INTERVALS: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(60);
const DEFAULT_TARGET: &str = "app";
/// How many names an error lists.
const NAMES_SHOWN: usize = 20;

/// The configured targets, each with what is allowed there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Targets(Arc<RwLock<ByName>>);

/// What is allowed on a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allowed {
    /// Roles that tasks may name.
    pub roles: BTreeSet<String>,
    /// Namespaces whose tasks may name the target; `None`: all.
    pub namespaces: Option<BTreeSet<Namespace>>,
}

/// By the name of the target.
type ByName = BTreeMap<Arc<str>, Allowed>;

impl Targets {
    pub(crate) fn new<'a>(targets: impl IntoIterator<Item = (&'a str, Allowed)>) -> Self {
        let new = Targets::default();
        new.replace(targets);
        new
    }

    /// From now on these count, for all who hold this.
    pub(crate) fn replace<'a>(&self, targets: impl IntoIterator<Item = (&'a str, Allowed)>) {
        let target = |(name, allowed): (&str, Allowed)| (name.into(), allowed);
        let targets = targets.into_iter().map(target).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = targets;
    }

    /// Those that tasks of a namespace may name, as they are now: for it there are no others.
    pub(crate) fn of(&self, namespace: &Namespace) -> Targets {
        let is_open = |allowed: &Allowed| {
            let of = allowed.namespaces.as_ref();
            of.is_none_or(|of| of.contains(namespace))
        };
        let all = self.by_name();
        if all.values().all(is_open) {
            return self.clone();
        }
        let own = all.iter().filter(|(_, allowed)| is_open(allowed));
        let own = own.map(|(name, allowed)| (Arc::clone(name), allowed.clone()));
        Targets(Arc::new(RwLock::new(own.collect())))
    }

    fn by_name(&self) -> RwLockReadGuard<'_, ByName> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The target `name`; empty: `app`.
    fn find(&self, name: &str) -> Option<Arc<str>> {
        let name = if name.is_empty() {
            DEFAULT_TARGET
        } else {
            name
        };
        self.by_name()
            .get_key_value(name)
            .map(|(name, _)| Arc::clone(name))
    }

    /// Whether `name` is one of them.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.by_name().contains_key(name)
    }

    /// What to say if there is no target `name` any more.
    pub(crate) fn check(&self, name: &str) -> Result<(), String> {
        self.has(name)
            .then_some(())
            .ok_or_else(|| self.unknown(name))
    }

    /// What to say about `name`, which is not one of them.
    fn unknown(&self, name: &str) -> String {
        let targets = self.by_name();
        if targets.is_empty() {
            return "this server has no targets".into();
        }
        let asked = match name {
            "" => "set it: the default, `app`, is not on this server",
            _ => "no such target on this server",
        };
        let all: Vec<&str> = targets.keys().map(|name| &**name).collect();
        let shown = listed(all.iter().copied());
        let meant = closest(name, &all)
            .map_or_else(String::new, |meant| format!(" (did you mean `{meant}`?)"));
        format!("{asked}, which has: {shown}{meant}")
    }
}

/// As many of these names as an error lists.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.take(NAMES_SHOWN + 1).collect();
    if let Some(more) = names.get_mut(NAMES_SHOWN) {
        *more = "…";
    }
    names.join(", ")
}

/// A validated SynchronizationRequest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamQuery {
    pub handle: Handle,
    /// The last event already seen.
    pub after: DoneNo,
    /// When the stream ends.
    pub until: Until,
    /// The last task of the goal, when a stream is resumed.
    pub last_seq: Option<Seq>,
}

/// What GetScheduler is to open; its request id has the hash of the payload.
pub(super) fn get_scheduler(
    request: &api::GetSchedulerRequest,
    targets: &Targets,
) -> Result<Open, Violations> {
    let mut v = Violations::default();
    let none = api::SchedulerSettings::default();
    let asked = request.settings.as_ref().unwrap_or(&none);
    let settings = settings::settings(&mut v, Path::Root.field("settings"), asked, targets);
    let id = scalar::request_id(&mut v, Path::Root.field("request_id"), &request.request_id);
    let path = Path::Root.field("name");
    let name = scalar::name(&mut v, path, &request.name);
    if request.reuse && request.name.is_empty() {
        let message = "`reuse` finds a scheduler by its name: give one";
        v.add(path, Reason::TextOutOfRange, message);
    }
    v.into_result(())?;
    let reuse = request.reuse;
    let naming = name.map(|name| Naming { name, reuse });
    let hash = |id| {
        let mut hash = PayloadHash::new("GetScheduler");
        hash.settings(asked);
        hash.naming(naming.as_ref());
        Request {
            id,
            hash: hash.finish(),
        }
    };
    let request = id.map(hash);
    Ok(Open {
        settings: Arc::new(settings),
        naming,
        request,
    })
}

/// The handle of a request that has nothing else to validate.
pub(super) fn handle(text: &str) -> Result<Handle, Violations> {
    let mut v = Violations::default();
    let handle = scalar::handle(&mut v, Path::Root.field("handle"), text);
    v.into_result(handle)
}

/// The task of CancelTask and GetTask.
pub(super) fn task_id(id: Option<&api::TaskId>) -> Result<TaskId, Violations> {
    let mut v = Violations::default();
    let path = Path::Root.field("id");
    let Some(id) = id else {
        v.add(path, Reason::IdMalformed, "name the task: handle and seq");
        return Err(v);
    };
    let handle = scalar::handle(&mut v, path.field("handle"), &id.handle);
    let seq = scalar::seq(&mut v, path.field("seq"), id.seq);
    v.into_result(TaskId { handle, seq })
}

pub(super) fn release(
    request: &api::ReleaseSchedulerRequest,
) -> Result<(Handle, ReleaseMode), Violations> {
    let mut v = Violations::default();
    let handle = scalar::handle(&mut v, Path::Root.field("handle"), &request.handle);
    let mode = settings::release_mode(&mut v, Path::Root.field("mode"), request.mode);
    v.into_result((handle, mode))
}

pub(super) fn update(
    request: api::UpdateSchedulerRequest,
    targets: &Targets,
) -> Result<(Handle, Arc<Update>), Violations> {
    let mut v = Violations::default();
    let handle = scalar::handle(&mut v, Path::Root.field("handle"), &request.handle);
    let fields = settings::mask(
        &mut v,
        Path::Root.field("update_mask"),
        request.update_mask.as_ref(),
    );
    let asked = settings::masked(request.settings.unwrap_or_default(), &fields);
    let settings = settings::settings(&mut v, Path::Root.field("settings"), &asked, targets);
    v.into_result((handle, Arc::new(Update { settings, fields })))
}

pub(super) fn synchronization(
    request: &api::SynchronizationRequest,
) -> Result<StreamQuery, Violations> {
    let mut v = Violations::default();
    let handle = scalar::handle(&mut v, Path::Root.field("handle"), &request.handle);
    if !request.resume_token.is_empty() {
        let resumed = StreamQuery::resumed(handle, &request.resume_token);
        if resumed.is_none() {
            v.add(
                Path::Root.field("resume_token"),
                Reason::ResumeTokenInvalid,
                "pass the token of the last message received, and the scheduler of its stream",
            );
        }
        v.into_result(())?;
        return resumed.ok_or_else(Violations::default);
    }
    if request.after < 0 {
        v.add(
            Path::Root.field("after"),
            Reason::CursorNegative,
            "0 is before the first event",
        );
    }
    let until = until(&mut v, Path::Root.field("until"), request.until.as_ref());
    v.into_result(StreamQuery {
        handle,
        after: DoneNo(request.after),
        until,
        last_seq: None,
    })
}

/// The interval of WatchExecutions.
pub(super) fn interval(request: &api::WatchExecutionsRequest) -> Result<Duration, Violations> {
    let mut v = Violations::default();
    let asked = request.interval.as_ref();
    let asked = asked.map_or(Some(WATCH_INTERVAL), scalar::well_formed);
    let interval = asked.filter(|interval| WATCH_INTERVALS.contains(interval));
    if interval.is_none() {
        v.add(
            Path::Root.field("interval"),
            Reason::IntervalOutOfRange,
            "must be 100 ms to 60 s, or left out for 1 s",
        );
    }
    v.into_result(interval.unwrap_or(WATCH_INTERVAL))
}

fn until(v: &mut Violations, path: Path<'_>, asked: Option<&api::Until>) -> Until {
    let Some(asked) = asked else {
        return Until::All;
    };
    match asked.kind {
        Some(Kind::All(_)) => Until::All,
        Some(Kind::Order(order)) => Until::Order(scalar::order(v, path.field("order"), order)),
        Some(Kind::Count(count)) => {
            if count < 1 {
                v.add(
                    path.field("count"),
                    Reason::CountOutOfRange,
                    "must be at least 1",
                );
            }
            Until::Count(count.max(1) as u64)
        }
        Some(Kind::FirstFailure(_)) => Until::FirstFailure,
        Some(Kind::Forever(_)) => Until::Forever,
        None => {
            v.add(
                path,
                Reason::UntilMissing,
                "set one of all, order, count, first_failure or forever",
            );
            Until::All
        }
    }
}
