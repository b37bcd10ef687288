//! How labels stand in `task_label` and `scheduler_label`: `key=value` in UTF-8.

use bytes::Bytes;

/// Stands for every label: the tasks of a row have more than are worth a row each.
pub(crate) const ANY: &[u8] = &[];

/// The label as its tables have it. Another one may look the same: who has it is told by the tasks.
pub(crate) fn of(key: &str, value: &str) -> Bytes {
    format!("{key}={value}").into()
}

/// A display name, as the value of no key: a label's key is never empty.
pub(crate) fn of_display_name(name: &str) -> Bytes {
    of("", name)
}

/// A name, as the value of a space: a label's key holds none.
pub(crate) fn of_name(name: &str) -> Bytes {
    of(" ", name)
}
