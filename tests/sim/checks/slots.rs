//! No more is handed out than executors have room for.

use crate::{
    executors::Executors,
    journal::Journal,
    oracle::{ExecutorState, settled::reserve},
};
use rallypoint::core::{Assignment, Work};

/// There is a slot for it, or a place in line. `early`: it starts without waiting for a batch.
pub(super) fn has_slot(
    journal: &Journal,
    executors: &Executors,
    state: &ExecutorState,
    early: bool,
    assignment: &Assignment,
) {
    let name = format_args!("{}/{}", assignment.handle, assignment.first.0);
    let work = &assignment.spec.work;
    if *work == Work::Noop {
        return;
    }
    let slots = state.slots.get(work).copied().unwrap_or_default();
    let open = executors.open(work, &state.unreported);
    // What started early may have done so after this was decided.
    let is_known = |one: &Assignment| !journal.oracle.is_early(one.handle, one.first);
    if assignment.leaves_free.is_none() {
        // What stood in line leaves the reserve free, which is there from four slots on: only with
        // fewer does the line decide whether another one fits.
        let has_slot = |one: &&Assignment| {
            one.leaves_free.is_none() || reserve(slots.total) == 0 && is_known(one)
        };
        let fits = open.filter(has_slot).count() < slots.total as usize;
        assert!(fits, "{name} exceeds the slots as last told");
        return;
    }
    // This one did not, if it is early itself: they leave in the sequence of the decisions.
    let is_counted = |one: &&Assignment| early || is_known(one);
    let fits = open.filter(is_counted).count() < (slots.total + slots.line) as usize;
    assert!(fits, "{name} exceeds the line as last told");
    assert!(
        !assignment.is_numbered(),
        "{name} stands in line with a record"
    );
}
