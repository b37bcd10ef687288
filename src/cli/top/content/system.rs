//! What the service itself is made of: targets, replicas, executors, the journal.

use super::parts::{
    FULL, Look, Page, badge, bar, by_whom, facts, kind_name, leading, or_dash, plain, quiet,
    section,
};
use crate::cli::{
    status::{shown, silent},
    top::{
        grid::{Column, Grid, column},
        place::Place,
        seen::System,
        subject::Subject,
        text::{Piece, Row, Tone},
        units::{ago, counted, lasting, number, short},
    },
};
use rallypoint_client::api::{
    DayPin, Execution, ExecutionState, GetStatusResponse, TargetPause, day_pin::Reason,
};
use std::collections::BTreeMap;

/// Tasks that are named beside an executor.
const NAMED: usize = 6;

pub(super) fn page(seen: &System, look: &Look) -> Page {
    let status = &seen.status;
    let mut rows = Vec::new();
    if !status.unreachable.is_empty() {
        let silent = status.unreachable.iter().map(|part| silent(part));
        rows.extend(silent.map(|text| Row::of(text, Tone::Bad)));
        rows.push(Row::blank());
    }
    rows.extend(targets(status, look));
    rows.extend(fences(status, look));
    rows.extend(replicas(status, look));
    rows.extend(executors(seen, look));
    rows.extend(journal(status));
    rows.extend(unreadable(status, look));
    let paused = pause_of(status, "").is_some();
    Page {
        title: format!("system, version {}", status.version),
        rows,
        subjects: vec![Subject::AllTargets { paused }],
        ..Page::default()
    }
}

/// Only the owner of the shard knows the pauses.
const UNKNOWN_PAUSE: &str = "whether it is paused is not known";

/// The pause of a target; of all, without a name.
fn pause_of<'a>(status: &'a GetStatusResponse, target: &str) -> Option<&'a TargetPause> {
    let pauses = status
        .paused_targets
        .iter()
        .filter_map(|one| one.pause.as_ref());
    pauses.into_iter().find(|pause| pause.target == target)
}

fn targets(status: &GetStatusResponse, look: &Look) -> Vec<Row> {
    const COLUMNS: &[Column] = &[
        Column::text("target", 8),
        Column::text("replica", 8),
        column("state"),
        Column::number("sessions"),
        Column::text("what is wrong", 14),
    ];
    let mut grid = Grid::new(COLUMNS);
    for one in &status.targets {
        let pause = pause_of(status, &one.name);
        let by = pause.map(|pause| by_whom(&pause.paused_by, &pause.reason));
        let (state, wrong) = match (one.available, by) {
            (false, _) => {
                let since = ago(one.unavailable_since.as_ref(), look.now);
                ("away", format!("{} {since}", one.error))
            }
            (true, Some(by)) => ("paused", format!("paused{by}")),
            (true, None) if status.backlog.is_none() => ("there", UNKNOWN_PAUSE.to_owned()),
            (true, None) => ("there", String::new()),
        };
        let row = Row::new(Vec::new()).keyed(format!("target {} {}", one.name, one.replica));
        let subject = Subject::Target {
            name: one.name.clone(),
            paused: pause.is_some(),
        };
        let cells = vec![
            plain(&one.name),
            plain(&one.replica),
            badge(state),
            plain(one.sessions.to_string()),
            or_dash(wrong),
        ];
        grid.row(row.about(subject), cells);
    }
    let nothing = "No target is configured, so SQL has nowhere to run: --target NAME=URL";
    let mut rows = section(
        "Targets",
        "the databases that tasks run on",
        grid,
        nothing,
        look,
    );
    if let Some(pause) = pause_of(status, "") {
        let by = by_whom(&pause.paused_by, &pause.reason);
        let text = format!("All targets are paused{by}");
        rows.insert(1, Row::of(text, Tone::Waiting));
    }
    rows
}

fn fences(status: &GetStatusResponse, look: &Look) -> Vec<Row> {
    const COLUMNS: &[Column] = &[
        Column::text("target", 8),
        Column::text("replica", 8),
        Column::number("pid"),
        column("since"),
        Column::text("why", 14),
    ];
    if status.pending_fences.is_empty() {
        return Vec::new();
    }
    let mut grid = Grid::new(COLUMNS);
    for one in &status.pending_fences {
        let key = format!("fence {} {} {}", one.target, one.replica, one.backend_pid);
        let subject = Subject::Fence {
            target: one.target.clone(),
            replica: one.replica.clone(),
        };
        let cells = vec![
            plain(&one.target),
            plain(&one.replica),
            Piece::new(one.backend_pid.to_string(), Tone::Bad),
            quiet(ago(one.since.as_ref(), look.now)),
            plain(&one.why),
        ];
        grid.row(Row::new(Vec::new()).keyed(key).about(subject), cells);
    }
    section(
        "Sessions whose end cannot be shown",
        "their tasks wait",
        grid,
        "",
        look,
    )
}

