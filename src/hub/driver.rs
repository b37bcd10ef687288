//! Runs the hub's machine in the server: feeds it from sessions, the coordinator's loop and the
//! register, and carries out its effects. It decides nothing.
//!
//! Effects are carried out under the lock of the machine, so that an executor is told in the order
//! in which the machine decided. Nothing here waits under the lock: an executor that does not keep
//! up is let go, and reports again.

mod register;
mod routes;

use super::{
    event::{Answer, Effect, Event, Moment, RequestNo},
    machine::HubMachine,
};
use crate::{
    clock::Clock,
    core::{
        Assignment, Attempt, Command, Epoch, Handle, InDoubtWindow, Report, Seq, Time, Unresolved,
        Work,
    },
    executor::Executor,
    executor_protocol::{Admission, Body, ExecutorId, ExecutorReport, Hello, Instruction},
    journal::{JournalError, Membership, Replica, Sessions},
};
use register::Register;
use rustc_hash::FxHashMap;
use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use tokio::{
    runtime,
    sync::{Notify, mpsc, oneshot, watch},
    task::yield_now,
};
use tokio_util::sync::CancellationToken;

/// What the hub runs on.
pub(crate) struct Parts {
    pub replica: Replica,
    pub noop_slots: u32,
    pub clock: Clock,
    /// The executor of this process.
    pub executor: Executor,
    /// The register of executors and sessions.
    pub sessions: Sessions,
    /// Which replicas are there.
    pub membership: watch::Receiver<Membership>,
    /// Where executors report.
    pub reports: mpsc::Sender<ExecutorReport>,
}

/// A handle of the hub. Cheap to clone.
#[derive(Clone)]
pub struct Hub(Arc<Shared>);

struct Shared {
    parts: Parts,
    state: Mutex<State>,
    /// There is something for the loop.
    ready: Notify,
    started: Instant,
    runtime: runtime::Handle,
}

struct State {
    machine: HubMachine,
    routes: FxHashMap<ExecutorId, Route>,
    /// Hellos that are not answered yet.
    hellos: FxHashMap<ExecutorId, (oneshot::Sender<Admission>, Remote)>,
    /// What the loop must know, in this order.
    commands: Vec<HubCommand>,
    /// Ends with the ownership, and with it what is under way on its behalf.
    ownership_scope: CancellationToken,
    last_member: u64,
}

/// What the loop must know; with a number, it is to answer when everything up to it is durable.
pub(crate) struct HubCommand {
    pub command: Command,
    pub asked: Option<RequestNo>,
}

/// The way to an executor.
enum Route {
    /// It is in this process.
    Local,
    Remote(Remote),
}

/// Bounded: an executor that does not keep up is let go.
struct Remote {
    name: Arc<str>,
    out: mpsc::Sender<Instruction>,
}

impl Hub {
    /// Started inside a tokio runtime, on which its requests run.
    pub(crate) fn start(parts: Parts) -> Self {
        let machine = HubMachine::new(parts.replica.id, parts.noop_slots);
        let state = State {
            machine,
            routes: FxHashMap::default(),
            hellos: FxHashMap::default(),
            commands: Vec::new(),
            ownership_scope: CancellationToken::new(),
            last_member: 0,
        };
        Hub(Arc::new(Shared {
            parts,
            state: Mutex::new(state),
            ready: Notify::new(),
            started: Instant::now(),
            runtime: runtime::Handle::current(),
        }))
    }

    /// Before the journal is read by a new owner: what others may have been running. An executor
    /// that was fenced meanwhile begins afresh.
    pub(crate) async fn prepare(&self) -> Result<InDoubtWindow, JournalError> {
        let parts = &self.0.parts;
        let (sessions, executor) = (&parts.sessions, &parts.executor);
        sessions
            .return_from_fence(|| executor.capacity(), || executor.give_up())
            .await?;
        sessions.window(parts.clock.now()).await
    }

    /// An ownership begins; `inherited`: others have owned the shard since the last one, and had
    /// slots for these.
    pub(crate) fn begin(&self, epoch: Epoch, mut inherited: Option<Vec<Work>>) {
        if let Some(works) = &mut inherited {
            let capacity = self.0.parts.executor.capacity();
            works.extend(capacity.into_iter().map(|(work, _)| work));
        }
        let mut state = self.state();
        let member = state.new_member();
        let begin = Event::Begin {
            epoch,
            inherited,
            member,
        };
        self.step(&mut state, begin);
    }

    /// The shard is another's: everybody goes.
    pub(crate) fn disband(&self) {
        self.feed(Event::Disband);
    }

    /// Takes an executor in that means to work for the present ownership; it is told what to do
    /// through `out`.
    pub(crate) async fn admit(&self, hello: Hello, out: mpsc::Sender<Instruction>) -> Admission {
        let (answer, admission) = oneshot::channel();
        let remote = Remote {
            name: hello.name.clone(),
            out,
        };
        {
            let mut state = self.state();
            let member = state.new_member();
            state.hellos.insert(member, (answer, remote));
            self.step(&mut state, Event::Hello(member, hello));
        }
        self.0.ready.notify_one();
        admission.await.unwrap_or(Admission::NotNow)
    }

    /// Passes on what an executor reports, or the end of its session; false: nobody listens any
    /// more.
    pub(crate) async fn report(&self, report: ExecutorReport) -> bool {
        self.0.parts.reports.send(report).await.is_ok()
    }

