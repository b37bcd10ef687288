//! What is going on, and what needs somebody.

use super::{
    needs,
    parts::{
        FULL, Look, Page, bar, kind_name, leading, name_of, or_dash, plain, progress, quiet,
        scheduler_state, section, spark,
    },
};
use crate::cli::{
    time_text::micros,
    top::{
        grid::{Column, Grid, column},
        place::Place,
        seen::Overview,
        text::{Kind, Piece, Row, Tone},
        units::{first_line, number, rate, short, since, span},
    },
};
use rallypoint_client::api::{Backlog, Execution, Scheduler, SchedulerState, SlotStatus};
use std::collections::HashMap;

/// Rows of a part.
const WAITING: usize = 6;
const RUNNING: usize = 12;
const LATEST: usize = 8;
/// Schedulers that are named beside the slots they use.
const NAMED: usize = 4;

pub(super) fn page(seen: &Overview, look: &Look) -> Page {
    let names: HashMap<&str, String> = seen
        .schedulers
        .iter()
        .map(|one| (one.handle.as_str(), name_of(one)))
        .collect();
    let mut rows = numbers(seen, look);
    rows.extend(needs::rows(seen, &names, look));
    rows.extend(slots(seen, &names, look));
    rows.extend(waits(seen, look));
    rows.extend(running(seen, &names, look));
    rows.extend(latest(seen, look));
    Page {
        rows,
        ..Page::default()
    }
}

/// What a scheduler is called; one that is not among those read, by the end of its handle.
fn named(names: &HashMap<&str, String>, handle: &str) -> String {
    names.get(handle).cloned().unwrap_or_else(|| short(handle))
}

fn numbers(seen: &Overview, look: &Look) -> Vec<Row> {
    let last = &seen.rates[seen.rates.len().saturating_sub(3)..];
    let speed = last.iter().sum::<f64>() / last.len().max(1) as f64;
    let ended = format!("{} tasks ended a second  ", rate(speed));
    let room = look.width.saturating_sub(ended.len() + 2);
    let throughput = head(vec![
        Piece::new(ended, Tone::Strong),
        Piece::new(spark(&seen.rates, room.min(60)), Tone::Busy),
    ]);
    let mut rows = vec![throughput];
    match &seen.status.backlog {
        Some(backlog) => rows.extend(backlog_rows(backlog, look)),
        None => rows.push(head(vec![
            quiet("backlog "),
            Piece::new("unknown", Tone::Bad),
        ])),
    }
    rows.push(Row::blank());
    rows
}

fn head(pieces: Vec<Piece>) -> Row {
    Row {
        kind: Kind::Head,
        ..Row::new(pieces)
    }
}

fn backlog_rows(backlog: &Backlog, look: &Look) -> Vec<Row> {
    let mut pieces = Vec::new();
    let mut add = |name: &str, value: i64, tone: Tone| {
        let tone = if value == 0 { Tone::Quiet } else { tone };
        pieces.push(quiet(format!("{name} ")));
        pieces.push(Piece::new(number(value), tone));
        pieces.push(plain("   "));
    };
    add("running", backlog.running, Tone::Busy);
    add("queued", backlog.queued, Tone::Plain);
    add("blocked", backlog.blocked, Tone::Plain);
    add("retrying", backlog.retrying, Tone::Waiting);
    add("failed", backlog.failed, Tone::Bad);
    add("schedulers", backlog.schedulers, Tone::Plain);
    let mut rows = vec![head(pieces)];
    if let Some(oldest) = backlog.oldest_queued_at.filter(|_| backlog.queued > 0) {
        let text = format!(
            "the oldest queued task waits for {}",
            since(Some(&oldest), look.now)
        );
        rows.push(head(vec![quiet(text)]));
    }
    rows
}

/// Slots by scheduler.
fn slots(seen: &Overview, names: &HashMap<&str, String>, look: &Look) -> Vec<Row> {
    let mut rows = vec![Row::head("Slots", "by scheduler")];
    let is_shown = |one: &&SlotStatus| kind_name(one.kind.as_ref()) != "no-op" || one.busy > 0;
    for one in seen.status.slots.iter().filter(is_shown) {
        let name = kind_name(one.kind.as_ref());
        let mut used: HashMap<&str, i64> = HashMap::new();
        let runs = seen.executions.iter().filter(|run| !run.handle.is_empty());
        for run in runs.filter(|run| kind_name(run.kind.as_ref()) == name) {
            *used.entry(&run.handle).or_default() += 1;
        }
        let mut used: Vec<(&str, i64)> = used.into_iter().collect();
        used.sort_by_key(|(handle, count)| (-count, *handle));
        let cells = (look.width / 4).clamp(10, 40);
        let tone = if one.busy == one.total {
            Tone::Waiting
        } else {
            Tone::Busy
        };
        let mut pieces = vec![plain(format!("{name:<10} "))];
        pieces.extend(bar(
            &[(one.busy.into(), tone, FULL)],
            one.total.into(),
            cells,
        ));
        pieces.push(plain(format!(" {}/{}  ", one.busy, one.total)));
        let list: Vec<String> = used
            .iter()
            .take(NAMED)
            .map(|(handle, count)| format!("{} {count}", named(names, handle)))
            .collect();
        pieces.push(quiet(list.join(", ")));
        rows.push(
            Row::new(pieces)
                .keyed(format!("slots {name}"))
                .to(Place::System),
        );
    }
    if rows.len() == 1 {
        let text = match seen.status.backlog {
            Some(_) => "No server has slots yet: rallypoint serve --target app=postgres://…",
            None => "Slots are not known: no owner of the shard answers.",
        };
        rows.extend(Row::remark(text, look.width));
    }
    rows.push(Row::blank());
    rows
}

