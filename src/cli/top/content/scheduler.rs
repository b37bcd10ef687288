//! One scheduler: its counts, its time line, its tasks.

use super::{
    parts::{
        Look, Page, count, facts, leading, list, name_of, or_dash, plain, progress, quiet,
        scheduler_state, task_state,
    },
    timeline::{self, Scale},
};
use crate::cli::{
    enum_text, tasks,
    time_text::micros,
    top::{
        filter,
        grid::{Column, Grid, column},
        place::Place,
        seen::OneScheduler,
        subject::Subject,
        text::{Kind, Piece, Row, Tone},
        units::{ago, first_line, labels, lasting, number, span},
    },
};
use rallypoint_client::api::{Scheduler, SchedulerState, TaskState, TaskView};

const COLUMNS: &[Column] = &[
    Column::number("task"),
    Column::number("order"),
    column("state"),
    Column::number("try"),
    Column::number("lasted"),
    Column::text("statement", 16),
    Column::text("error", 5),
];

pub(super) fn page(seen: &OneScheduler, look: &Look) -> Page {
    let one = &seen.scheduler;
    let (_, words) = filter::of_tasks(look.filter);
    let scale = Scale::of(&seen.tasks, look.now);
    let tasks = match (look.bars, &scale) {
        (true, Some(scale)) => {
            let is_open = one.state() == SchedulerState::Open;
            timeline::bars(&seen.tasks, scale, is_open, look)
        }
        _ => table(seen, look),
    };
    let nothing = [
        "No tasks yet. Submit some, here with the command line:",
        "",
        &format!("    rallypoint exec --name {} 'select 1'", one.name),
        "",
    ];
    let nothing = if one.name.is_empty() {
        &nothing[..1]
    } else {
        &nothing
    };
    let mut page = list(tasks, &words, nothing, look);
    let mut rows = head(one, look);
    if let Some(scale) = &scale {
        rows.extend(timeline::bands(&seen.tasks, scale, look));
    }
    rows.append(&mut page.rows);
    rows.extend(settings(one, look));
    Page {
        title: format!("scheduler {}", name_of(one)),
        rows,
        subjects: vec![Subject::scheduler(one)],
        ..page
    }
}

fn table(seen: &OneScheduler, look: &Look) -> Grid<'static> {
    let mut grid = Grid::new(COLUMNS);
    for task in &seen.tasks {
        let title = tasks::title(task);
        let statement = match first_line(&title) {
            "" => quiet("no-op"),
            line => plain(line),
        };
        let error = task.done.as_ref().and_then(|done| done.error.as_ref());
        let error = error.map_or_else(String::new, |error| {
            format!("{} {}", error.code, first_line(&error.message))
        });
        let cells = vec![
            plain(seq(task).to_string()),
            plain(enum_text::order(task.effective_order)),
            task_state(task),
            quiet(task.attempt.to_string()),
            or_dash(lasted(task, look.now)),
            statement,
            Piece::new(error, Tone::Bad),
        ];
        grid.row(row(task, &seen.scheduler), cells);
    }
    grid
}

fn seq(task: &TaskView) -> i64 {
    task.id.as_ref().map_or(0, |id| id.seq)
}

fn row(task: &TaskView, one: &Scheduler) -> Row {
    let id = task.id.clone().unwrap_or_default();
    let is_open = one.state() == SchedulerState::Open;
    let row = leading(id.seq.to_string(), Place::Task(id.handle, id.seq));
    row.about(Subject::task(task, is_open))
}

/// How long it ran, or runs.
fn lasted(task: &TaskView, now: i64) -> String {
    match (&task.done, task.started_at.as_ref()) {
        (Some(done), _) if done.started_us > 0 => span(done.ended_us - done.started_us),
        (None, Some(started)) if task.state() == TaskState::Running => {
            span(now - micros(Some(started)))
        }
        _ => String::new(),
    }
}

fn head(one: &Scheduler, look: &Look) -> Vec<Row> {
    let line = |pieces| Row {
        kind: Kind::Head,
        ..Row::new(pieces)
    };
    let mut first = vec![scheduler_state(one), plain("  ")];
    first.extend(progress(one, (look.width / 3).clamp(10, 40)));
    first.push(plain(format!(
        "  {} of {} tasks ended",
        number(one.done),
        number(one.submitted)
    )));
    let mut second = Vec::new();
    for (name, value, tone) in [
        ("running", one.running, Tone::Busy),
        ("queued", one.queued, Tone::Plain),
        ("blocked", one.blocked, Tone::Plain),
        ("retrying", one.retrying, Tone::Waiting),
    ] {
        second.push(quiet(format!("{name} ")));
        second.push(count(value, tone));
        second.push(plain("   "));
    }
    if let Some(order) = one.current_order {
        second.push(quiet(format!("current order {order}")));
    }
    let mut rows = vec![line(first), line(second)];
    // What a halt has blocked ends with the release.
    if let Some(halt) = &one.halt
        && one.state() != SchedulerState::Released
    {
        let failed: Vec<String> = halt
            .failed_seqs
            .iter()
            .take(8)
            .map(i64::to_string)
            .collect();
        let text = format!(
            "tasks failed in order {}, so later orders wait: {}",
            halt.order,
            failed.join(", ")
        );
        rows.push(line(vec![Piece::new(text, Tone::Bad)]));
    }
    rows.push(Row::blank());
    rows
}

fn settings(one: &Scheduler, look: &Look) -> Vec<Row> {
    let set = one.settings.clone().unwrap_or_default();
    let failure = enum_text::FailurePolicy::from(set.on_failure()).name();
    let most = set.max_parallelism.map_or_else(
        || "as many as there are slots".into(),
        |most| format!("{most} at a time"),
    );
    let opened = format!(
        "{} by {}",
        ago(one.opened_at.as_ref(), look.now),
        one.caller
    );
    let released = ago(one.released_at.as_ref(), look.now);
    let mut rows = vec![Row::blank(), Row::head("Settings", "")];
    rows.extend(facts([
        ("handle", one.handle.clone()),
        ("name", one.name.clone()),
        ("namespace", one.namespace.clone()),
        ("opened", opened),
        ("released", released),
        ("at most", most),
        ("if a task fails", failure.to_owned()),
        ("weight", format!("{}", set.weight.unwrap_or(1.0))),
        ("released if idle", lasting(set.idle_timeout.as_ref())),
        ("labels", labels(&set.labels)),
    ]));
    rows
}
