//! What a job is told to do besides its schedule, in the words of its file.

use crate::{
    cli::{enum_text, exec, plural, table::Table},
    core::model::limits::length_text,
};
use rallypoint_client::api::{JobSettings, Misfire, Overlap, SqlTask, Task, task::Kind};
use std::time::Duration;

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
    rules
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

/// Its name, if it has one, and the first line of its statement.
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
    exec::titled(&options, &format!("{first}{goes_on}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_said_as_in_the_file() {
        let settings = JobSettings {
            misfire: Misfire::CatchUp.into(),
            catch_up_max: 3,
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
                ("max runtime", "2m")
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
        assert_eq!(target(&step("select 1")), "-");
    }
}
