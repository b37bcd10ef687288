//! Checks a history against every promise. It knows nothing but the lines of the history.

#[cfg(test)]
mod bad_claims;
#[cfg(test)]
mod bad_jobs;
#[cfg(test)]
mod bad_overlaps;
#[cfg(test)]
mod bad_waits;
mod claims;
mod conversations;
mod copies;
mod crash;
mod facts;
mod holds;
mod jobs;
mod leases;
mod line;
mod marks;
mod moments;
mod network;
mod promises;
mod quiet;
mod request;
mod retries;
mod standstill;
mod streams;
mod submits;
mod waits;

#[cfg(test)]
pub(crate) use crash::Crash;
pub(crate) use facts::{Facts, Fault};
pub(crate) use network::is_undecided;

use std::collections::BTreeMap;

/// Violations of one promise that are reported.
const MAX_REPORTED: usize = 20;

/// The result of checking a history.
#[derive(Default)]
pub(crate) struct Verdict {
    /// The number of checks of each promise.
    pub checked: BTreeMap<&'static str, u64>,
    /// Violations by promise.
    pub violations: BTreeMap<&'static str, Vec<String>>,
}

impl Verdict {
    /// Checks a whole history.
    pub(crate) fn of(facts: &Facts) -> Verdict {
        let mut verdict = Verdict::default();
        submits::acknowledged_submits_are_kept(facts, &mut verdict);
        submits::repeated_submits_are_one(facts, &mut verdict);
        submits::refused_means_nothing_was_done(facts, &mut verdict);
        submits::nothing_comes_from_nowhere(facts, &mut verdict);
        submits::the_client_never_fails(facts, &mut verdict);
        submits::stock_clients_see_no_fault_of_the_server(facts, &mut verdict);
        submits::nothing_is_accepted_after_a_release(facts, &mut verdict);
        conversations::every_task_has_one_outcome(facts, &mut verdict);
        conversations::events_are_numbered_without_a_gap(facts, &mut verdict);
        conversations::orders_never_overlap(facts, &mut verdict);
        conversations::batches_follow_one_another(facts, &mut verdict);
        conversations::everything_is_well_in_the_end(facts, &mut verdict);
        conversations::servers_go_on(facts, &mut verdict);
        submits::no_call_is_given_up(facts, &mut verdict);
        retries::acknowledged_retries_are_kept(facts, &mut verdict);
        retries::a_task_has_one_retry(facts, &mut verdict);
        retries::asking_again_answers_the_same(facts, &mut verdict);
        retries::copies_come_from_calls(facts, &mut verdict);
        retries::halts_end_with_their_failures(facts, &mut verdict);
        streams::streams_tell_what_the_log_tells(facts, &mut verdict);
        streams::all_means_all(facts, &mut verdict);
        marks::outcomes_agree_with_the_witnesses(facts, &mut verdict);
        marks::at_most_once_is_at_most_once(facts, &mut verdict);
        marks::exactly_once_is_exactly_once(facts, &mut verdict);
        marks::nothing_begins_again_without_a_reason(facts, &mut verdict);
        marks::what_others_run_survives_its_owner(facts, &mut verdict);
        marks::no_task_overlaps_itself(facts, &mut verdict);
        marks::orders_never_overlap(facts, &mut verdict);
        marks::limits_hold(facts, &mut verdict);
        marks::slots_are_enough(facts, &mut verdict);
        marks::cancelled_means_cancelled(facts, &mut verdict);
        marks::nothing_is_reported_before_it_is_done(facts, &mut verdict);
        holds::holds_respect_mode_and_capacity(facts, &mut verdict);
        holds::tokens_rise(facts, &mut verdict);
        line::grants_keep_the_line(facts, &mut verdict);
        line::rates_are_kept(facts, &mut verdict);
        leases::renewed_claims_live(facts, &mut verdict);
        leases::a_repeated_claim_is_one(facts, &mut verdict);
        waits::nobody_waits_without_a_reason(facts, &mut verdict);
        leases::what_has_ended_stays_ended(facts, &mut verdict);
        leases::no_hold_is_too_long(facts, &mut verdict);
        leases::every_claim_ends(facts, &mut verdict);
        jobs::a_due_time_has_one_run(facts, &mut verdict);
        jobs::every_due_time_has_a_row(facts, &mut verdict);
        jobs::runs_go_on_as_their_job_allows(facts, &mut verdict);
        jobs::due_times_meet_runs_by_their_rule(facts, &mut verdict);
        jobs::a_claimed_run_is_finished_once(facts, &mut verdict);
        jobs::a_stopped_agent_fires_nothing(facts, &mut verdict);
        jobs::every_run_ends(facts, &mut verdict);
        network::silent_connections_are_given_up(facts, &mut verdict);
        network::the_shard_moves_on(facts, &mut verdict);
        verdict
    }

    /// Checks one thing against a promise, which has its line in `promises`.
    pub(crate) fn expect(
        &mut self,
        promise: &'static str,
        holds: bool,
        what: impl FnOnce() -> String,
    ) {
        *self.checked.entry(promise).or_default() += 1;
        if !holds {
            let violations = self.violations.entry(promise).or_default();
            if violations.len() < MAX_REPORTED {
                violations.push(what());
            }
        }
    }

    pub(crate) fn operations(&self) -> u64 {
        self.checked.values().sum()
    }
}
