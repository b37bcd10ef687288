//! Named resources: how much of each is in use, and who waits.

use super::parts::{FULL, Look, Page, bar, count, leading, list, or_dash, plain, quiet};
use crate::cli::top::{
    filter,
    grid::{Column, Grid, column},
    place::Place,
    text::{Piece, Row, Tone},
    units::{lasting, number},
};
use rallypoint_client::api::{ListResourcesResponse, ResourceSettings};

const COLUMNS: &[Column] = &[
    Column::text("resource", 12),
    column("in use"),
    Column::number("permits"),
    Column::number("of"),
    Column::number("holders"),
    Column::number("waiting"),
    column("usual hold"),
    column("rate").wide(90),
    Column::text("changed by", 8).wide(110),
];

pub(super) fn page(all: &ListResourcesResponse, look: &Look) -> Page {
    let words = filter::words(look.filter);
    let mut grid = Grid::new(COLUMNS);
    for one in &all.resources {
        let settings = one.settings.unwrap_or_default();
        let is_pattern = one.name.ends_with("/*");
        let row = match is_pattern {
            true => Row::new(Vec::new()).keyed(&one.name),
            false => leading(&one.name, Place::Resource(one.name.clone())),
        };
        let name = match is_pattern {
            true => format!("{} ({} in use)", one.name, number(one.names_in_use)),
            false => one.name.clone(),
        };
        let waiting = one.waiting + one.waiting_tasks;
        let parts = [(one.permits_in_use, Tone::Busy, FULL)];
        let used = bar(&parts, settings.capacity.into(), 10);
        let used: String = used.iter().map(Piece::text).collect();
        let tone = if waiting > 0 {
            Tone::Waiting
        } else {
            Tone::Quiet
        };
        let cells = vec![
            plain(name),
            Piece::new(used, tone),
            plain(number(one.permits_in_use)),
            plain(number(settings.capacity.into())),
            count(one.holds, Tone::Plain),
            count(waiting, Tone::Waiting),
            or_dash(lasting(one.usual_hold.as_ref())),
            or_dash(refill(&settings)),
            quiet(&one.changed_by),
        ];
        grid.row(row, cells);
    }
    let nothing = [
        "No resource is defined in this namespace. A lock, and a command while it is held:",
        "",
        "    rallypoint resource create orders --capacity 1",
        "    rallypoint lock run orders -- ./import",
    ];
    list(grid, &words, &nothing, look)
}

/// How fast permits come back; empty: when they are released.
pub(super) fn refill(settings: &ResourceSettings) -> String {
    settings.refill.as_ref().map_or_else(String::new, |refill| {
        let permits = number(refill.permits.into());
        format!("{permits} each {}", lasting(refill.period.as_ref()))
    })
}
