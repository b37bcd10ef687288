//! One job: when it is due, and what became of every due time.

use super::{
    jobs::{in_a_row, rule, state},
    parts::{Look, Page, badge, facts, leading, or_dash, plain, quiet, section, word},
};
use crate::cli::{
    time_text::micros,
    top::{
        grid::{Column, Grid, column},
        place::Place,
        seen::OneJob,
        subject::Subject,
        text::{Kind, Piece, Row, Tone, lines},
        units::{ago, at, counted, first_line, lasting, number, span},
    },
};
use rallypoint_client::api::{Job, JobRun, JobSettings, Overlap, task};

pub(super) fn page(seen: &OneJob, look: &Look) -> Page {
    let job = &seen.job;
    let settings = job.settings.clone().unwrap_or_default();
    let mut rows = head(job, &settings, look);
    rows.push(Row::head("Next due", time_zone(&settings)));
    for time in &seen.due {
        let local = time.local.replace('T', " ");
        let closes = match &time.closes {
            None => String::new(),
            Some(closes) => format!("  window until {}", at(Some(closes), look.now)),
        };
        rows.push(Row::new(vec![
            plain(format!("{local}  ")),
            quiet(format!("{}{closes}", ago(time.due.as_ref(), look.now))),
        ]));
    }
    if seen.due.is_empty() {
        rows.push(Row::of(
            "Nothing is due by a schedule of its own.",
            Tone::Quiet,
        ));
    }
    rows.push(Row::blank());
    rows.extend(due_times(&seen.runs.runs, look));
    rows.extend(rules(job, &settings, look));
    rows.extend(steps(&settings, look));
    Page {
        title: format!("job {}", job.name),
        rows,
        subjects: vec![Subject::job(job)],
        ..Page::default()
    }
}

fn time_zone(settings: &JobSettings) -> &str {
    match settings.schedule.as_ref().map(|one| one.time_zone.as_str()) {
        None | Some("") => "UTC",
        Some(zone) => zone,
    }
}

fn head(job: &Job, settings: &JobSettings, look: &Look) -> Vec<Row> {
    let line = |pieces| Row {
        kind: Kind::Head,
        ..Row::new(pieces)
    };
    let mut pieces = vec![plain(rule(settings.schedule.as_ref()))];
    if let Some(next) = &job.next_due {
        pieces.push(quiet(format!("  next {}", ago(Some(next), look.now))));
    }
    if job.failures > 0 {
        pieces.push(Piece::new(
            format!("  failed {}", in_a_row(job.failures)),
            Tone::Bad,
        ));
    }
    let mut rows = vec![line(pieces)];
    if let Some(pause) = &job.paused {
        let by = match pause.by.as_str() {
            "" => "by the service, after repeated failures",
            by => &format!("by {by}"),
        };
        let since = ago(pause.since.as_ref(), look.now);
        let text = format!("paused {since} {by}: {}", pause.reason);
        rows.push(line(vec![Piece::new(text, Tone::Waiting)]));
    }
    rows.push(Row::blank());
    rows
}

fn due_times(runs: &[JobRun], look: &Look) -> Vec<Row> {
    const COLUMNS: &[Column] = &[
        column("due"),
        column("state"),
        Column::number("try"),
        Column::number("lasted"),
        Column::text("why", 12),
    ];
    let mut grid = Grid::new(COLUMNS);
    for run in runs {
        let key = format!("due {}", micros(run.due.as_ref()));
        let row = match run.handle.as_str() {
            "" => Row::new(Vec::new()).keyed(key),
            handle => leading(key, Place::Scheduler(handle.to_owned())),
        };
        let due = at(run.due.as_ref(), look.now);
        let due = match run.count {
            ..=1 => due,
            many => format!("{due} and {} more", number(many - 1)),
        };
        let attempt = if run.attempt > 0 {
            run.attempt.to_string()
        } else {
            String::new()
        };
        let start = micros(run.started_at.as_ref());
        let end = run
            .ended_at
            .as_ref()
            .map_or(look.now, |end| micros(Some(end)));
        let lasted = if start > 0 {
            span(end - start)
        } else {
            String::new()
        };
        let cells = vec![
            plain(due),
            badge(&state(run.state())),
            or_dash(attempt),
            or_dash(lasted),
            quiet(why(run)),
        ];
        let subject = Subject::run(run);
        grid.row(Row { subject, ..row }, cells);
    }
    let nothing = "It has not been due yet. Run it now to try it.";
    section(
        "Due times",
        "and what became of each, newest first",
        grid,
        nothing,
        look,
    )
}

fn why(run: &JobRun) -> String {
    let reason = word(run.reason().as_str_name(), "RUN_REASON");
    let said = [reason.as_str(), run.detail.as_str()];
    let said: Vec<&str> = said.into_iter().filter(|text| !text.is_empty()).collect();
    let mut text = said.join(": ");
    if text.is_empty() && run.failed_tasks > 0 {
        text = format!("{} failed", counted(run.failed_tasks, "task"));
    }
    match run.by.as_str() {
        "" => text,
        by => format!("{text} by {by}").trim_start().to_owned(),
    }
}

fn rules(job: &Job, set: &JobSettings, look: &Look) -> Vec<Row> {
    let overlap = match set.overlap() {
        Overlap::Unspecified => "skip".to_owned(),
        some => word(some.as_str_name(), "OVERLAP"),
    };
    let misfire = match word(set.misfire().as_str_name(), "MISFIRE").as_str() {
        "" => "run once".to_owned(),
        some => some.to_owned(),
    };
    let paused = match set.pause_after_failures {
        0 => String::new(),
        many => format!("{many} failures in a row"),
    };
    let claims = if set.claims.is_some() {
        "programs that claim its runs"
    } else {
        ""
    };
    let changed = format!(
        "{} by {}",
        at(job.changed_at.as_ref(), look.now),
        job.changed_by
    );
    let mut rows = vec![Row::head("Rules", "")];
    rows.extend(facts([
        ("while a run goes on", overlap),
        ("if nobody served", misfire),
        ("max runtime", lasting(set.max_runtime.as_ref())),
        ("paused after", paused),
        ("done by", claims.to_owned()),
        ("changed", changed),
    ]));
    rows.push(Row::blank());
    rows
}

fn steps(set: &JobSettings, look: &Look) -> Vec<Row> {
    const COLUMNS: &[Column] = &[
        Column::number("order"),
        column("target"),
        Column::text("statement", 20),
    ];
    if set.claims.is_some() {
        return Vec::new();
    }
    let mut grid = Grid::new(COLUMNS);
    for step in &set.steps {
        let (target, statement) = match &step.kind {
            Some(task::Kind::Sql(sql)) if sql.target.is_empty() => ("app", sql.statement.as_str()),
            Some(task::Kind::Sql(sql)) => (sql.target.as_str(), sql.statement.as_str()),
            _ => ("-", "no-op"),
        };
        let cells = vec![
            plain(crate::cli::enum_text::order(step.order)),
            plain(target),
            plain(first_line(statement)),
        ];
        grid.row(Row::new(Vec::new()), cells);
    }
    let rows = section("Steps", &number(set.steps.len() as i64), grid, "none", look);
    // One step is shown as a whole.
    match set.steps.as_slice() {
        [only] => {
            let whole = match &only.kind {
                Some(task::Kind::Sql(sql)) => lines(&sql.statement, look.width, Tone::Quiet),
                _ => Vec::new(),
            };
            rows.into_iter().chain(whole).collect()
        }
        _ => rows,
    }
}
