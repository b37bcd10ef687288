//! A file of SQL as tasks: a statement each, or a group of them, with what comments say of them.
//!
//! The file runs in psql as well, with the same effect, so what psql does from top to bottom is
//! refused when it could not be done by tasks: nothing is guessed, and the line is named. Pure.

mod annotation;
#[cfg(test)]
mod tests;

use super::{
    fault::Fault,
    lone_statement,
    sql_script::{self, Kind, Part, Statement},
    task_option::{self, Described, How},
    task_resource,
};
use crate::core::model::limits::BODY_BYTES;
use std::{collections::BTreeSet, ops::Range};

/// The tasks of a text in the order of the file, or everything that is wrong with it. `defaults`:
/// how they run where it says nothing.
pub(super) fn parse(text: &str, defaults: &How) -> Result<Vec<Described>, Vec<Fault>> {
    let mut reader = Reader {
        text,
        defaults,
        place: Place::Line(0),
        lowest: 0,
        ahead: None,
        group: None,
        tasks: Vec::new(),
    };
    let (mut parts, mut faults) = (sql_script::parts(text), Vec::new());
    while let Some(part) = parts.next() {
        let part = match part {
            Ok(part) => part,
            // Where the statements behind it begin is unknown.
            Err(fault) => {
                faults.push(fault);
                return Err(faults);
            }
        };
        if matches!(&part.kind, Kind::Statement(statement) if copies(statement)) {
            parts.pass_data();
        }
        let range = part.at..part.at + part.text.len();
        faults.extend(reader.part(part, range).err());
    }
    faults.extend(reader.open_end());
    match faults.is_empty() {
        true => Ok(reader.tasks),
        false => Err(faults),
    }
}

/// Where the next task stands.
#[derive(Clone, Copy)]
enum Place {
    /// Behind the one before, which has this order: the file has not named an order yet.
    Line(i64),
    /// In the order that was named last.
    Order(Option<i64>),
}

/// What comments have said of the task that follows.
struct Ahead {
    line: usize,
    how: How,
    said: BTreeSet<String>,
}

/// A group of statements that is open.
struct Group {
    line: usize,
    /// From its first statement to the end of its last one.
    text: Option<Range<usize>>,
    first_line: usize,
    escapes: Vec<usize>,
}

struct Reader<'a> {
    text: &'a str,
    defaults: &'a How,
    place: Place,
    /// The lowest order that may follow.
    lowest: i64,
    ahead: Option<Ahead>,
    group: Option<Group>,
    tasks: Vec<Described>,
}

