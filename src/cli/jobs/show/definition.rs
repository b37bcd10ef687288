//! What a job is told to do besides its schedule, in the words of its file.

use crate::{
    cli::{enum_text, exec, plural, table::Table},
    core::model::limits::length_text,
};
use rallypoint_client::api::{
    JobSettings, Misfire, OnFailure, Overlap, Rerun, SqlTask, Task, task::Kind,
};
use std::time::Duration;

/// Between an attempt of a run and the next one, where nothing is said.
const DEFAULT_DELAY: Duration = Duration::from_secs(60);

/// Its rules, each by its key.
pub(super) fn rules(settings: &JobSettings) -> Vec<(&'static str, String)> {
    let mut rules = vec![
        ("overlap", overlap(settings.overlap())),
        ("misfire", misfire(settings)),
    ];
    let longest = settings.max_runtime.and_then(|it| it.try_into().ok());
    rules.extend(longest.map(|longest: Duration| ("max runtime", length_text(longest))));
    let count = settings.on_failure.len();
    rules.extend((count > 0).then(|| ("on failure", plural::count(count, "task"))));
    rules.extend(rarer(settings));
    rules
}

/// What few jobs say.
fn rarer(settings: &JobSettings) -> Vec<(&'static str, String)> {
    let scheduler = settings.scheduler.clone().unwrap_or_default();
    let schedule = settings.schedule.clone().unwrap_or_default();
    let mut rules = Vec::new();
    if !matches!(
        scheduler.on_failure(),
        OnFailure::Unspecified | OnFailure::Continue
    ) {
        let on_failure = scheduler.on_failure().as_str_name();
        rules.push(("step failure", as_in_file(on_failure, "ON_FAILURE_")));
    }
    if let Some(most) = scheduler.max_parallelism.filter(|most| *most > 0) {
        rules.push(("parallelism", format!("{most} at most")));
    }
    if let Some(rerun) = &settings.rerun {
        rules.push(("rerun", reruns(rerun)));
    }
    if settings.pause_after_failures > 0 {
        let runs = plural::count(settings.pause_after_failures, "run");
        rules.push(("paused after", format!("{runs} in a row that failed")));
    }
    if !schedule.exclude.is_empty() {
        rules.push(("not on", schedule.exclude.join(", ")));
    }
    for (key, text) in [("from", schedule.start), ("until", schedule.end)] {
        rules.extend((!text.is_empty()).then_some((key, text)));
    }
    rules
}

fn reruns(rerun: &Rerun) -> String {
    let most = match rerun.max {
        0 => String::new(),
        max => format!("{} more at most, ", plural::count(max, "attempt")),
    };
    let delay = rerun.delay.and_then(|it| it.try_into().ok());
    let delay = delay.unwrap_or(DEFAULT_DELAY);
    let within = if rerun.within_window {
        ", while its window is open"
    } else {
        ""
    };
    format!("{most}{} after a failure{within}", length_text(delay))
}

/// The steps of a run, in the order of the file.
pub(in crate::cli::jobs) fn steps(settings: &JobSettings) {
    if settings.steps.is_empty() {
        return;
    }
    let mut table = Table::new(&[">step", ">order", "target", "~statement"]);
    for (number, step) in settings.steps.iter().enumerate() {
        table.row([
            (number + 1).to_string(),
            enum_text::order(step.order),
            target(step),
            statement(step),
        ]);
    }
    table.print();
}

fn overlap(overlap: Overlap) -> String {
    let overlap = match overlap {
        Overlap::Unspecified => Overlap::Skip,
        said => said,
    };
    as_in_file(overlap.as_str_name(), "OVERLAP_")
}

fn misfire(settings: &JobSettings) -> String {
    match settings.misfire() {
        Misfire::Unspecified => as_in_file(Misfire::RunOnce.as_str_name(), "MISFIRE_"),
        Misfire::CatchUp => format!("CATCH_UP, {} at most", settings.catch_up_max),
        said => as_in_file(said.as_str_name(), "MISFIRE_"),
    }
}

fn as_in_file(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_owned()
}

fn target(step: &Task) -> String {
    let target = sql(step).map(|sql| sql.target.clone());
    let target = target.filter(|target| !target.is_empty());
    target.unwrap_or_else(|| "-".to_owned())
}

fn sql(step: &Task) -> Option<&SqlTask> {
    match step.kind.as_ref()? {
        Kind::Sql(sql) => Some(sql),
        Kind::Noop(_) => None,
    }
}

/// Its name, if it has one, the first line of its statement, and its options.
fn statement(step: &Task) -> String {
    let statement = sql(step)
        .map(|sql| sql.statement.trim())
        .unwrap_or_default();
    let first = statement.lines().next().unwrap_or_default();
    let goes_on = if first.len() < statement.len() {
        " …"
    } else {
        ""
    };
    let options = step.options.clone().unwrap_or_default();
    let title = exec::titled(&options, &format!("{first}{goes_on}"));
    match exec::options_in_words(&options) {
        options if options.is_empty() => title,
        options => format!("{title}  ({options})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rallypoint_client::api::{Schedule, SchedulerSettings, TaskOptions};

    #[test]
    fn rules_are_said_as_in_the_file() {
        let settings = JobSettings {
            misfire: Misfire::CatchUp.into(),
            catch_up_max: 3,
            rerun: Some(Rerun {
                within_window: true,
                max: 2,
                delay: None,
            }),
            schedule: Some(Schedule {
                exclude: vec!["12-25".to_owned(), "2027-01-01".to_owned()],
                ..Schedule::default()
            }),
            scheduler: Some(SchedulerSettings {
                on_failure: OnFailure::CancelRest.into(),
                ..SchedulerSettings::default()
            }),
            max_runtime: Some(prost_types::Duration {
                seconds: 120,
                nanos: 0,
            }),
            ..JobSettings::default()
        };
        let rules = rules(&settings);
        let rules: Vec<_> = rules.iter().map(|(key, rule)| (*key, &**rule)).collect();
        assert_eq!(
            rules,
            [
                ("overlap", "SKIP"),
                ("misfire", "CATCH_UP, 3 at most"),
                ("max runtime", "2m"),
                ("step failure", "CANCEL_REST"),
                (
                    "rerun",
                    "2 attempts more at most, 1m after a failure, while its window is open"
                ),
                ("not on", "12-25, 2027-01-01"),
            ]
        );
    }

    #[test]
    fn a_statement_of_several_lines_goes_on_behind_the_first() {
        let step = |statement: &str| Task {
            kind: Some(Kind::Sql(SqlTask {
                statement: statement.to_owned(),
                ..SqlTask::default()
            })),
            ..Task::default()
        };
        assert_eq!(statement(&step("\nselect 1\n")), "select 1");
        assert_eq!(statement(&step("select\n1")), "select …");
        let mut with_options = step("select 1");
        with_options.options = Some(TaskOptions {
            result_rows: Some(5),
            ..TaskOptions::default()
        });
        assert_eq!(statement(&with_options), "select 1  (result_rows 5)");
        assert_eq!(target(&step("select 1")), "-");
    }
}