fn replicas(status: &GetStatusResponse, look: &Look) -> Vec<Row> {
    const COLUMNS: &[Column] = &[
        Column::text("replica", 10),
        column("state"),
        Column::number("epoch"),
        column("started"),
        column("seen"),
    ];
    let mut grid = Grid::new(COLUMNS);
    for (one, is_gone) in shown(&status.replicas) {
        let (state, epoch) = match one.owner {
            true => (badge("owner"), number(one.epoch)),
            false if is_gone => (quiet("gone"), String::new()),
            false => (quiet("standby"), String::new()),
        };
        let cells = vec![
            plain(&one.name),
            state,
            or_dash(epoch),
            quiet(ago(one.started_at.as_ref(), look.now)),
            quiet(ago(one.seen_at.as_ref(), look.now)),
        ];
        grid.row(
            Row::new(Vec::new()).keyed(format!("replica {}", one.name)),
            cells,
        );
    }
    section("Replicas", "", grid, "None has answered.", look)
}

fn executors(seen: &System, look: &Look) -> Vec<Row> {
    const COLUMNS: &[Column] = &[
        Column::text("executor", 10),
        column("slots"),
        Column::number("busy"),
        Column::number("of"),
        Column::text("runs", 12),
    ];
    let mut groups: BTreeMap<String, Vec<&Execution>> = BTreeMap::new();
    for run in &seen.executions {
        let name = format!("{} {}", run.replica, kind_name(run.kind.as_ref()));
        groups.entry(name).or_default().push(run);
    }
    let mut grid = Grid::new(COLUMNS);
    for (name, slots) in groups {
        let own: Vec<&&Execution> = slots.iter().filter(|run| !run.handle.is_empty()).collect();
        let used = slots.iter().filter(|run| is_busy(run)).count() as i64;
        let (others, total) = (used - own.len() as i64, slots.len() as i64);
        let shown = bar(&[(used, Tone::Busy, FULL)], total, 10);
        let shown: String = shown.iter().map(Piece::text).collect();
        let tasks = own
            .iter()
            .take(NAMED)
            .map(|run| format!("{}/{}", short(&run.handle), run.seq));
        let others = (others > 0).then(|| format!("others {}", number(others)));
        let key = format!("executor {name}");
        let row = match own.first() {
            None => Row::new(Vec::new()).keyed(key),
            Some(run) => leading(key, Place::Task(run.handle.clone(), run.seq)),
        };
        let cells = vec![
            plain(name),
            quiet(shown),
            plain(number(used)),
            plain(number(total)),
            or_dash(tasks.chain(others).collect::<Vec<_>>().join(", ")),
        ];
        grid.row(row, cells);
    }
    let note = match seen.left_out {
        0 => String::new(),
        some => format!("without {} idle slots", number(some)),
    };
    section(
        "Executors",
        &note,
        grid,
        "No executor has reported its slots yet.",
        look,
    )
}

/// Whether a task has the slot. One of another namespace has no handle for this caller, and a
/// replica of an earlier version says no state.
fn is_busy(run: &Execution) -> bool {
    match run.state() {
        ExecutionState::Unspecified => !run.handle.is_empty(),
        state => state != ExecutionState::Idle,
    }
}

fn journal(status: &GetStatusResponse) -> Vec<Row> {
    let one = status.journal.clone().unwrap_or_default();
    let mut rows = vec![Row::head("Journal", "")];
    let state = if one.available { "there" } else { "away" };
    rows.push(Row::new(vec![
        quiet(format!("{:<18} ", "state")),
        badge(state),
    ]));
    let age = lasting(one.last_durable_age.as_ref());
    let pin = one.pin.as_ref().map_or_else(String::new, pinned);
    rows.extend(facts([
        ("error", one.error.clone()),
        ("last batch", format!("{}, {age} ago", number(one.batch_no))),
        ("kept for", counted(one.retention_days.into(), "day")),
        ("oldest day", one.oldest_day.clone()),
    ]));
    if !pin.is_empty() {
        let row = Row::fact("kept longer by", pin);
        let handle = one
            .pin
            .map(|pin| pin.handle)
            .filter(|handle| !handle.is_empty());
        rows.push(match handle {
            Some(handle) => row.keyed("pin").to(Place::Scheduler(handle)),
            None => row,
        });
    }
    rows.push(Row::blank());
    rows
}

/// What keeps the oldest day beyond its retention.
fn pinned(pin: &DayPin) -> String {
    match pin.reason() {
        Reason::Checkpoint => format!("a checkpoint of {} needs its rows", pin.handle),
        Reason::Unfinished => format!("an unfinished task of {}", pin.handle),
        Reason::Reader => format!(
            "process {} ({}) reads it in a long transaction",
            pin.backend_pid, pin.application
        ),
        Reason::Due | Reason::Unspecified => "nothing: the next round drops it".to_owned(),
    }
}

fn unreadable(status: &GetStatusResponse, look: &Look) -> Vec<Row> {
    const COLUMNS: &[Column] = &[
        column("scheduler"),
        Column::text("namespace", 8),
        Column::text("why", 14),
    ];
    if status.unreadable_schedulers.is_empty() {
        return Vec::new();
    }
    let mut grid = Grid::new(COLUMNS);
    for one in &status.unreadable_schedulers {
        let cells = vec![plain(&one.handle), plain(&one.namespace), plain(&one.why)];
        grid.row(
            Row::new(Vec::new()).keyed(format!("unreadable {}", one.handle)),
            cells,
        );
    }
    let note = format!("{}: their rows are kept", number(status.unreadable));
    section("Schedulers that cannot be read", &note, grid, "", look)
}