    /// What an executor has reported, as the loop takes it up.
    pub(crate) fn take_in(&self, report: ExecutorReport) {
        self.feed(Event::Report(report));
    }

    /// Hands these out. Work without a session is done when this returns.
    pub(crate) fn dispatch(&self, work: Vec<(Assignment, Option<Body>)>) {
        if !work.is_empty() {
            self.feed(Event::Dispatch(work));
        }
    }

    /// Returns when what was handed out here has sent its texts, and was passed on elsewhere.
    pub(crate) async fn texts_sent(&self) {
        if !self.0.parts.executor.texts_sent().await {
            yield_now().await;
        }
    }

    pub(crate) fn stop(&self, handle: Handle, first: Seq, attempt: Attempt) {
        self.feed(Event::Stop {
            handle,
            first,
            attempt,
        });
    }

    /// An assignment is not handed out after all, as the report says.
    pub(crate) fn decline(&self, assignment: Assignment, report: Report) {
        self.feed(Event::Decline(assignment, report));
    }

    /// A target is to say what became of a task that runs nowhere any more.
    pub(crate) fn resolve(&self, unresolved: Unresolved) {
        self.feed(Event::Resolve(unresolved));
    }

    /// The completions of these are durable.
    pub(crate) fn over(&self, over: Vec<(Handle, Seq, Attempt)>) {
        if !over.is_empty() {
            self.feed(Event::Over(over));
        }
    }

    /// Deletes the markers of tasks that ended before this time, unless somebody may still ask for
    /// one of them.
    pub(crate) async fn prune_markers(&self, before: Time) {
        let unasked = self.state().machine.unasked_before(before);
        if let Some(before) = unasked {
            self.0.parts.executor.prune_markers(before).await;
        }
    }

    /// Whether there is something for the loop.
    pub(crate) fn has_commands(&self) -> bool {
        !self.state().commands.is_empty()
    }

    /// Has the loop take up what came of something that was not done by itself.
    pub(crate) fn wake(&self) {
        if self.has_commands() {
            self.0.ready.notify_one();
        }
    }

    /// What the loop must know.
    pub(crate) fn take_commands(&self) -> Vec<HubCommand> {
        mem::take(&mut self.state().commands)
    }

    /// Resolves when something has come in for the loop from elsewhere.
    pub(crate) async fn ready(&self) {
        self.0.ready.notified().await;
    }

    /// The loop has taken a question up, and answers here; a lost answer is a failure.
    pub(crate) fn await_answer<T: Send + 'static>(
        &self,
        no: RequestNo,
        answer: oneshot::Receiver<T>,
    ) {
        let answer = async move {
            match answer.await {
                Ok(_) => Answer::Done,
                Err(_) => Answer::Failed,
            }
        };
        let scope = self.state().ownership_scope.clone();
        self.request(scope, no, answer);
    }

    fn feed(&self, event: Event) {
        self.step(&mut self.state(), event);
    }

    fn step(&self, state: &mut State, event: Event) {
        let now = Moment {
            time: self.0.parts.clock.now(),
            uptime: self.0.started.elapsed(),
        };
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for effect in state.machine.step(now, event) {
                events.extend(self.carry_out(state, effect));
            }
        }
    }

    /// Says what follows at once.
    fn carry_out(&self, state: &mut State, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Command(command) => state.commands.push(HubCommand {
                command,
                asked: None,
            }),
            Effect::Ask(no, command) => state.commands.push(HubCommand {
                command,
                asked: Some(no),
            }),
            Effect::Send(member, instruction) => return self.send(state, member, instruction),
            Effect::HangUp(member) => drop(state.routes.remove(&member)),
            Effect::Attach(member, epoch) => return self.attach(state, member, epoch),
            Effect::Admit(member, admission) => state.admit(member, admission),
            Effect::Register(no, request) => {
                let parts = &self.0.parts;
                let register = Register::new(&parts.sessions, &parts.membership, &parts.replica);
                let answer = async move { register.ask(request).await };
                self.request(state.ownership_scope.clone(), no, answer);
            }
            Effect::EndSession(no, session) => {
                let executor = self.0.parts.executor.clone();
                let answer = async move {
                    executor.end_session(&register::on_target(session)).await;
                    Answer::Done
                };
                self.request(state.ownership_scope.clone(), no, answer);
            }
            Effect::Resolve(no, unresolved) => {
                let executor = self.0.parts.executor.clone();
                let answer = async move { Answer::Resolved(executor.resolve(&unresolved).await) };
                self.request(state.ownership_scope.clone(), no, answer);
            }
            Effect::Wake(after) => {
                let this = self.clone();
                let wake = async move {
                    tokio::time::sleep(after).await;
                    this.feed(Event::TimePassed);
                    this.0.ready.notify_one();
                };
                let scope = state.ownership_scope.clone();
                self.0.runtime.spawn(scope.run_until_cancelled_owned(wake));
            }
            Effect::EndOfOwnership => {
                state.commands.clear();
                mem::take(&mut state.ownership_scope).cancel();
            }
        }
        None
    }

    /// Runs a request on behalf of the ownership, and feeds its answer.
    fn request<F>(&self, scope: CancellationToken, no: RequestNo, answer: F)
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let this = self.clone();
        let request = async move {
            let answer = answer.await;
            this.feed(Event::Answered(no, answer));
            this.0.ready.notify_one();
        };
        self.0
            .runtime
            .spawn(scope.run_until_cancelled_owned(request));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
