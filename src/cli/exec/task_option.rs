//! Options of a task in words: what an annotation of a SQL file or a field of a JSON line says.
//!
//! One list of names for both, in which an unknown one is an error that shows the list.

use super::api_word::{delivery, isolation};
use crate::{
    cli::time_text,
    core::{
        NO_ROLE,
        model::limits::{
            ATTEMPTS, MAX_ORDER, RESULT_ROWS, STATEMENT_TIMEOUT, TIMEOUT, TOTAL_TIMEOUT,
        },
    },
    likeness::did_you_mean,
};
use rallypoint_client::api::{
    ResourceUse, SessionOptions, SqlTask, SqlValue, Task, TaskOptions, sql_value::Kind as Value,
    task::Kind,
};
use std::{collections::BTreeMap, ops::RangeInclusive, time::Duration};

/// A task as it is described: its place in the file, and how it is to run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::cli) struct Described {
    /// The line on which it begins; `None`: it is an argument.
    pub line: Option<usize>,
    pub order: Option<i64>,
    pub statement: String,
    /// Values of its parameters; `None`: NULL.
    pub params: Vec<Option<String>>,
    /// The statement stands in the file as it is, line by line.
    pub is_verbatim: bool,
    pub how: How,
}

/// How a task is to run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::cli) struct How {
    pub target: String,
    pub options: TaskOptions,
}

/// What stands for SQL NULL among parameters, as in COPY.
const NULL: &str = "\\N";
/// What stands behind an option that is a length of time.
const TIME: &str = "TIME";
/// Attempts of a task after the first one.
pub(super) const RETRIES: RangeInclusive<i32> = 0..=*ATTEMPTS.end() - 1;
/// The label that a name is.
pub(super) const NAME: &str = "name";

impl Described {
    pub(super) fn name(&self) -> Option<&str> {
        name_of(&self.how.options)
    }

    /// What a person calls it: its name if it has one, and its statement.
    pub(super) fn title(&self) -> String {
        titled(&self.how.options, &self.statement)
    }

    pub(in crate::cli) fn into_task(self) -> Task {
        let params = self.params.into_iter().map(value);
        let sql = SqlTask {
            statement: self.statement,
            params: params.collect(),
            target: self.how.target,
        };
        Task {
            kind: Some(Kind::Sql(sql)),
            order: self.order,
            options: Some(self.how.options),
        }
    }
}

fn value(text: Option<String>) -> SqlValue {
    SqlValue {
        kind: Some(text.map_or(Value::Null(0), Value::Text)),
    }
}

/// The name that a label gives.
pub(in crate::cli) fn name_of(options: &TaskOptions) -> Option<&str> {
    options.labels.get(NAME).map(String::as_str)
}

/// What a person calls a task with these options and this statement.
pub(in crate::cli) fn titled(options: &TaskOptions, statement: &str) -> String {
    match name_of(options) {
        Some(name) if statement.is_empty() => name.to_owned(),
        Some(name) => format!("{name}: {statement}"),
        None => statement.to_owned(),
    }
}

/// The value of a parameter on the command line; `None`: NULL.
pub(super) fn param(text: &str) -> Option<String> {
    (text != NULL).then(|| text.to_owned())
}

/// The same as the API has it.
pub(in crate::cli) fn sql_value(text: &str) -> SqlValue {
    value(param(text))
}

/// An option.
struct Known {
    name: &'static str,
    /// What stands behind it.
    what: &'static str,
    take: fn(&mut How, &str) -> Result<(), String>,
    /// What it is; `None`: as the service has it.
    show: fn(&How) -> Option<String>,
}

