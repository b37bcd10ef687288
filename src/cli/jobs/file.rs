//! A file of jobs: what it may say, read so that everything that is wrong with it is found at once.

use super::{
    after,
    job::{Job, StepsFile},
    rules::{Misfire, Overlap, Rerun, choice, length, number},
    schedule,
};
use crate::{
    cli::exec::{self, Described},
    core::{
        model::limits::{JOB_TASK_BYTES, JOB_TASKS, MAX_RUNTIME, NAME_BYTES},
        schedule::{Recurrence, TimeZones},
    },
    toml_file::{self, Faults, Length, Table},
};
use jiff::SignedDuration;
use rallypoint_client::api::OnFailure;
use serde_json::Value;
use std::path::Path;

const MOST_FAILURES: u32 = 10_000;
const MOST_PARALLEL: u32 = i32::MAX as u32;
const ON_STEP_FAILURE: &[(&str, OnFailure)] = &[
    ("CONTINUE", OnFailure::Continue),
    ("CANCEL_REST", OnFailure::CancelRest),
];

/// A step as a file has it.
const STEP: &str = "{ statement = \"select 1\" }";

/// The jobs of a file, in the order of their names.
pub(super) fn read(path: &Path) -> Result<Vec<Job>, Faults> {
    let text = toml_file::read(path).map_err(|error| Faults::of_unread(path, error))?;
    let mut faults = Faults::of(path);
    let folder = path.parent().unwrap_or(Path::new(""));
    let jobs = parse(&text, folder, &mut faults);
    faults.into_result(jobs)
}

/// The jobs of a text. `folder`: where the files are that it names.
pub(super) fn parse(text: &str, folder: &Path, faults: &mut Faults) -> Vec<Job> {
    let zones = TimeZones::bundled();
    let mut file = Table::of_file(text, faults);
    if !file.has("jobs") {
        file.fault("jobs", "missing: a job begins with `[jobs.NAME]`");
    }
    let mut jobs = Vec::new();
    let mut names = Vec::new();
    if let Some(mut table) = file.table("jobs") {
        names = table.keys();
        for name in &names {
            let job = table
                .table_any(name)
                .and_then(|job| read_job(name, job, folder, &zones));
            jobs.extend(job);
        }
    }
    file.finish();
    after::check(&jobs, &names, faults);
    jobs
}

fn read_job(name: &str, mut table: Table<'_, '_>, folder: &Path, zones: &TimeZones) -> Option<Job> {
    let lines = table.lines();
    if !NAME_BYTES.contains(&name.len()) || name.contains(char::is_control) {
        table.fault(
            "",
            "a job has a name of 1 to 63 bytes, without control characters",
        );
    }
    let is_misplaced = schedule::take_misplaced(&mut table);
    if !table.has("schedule") && !is_misplaced {
        let what = "missing: add `schedule.cron = \"30 2 * * *\"`";
        table.fault("schedule", what);
    }
    if table.has_text("schedule") {
        let what = "a schedule is a table: write `schedule.cron = \"0 3 * * *\"`";
        table.fault("schedule", what);
        table.take::<String>("schedule");
    }
    let schedule = table.table("schedule");
    let schedule = schedule.and_then(|table| schedule::read(table, zones));
    let recurrence = schedule
        .as_ref()
        .map(|(_, schedule, _)| schedule.recurrence());
    // With a schedule that makes no sense, nothing is said of windows.
    let has_window = recurrence.is_none_or(|rule| matches!(rule, Recurrence::OncePer(_)));
    let claimed = read_claimed(&mut table);
    let (steps, steps_file, on_failure) = read_tasks(&mut table, folder);
    let overlap = Overlap::read(&mut table);
    let misfire = Misfire::read(&mut table);
    let rerun = Rerun::read(&mut table, has_window);
    let max_runtime = length(&mut table, "max_runtime", MAX_RUNTIME);
    let pause_after_failures = number(&mut table, "pause_after_failures", MOST_FAILURES);
    let max_parallelism = number(&mut table, "max_parallelism", MOST_PARALLEL);
    let on_step_failure = choice(&mut table, "on_step_failure", ON_STEP_FAILURE);
    table.finish();
    let (text, schedule, schedule_lines) = schedule?;
    Some(Job {
        name: name.to_owned(),
        lines,
        schedule_lines,
        text,
        schedule,
        max_parallelism,
        // As `exec` does with such a file.
        on_step_failure: on_step_failure.unwrap_or(match &steps_file {
            Some(_) => OnFailure::CancelRest,
            None => OnFailure::Continue,
        }),
        steps,
        steps_file,
        on_failure,
        claimed,
        overlap,
        misfire,
        rerun,
        max_runtime,
        pause_after_failures,
    })
}

