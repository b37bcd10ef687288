//! The schedulers of the namespace, newest first.

use super::parts::{
    Look, Page, count, leading, list, name_of, plain, progress, quiet, scheduler_state,
};
use crate::cli::top::{
    filter,
    grid::{Column, Grid, column},
    place::Place,
    subject::Subject,
    text::{Piece, Tone},
    units::{labels, number, short, since},
};
use rallypoint_client::api::ListSchedulersResponse;

const COLUMNS: &[Column] = &[
    Column::text("scheduler", 12),
    column("state"),
    column("tasks"),
    Column::number("ended"),
    Column::number("of"),
    Column::number("run"),
    Column::number("wait"),
    Column::text("opened by", 8).wide(96),
    column("age"),
    Column::text("labels", 10).wide(110),
    column("handle").wide(88),
];

pub(super) fn page(all: &ListSchedulersResponse, look: &Look) -> Page {
    let (_, words) = filter::of_schedulers(look.filter);
    let mut grid = Grid::new(COLUMNS);
    for one in &all.schedulers {
        let row = leading(&one.handle, Place::Scheduler(one.handle.clone()));
        let bar: String = progress(one, 10).iter().map(Piece::text).collect();
        let settings = one.settings.clone().unwrap_or_default();
        let cells = vec![
            plain(name_of(one)),
            scheduler_state(one),
            quiet(bar),
            plain(number(one.done)),
            plain(number(one.submitted)),
            count(one.running, Tone::Busy),
            count(one.queued + one.blocked + one.retrying, Tone::Waiting),
            plain(&one.caller),
            quiet(since(one.opened_at.as_ref(), look.now)),
            quiet(labels(&settings.labels)),
            quiet(short(&one.handle)),
        ];
        grid.row(row.about(Subject::scheduler(one)), cells);
    }
    let nothing = [
        "Nobody has opened a scheduler yet. A first one, with ten tasks in five orders:",
        "",
        "    rallypoint demo",
    ];
    list(grid, &words, &nothing, look)
}
