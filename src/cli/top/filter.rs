//! What `/` asks for. Words that the service knows are asked of it: a state (`failed`, `open` …),
//! a label (`key=value`), `order:N`, `code:SQLSTATE`, `name:NAME`. All other words must stand in
//! the row, in any case of letters.

use rallypoint_client::api::{Outcome, SchedulerFilter, SchedulerState, TaskFilter, TaskState};

/// Rows must hold these words.
pub(super) type Words = Vec<String>;

/// Conditions on schedulers, and on their rows.
pub(super) fn of_schedulers(filter: &str) -> (SchedulerFilter, Words) {
    let mut asked = SchedulerFilter::default();
    let mut rest = Words::new();
    for word in filter.split_whitespace() {
        let state = match word {
            "open" => Some(SchedulerState::Open),
            "releasing" => Some(SchedulerState::Releasing),
            "released" => Some(SchedulerState::Released),
            _ => None,
        };
        match (state, word.split_once([':', '='])) {
            (Some(state), _) => asked.states.push(state.into()),
            (None, Some(("name", name))) => asked.name = name.to_owned(),
            (None, Some((key, value))) if word.contains('=') && !key.is_empty() => {
                asked.labels.insert(key.to_owned(), value.to_owned());
            }
            _ if word == "halted" => asked.halted = true,
            _ => rest.push(word.to_lowercase()),
        }
    }
    (asked, rest)
}

/// Conditions on tasks, and on their rows.
pub(super) fn of_tasks(filter: &str) -> (TaskFilter, Words) {
    let mut asked = TaskFilter::default();
    let mut rest = Words::new();
    for word in filter.split_whitespace() {
        let (states, outcomes) = meaning(word);
        asked
            .states
            .extend(states.iter().map(|one| i32::from(*one)));
        asked
            .outcomes
            .extend(outcomes.iter().map(|one| i32::from(*one)));
        if !states.is_empty() || !outcomes.is_empty() {
            continue;
        }
        let order = |text: &str| text.parse::<i64>().ok().filter(|order| *order >= 0);
        match word.split_once([':', '=']) {
            Some(("order", text)) if order(text).is_some() => asked.effective_order = order(text),
            Some(("code", code)) if !code.is_empty() => asked.error_codes.push(code.to_owned()),
            Some((key, value)) if word.contains('=') && !key.is_empty() => {
                asked.labels.insert(key.to_owned(), value.to_owned());
            }
            _ => rest.push(word.to_lowercase()),
        }
    }
    (asked, rest)
}

/// Words of a list of which the service is asked nothing.
pub(super) fn words(filter: &str) -> Words {
    filter.split_whitespace().map(str::to_lowercase).collect()
}

/// Whether a row holds all the words.
pub(super) fn admits(words: &[String], row: &str) -> bool {
    let row = row.to_lowercase();
    words.iter().all(|word| row.contains(word))
}

fn meaning(word: &str) -> (&'static [TaskState], &'static [Outcome]) {
    use TaskState::{Blocked, Queued, Retrying, Running};
    match word {
        "blocked" => (&[Blocked], &[]),
        "queued" => (&[Queued], &[]),
        "running" => (&[Running], &[]),
        "retrying" => (&[Retrying], &[]),
        "waiting" => (&[Blocked, Queued, Retrying], &[]),
        "failed" => (&[], FAILED),
        "succeeded" => (&[], &[Outcome::Succeeded]),
        "cancelled" => (&[], &[Outcome::Cancelled]),
        "exhausted" => (&[], &[Outcome::Exhausted]),
        _ => (&[], &[]),
    }
}

/// What counts as failed.
pub(super) const FAILED: &[Outcome] = &[Outcome::Failed, Outcome::TimedOut, Outcome::Exhausted];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_service_knows_is_asked_of_it_and_the_rest_of_the_rows() {
        let (asked, rest) = of_tasks("failed order:200 code:57014 run=nightly Sales");
        assert_eq!(asked.outcomes.len(), 3);
        assert_eq!(asked.effective_order, Some(200));
        assert_eq!(asked.error_codes, ["57014"]);
        assert_eq!(asked.labels["run"], "nightly");
        assert_eq!(rest, ["sales"]);
        assert!(admits(&rest, "refresh_SALES()") && !admits(&rest, "stock"));
        let (asked, rest) = of_schedulers("open halted name:nightly order: =x");
        assert_eq!((asked.states.len(), asked.halted), (1, true));
        assert_eq!(asked.name, "nightly");
        assert_eq!(rest, ["order:", "=x"]);
    }
}
