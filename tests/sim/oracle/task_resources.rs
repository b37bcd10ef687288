//! Tasks that hold resources: an attempt starts with all of them on record and their token, and has
//! them exactly as long as it lasts; and a task that could have them does not wait beside a free
//! slot.

use super::{
    Oracle,
    model::Task,
    resources::{ROUNDING, Resources},
};
use rallypoint::core::{Assignment, ClaimNo, Namespace, Seq, TaskId, Time, Token, Want, Work};

impl Oracle {
    /// What starts holds all that it wants, by the journal.
    pub(super) fn holds_its_resources(&self, assignment: &Assignment) {
        let task = TaskId {
            handle: assignment.handle,
            seq: assignment.first,
        };
        let name = format_args!("{}/{}", task.handle, task.seq.0);
        let wants = &assignment.spec.options.resources;
        let held = self.resources.of_task(task);
        if wants.is_empty() {
            assert!(held.is_none(), "{name} holds what it never wanted");
            assert_eq!(assignment.resource_token, None, "{name} has a token");
            return;
        }
        let Some((held, token)) = held else {
            panic!("{name} starts without its resources");
        };
        assert_eq!(held, &wants[..], "{name} starts with other resources");
        assert_eq!(assignment.resource_token, token, "{name} has another token");
    }

    /// Nothing is under way: what runs holds its resources, but for what an operator has ended, and
    /// nothing else does.
    pub(super) fn what_runs_holds_its_resources(&self) {
        for (no, task) in self.resources.tasks() {
            let at = self.at(task.handle);
            let known = at.and_then(|at| self.schedulers[at].task(task.seq));
            let name = format_args!("{}/{}", task.handle, task.seq.0);
            let known = known.unwrap_or_else(|| panic!("{name} was never submitted"));
            let runs = known.ended.is_none() && known.running.is_some();
            assert!(runs, "{name} does not run and has claim {}", no.0);
        }
        for scheduler in &self.schedulers {
            let tasks = scheduler.tasks.iter().zip(1..);
            for (task, seq) in tasks.filter(|(task, _)| task.running.is_some()) {
                let seq = Seq(seq);
                let id = TaskId {
                    handle: scheduler.handle,
                    seq,
                };
                let holds = self.resources.of_task(id).is_some();
                let wants = !task.spec.options.resources.is_empty();
                assert_eq!(holds, wants, "{}/{} runs", id.handle, seq.0);
            }
        }
    }
}

impl Resources {
    /// The open claims of tasks.
    fn tasks(&self) -> impl Iterator<Item = (ClaimNo, TaskId)> {
        let open = self
            .claims
            .iter()
            .filter(|(_, claim)| claim.free_at.is_none());
        open.filter_map(|(no, claim)| Some((*no, claim.spec.task?)))
    }

    /// What a task holds, and with which token.
    fn of_task(&self, task: TaskId) -> Option<(&[Want], Option<Token>)> {
        let (no, _) = self.tasks().find(|(_, of)| *of == task)?;
        let claim = &self.claims[&no];
        Some((&claim.spec.wants, claim.token))
    }

    /// Whether a task could surely have what it wants, whatever its place among those who wait.
    pub(super) fn could_have(&self, namespace: &Namespace, task: &Task, now: Time) -> bool {
        let wants = &task.spec.options.resources;
        if wants.is_empty() || task.spec.work == Work::Noop {
            return true;
        }
        let last = ClaimNo(i64::MAX);
        !self.keeps_for_tasks() && self.is_free(namespace, wants, last, now, now - ROUNDING)
    }
}
