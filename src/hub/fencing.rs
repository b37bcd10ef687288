//! Which executors may still run what, as a pure machine: after a takeover, and when an executor
//! is lost. Its state ends with the ownership.
//!
//! Invariants: a task that may have run on a host is given back only when the host has reported, or
//! when it can open no more sessions and all of its sessions are known to have ended. A session is
//! forgotten only when what follows from its end is durable; until then the next owner would fence
//! it again.

mod clearing;
#[cfg(test)]
mod tests;

use super::{
    event::{Answer, Effect, Enrolled, Life, Moment, RegisterRequest, RequestNo},
    executor_pool::ExecutorPool,
};
use crate::{
    core::{Command, Epoch, Unresolved, Work},
    executor_protocol::Host,
    journal::Session,
};
use clearing::{Cause, Clearing};
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::Duration,
};

/// How long an executor may take to report to a new owner, or to come back: two heartbeats and a
/// bit. One that is known to have ended is not waited for.
const REPORT_TIMEOUT: Duration = Duration::from_millis(2_500);
/// Pause before a failed request is tried again, and between looks at who has ended.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Something asked for, until it is answered.
#[derive(Debug)]
enum Request {
    NotFenced,
    /// Whether those who are absent have ended.
    Look,
    Fence(Host, Cause),
    SessionsOfFenced(Cause),
    EndSession(u64, Session),
    /// Asks the loop about what follows from the end of these sessions.
    Settle(u64),
    Forget(Session),
    Resolve(Unresolved),
}

/// What is due at a time.
#[derive(Debug)]
enum Timer {
    Retry(Request),
    /// An absent host has had its time.
    Absent(Host),
}

/// Why a host is waited for, and until when.
#[derive(Clone, Copy, Debug)]
struct Absence {
    cause: Cause,
    until: Duration,
}

/// Fencing on behalf of one ownership.
#[derive(Debug, Default)]
pub(crate) struct Fencing {
    since: Epoch,
    /// Kinds of work to be cleared when no host is awaited any more; `None`: they are cleared, or
    /// no other replica has owned the shard.
    inherited: Option<Vec<Work>>,
    /// Hosts that must report or be fenced before that; `None`: the register has not named them
    /// yet.
    awaited: Option<BTreeSet<Host>>,
    /// Who has time to report, or to come back, unless it is found to have ended.
    absent: BTreeMap<Host, Absence>,
    /// A look at them is under way.
    looking: bool,
    requests: BTreeMap<RequestNo, Request>,
    timers: BTreeMap<(Duration, u64), Timer>,
    clearings: BTreeMap<u64, Clearing>,
    serial: u64,
}

impl Fencing {
    /// Begins afresh, when others have owned the shard; `serial`: the last number used.
    pub(crate) fn begin(since: Epoch, inherited: Option<Vec<Work>>, serial: u64) -> Self {
        Fencing {
            since,
            inherited,
            serial,
            ..Fencing::default()
        }
    }

    /// Nobody is waited for, nothing is asked, and nothing is to be cleared.
    pub(crate) fn is_settled(&self) -> bool {
        self.inherited.is_none()
            && self.absent.is_empty()
            && self.requests.is_empty()
            && self.timers.is_empty()
            && self.clearings.is_empty()
    }

    /// The last number used.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// After a takeover: waits for executors that live, fences the others, and tells the core kind
    /// by kind that nothing else runs.
    pub(crate) fn reconcile(&mut self, pool: &mut ExecutorPool) {
        self.request(Request::NotFenced, pool);
    }

    /// An executor has joined the pool: it is awaited no more.
    pub(crate) fn on_join(&mut self, pool: &mut ExecutorPool) {
        self.absent.retain(|host, _| pool.id_of(*host).is_none());
        self.close_if_reported(pool);
    }

    /// An executor that had reported is gone: unless it comes back soon it is fenced, and what it
    /// was given goes to others.
    pub(crate) fn on_lost(&mut self, now: Moment, host: Host, pool: &mut ExecutorPool) {
        self.wait_for(now, host, Cause::Lost(host), pool);
        if !mem::replace(&mut self.looking, true) {
            self.request(Request::Look, pool);
        }
    }

    /// Has a target say whether a task has committed that runs nowhere any more.
    pub(crate) fn resolve(&mut self, unresolved: Unresolved, pool: &mut ExecutorPool) {
        self.request(Request::Resolve(unresolved), pool);
    }