/// What waits for what.
fn waits(seen: &Overview, look: &Look) -> Vec<Row> {
    const COLUMNS: &[Column] = &[
        Column::number("wait"),
        Column::text("who", 12),
        Column::text("for what", 12),
    ];
    let mut grid = Grid::new(COLUMNS);
    let waiting = |one: &Scheduler| one.blocked + one.queued;
    let mut all: Vec<&Scheduler> = seen
        .schedulers
        .iter()
        .filter(|one| waiting(one) > 0 && one.state() != SchedulerState::Released)
        .collect();
    all.sort_by_key(|one| -waiting(one));
    for one in all.into_iter().take(WAITING) {
        let row = leading(
            format!("waits {}", one.handle),
            Place::Scheduler(one.handle.clone()),
        );
        let cells = vec![
            plain(number(waiting(one))),
            plain(name_of(one)),
            quiet(reason(one)),
        ];
        grid.row(row, cells);
    }
    let held = seen
        .resources
        .iter()
        .filter(|one| one.waiting + one.waiting_tasks > 0);
    for one in held.take(WAITING) {
        let row = leading(
            format!("held {}", one.name),
            Place::Resource(one.name.clone()),
        );
        let cells = vec![
            plain(number(one.waiting + one.waiting_tasks)),
            plain(&one.name),
            quiet(format!("resource, held by {}", number(one.holds))),
        ];
        grid.row(row, cells);
    }
    section("What waits for what", "", grid, "Nothing waits.", look)
}

fn reason(one: &Scheduler) -> String {
    let most = one.settings.as_ref().and_then(|set| set.max_parallelism);
    if let Some(halt) = &one.halt {
        let failures = halt.failures.unwrap_or(halt.failed_seqs.len() as i64);
        return format!(
            "halted: {} failed in order {}",
            number(failures),
            halt.order
        );
    }
    match (one.current_order, most) {
        _ if one.paused => "paused".to_owned(),
        (Some(order), _) if one.blocked > 0 => {
            format!("{} behind order {order}", number(one.blocked))
        }
        (_, Some(most)) if one.running >= i64::from(most) => format!("at its limit of {most}"),
        _ => format!("{} for a slot", number(one.queued)),
    }
}

fn running(seen: &Overview, names: &HashMap<&str, String>, look: &Look) -> Vec<Row> {
    const COLUMNS: &[Column] = &[
        Column::number("task"),
        Column::text("scheduler", 9),
        Column::text("statement", 12),
        Column::text("slot", 6),
        Column::number("pid"),
        Column::number("for"),
    ];
    let mut grid = Grid::new(COLUMNS);
    let started = |run: &Execution| match micros(run.started_at.as_ref()) {
        0 => look.now,
        at => at,
    };
    let mut runs: Vec<&Execution> = seen
        .executions
        .iter()
        .filter(|run| !run.handle.is_empty())
        .collect();
    runs.sort_by_key(|run| started(run));
    for run in runs.into_iter().take(RUNNING) {
        let key = format!("run {} {}", run.handle, run.seq);
        let pid = if run.backend_pid == 0 {
            String::new()
        } else {
            run.backend_pid.to_string()
        };
        let cells = vec![
            plain(run.seq.to_string()),
            plain(named(names, &run.handle)),
            quiet(first_line(&run.statement_preview)),
            plain(format!("{} {}", kind_name(run.kind.as_ref()), run.slot)),
            or_dash(pid),
            plain(span(look.now - started(run))),
        ];
        grid.row(
            leading(key, Place::Task(run.handle.clone(), run.seq)),
            cells,
        );
    }
    let nothing = "No task runs. Try one: rallypoint exec 'select pg_sleep(10)'";
    section("Running now", "longest first", grid, nothing, look)
}

fn latest(seen: &Overview, look: &Look) -> Vec<Row> {
    const COLUMNS: &[Column] = &[
        Column::text("scheduler", 12),
        column("state"),
        column("tasks"),
        Column::number("ended"),
        Column::number("of"),
        Column::text("opened by", 8),
        column("age"),
    ];
    let mut grid = Grid::new(COLUMNS);
    for one in seen.schedulers.iter().take(LATEST) {
        let key = format!("latest {}", one.handle);
        let row = leading(key, Place::Scheduler(one.handle.clone()));
        let bar: String = progress(one, 10).iter().map(Piece::text).collect();
        let cells = vec![
            plain(name_of(one)),
            scheduler_state(one),
            quiet(bar),
            plain(number(one.done)),
            plain(number(one.submitted)),
            plain(&one.caller),
            quiet(since(one.opened_at.as_ref(), look.now)),
        ];
        grid.row(row, cells);
    }
    let nothing = "Nobody has opened a scheduler yet. Ten tasks in five orders: rallypoint demo";
    section(
        "Latest schedulers",
        ":schedulers shows all",
        grid,
        nothing,
        look,
    )
}
