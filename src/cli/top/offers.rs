//! Which actions there are for what is selected. One that the caller may not do is not offered: the
//! table of what each method needs, by which the server judges calls, says so here, too.

use super::{
    call::Call,
    dialog::Dialog,
    subject::{Progress, Standstill, Subject, TaskName},
    units::{at, counted, short},
};
use crate::identity::{Access, Role, access};
use rallypoint_client::{
    Identity,
    api::{PauseMode, ReleaseMode, SchedulerState, StopMode},
};

/// A key that asks for an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hotkey {
    Letter(char),
    /// Together with Ctrl.
    Control(char),
}

/// An action that is offered, with the question it asks first.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Offer {
    pub(super) hotkey: Hotkey,
    pub(super) name: &'static str,
    pub(super) dialog: Dialog,
}

/// What a caller may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rights {
    role: Option<Role>,
    everywhere: Option<Role>,
}

impl Rights {
    /// As the server says. Where it does not say, everything is offered, and the server decides.
    pub(super) fn of(identity: Option<&Identity>) -> Rights {
        let role = |name: &str| match name {
            "reader" => Some(Role::Reader),
            "submitter" => Some(Role::Submitter),
            "operator" => Some(Role::Operator),
            "admin" => Some(Role::Admin),
            _ => None,
        };
        match identity {
            Some(identity) => Rights {
                role: role(&identity.role),
                everywhere: role(&identity.everywhere),
            },
            None => Rights {
                role: Some(Role::Admin),
                everywhere: Some(Role::Admin),
            },
        }
    }

    /// Whether the server lets the caller do this.
    fn allow(self, call: &Call) -> bool {
        match access(call.path()) {
            Some(Access::In(role)) => self.role >= Some(role),
            Some(Access::Everywhere(role)) => self.everywhere >= Some(role),
            Some(Access::Known | Access::Anybody) => true,
            None => false,
        }
    }
}

const END: Hotkey = Hotkey::Control('d');

/// Actions for a subject. `whole`: it is what the view is about, and not one of its rows.
pub(super) fn of(subject: &Subject, whole: bool, rights: Rights) -> Vec<Offer> {
    let mut offers = match subject {
        Subject::Scheduler {
            state,
            standstill,
            handle,
            name,
        } => {
            let one = Named { handle, name };
            scheduler(*state, *standstill, &one, whole)
        }
        Subject::Task(task, progress) => self::task(task, *progress),
        Subject::Claim(claim, owner) => vec![force_release(*claim, owner)],
        Subject::Job {
            name,
            paused,
            claimed,
        } => job(name, *paused, *claimed),
        Subject::Run(name, due) => vec![cancel_run(name, *due)],
        Subject::Agent { stopped } => vec![agent(*stopped)],
        Subject::Target { name, paused } => vec![target(Some(name), *paused)],
        Subject::AllTargets { paused } => vec![target(None, *paused)],
        Subject::Fence { target, replica } => vec![declare_dead(target, replica)],
    };
    offers.retain(|offer| rights.allow(offer.dialog.call()));
    offers
}

fn offer(hotkey: Hotkey, name: &'static str, dialog: Dialog) -> Offer {
    let dialog = dialog.confirmed_by(name);
    Offer {
        hotkey,
        name,
        dialog,
    }
}

fn task(task: &TaskName, progress: Progress) -> Vec<Offer> {
    let named = format!("task {} of {}", task.seq, short(&task.handle));
    let cancel = |text| {
        let call = Call::CancelTask(task.clone());
        let title = format!("Cancel {named}?");
        vec![offer(END, "Cancel task", Dialog::new(call, title, text))]
    };
    match progress {
        Progress::Waits => cancel("It ends as cancelled and never starts."),
        Progress::Runs => {
            cancel("Its statement is stopped on the target, as by pg_cancel_backend.")
        }
        Progress::Failed => {
            let text = "A copy is submitted under a new number. Whatever the task did before it \
                        ended, the copy does again.";
            let call = Call::RetryTask(task.clone());
            let title = format!("Retry {named}?");
            vec![offer(
                Hotkey::Letter('r'),
                "Retry task",
                Dialog::new(call, title, text),
            )]
        }
        Progress::Succeeded | Progress::Over => Vec::new(),
    }
}

