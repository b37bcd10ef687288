//! What `--on-failure cancel-rest` means for tasks that are submitted in several calls: a failure
//! cancels what was submitted before it, and not what a later call brings.

use crate::cli::{enum_text::FailurePolicy, error::CliError, submit_calls::is_one_call};
use rallypoint_client::api::Task;

/// What a failure does in their scheduler. One that is released halts instead: what a halt blocks
/// is cancelled then. `is_kept`: it is not released.
pub(super) fn policy_of(tasks: &[Task], is_kept: bool) -> Result<FailurePolicy, CliError> {
    let orders = || tasks.iter().filter_map(|task| task.order);
    let has_no_rest = orders().min() == orders().max();
    match (has_no_rest || is_one_call(tasks), is_kept) {
        (true, _) => Ok(FailurePolicy::CancelRest),
        (false, false) => Ok(FailurePolicy::Halt),
        (false, true) => {
            let what = "--on-failure cancel-rest is not for so many tasks";
            let why = "they are submitted in several calls, and a failure cancels only those that \
                       were submitted before it";
            let next = "use --on-failure halt, or divide them";
            Err(CliError::usage(what).why(why).next(next))
        }
    }
}