    /// Does what is due.
    pub(crate) fn on_time(&mut self, now: Moment, pool: &mut ExecutorPool) {
        while let Some(entry) = self.timers.first_entry()
            && entry.key().0 <= now.uptime
        {
            match entry.remove() {
                Timer::Retry(request) => self.request(request, pool),
                Timer::Absent(host) => {
                    let waited_for = self.absent.get(&host);
                    if waited_for.is_some_and(|one| one.until <= now.uptime) {
                        self.fence_absent(host, pool);
                    }
                }
            }
        }
    }

    /// When something is due.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.timers.keys().next().map(|(at, _)| *at)
    }

    /// A request has been answered. Answers of an earlier ownership are not known any more.
    pub(crate) fn on_answer(
        &mut self,
        now: Moment,
        no: RequestNo,
        answer: Answer,
        pool: &mut ExecutorPool,
    ) {
        let Some(request) = self.requests.remove(&no) else {
            return;
        };
        match (request, answer) {
            (Request::NotFenced, Answer::Executors(others)) => {
                self.await_reports(now, others, pool);
            }
            (Request::Look, Answer::Executors(others)) => {
                self.looking = false;
                self.fence_ended(&others, pool);
                self.look_later(now, pool);
            }
            (Request::Fence(host, cause), Answer::Fenced(true)) => {
                self.on_fenced(host, cause, pool);
            }
            (Request::SessionsOfFenced(cause), Answer::Sessions(sessions)) => {
                self.end_sessions(cause, sessions, pool);
            }
            (Request::EndSession(clearing, _), Answer::Done) => self.on_ended(clearing, pool),
            (Request::Settle(clearing), Answer::Done) => self.forget_sessions(clearing, pool),
            (Request::Forget(_), Answer::Done) => {}
            (Request::Resolve(_), Answer::Resolved(completion)) => {
                let completed = Command::Completed(vec![completion]);
                pool.effects.push(Effect::Command(completed));
            }
            // Only the present owner fences: who has been overtaken tries until its ownership ends.
            (request, _) => self.set_timer(now, RETRY_PAUSE, Timer::Retry(request), pool),
        }
    }

    fn await_reports(&mut self, now: Moment, others: Vec<Enrolled>, pool: &mut ExecutorPool) {
        self.awaited = Some(others.iter().map(host).collect());
        let missing = others
            .iter()
            .filter(|other| !pool.has_reported(host(other)));
        let missing: Vec<&Enrolled> = missing.collect();
        for other in missing {
            self.wait_for(now, host(other), Cause::Takeover, pool);
            if other.life != Life::Alive {
                self.fence_absent(host(other), pool);
            }
        }
        self.look_later(now, pool);
        self.close_if_reported(pool);
    }

    fn wait_for(&mut self, now: Moment, host: Host, cause: Cause, pool: &mut ExecutorPool) {
        let until = now.uptime + REPORT_TIMEOUT;
        self.absent.insert(host, Absence { cause, until });
        self.set_timer(now, REPORT_TIMEOUT, Timer::Absent(host), pool);
    }

    /// Those who have ended are waited for no longer. Who is silent may have been kept from the
    /// database, and comes back in time.
    fn fence_ended(&mut self, others: &[Enrolled], pool: &mut ExecutorPool) {
        for ended in others.iter().filter(|other| other.life == Life::Ended) {
            self.fence_absent(host(ended), pool);
        }
    }

    fn look_later(&mut self, now: Moment, pool: &mut ExecutorPool) {
        if !self.absent.is_empty() && !mem::replace(&mut self.looking, true) {
            self.set_timer(now, RETRY_PAUSE, Timer::Retry(Request::Look), pool);
        }
    }

    fn fence_absent(&mut self, host: Host, pool: &mut ExecutorPool) {
        let Some(Absence { cause, .. }) = self.absent.remove(&host) else {
            return;
        };
        let has_reported = cause == Cause::Takeover && pool.has_reported(host);
        if !has_reported && pool.shut_out(host) {
            self.request(Request::Fence(host, cause), pool);
        }
    }

    /// Nobody is awaited any more: what is left are the sessions of fenced executors.
    fn close_if_reported(&mut self, pool: &mut ExecutorPool) {
        let Some(awaited) = &mut self.awaited else {
            return;
        };
        awaited.retain(|host| !pool.has_reported(*host));
        if awaited.is_empty() {
            self.awaited = None;
            self.request(Request::SessionsOfFenced(Cause::Takeover), pool);
        }
    }

    fn on_fenced(&mut self, host: Host, cause: Cause, pool: &mut ExecutorPool) {
        match cause {
            Cause::Takeover => {
                if let Some(awaited) = &mut self.awaited {
                    awaited.remove(&host);
                }
                self.close_if_reported(pool);
            }
            Cause::Lost(_) => self.request(Request::SessionsOfFenced(cause), pool),
        }
    }

    /// Sessions of a lost executor that has reported are ended on its behalf, all others after the
    /// takeover.
    fn end_sessions(&mut self, cause: Cause, sessions: Vec<Session>, pool: &mut ExecutorPool) {
        let works: Vec<Work> = match cause {
            Cause::Takeover => self.inherited.take().unwrap_or_default(),
            Cause::Lost(host) => pool.given_to(host).collect(),
        };
        let mut left: BTreeMap<Work, Vec<Session>> =
            works.into_iter().map(|work| (work, Vec::new())).collect();
        for session in sessions {
            let host = Host {
                replica: session.replica,
                incarnation: session.incarnation,
            };
            let concerned = match cause {
                Cause::Takeover => !pool.has_reported_as(host),
                Cause::Lost(lost) => host == lost,
            };
            if concerned {
                let target = session.target.clone();
                left.entry(Work::Sql { target }).or_default().push(session);
            }
        }
        for (work, sessions) in left {
            self.clear(cause, work, sessions, pool);
        }
    }

    fn clear(&mut self, cause: Cause, work: Work, sessions: Vec<Session>, pool: &mut ExecutorPool) {
        let clearing = self.next();
        for session in &sessions {
            self.request(Request::EndSession(clearing, session.clone()), pool);
        }
        let open = sessions.len();
        let entry = Clearing {
            cause,
            work,
            sessions,
            open,
        };
        self.clearings.insert(clearing, entry);
        if open == 0 {
            self.conclude(clearing, pool);
        }
    }

    fn on_ended(&mut self, clearing: u64, pool: &mut ExecutorPool) {
        let Some(entry) = self.clearings.get_mut(&clearing) else {
            return;
        };
        entry.open -= 1;
        if entry.open == 0 {
            self.conclude(clearing, pool);
        }
    }

    /// Nothing of this kind runs any more on those hosts.
    fn conclude(&mut self, clearing: u64, pool: &mut ExecutorPool) {
        let entry = &self.clearings[&clearing];
        if let Cause::Lost(host) = entry.cause {
            pool.end_fenced(host, &entry.work, entry.unreported());
        }
        self.request(Request::Settle(clearing), pool);
    }

    /// What follows from their end is durable.
    fn forget_sessions(&mut self, clearing: u64, pool: &mut ExecutorPool) {
        let entry = self.clearings.remove(&clearing);
        for session in entry.into_iter().flat_map(|entry| entry.sessions) {
            self.request(Request::Forget(session), pool);
        }
    }

    fn request(&mut self, request: Request, pool: &mut ExecutorPool) {
        let no = RequestNo(self.next());
        let register = |request| Effect::Register(no, request);
        let effect = match &request {
            Request::NotFenced | Request::Look => register(RegisterRequest::NotFenced),
            Request::Fence(host, _) => register(RegisterRequest::Fence(*host, pool.epoch)),
            Request::SessionsOfFenced(_) => register(RegisterRequest::SessionsOfFenced),
            Request::EndSession(_, session) => Effect::EndSession(no, session.clone()),
            Request::Resolve(unresolved) => Effect::Resolve(no, unresolved.clone()),
            Request::Settle(clearing) => Effect::Ask(no, self.settling(*clearing)),
            Request::Forget(session) => register(RegisterRequest::Forget(session.clone())),
        };
        self.requests.insert(no, request);
        pool.effects.push(effect);
    }

    /// The loop answers a command when everything up to it is durable.
    fn settling(&self, clearing: u64) -> Command {
        let entry = &self.clearings[&clearing];
        match entry.cause {
            Cause::Takeover => Command::Cleared {
                work: Some(entry.work.clone()),
                unreported: entry.unreported(),
                since: self.since,
            },
            Cause::Lost(_) => Command::Status,
        }
    }

    fn set_timer(&mut self, now: Moment, after: Duration, timer: Timer, pool: &mut ExecutorPool) {
        let key = (now.uptime + after, self.next());
        self.timers.insert(key, timer);
        pool.effects.push(Effect::Wake(after));
    }
}

fn host(enrolled: &Enrolled) -> Host {
    Host {
        replica: enrolled.replica,
        incarnation: enrolled.incarnation,
    }
}