/// A scheduler as a question names it: several may have one name, and a handle says little.
struct Named<'a> {
    handle: &'a str,
    name: &'a str,
}

impl Named<'_> {
    fn handle(&self) -> String {
        self.handle.to_owned()
    }

    /// `nightly (…abcd1234)`.
    fn text(&self) -> String {
        match self.name {
            "" => short(self.handle),
            name => format!("{name} ({})", short(self.handle)),
        }
    }
}

fn scheduler(
    state: SchedulerState,
    standstill: Standstill,
    one: &Named<'_>,
    whole: bool,
) -> Vec<Offer> {
    if state == SchedulerState::Released {
        return Vec::new();
    }
    let (own, named) = (|| one.handle(), one.text());
    let mut offers = vec![pause(standstill.paused, one)];
    if standstill.halted {
        let call = Call::ResumeScheduler {
            handle: own(),
            ignore_failures: true,
        };
        let text = "Its later orders continue despite failures, as if nothing had failed.";
        let dialog = Dialog::new(call, format!("Go on with {named}?"), text);
        offers.push(offer(Hotkey::Letter('i'), "Go on despite failures", dialog));
    }
    if state == SchedulerState::Open {
        let text = "Each task that failed and has no retry yet is submitted again, as a copy.";
        let title = format!("Retry what failed of {named}?");
        let dialog = Dialog::new(Call::RetryFailed(own()), title, text);
        offers.push(offer(Hotkey::Letter('f'), "Retry failed", dialog));
    }
    let waiting = counted(standstill.waiting, "task");
    let text =
        format!("What waits ({waiting}) ends as cancelled and never starts. What runs goes on.");
    let title = format!("Cancel what waits of {named}?");
    let dialog = Dialog::new(Call::CancelWaiting(own()), title, text);
    offers.push(offer(Hotkey::Letter('w'), "Cancel waiting", dialog));
    offers.push(release(one, whole));
    offers
}

fn pause(paused: bool, one: &Named<'_>) -> Offer {
    let (handle, named) = (one.handle(), one.text());
    let hotkey = Hotkey::Letter('p');
    if paused {
        let call = Call::ResumeScheduler {
            handle,
            ignore_failures: false,
        };
        let title = format!("Resume {named}?");
        let dialog = Dialog::new(call, title, "Its tasks may start again.");
        return offer(hotkey, "Resume", dialog);
    }
    let text = "No more tasks start until it is resumed. What runs goes on.";
    let title = format!("Pause {named}?");
    offer(
        hotkey,
        "Pause",
        Dialog::new(Call::PauseScheduler(handle), title, text),
    )
}

fn release(one: &Named<'_>, whole: bool) -> Offer {
    let (handle, mode) = (one.handle(), ReleaseMode::Finish);
    let call = Call::Release { handle, mode };
    let title = format!("Release {}?", one.text());
    let dialog = Dialog::new(call, title, "It takes no more tasks.").with_choice(
        "Tasks that have not ended",
        ["let them finish", "cancel them"],
    );
    // In the view of a scheduler Ctrl-D is for the task that is selected.
    let hotkey = if whole { Hotkey::Letter('R') } else { END };
    offer(hotkey, "Release", dialog)
}

fn force_release(claim: i64, owner: &str) -> Offer {
    let reason = String::new();
    let text = format!(
        "{owner} does not know, and may go on as if it held the resource. Others get it after the \
         lock delay. This is kept with your name and the reason."
    );
    let title = format!("End claim {claim} by force?");
    let dialog = Dialog::new(Call::ForceRelease { claim, reason }, title, text);
    offer(END, "Force release", dialog.with_reason())
}