/// The steps, the file that they stand in, and the tasks that follow a failure: as many, and as
/// large, as the service takes.
fn read_tasks(
    table: &mut Table<'_, '_>,
    folder: &Path,
) -> (Vec<Described>, Option<StepsFile>, Vec<Described>) {
    let (steps, steps_file) = read_steps(table, folder);
    let on_failure = table.tables("on_failure", STEP, read_task);
    let all = || steps.iter().chain(&on_failure);
    if all().count() > JOB_TASKS {
        let what = format!("a job has at most {JOB_TASKS} steps, those of `on_failure` included");
        table.fault("steps", what);
    }
    let params = |task: &Described| task.params.iter().flatten().map(String::len).sum::<usize>();
    let bytes = |task: &Described| task.statement.len() + params(task);
    if all().map(bytes).sum::<usize>() > JOB_TASK_BYTES {
        let what = "the tasks of a job are 1 MiB together at most: call functions";
        table.fault("steps", what);
    }
    (steps, steps_file, on_failure)
}

/// Whether programs outside the service do the runs, and on which target (empty: none).
fn read_claimed(table: &mut Table<'_, '_>) -> Option<String> {
    let has_steps = table.has("steps") && !table.has_empty_list("steps");
    let has_target = table.has("finish_target");
    let claimed = table.take("claimed").unwrap_or(false);
    let target: Option<String> = table.take("finish_target");
    match claimed {
        true if has_steps => {
            let what = "programs outside the service do the runs (`claimed`): leave it out";
            table.fault("steps", what);
        }
        false if !has_steps => {
            let what = "missing: add `steps = [{ statement = \"select 1\" }]`, or `claimed = true`";
            table.fault("steps", what);
        }
        false if has_target => table.fault("finish_target", "only with `claimed = true`"),
        _ => {}
    }
    claimed.then(|| target.unwrap_or_default())
}

/// A length of time as a field of a task has it.
fn as_text(Length(length): Length) -> Option<Value> {
    let length = SignedDuration::try_from(length).ok()?;
    Some(Value::String(format!("{length:#}")))
}

/// The steps, which may stand in a file of SQL that `exec` takes, too: then also that file.
fn read_steps(table: &mut Table<'_, '_>, folder: &Path) -> (Vec<Described>, Option<StepsFile>) {
    const KEY: &str = "steps";
    if !table.has_text(KEY) {
        return (table.tables(KEY, STEP, read_task), None);
    }
    let line = table.lines().of(KEY);
    let name = table.take::<String>(KEY).unwrap_or_default();
    if !name.to_lowercase().ends_with(".sql") {
        table.fault(
            KEY,
            "it is a list of tables (each begins with `[[jobs.NAME.steps]]`), or the name of a \
             .sql file",
        );
        return (Vec::new(), None);
    }
    let tasks = match exec::of_sql_file(&folder.join(&name)) {
        Ok(tasks) => tasks,
        Err(faults) => {
            faults.iter().for_each(|fault| table.fault(KEY, fault));
            return (Vec::new(), None);
        }
    };
    if tasks.is_empty() {
        table.fault(KEY, format!("{name}: there is no statement in that file"));
    }
    (tasks, Some(StepsFile { name, line }))
}

/// A task, with the fields of a line of `exec -f`.
fn read_task(mut table: Table<'_, '_>) -> Option<Described> {
    let mut task = Described {
        line: Some(table.line()),
        ..Described::default()
    };
    for key in table.keys() {
        let value = match exec::is_time(&key) {
            true => table.take_any::<Length>(&key).and_then(as_text),
            false => table.take_any(&key),
        };
        let taken = value.map_or(Ok(()), |value| exec::field(&mut task, &key, &value));
        if let Err(what) = taken {
            table.fault(&key, what);
        }
    }
    if task.statement.trim().is_empty() {
        table.fault("statement", "missing: write `statement = \"select 1\"`");
        return None;
    }
    Some(task)
}
