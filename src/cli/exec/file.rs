//! Files of tasks: SQL in a `.sql` file, else a task a line, `order, statement` or a JSON object.
//!
//! In `order, statement` the first comma ends the order, so the statement may contain commas.
//! Nothing is guessed: a line that is neither is an error that names the line.

use super::{
    fault::{self, Fault},
    json_params, sql_file,
    task_option::{self, Described, How},
    task_resource,
    unique_json::Unique,
};
use crate::{
    cli::{error::CliError, unreadable},
    toml_file,
};
use clap::ValueEnum;
use serde_json::Value;
use std::{io::Read, path::Path};

/// What a file of tasks holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Sql,
    Lines,
}

/// Whether a file of this name holds SQL.
pub(super) fn is_sql(path: &Path) -> bool {
    let is_one_word = !path.to_string_lossy().contains(char::is_whitespace);
    let ends_so = path.extension();
    ends_so.is_some_and(|its| its.eq_ignore_ascii_case("sql")) && (is_one_word || path.exists())
}

/// Reads a file, or stdin for `-`. `how`: how tasks run of which it says nothing.
pub(super) fn read(path: &Path, how: &How, format: Format) -> Result<Vec<Described>, CliError> {
    let name = fault::name_of(path);
    let bytes = match path.as_os_str() == "-" {
        true => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).map(|_| bytes)
        }
        false => std::fs::read(path),
    };
    let bytes = bytes.map_err(|error| unreadable::error(&name, &error))?;
    let tasks = match (text(&bytes), format) {
        (Err(fault), _) => Err(vec![fault]),
        (Ok(text), Format::Sql) => sql_file::parse(text, how),
        (Ok(text), Format::Lines) => parse(text, how),
    };
    tasks.map_err(|faults| fault::error(&name, faults))
}

/// The tasks of a file of SQL, or all that is wrong with it.
pub(in crate::cli) fn of_sql_file(path: &Path) -> Result<Vec<Described>, Vec<String>> {
    let name = path.display();
    let text =
        toml_file::read(path).map_err(|error| vec![format!("cannot read {name}: {error}")])?;
    let tasks = sql_file::parse(without_mark(&text), &How::default());
    tasks.map_err(|faults| {
        let said = |fault: Fault| format!("{name}, line {}: {}", fault.line, fault.why);
        faults.into_iter().map(said).collect()
    })
}

fn text(bytes: &[u8]) -> Result<&str, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        Fault::new(
            line,
            "it is not UTF-8",
            "save it as UTF-8 (`iconv -t utf-8`)",
        )
    })?;
    Ok(without_mark(text))
}

/// Some editors put a byte order mark before a text.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The tasks of lines, or every malformed line.
fn parse(text: &str, how: &How) -> Result<Vec<Described>, Vec<Fault>> {
    let lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let mut lines = lines.peekable();
    if let Some((number, _)) = lines.peek().filter(|(_, line)| line.starts_with('[')) {
        let next = r#"write one object a line, no list: `{"statement": "select 1"}` (`jq -c '.[]'` makes these of a list)"#;
        return Err(vec![Fault::new(
            *number,
            "a list of JSON is not read",
            next,
        )]);
    }
    let task = |(number, line): (usize, &str)| {
        let task = match line.starts_with('{') {
            true => object(line, how),
            false => pair(line, how).map_err(|wrong| vec![wrong]),
        };
        let fault = |(why, next)| Fault::new(number, why, next);
        match task {
            Ok(task) => Ok(Described {
                line: Some(number),
                ..task
            }),
            Err(all) => Err(all.into_iter().map(fault).collect::<Vec<_>>()),
        }
    };
    let (tasks, faults): (Vec<_>, Vec<_>) = lines.map(task).partition(Result::is_ok);
    match faults.is_empty() {
        true => Ok(tasks.into_iter().flatten().collect()),
        false => Err(faults
            .into_iter()
            .filter_map(Result::err)
            .flatten()
            .collect()),
    }
}

