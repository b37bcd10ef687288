//! The statements of the writer: one for each set of tables that a batch has rows for.
//!
//! Each consists of the batch row and one insert per table. The number of the batch is unique, so
//! that a batch is written only once, and not by an owner of before: whoever takes the shard over
//! takes the next number ([`TakeOver`](crate::journal::TakeOver)).

use super::{
    attempt::Attempts,
    columns::Table,
    completion::Completions,
    job::{
        Agents, Claims as RunClaims, Jobs, ON_AGENT_CONFLICT, ON_CLAIM_CONFLICT, ON_JOB_CONFLICT,
        ON_RUN_CONFLICT, ON_STATE_CONFLICT, Runs, States,
    },
    label::{self, SchedulerLabels, TaskLabels},
    resource::{Checkpoints, Claims, Definitions, ON_CHECKPOINT_CONFLICT, ON_RESOURCE_CONFLICT},
    row_count::Rows,
    scheduler::{ON_CONFLICT, Schedulers},
    submission::Submissions,
    target_pause::TargetPauses,
};
use std::{collections::HashMap, sync::OnceLock};

/// Which tables a batch has rows for, whether many, and whether any is of a retry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    pub submissions: Rows,
    pub completions: Rows,
    pub attempts: bool,
    pub schedulers: bool,
    /// Of tasks. Those of schedulers come with them.
    pub labels: bool,
    pub pauses: bool,
    pub retries: bool,
    /// Of resources; with them comes what a recovery needs of claims.
    pub definitions: bool,
    pub claims: Rows,
    /// Of jobs, of where they stand, of due times or of the agent.
    pub jobs: bool,
    /// Of runs of jobs.
    pub run_claims: bool,
}

const BATCH: &str = "
insert into batch (shard, batch_no, epoch, at)
values ($1, $3, $2, now())";

const SHAPES: usize = 6_912;
/// Parameters of every statement: the shard, the epoch, the number of the batch and its day.
const COMMON_PARAMETERS: usize = 4;

/// Each is built when it is needed first.
static STATEMENTS: [OnceLock<String>; SHAPES] = [const { OnceLock::new() }; SHAPES];

/// Every statement the writer may send, for a test to prepare.
pub fn statements() -> impl Iterator<Item = &'static str> {
    (0..SHAPES).map(|number| Shape::from_number(number).statement())
}

impl Shape {
    pub(super) fn statement(self) -> &'static str {
        STATEMENTS[self.number()].get_or_init(|| self.build())
    }

    fn number(self) -> usize {
        let flags = [
            self.attempts,
            self.schedulers,
            self.labels,
            self.pauses,
            self.retries,
            self.definitions,
            self.jobs,
            self.run_claims,
        ];
        let tables: usize = (0..)
            .zip(flags)
            .map(|(bit, flag)| usize::from(flag) << bit)
            .sum();
        let rows = [self.submissions, self.completions, self.claims];
        let rows = rows
            .iter()
            .rev()
            .fold(0, |sum, rows| 3 * sum + *rows as usize);
        rows + 27 * tables
    }

    fn from_number(number: usize) -> Self {
        let [submissions, completions, claims] = [1, 3, 9].map(|unit| Rows::ALL[number / unit % 3]);
        let tables = number / 27;
        Shape {
            submissions,
            completions,
            claims,
            attempts: tables & 1 != 0,
            schedulers: tables & 2 != 0,
            labels: tables & 4 != 0,
            pauses: tables & 8 != 0,
            retries: tables & 16 != 0,
            definitions: tables & 32 != 0,
            jobs: tables & 64 != 0,
            run_claims: tables & 128 != 0,
        }
    }

    /// The tables by the names of their inserts, with how many rows and what a row in the way does.
    fn inserts(self) -> Vec<(&'static str, Table, Rows, &'static str)> {
        let many = |any| if any { Rows::Many } else { Rows::None };
        vec![
            ("submitted", Submissions::TABLE, self.submissions, ""),
            ("completed", Completions::TABLE, self.completions, ""),
            ("attempted", Attempts::TABLE, many(self.attempts), ""),
            (
                "changed",
                Schedulers::TABLE,
                many(self.schedulers),
                ON_CONFLICT,
            ),
            (
                "found_by",
                SchedulerLabels::TABLE,
                many(self.schedulers),
                label::ON_CONFLICT,
            ),
            ("labelled", TaskLabels::TABLE, many(self.labels), ""),
            ("paused", TargetPauses::TABLE, many(self.pauses), ""),
            (
                "defined",
                Definitions::TABLE,
                many(self.definitions),
                ON_RESOURCE_CONFLICT,
            ),
            (
                "needed_by_recovery",
                Checkpoints::TABLE,
                many(self.definitions),
                ON_CHECKPOINT_CONFLICT,
            ),
            ("claimed", Claims::TABLE, self.claims, ""),
            ("job_defined", Jobs::TABLE, many(self.jobs), ON_JOB_CONFLICT),
            (
                "job_moved",
                States::TABLE,
                many(self.jobs),
                ON_STATE_CONFLICT,
            ),
            ("job_fired", Runs::TABLE, many(self.jobs), ON_RUN_CONFLICT),
            (
                "run_claimed",
                RunClaims::TABLE,
                many(self.run_claims),
                ON_CLAIM_CONFLICT,
            ),
            (
                "agent_changed",
                Agents::TABLE,
                many(self.jobs),
                ON_AGENT_CONFLICT,
            ),
        ]
    }

    fn build(self) -> String {
        let mut tables = Vec::new();
        let mut parameters = COMMON_PARAMETERS;
        // How many parameters come before those of each table.
        let mut before = HashMap::new();
        for (name, table, rows, on_conflict) in self.inserts() {
            if rows != Rows::None {
                before.insert(name, parameters);
                let (insert, count) = table.insert(rows, self.retries, parameters);
                tables.push(format!("{name} as ({insert}{on_conflict}\n)"));
                parameters = count;
            }
        }
        if self.schedulers {
            let delete = label::delete_former(before["changed"], before["found_by"]);
            tables.push(format!("no_longer as ({delete}\n)"));
        }
        let with = if tables.is_empty() { "" } else { "\nwith " };
        format!("-- append{with}{}{BATCH}", tables.join(",\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_its_number() {
        for number in 0..SHAPES {
            assert_eq!(Shape::from_number(number).number(), number);
        }
    }
}
