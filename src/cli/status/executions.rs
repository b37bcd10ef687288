//! The slots of all replicas, as a table: what runs on each, and whose it is.

use crate::cli::{enum_text, output, table::Table, time_text};
use rallypoint_client::api::Execution;

/// Prints them; so many more are left out.
pub(super) fn print(executions: &[Execution], left_out: i64) {
    let mut table = Table::new(&[
        "?replica",
        "target",
        "?>slot",
        "state",
        "?>backend",
        ">elapsed",
        "?namespace",
        "?submitted by",
        "task",
        "?>order",
        "?>try",
        "~statement",
    ]);
    for one in executions {
        let idle = one.handle.is_empty();
        let busy = |text: String| if idle { "-".to_owned() } else { text };
        let elapsed = time_text::duration_us(one.elapsed.as_ref());
        table.row([
            one.replica.clone(),
            enum_text::slot_kind(one.kind.as_ref()),
            one.slot.to_string(),
            enum_text::execution_state(one.state()).to_owned(),
            match one.backend_pid {
                0 => "-".to_owned(),
                pid => pid.to_string(),
            },
            busy(time_text::duration(elapsed)),
            busy(one.namespace.clone()),
            busy(enum_text::submitted_by(one.submitted_by.as_ref())),
            busy(format!("{}/{}", one.handle, one.seq)),
            busy(enum_text::order(one.effective_order)),
            busy(one.attempt.to_string()),
            one.statement_preview.clone(),
        ]);
    }
    table.print();
    if left_out > 0 {
        output::line(format!("{left_out} more slots are left out"));
    }
}