/// What is wrong, and what to write instead; empty: what is wrong says it.
type Wrong = (String, &'static str);

fn pair(line: &str, how: &How) -> Result<Described, Wrong> {
    let wrong = |why: &str| {
        let next = "write `100, select 1`, or `, select 1` for a task without an order; SQL is read with --format sql";
        (format!("not `order, statement`: {why}"), next)
    };
    let (order, statement) = line
        .split_once(',')
        .ok_or_else(|| wrong("there is no comma"))?;
    let (order, statement) = (order.trim(), statement.trim());
    if statement.is_empty() {
        return Err(wrong("there is no statement after the comma"));
    }
    let order = match order {
        "" => None,
        order => task_option::order(order).map_err(|why| wrong(&why))?,
    };
    Ok(Described {
        order,
        statement: statement.to_owned(),
        how: how.clone(),
        ..Described::default()
    })
}

/// The task, or all that is wrong with it.
fn object(line: &str, how: &How) -> Result<Described, Vec<Wrong>> {
    let wrong = |why: String| {
        let next = r#"write `{"order": 100, "statement": "select 1"}`, an object a line"#;
        (format!("not a task in JSON: {why}"), next)
    };
    let read = serde_json::from_str(line).map_err(|error| vec![wrong(error.to_string())]);
    let Unique(object) = read?;
    let fields = object.as_object().cloned().unwrap_or_default();
    let mut task = Described {
        how: task_option::without_labels(how),
        ..Described::default()
    };
    let fields = fields.iter().filter(|(_, value)| !value.is_null());
    let faults = fields.filter_map(|(name, value)| {
        let why = field(&mut task, name, value).err()?;
        Some((format!("`{name}`: {why}"), ""))
    });
    let faults: Vec<Wrong> = faults.collect();
    task.how = task_option::with_labels_of(how, task.how);
    if let Some(params) = json_params::of(line) {
        task.params = params;
    }
    match task.statement.trim() {
        _ if !faults.is_empty() => Err(faults),
        "" => Err(vec![wrong("`statement` is missing".to_owned())]),
        _ => Ok(task),
    }
}

/// Takes one field of a task that is an object.
pub(in crate::cli) fn field(task: &mut Described, name: &str, value: &Value) -> Result<(), String> {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match (name, value) {
        ("statement", Value::String(_)) => task.statement = text,
        ("order", _) => task.order = task_option::order(&text)?,
        ("labels", Value::Object(labels)) => {
            for (key, value) in labels {
                let value = value.as_str().ok_or("the value of a label is a string")?;
                task_option::label(&mut task.how, key, value)?;
            }
        }
        ("resources", Value::Array(all)) => {
            for one in all {
                let used = task_resource::from_json(one)?;
                task_option::resource(&mut task.how, used)?;
            }
        }
        ("params", Value::Array(values)) => task.params = values.iter().map(param).collect(),
        ("statement", _) => return Err(r#"write a string: "select 1""#.to_owned()),
        ("labels", _) => return Err(r#"write an object: {"team": "sales"}"#.to_owned()),
        ("params", _) => return Err(r#"write a list: ["5", null]"#.to_owned()),
        ("resources", _) => return Err(r#"write a list: ["orders"]"#.to_owned()),
        _ => task_option::set(&mut task.how, name, &text).ok_or_else(|| {
            let fields = ["order", "statement", "params", "labels", "resources"];
            let known: Vec<_> = fields.into_iter().chain(task_option::names()).collect();
            task_option::unknown(name, &known)
        })??,
    }
    Ok(())
}

/// The value of a parameter as Postgres reads it.
fn param(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(line: usize, order: Option<i64>, statement: &str) -> Described {
        Described {
            line: Some(line),
            order,
            statement: statement.to_owned(),
            ..Described::default()
        }
    }

    fn tasks(text: &str) -> Vec<Described> {
        parse(text, &How::default()).unwrap()
    }

    fn fault(text: &str) -> Fault {
        let mut faults = parse(text, &How::default()).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        faults.remove(0)
    }

    #[test]
    fn lines_have_an_order_and_a_statement_that_may_hold_commas() {
        let text = "# nightly\n\n100, select f(1, 2)\n  200,select 3  \n, vacuum\n";
        assert_eq!(
            tasks(text),
            [
                task(3, Some(100), "select f(1, 2)"),
                task(4, Some(200), "select 3"),
                task(5, None, "vacuum")
            ]
        );
    }

    #[test]
    fn a_line_of_json_has_a_statement_of_many_lines_and_options() {
        let text = r#"{"order": 7, "statement": "select\n1", "target": "dw", "retries": 2, "name": null}
            {"statement": "select 2", "read_only": true, "labels": {"team": "sales"}}"#;
        let tasks = tasks(text);
        assert_eq!(tasks[0].statement, "select\n1");
        let said: Vec<_> = task_option::said(&tasks[0].how).collect();
        assert_eq!(
            said,
            [("target", "dw".to_owned()), ("retries", "2".to_owned())]
        );
        assert_eq!((tasks[0].order, tasks[1].order), (Some(7), None));
        assert_eq!(
            task_option::labels(&tasks[1].how),
            [("team", "sales")].into()
        );
    }

    #[test]
    fn a_bad_line_is_named() {
        assert_eq!(fault("100, select 1\nselect 1").line, 2);
        assert_eq!(fault("\n\n100,").line, 3);
        assert!(
            fault("select 1, 2")
                .why
                .contains("`select 1` is not an order")
        );
        let all = [
            (r#"{"order": 1}"#, "`statement` is missing"),
            (r#"{"statement": 1}"#, "write a string"),
            (r#"{"statement": "a", "labels": ["b"]}"#, "write an object"),
            (r#"{"statement": "a", "resources": "b"}"#, "write a list"),
            (
                r#"{"statement": "a", "order": 1.5}"#,
                "`1.5` is not an order",
            ),
            (
                r#"{"statement": "a", "owner": 1}"#,
                "known are order, statement",
            ),
            (
                r#"{"statement": "a", "retry": 1}"#,
                "did you mean `retries`?",
            ),
            (r#"{"statement": "a", "timeout": "soon"}"#, "like 30s"),
            (r#"{"statement": "a""#, "EOF"),
            (
                r#"{"statement": "a", "order": 1, "order": 2}"#,
                "`order` stands twice",
            ),
            (
                r#"{"statement": "a", "labels": {"k": "1", "k": "2"}}"#,
                "`k` stands twice",
            ),
            (r#"{"statement": "a", "params": "1"}"#, "write a list"),
        ];
        for (text, why) in all {
            let fault = fault(text);
            assert!(fault.why.contains(why), "{fault:?}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        assert_eq!(
            text("\u{feff}1, select 1".as_bytes()).unwrap(),
            "1, select 1"
        );
        assert!(text(b"\xff").is_err());
    }

    #[test]
    fn every_wrong_field_of_a_line_is_named() {
        let line = r#"{"statement": 1, "order": "x", "timeout": "soon", "name": "a"}"#;
        let faults = parse(line, &How::default()).unwrap_err();
        let fields = faults
            .iter()
            .filter_map(|fault| fault.why.split('`').nth(1));
        let fields: Vec<&str> = fields.collect();
        assert_eq!(fields, ["order", "statement", "timeout"]);
    }

    #[test]
    fn a_list_of_json_is_answered_once() {
        for text in [r#"[{"statement": "a"}]"#, "\n[\n{\"statement\": \"a\"},\n]"] {
            let fault = fault(text);
            assert!(
                fault.next.starts_with("write one object a line"),
                "{fault:?}"
            );
        }
    }

    #[test]
    fn a_bad_value_has_one_remedy() {
        let said = fault(r#"{"statement": "a", "timeout": "soon"}"#);
        assert!(
            said.why
                .starts_with("`timeout`: write a length of time like 30s")
        );
        assert!(
            !said.why.contains("TIME") && said.next.is_empty(),
            "{said:?}"
        );
    }

    #[test]
    fn every_bad_line_is_named() {
        let faults = parse("select 1\n1, select 1\n2,\n{}", &How::default()).unwrap_err();
        let lines: Vec<usize> = faults.iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [1, 3, 4]);
    }

    #[test]
    fn what_is_not_utf_8_is_named_by_its_line() {
        assert_eq!(super::text(b"1\n2\n\xff").unwrap_err().line, 3);
    }
}