impl Reader<'_> {
    fn part(&mut self, part: Part<'_>, range: Range<usize>) -> Result<(), Fault> {
        let line = part.line;
        match part.kind {
            Kind::Space => annotation::refuse_in_block(line, part.text),
            Kind::Comment { alone } => match annotation::read(line, part.text)? {
                None => Ok(()),
                Some(_) if !alone => Err(annotation::misplaced(line, part.text)),
                Some((name, value)) => self.annotation(line, name, value),
            },
            Kind::Command => self.command(line, part.text),
            Kind::Statement(statement) => {
                let taken = self.statement(line, range, &statement);
                if taken.is_err() && self.group.is_none() {
                    self.ahead = None;
                }
                taken
            }
        }
    }

    fn annotation(&mut self, line: usize, name: &str, value: &str) -> Result<(), Fault> {
        if name == "end" {
            return self.close(line, value);
        }
        if self
            .group
            .as_ref()
            .is_some_and(|group| group.text.is_some())
        {
            let why = format!("`@{name}` stands inside a task that has begun");
            return Err(Fault::new(
                line,
                why,
                "put it ahead of the first statement, or `-- @end`",
            ));
        }
        match name {
            "task" => self.open(line, value),
            "order" => self.order(line, value),
            _ => self.option(line, name, value),
        }
    }

    fn open(&mut self, line: usize, value: &str) -> Result<(), Fault> {
        if let Some(group) = &self.group {
            let why = format!("`@task` of line {} has no `@end` yet", group.line);
            return Err(Fault::new(
                line,
                why,
                "write `-- @end` behind its last statement",
            ));
        }
        self.group = Some(Group {
            line,
            text: None,
            first_line: line,
            escapes: Vec::new(),
        });
        annotation::nothing_behind(line, "task", value)
    }

    fn close(&mut self, line: usize, value: &str) -> Result<(), Fault> {
        let Some(group) = self.group.take() else {
            let next = "write `-- @task` ahead of the first statement of the task";
            return Err(Fault::new(
                line,
                "there is no `@task` that this `@end` ends",
                next,
            ));
        };
        let Some(range) = group.text else {
            self.ahead = None;
            let next = "put its statements between `-- @task` and `-- @end`";
            return Err(Fault::new(group.line, "the task has no statement", next));
        };
        self.task(group.first_line, range, &group.escapes)?;
        annotation::nothing_behind(line, "end", value)
    }

    fn order(&mut self, line: usize, value: &str) -> Result<(), Fault> {
        let order = task_option::order(value)
            .map_err(|why| Fault::new(line, why, "write `-- @order 100`, or `-- @order none`"))?;
        if let Some(order) = order.filter(|order| *order < self.lowest) {
            let why = format!("order {order} is below what stands ahead of it");
            let next = format!(
                "orders ascend, as psql runs the file from top to bottom: write {} or more (tasks \
                 ahead of the first `@order` have the orders 1, 2, …)",
                self.lowest
            );
            return Err(Fault::new(line, why, next));
        }
        self.lowest = order.unwrap_or(self.lowest);
        self.place = Place::Order(order);
        Ok(())
    }

    fn option(&mut self, line: usize, name: &str, value: &str) -> Result<(), Fault> {
        let ahead = self.ahead.get_or_insert_with(|| Ahead {
            line,
            how: task_option::without_labels(self.defaults),
            said: BTreeSet::new(),
        });
        let taken = match (name, value.split_once('=')) {
            ("label", Some((key, value))) => {
                Some(task_option::label(&mut ahead.how, key.trim(), value.trim()))
            }
            ("resource", _) => {
                let used = task_resource::parse(value);
                Some(used.and_then(|used| task_option::resource(&mut ahead.how, used)))
            }
            ("label", None) => Some(Err("write `label KEY=VALUE`".to_owned())),
            _ if !ahead.said.insert(name.to_owned()) => {
                Some(Err("it is said twice of one task".to_owned()))
            }
            _ => task_option::set(&mut ahead.how, name, value),
        };
        match taken {
            Some(taken) => taken.map_err(|why| {
                let form = match name {
                    "resource" => task_resource::FORM.to_owned(),
                    _ => task_option::form(name),
                };
                let next = match &*form {
                    "" => "mend the comment, or leave it out".to_owned(),
                    form => format!("mend the comment (`-- @{form}`), or leave it out"),
                };
                Fault::new(line, format!("`@{name}`: {why}"), next)
            }),
            None => Err(annotation::unknown(line, name)),
        }
    }

    fn command(&self, line: usize, text: &str) -> Result<(), Fault> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let stops = ["on", "1", "true", "yes"];
        match words[..] {
            ["\\set", "ON_ERROR_STOP", value] if stops.contains(&value) && self.group.is_none() => {
                Ok(())
            }
            _ => Err(Fault::new(
                line,
                "a command of psql is no task",
                remedy(words[0]),
            )),
        }
    }

    fn statement(
        &mut self,
        line: usize,
        range: Range<usize>,
        statement: &Statement<'_>,
    ) -> Result<(), Fault> {
        let sound = is_sound(line, statement);
        if statement.is_empty {
            return sound;
        }
        let start = range.start;
        let escapes = statement.escapes.iter().map(|at| start + at);
        if let Some(group) = &mut self.group {
            group.escapes.extend(escapes);
            let text = group.text.get_or_insert_with(|| {
                group.first_line = line;
                range.clone()
            });
            text.end = range.end;
            return sound;
        }
        sound?;
        if let [words] = &statement.words[..]
            && let Some(why) = lone_statement::needs_session(words)
        {
            let next = "put it and the statements it is for between `-- @task` and `-- @end`";
            return Err(Fault::new(line, why, next));
        }
        self.task(line, range, &escapes.collect::<Vec<_>>())
    }

    /// Adds a task. `escapes`: where in the file backslashes stand that psql takes away.
    fn task(&mut self, line: usize, range: Range<usize>, escapes: &[usize]) -> Result<(), Fault> {
        let ahead = self.ahead.take();
        let all = self.text[range.clone()].char_indices();
        let kept = all.filter(|(at, _)| escapes.binary_search(&(range.start + at)).is_err());
        let statement: String = kept.map(|(_, character)| character).collect();
        let statement = statement.trim_end_matches(|c: char| c == ';' || c.is_ascii_whitespace());
        if statement.len() > BODY_BYTES {
            let bytes = statement.len();
            let why = format!("the statement has {bytes} bytes; a task has {BODY_BYTES} at most");
            return Err(Fault::new(line, why, "divide it"));
        }
        if statement.contains('\0') {
            let next = "leave it out: no text of Postgres holds one";
            return Err(Fault::new(
                line,
                "the statement holds a NUL character",
                next,
            ));
        }
        let order = match &mut self.place {
            Place::Order(order) => *order,
            Place::Line(last) => {
                *last += 1;
                self.lowest = *last + 1;
                Some(*last)
            }
        };
        self.tasks.push(Described {
            line: Some(line),
            order,
            statement: statement.to_owned(),
            params: Vec::new(),
            is_verbatim: true,
            how: match ahead {
                Some(ahead) => task_option::with_labels_of(self.defaults, ahead.how),
                None => self.defaults.clone(),
            },
        });
        Ok(())
    }

    /// What the end of the file leaves open.
    fn open_end(&self) -> Option<Fault> {
        let group = self.group.as_ref().map(|group| {
            let next = "write `-- @end` behind its last statement";
            Fault::new(group.line, "this `@task` has no `@end`", next)
        });
        group.or_else(|| {
            let next = "put it ahead of the statement it is for";
            let line = self.ahead.as_ref()?.line;
            Some(Fault::new(line, "no statement follows this comment", next))
        })
    }
}

