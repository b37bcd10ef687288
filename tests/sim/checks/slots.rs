//! No more is handed out than executors have room for.

use crate::{
    executors::Executors,
    journal::Journal,
    oracle::{ExecutorState, settled::reserve},
};
use rallypoint::core::{Assignment, Work};

/// There is a slot for it, or a place in line.
pub(super) fn has_slot(
    journal: &Journal,
    executors: &Executors,
    state: &ExecutorState,
    assignment: &Assignment,
) {
    let name = format_args!("{}/{}", assignment.handle, assignment.first.0);
    let work = &assignment.spec.work;
    if *work == Work::Noop {
        return;
    }
    let slots = state.slots.get(work).copied().unwrap_or_default();
    let open = executors.open(work, &state.unreported);
    if assignment.leaves_free.is_none() {
        let (with_slot, lined_up): (Vec<_>, Vec<_>) =
            open.partition(|one| one.leaves_free.is_none());
        // It may have stood in line after this was decided, and it leaves the reserve free.
        let known = |one: &&&Assignment| !journal.oracle.is_early(one.handle, one.first);
        let lined_up = lined_up.iter().filter(known).count();
        let (total, reserve) = (slots.total as usize, reserve(slots.total) as usize);
        let from_line = lined_up.min(total - reserve);
        // Who was next has taken of the reserve: it is free again when somebody in line ends.
        let fits = with_slot.len() < total && with_slot.len() + from_line < total + reserve;
        assert!(fits, "{name} exceeds the slots as last told");
        return;
    }
    let fits = open.count() < (slots.total + slots.line) as usize;
    assert!(fits, "{name} exceeds the line as last told");
    let recorded = assignment.is_numbered() || !assignment.spec.options.resources.is_empty();
    assert!(!recorded, "{name} stands in line with a record");
}