fn job(name: &str, paused: bool, claimed: bool) -> Vec<Offer> {
    let mut offers = Vec::new();
    if !claimed {
        let text = "A run begins now, also if the job is paused. It waits for its turn if the job's \
                    overlap rule says so.";
        let title = format!("Run {name} now?");
        let dialog = Dialog::new(Call::RunJob(name.to_owned()), title, text);
        offers.push(offer(Hotkey::Letter('r'), "Run now", dialog));
    }
    let name = name.to_owned();
    match paused {
        true => {
            let title = format!("Resume {name}?");
            let text = "It goes on with the next due time.";
            let dialog = Dialog::new(Call::ResumeJob(name), title, text);
            offers.push(offer(Hotkey::Letter('p'), "Resume", dialog));
        }
        false => {
            let title = format!("Pause {name}?");
            let text = "Nothing more of it starts: due times are skipped. What runs goes on.";
            let reason = String::new();
            let dialog = Dialog::new(Call::PauseJob { name, reason }, title, text);
            offers.push(offer(Hotkey::Letter('p'), "Pause", dialog.with_reason()));
        }
    }
    offers
}

fn cancel_run(name: &str, due: prost_types::Timestamp) -> Offer {
    let title = format!(
        "Cancel the run of {name} that was due at {}?",
        at(Some(&due), 0)
    );
    let name = name.to_owned();
    let dialog = Dialog::new(
        Call::CancelRun { name, due },
        title,
        "What is left of it is cancelled.",
    );
    offer(END, "Cancel run", dialog)
}

fn agent(stopped: bool) -> Offer {
    let hotkey = Hotkey::Letter('s');
    if stopped {
        let text = "Jobs of all namespaces are fired again. Due times since the stop go by each \
                    job's misfire rule.";
        let dialog = Dialog::new(Call::StartAgent, "Start the agent?", text);
        return offer(hotkey, "Start agent", dialog);
    }
    let call = Call::StopAgent {
        reason: String::new(),
        mode: StopMode::Drain,
    };
    let text = "No job of any namespace is fired until it is started again.";
    let dialog = Dialog::new(call, "Stop the agent?", text)
        .with_reason()
        .with_choice("Runs that go on", ["let them go on", "cancel them"]);
    offer(hotkey, "Stop agent", dialog)
}

/// `None`: all of them.
fn target(name: Option<&String>, paused: bool) -> Offer {
    let target = name.cloned();
    let reason = String::new();
    let said = target.clone().unwrap_or_else(|| "all targets".to_owned());
    let hotkey = Hotkey::Letter(if target.is_some() { 'p' } else { 'a' });
    if paused {
        let call = Call::ResumeTarget { target, reason };
        let dialog = Dialog::new(call, format!("Resume {said}?"), "Tasks start again.");
        let name = if name.is_some() {
            "Resume"
        } else {
            "Resume all"
        };
        return offer(hotkey, name, dialog.with_reason());
    }
    let mode = PauseMode::Drain;
    let call = Call::PauseTarget {
        target,
        reason,
        mode,
    };
    let text = "Nothing starts there, of any namespace, until it is resumed.";
    let dialog = Dialog::new(call, format!("Pause {said}?"), text)
        .with_reason()
        .with_choice(
            "What runs",
            ["goes on to its end", "is stopped, and runs again later"],
        );
    let name = if name.is_some() { "Pause" } else { "Pause all" };
    offer(hotkey, name, dialog)
}

fn declare_dead(target: &str, replica: &str) -> Offer {
    let text = format!(
        "Make sure first that no session of {replica} on {target} still runs: its tasks start again \
         at once, beside what may still run."
    );
    let call = Call::DeclareDead {
        target: target.to_owned(),
        replica: replica.to_owned(),
        reason: String::new(),
    };
    let dialog = Dialog::new(call, "Declare these sessions dead?", text);
    offer(END, "Declare dead", dialog.with_reason())
}

#[cfg(test)]
mod tests;