/// Every option but the labels, as errors list them.
const KNOWN: &[Known] = &[
    Known {
        name: NAME,
        what: "TEXT",
        take: |how, text| label(how, NAME, text),
        show: |how| how.options.labels.get(NAME).cloned(),
    },
    Known {
        name: "target",
        what: "NAME",
        take: |how, text| filled(text).map(|name| how.target = name),
        show: |how| filled(&how.target).ok(),
    },
    Known {
        name: "timeout",
        what: TIME,
        take: |how, text| time(text, TIMEOUT).map(|time| how.options.timeout = Some(time)),
        show: |how| shown(how.options.timeout),
    },
    Known {
        name: "total_timeout",
        what: TIME,
        take: |how, text| {
            time(text, TOTAL_TIMEOUT).map(|time| how.options.total_timeout = Some(time))
        },
        show: |how| shown(how.options.total_timeout),
    },
    Known {
        name: "retries",
        what: "N",
        take: |how, text| {
            number(text, RETRIES).map(|retries| {
                how.options.retry.get_or_insert_default().max_attempts = Some(retries + 1);
            })
        },
        show: |how| {
            let attempts = how.options.retry.as_ref()?.max_attempts?;
            (attempts > 1).then(|| (attempts - 1).to_string())
        },
    },
    Known {
        name: "max_losses",
        what: "N",
        take: |how, text| {
            number(text, ATTEMPTS).map(|losses| {
                how.options.retry.get_or_insert_default().max_losses = Some(losses);
            })
        },
        show: |how| Some(how.options.retry.as_ref()?.max_losses?.to_string()),
    },
    Known {
        name: "delivery",
        what: "WORD",
        take: |how, text| {
            delivery()
                .number(text)
                .map(|number| how.options.delivery = number)
        },
        show: |how| delivery().word(how.options.delivery),
    },
    Known {
        name: "result_rows",
        what: "N",
        take: |how, text| {
            number(text, RESULT_ROWS).map(|rows| how.options.result_rows = Some(rows))
        },
        show: |how| {
            let rows = how.options.result_rows.filter(|rows| *rows > 0);
            rows.map(|rows| rows.to_string())
        },
    },
    Known {
        name: "read_only",
        what: "",
        take: |how, text| switch(text).map(|on| session(how).read_only = Some(on)),
        show: |how| {
            begins_with(how)?
                .read_only
                .map(|on| if on { "on" } else { "off" }.to_owned())
        },
    },
    Known {
        name: "isolation",
        what: "LEVEL",
        take: |how, text| {
            isolation()
                .number(text)
                .map(|number| session(how).isolation = number)
        },
        show: |how| isolation().word(begins_with(how)?.isolation),
    },
    Known {
        name: "search_path",
        what: "SCHEMA, …",
        take: |how, text| {
            let schemas = filled(text)?;
            let schemas = schemas.split(',').map(|schema| schema.trim().to_owned());
            session(how).search_path = schemas.collect();
            Ok(())
        },
        show: |how| filled(&begins_with(how)?.search_path.join(", ")).ok(),
    },
    Known {
        name: "statement_timeout",
        what: TIME,
        take: |how, text| {
            time(text, STATEMENT_TIMEOUT).map(|time| session(how).statement_timeout = Some(time))
        },
        show: |how| shown(begins_with(how)?.statement_timeout),
    },
    Known {
        name: "role",
        what: "NAME",
        take: |how, text| {
            let name = filled(text)?;
            session(how).role = Some(if name == NO_ROLE { String::new() } else { name });
            Ok(())
        },
        show: |how| match begins_with(how)?.role.as_deref()? {
            "" => Some(NO_ROLE.to_owned()),
            name => Some(name.to_owned()),
        },
    },
];

/// The names of all options.
pub(in crate::cli) fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|known| known.name)
}

/// What is said of a name that is none of those known.
pub(super) fn unknown(name: &str, known: &[&str]) -> String {
    let meant = match &*did_you_mean(name, known) {
        "" => ";".to_owned(),
        meant => meant.to_owned(),
    };
    format!("it is unknown{meant} known are {}", known.join(", "))
}

/// Whether the option of this name is a length of time.
pub(in crate::cli) fn is_time(name: &str) -> bool {
    let is_it = |known: &Known| known.name == name && known.what == TIME;
    KNOWN.iter().any(is_it)
}

/// Takes one option. `None`: there is none of this name.
pub(super) fn set(how: &mut How, name: &str, text: &str) -> Option<Result<(), String>> {
    let known = KNOWN.iter().find(|known| known.name == name)?;
    Some((known.take)(how, text.trim()))
}