/// Refuses what no task can have, alone or in a group.
fn is_sound(line: usize, statement: &Statement<'_>) -> Result<(), Fault> {
    let mut comments = statement.comments.iter();
    let of_tasks = comments.find(|(_, text)| annotation::begins(text));
    if let Some((line, text)) = of_tasks {
        annotation::read(*line, text)?;
        return Err(annotation::misplaced(*line, text));
    }
    if copies(statement) {
        let why = "COPY cannot have data from the file, or give them to psql";
        return Err(Fault::new(line, why, COPY));
    }
    Ok(())
}

/// It is a COPY whose data psql reads or writes.
fn copies(statement: &Statement<'_>) -> bool {
    let mut words = statement.words.iter();
    words.any(|words| lone_statement::copies_through_client(words))
}

const COPY: &str = "load the data with psql, or with COPY … FROM a file or PROGRAM of the server, \
                    or write INSERT … VALUES; a SELECT with `-- @result_rows N` gives rows back";

/// What to do instead of a command of psql.
fn remedy(command: &str) -> String {
    let instead = match command {
        "\\." | "\\copy" => COPY,
        "\\i" | "\\ir" | "\\include" | "\\include_relative" => "give `rallypoint exec` that file",
        "\\c" | "\\connect" => "name the database with `-- @target NAME`",
        "\\g" | "\\gx" => "end the statement with a semicolon",
        "\\gexec" => "see `rallypoint exec --help`: a table of tasks is a file of JSON lines",
        "\\set" => "leave it out: of all `\\set`, `\\set ON_ERROR_STOP on` between tasks is taken",
        _ => "leave it out, or run the file with psql",
    };
    instead.to_owned()
}
