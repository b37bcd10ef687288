//! What would run, drawn or as JSON, without a server.
//!
//! Orders stand one below the other, as they wait for each other; tasks of one order side by side
//! with their lines in the file. The JSON is that of a file of tasks, so it can be run as it is.

use super::{
    task_option::{self, Described},
    task_resource,
};
use crate::cli::{
    enum_text::FailurePolicy,
    plural::count,
    terminal_text::{cut, plain, width},
};
use rallypoint_client::api::ResourceUse;
use serde_json::{Map, Value, json};

/// One line of the picture a task, and one between two orders. `tasks`: in ascending order. `room`:
/// characters of a line.
pub(super) fn picture(
    tasks: &[Described],
    on_failure: FailurePolicy,
    room: Option<usize>,
) -> Vec<String> {
    let groups: Vec<&[Described]> = tasks
        .chunk_by(|one, other| one.order == other.order)
        .collect();
    let ordered = groups
        .iter()
        .filter(|group| group[0].order.is_some())
        .count();
    let mut lines = vec![format!(
        "{} in {}; after a failure {}",
        count(tasks.len(), "task"),
        count(ordered, "order"),
        match on_failure {
            FailurePolicy::Continue => "the next order starts",
            FailurePolicy::Halt | FailurePolicy::CancelRest => "no later order starts",
        }
    )];
    let widest = tasks.iter().map(|task| heading(task).chars().count()).max();
    let widest = widest.unwrap_or_default();
    let (mut first, mut before) = (1, None);
    for group in groups {
        let order = group[0].order;
        match before.replace(order) {
            Some(Some(_)) => lines.push(format!("{:widest$}  ▼", "")),
            Some(None) | None => lines.push(String::new()),
        }
        let last = group.len() - 1;
        lines.extend(group.iter().enumerate().map(|(index, task)| {
            let branch = match (index, last) {
                (_, 0) => "──",
                (0, _) => "┬─",
                (index, last) if index == last => "└─",
                _ => "├─",
            };
            let head = if index == 0 {
                heading(task)
            } else {
                String::new()
            };
            let before = format!("{head:<widest$}  {branch} ");
            let left = room.map(|room| room.saturating_sub(before.chars().count()));
            before + &described(task, first + index, left)
        }));
        first += group.len();
    }
    lines
}

/// One object a task.
pub(super) fn json(task: &Described) -> Value {
    let options = task_option::said(&task.how).map(|(name, value)| {
        let value = match name {
            "retries" | "max_losses" | "result_rows" => value.parse().unwrap_or(value.into()),
            "read_only" => (value == "on").into(),
            _ => value.into(),
        };
        (name.to_owned(), value)
    });
    let mut fields: Map<String, Value> = options.collect();
    fields.insert("order".to_owned(), task.order.into());
    fields.insert("statement".to_owned(), task.statement.as_str().into());
    if !task.params.is_empty() {
        fields.insert("params".to_owned(), json!(task.params));
    }
    let labels = task_option::labels(&task.how);
    if !labels.is_empty() {
        fields.insert("labels".to_owned(), json!(labels));
    }
    let resources: Vec<_> = resources(task).map(task_resource::json).collect();
    if !resources.is_empty() {
        fields.insert("resources".to_owned(), resources.into());
    }
    Value::Object(fields)
}

fn resources(task: &Described) -> impl Iterator<Item = &ResourceUse> {
    task.how.options.resources.iter()
}

fn heading(task: &Described) -> String {
    match task.order {
        Some(order) => format!("order {order}"),
        None => "no order".to_owned(),
    }
}

/// `task 3  line 9  refresh: refresh materialized view sales  (timeout 30m)`. The statement is cut
/// first, since its line names it.
fn described(task: &Described, number: usize, room: Option<usize>) -> String {
    let line = task
        .line
        .map_or_else(String::new, |line| format!("  line {line}"));
    let options = task_option::said(&task.how).filter(|(name, _)| *name != task_option::NAME);
    let options = options.map(|(name, value)| format!("{name} {value}"));
    let labels = task_option::labels(&task.how);
    let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
    let resources = resources(task).map(|one| format!("resource {}", task_resource::text(one)));
    let options = options.chain(resources).chain(labels);
    let options: Vec<String> = options.map(|text| plain(&text)).collect();
    let options = match options.is_empty() {
        true => String::new(),
        false => format!("  ({})", options.join(", ")),
    };
    let before = format!("task {number}{line}  ");
    let others = width(&before) + width(&options);
    let left = room.map_or(TITLE, |room| {
        room.saturating_sub(others).clamp(LEAST, TITLE)
    });
    let text = before + &cut(&plain(&task.title()), left) + &options;
    room.map_or_else(|| text.clone(), |room| cut(&text, room))
}

/// Characters of a statement that are shown.
const TITLE: usize = 60;
/// Of them those that are shown however narrow the terminal is.
const LEAST: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exec::{sql_file, task_option::How};

    fn drawn(text: &str, on_failure: FailurePolicy) -> String {
        let mut tasks = sql_file::parse(text, &How::default()).unwrap();
        tasks.sort_by_key(|task| task.order);
        picture(&tasks, on_failure, None).join("\n")
    }

    #[test]
    fn a_narrow_terminal_cuts_statements_and_wraps_no_line() {
        let long = "x".repeat(100);
        let text = format!("-- @timeout 30m\n-- @target dw\nselect {long};\nselect {long};");
        let tasks = sql_file::parse(&text, &How::default()).unwrap();
        let lines = picture(&tasks, FailurePolicy::Halt, Some(80));
        let widest = lines.iter().map(|line| line.chars().count()).max();
        assert_eq!(widest, Some(80), "{lines:?}");
        assert!(lines[2].contains("task 1  line 3  select xxx"), "{lines:?}");
        assert!(
            lines[2].ends_with("x…  (target dw, timeout 30m)"),
            "{lines:?}"
        );
    }

    #[test]
    fn orders_stand_one_below_the_other_with_their_tasks() {
        let text = "create table t();
-- @order 100
-- @name load
-- @retries 2
-- @label team=sales
insert into t
  select 1;
insert into t select 2;
insert into t select 3;
-- @order 200
analyze;
-- @order none
-- @target dw
vacuum;
";
        let expected = "\
6 tasks in 3 orders; after a failure no later order starts

no order   ── task 1  line 14  vacuum  (target dw)

order 1    ── task 2  line 1  create table t()
           ▼
order 100  ┬─ task 3  line 6  load: insert into t select 1  (retries 2, team=sales)
           ├─ task 4  line 8  insert into t select 2
           └─ task 5  line 9  insert into t select 3
           ▼
order 200  ── task 6  line 11  analyze";
        assert_eq!(drawn(text, FailurePolicy::Halt), expected);
        let goes_on = drawn("select 1", FailurePolicy::Continue);
        assert!(goes_on.starts_with("1 task in 1 order; after a failure the next order starts"));
    }

    #[test]
    fn the_json_of_a_task_is_a_line_of_a_file_of_tasks() {
        let text = "-- @order 7\n-- @name a\n-- @label k=v\n-- @read_only\nselect\n'1';";
        let tasks = sql_file::parse(text, &How::default()).unwrap();
        let expected = r#"{"labels":{"k":"v"},"name":"a","order":7,"read_only":true,"statement":"select\n'1'"}"#;
        assert_eq!(json(&tasks[0]).to_string(), expected);
    }
}