/// How an option stands in a comment; empty: there is none of this name.
pub(super) fn form(name: &str) -> String {
    let known = KNOWN.iter().find(|known| known.name == name);
    known.map_or_else(String::new, |known| {
        format!("{name} {}", known.what).trim().to_owned()
    })
}

/// The options that are said, as [`set`] takes them.
pub(super) fn said(how: &How) -> impl Iterator<Item = (&'static str, String)> {
    KNOWN
        .iter()
        .filter_map(|known| Some((known.name, (known.show)(how)?)))
}

/// The options that are said but the name, in one line.
pub(in crate::cli) fn in_words(options: &TaskOptions) -> String {
    let how = How {
        target: String::new(),
        options: options.clone(),
    };
    let but_name = said(&how).filter(|(name, _)| *name != NAME);
    let words: Vec<String> = but_name
        .map(|(name, value)| format!("{name} {value}").trim().to_owned())
        .collect();
    words.join(", ")
}

/// How a task runs that may say labels of its own: [`with_labels_of`] adds those it does not say.
pub(super) fn without_labels(defaults: &How) -> How {
    let mut how = defaults.clone();
    how.options.labels.clear();
    how
}

/// With the labels of the defaults that the task does not say itself.
pub(super) fn with_labels_of(defaults: &How, mut how: How) -> How {
    let own = std::mem::take(&mut how.options.labels);
    how.options.labels = defaults.options.labels.clone();
    how.options.labels.extend(own);
    how
}

/// Adds a label.
pub(super) fn label(how: &mut How, key: &str, value: &str) -> Result<(), String> {
    let (key, value) = (filled(key)?, filled(value)?);
    match how.options.labels.insert(key.clone(), value) {
        Some(_) => Err(format!("`{key}` is said twice of one task")),
        None => Ok(()),
    }
}

/// Adds a resource.
pub(super) fn resource(how: &mut How, used: ResourceUse) -> Result<(), String> {
    let resources = &mut how.options.resources;
    if resources.iter().any(|other| other.name == used.name) {
        return Err(format!("`{}` is said twice of one task", used.name));
    }
    resources.push(used);
    Ok(())
}

/// The labels besides the name, by their keys.
pub(super) fn labels(how: &How) -> BTreeMap<&str, &str> {
    let labels = how.options.labels.iter().filter(|(key, _)| *key != NAME);
    labels
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect()
}

/// An order: a whole number, or none.
pub(super) fn order(text: &str) -> Result<Option<i64>, String> {
    let order = text.parse::<i64>().ok();
    match order.filter(|order| (0..=MAX_ORDER).contains(order)) {
        Some(order) => Ok(Some(order)),
        None if text == "none" => Ok(None),
        None => Err(format!(
            "`{text}` is not an order: it must be a whole number from 0 to {MAX_ORDER}"
        )),
    }
}

fn session(how: &mut How) -> &mut SessionOptions {
    how.options.session.get_or_insert_default()
}

fn begins_with(how: &How) -> Option<&SessionOptions> {
    how.options.session.as_ref()
}

fn filled(text: &str) -> Result<String, String> {
    match text {
        "" => Err("there is nothing behind it".to_owned()),
        text => Ok(text.to_owned()),
    }
}

fn time(text: &str, range: RangeInclusive<Duration>) -> Result<prost_types::Duration, String> {
    let time = time_text::within(range)(text)?;
    time.try_into().map_err(|_| "it is too long".to_owned())
}

fn shown(time: Option<prost_types::Duration>) -> Option<String> {
    let time = jiff::SignedDuration::try_from(Duration::try_from(time?).ok()?).ok()?;
    Some(format!("{time:#}"))
}

fn number(text: &str, range: RangeInclusive<i32>) -> Result<i32, String> {
    let number = text
        .parse::<i32>()
        .ok()
        .filter(|number| range.contains(number));
    number.ok_or_else(|| {
        format!(
            "`{text}` is not a number from {} to {}",
            range.start(),
            range.end()
        )
    })
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "" | "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err(format!("`{text}` is neither `on` nor `off`")),
    }
}
