//! One resource: who holds it, who is next.

use super::{
    parts::{FULL, Look, Page, bar, facts, leading, or_dash, plain, quiet, section, word},
    resources::refill,
};
use crate::cli::{
    time_text::micros,
    top::{
        grid::{Column, Grid, column},
        place::Place,
        subject::Subject,
        text::{Kind, Row, Tone},
        units::{ago, at, lasting, number, since, span},
    },
};
use rallypoint_client::api::{Claim, Resource, ResourceUse, WaitingTasks, WatchResourceResponse};

pub(super) fn page(seen: &WatchResourceResponse, look: &Look) -> Page {
    let one = seen.resource.clone().unwrap_or_default();
    let mut rows = vec![head(&one, look), Row::blank()];
    rows.extend(holders(&seen.holds, &one.name, look));
    rows.extend(queue(&seen.queue, &one.name, look));
    if !seen.waiting_tasks.is_empty() {
        rows.extend(tasks(&seen.waiting_tasks, look));
    }
    rows.extend(settings(&one, look));
    Page {
        title: format!("resource {}", one.name),
        rows,
        ..Page::default()
    }
}

fn head(one: &Resource, look: &Look) -> Row {
    let capacity = i64::from(one.settings.unwrap_or_default().capacity);
    let cells = (look.width / 4).clamp(10, 40);
    let mut pieces = bar(&[(one.permits_in_use, Tone::Busy, FULL)], capacity, cells);
    pieces.push(plain(format!(
        "  {} of {} permits in use",
        number(one.permits_in_use),
        number(capacity)
    )));
    let usual = lasting(one.usual_hold.as_ref());
    if !usual.is_empty() {
        pieces.push(quiet(format!("  usually held for {usual}")));
    }
    Row {
        kind: Kind::Head,
        ..Row::new(pieces)
    }
}

/// For whom a claim is.
fn owner(claim: &Claim) -> String {
    match (claim.handle.as_str(), claim.owner.as_str()) {
        ("", "") => claim.caller.clone(),
        ("", owner) => owner.to_owned(),
        _ => format!("task {}", claim.seq),
    }
}

fn row(claim: &Claim) -> Row {
    let key = format!("claim {}", claim.claim);
    let row = match claim.handle.as_str() {
        "" => Row::new(Vec::new()).keyed(key),
        handle => leading(key, Place::Task(handle.to_owned(), claim.seq)),
    };
    row.about(Subject::Claim(claim.claim, owner(claim)))
}

fn usage(used: Option<&ResourceUse>) -> String {
    let Some(used) = used else {
        return String::new();
    };
    let mode = match word(used.mode().as_str_name(), "RESOURCE_MODE").as_str() {
        "" => "exclusive".to_owned(),
        mode => mode.to_owned(),
    };
    match used.permits {
        ..=1 => mode,
        many => format!("{mode} × {many}"),
    }
}

fn of_claim(claim: &Claim, name: &str) -> String {
    let own = claim.resources.iter().find(|one| one.name == name);
    let usage = usage(own.or(claim.resources.first()));
    match claim.resources.len() {
        ..=1 => usage,
        many => format!("{usage}, with {} more", many - 1),
    }
}

fn holders(holds: &[Claim], name: &str, look: &Look) -> Vec<Row> {
    const COLUMNS: &[Column] = &[
        Column::text("holder", 10),
        column("use"),
        Column::number("token"),
        column("since"),
        column("lease"),
        Column::text("why", 8),
    ];
    let mut grid = Grid::new(COLUMNS);
    for claim in holds {
        let lease = match micros(claim.lease_until.as_ref()) {
            0 => "with its attempt".to_owned(),
            until => format!("{} left", span(until - look.now)),
        };
        let cells = vec![
            plain(owner(claim)),
            plain(of_claim(claim, name)),
            plain(claim.token.to_string()),
            quiet(ago(claim.granted_at.as_ref(), look.now)),
            quiet(lease),
            or_dash(&claim.reason),
        ];
        grid.row(row(claim), cells);
    }
    section("Holders", "oldest first", grid, "Nobody holds it.", look)
}

fn queue(queue: &[Claim], name: &str, look: &Look) -> Vec<Row> {
    const COLUMNS: &[Column] = &[
        Column::number("place"),
        Column::text("who", 10),
        column("use"),
        Column::number("waits for"),
        Column::number("expected"),
        Column::text("why", 8),
    ];
    let mut grid = Grid::new(COLUMNS);
    for claim in queue {
        let cells = vec![
            plain(claim.position.to_string()),
            plain(owner(claim)),
            plain(of_claim(claim, name)),
            plain(since(claim.requested_at.as_ref(), look.now)),
            or_dash(lasting(claim.expected_wait.as_ref())),
            or_dash(&claim.reason),
        ];
        grid.row(row(claim), cells);
    }
    section(
        "Queue",
        "first in line first",
        grid,
        "Nobody waits in line.",
        look,
    )
}

fn tasks(waiting: &[WaitingTasks], look: &Look) -> Vec<Row> {
    const COLUMNS: &[Column] = &[
        Column::number("task"),
        Column::text("scheduler", 10),
        column("use"),
        column("kept for it"),
    ];
    let mut grid = Grid::new(COLUMNS);
    for one in waiting {
        let key = format!("waits {} {}", one.handle, one.seq);
        let cells = vec![
            plain(one.seq.to_string()),
            plain(&one.handle),
            plain(usage(one.resource.as_ref())),
            quiet(if one.is_kept { "yes" } else { "no" }),
        ];
        grid.row(
            leading(key, Place::Task(one.handle.clone(), one.seq)),
            cells,
        );
    }
    let note = "the first of each order stands for all";
    section("Waiting tasks", note, grid, "", look)
}

fn settings(one: &Resource, look: &Look) -> Vec<Row> {
    let set = one.settings.unwrap_or_default();
    let back = match refill(&set) {
        rate if rate.is_empty() => "when they are released".to_owned(),
        rate => rate,
    };
    let readers = if set.reader_preferred {
        "pass the writers in line"
    } else {
        ""
    };
    let changed = format!(
        "{} by {}",
        at(one.changed_at.as_ref(), look.now),
        one.changed_by
    );
    let mut rows = vec![Row::head("Settings", "")];
    rows.extend(facts([
        ("defined by", one.defined_by.clone()),
        ("permits come back", back),
        ("lock delay", lasting(set.lock_delay.as_ref())),
        ("longest hold", lasting(set.max_hold.as_ref())),
        ("readers", readers.to_owned()),
        ("changed", changed),
    ]));
    rows
}
