//! Rows of `task_label` and `scheduler_label`: where to look for what has a label. What does not
//! have it is told apart when it is read, so that rows need not be exact.

use super::columns::columns;
use crate::core::{Handle, SchedulerImage, Spec};
use crate::journal::{
    encoding::Blobs,
    rows::label::{self, ANY},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use uuid::Uuid;

/// Labels worth a row each: so many for each task of a row of `submission`, so that the writer's
/// work is in proportion to the tasks.
const LABELS_PER_TASK: usize = 4;
/// Labels worth a row each, however few the tasks: as many as a task may have, with those of its
/// scheduler's `default_options`.
const MIN_LABELS: usize = 128;

/// A scheduler keeps the rows of labels that it had before and has now.
pub(super) const ON_CONFLICT: &str = "
on conflict on constraint scheduler_label_pkey do nothing";

/// The delete of the rows of labels that schedulers no longer have: `schedulers` and `labels` are
/// how many parameters come before those of [`Schedulers`](super::scheduler::Schedulers) and
/// [`SchedulerLabels`]. The keys are not joined, since the planner takes a young table for empty
/// and would go through it whole.
pub(super) fn delete_former(schedulers: usize, labels: usize) -> String {
    let (changed, label, handle) = (schedulers + 1, labels + 2, labels + 3);
    format!(
        "
delete from scheduler_label l
where l.shard = $1
    and l.handle = any (${changed}::uuid[])
    and (l.handle, l.label) not in (
        select k.handle, k.label
        from unnest(${handle}::uuid[], ${label}::bytea[]) as k (handle, label)
    )"
    )
}

columns! {
    /// The labels of a batch's rows of `submission`.
    pub(super) struct TaskLabels of "task_label" {
        handle: Vec<Uuid>,
        label: Blobs,
        first_seq: Vec<i64>,
    }
}

columns! {
    /// The labels of a batch's schedulers.
    pub(super) struct SchedulerLabels of "scheduler_label" {
        namespace: Blobs,
        label: Blobs,
        handle: Vec<Uuid>,
    }
}

impl TaskLabels {
    pub(super) fn is_empty(&self) -> bool {
        self.handle.is_empty()
    }

    /// Adds the labels of one row of `submission` that has `tasks` with these specs.
    pub(super) fn add(&mut self, handle: Uuid, first_seq: i64, tasks: u32, specs: &[Arc<Spec>]) {
        let most = MIN_LABELS.max(tasks as usize * LABELS_PER_TASK);
        let mut labels = BTreeSet::new();
        for (key, value) in specs.iter().flat_map(|spec| &spec.options.labels) {
            labels.insert(label::of(key, value));
            if labels.len() > most {
                labels = BTreeSet::from([ANY.into()]);
                break;
            }
        }
        for label in labels {
            self.handle.push(handle);
            self.label.row(Some(label));
            self.first_seq.push(first_seq);
        }
    }
}

impl SchedulerLabels {
    /// Adds the labels and names of the schedulers.
    pub(super) fn fill(&mut self, images: &BTreeMap<Handle, SchedulerImage>) {
        for image in images.values() {
            let name = Some(&image.settings.display_name).filter(|name| !name.is_empty());
            let labels = image.settings.labels.iter();
            let labels = labels.map(|(key, value)| label::of(key, value));
            let labels = labels.chain(name.map(|name| label::of_display_name(name)));
            let name = image.name.as_deref().map(label::of_name);
            for label in labels.chain(name) {
                let namespace = image.namespace.0.as_bytes().to_vec();
                self.namespace.row(Some(namespace.into()));
                self.label.row(Some(label));
                self.handle.push(image.handle.uuid());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{TaskOptions, Work};

    fn spec(labels: impl IntoIterator<Item = (String, String)>) -> Arc<Spec> {
        Arc::new(Spec {
            work: Work::Noop,
            options: TaskOptions {
                labels: labels.into_iter().collect(),
                ..TaskOptions::default()
            },
            trace: None,
        })
    }

    fn rows_of(tasks: u32, specs: &[Arc<Spec>]) -> usize {
        let mut labels = TaskLabels::default();
        labels.add(Uuid::nil(), 1, tasks, specs);
        labels.handle.len()
    }

    #[test]
    fn a_label_has_one_row_however_many_tasks_have_it() {
        let one = |key: &str| (key.to_owned(), "x".to_owned());
        let specs = [spec([one("a")]), spec([one("a"), one("b")]), spec([])];
        assert_eq!(rows_of(3, &specs), 2);
        assert_eq!(rows_of(1, &[spec([])]), 0);
    }

    #[test]
    fn more_labels_than_are_worth_it_become_any() {
        let numbered = |from: usize, to: usize| {
            let label = |number| (format!("k{number}"), String::new());
            spec((from..to).map(label))
        };
        assert_eq!(rows_of(1, &[numbered(0, 128)]), 128);
        assert_eq!(rows_of(2, &[numbered(0, 128), numbered(128, 130)]), 1);
        assert_eq!(rows_of(64, &[numbered(0, 128), numbered(128, 256)]), 256);
    }
}
