//! Chains of pg_timetable: each becomes a job, its tasks become steps in their order.

use super::{
    FromDatabase, Read,
    imported::{Imported, Names, quoted},
    unread,
    vixie::Fields,
    wall_clock::Theirs,
    zone_of,
};
use crate::{
    cli::{error::CliError, postgres_url},
    database_url::options_of,
    server::pg_timetable::{self, Chain, ChainTask},
};
use serde_json::Value;
use std::fmt::Write;

pub(super) async fn read(from: FromDatabase) -> Result<Read, CliError> {
    postgres_url::read(postgres_url::ADMINISTRATOR, &from.url, options_of)?;
    let read = pg_timetable::read(&from.url).await;
    let mut table =
        read.map_err(|error| unread("cannot read the tables of pg_timetable", error))?;
    table.time_zone = zone_of(from.time_zone.clone(), table.time_zone)?;
    let (mut names, mut jobs, mut left_out) = (Names::default(), Vec::new(), Vec::new());
    for chain in &table.chains {
        let source = format!("chain {}", chain.id);
        match imported(chain, &table.time_zone, &from) {
            Ok(imported) => jobs.push(Imported {
                name: names.of(&chain.name),
                source,
                ..imported
            }),
            Err(why) => left_out.push((source, why)),
        }
    }
    Ok((jobs, left_out, from.to))
}

/// A chain as a job, but for its name. The error: why there is none.
fn imported(chain: &Chain, time_zone: &str, from: &FromDatabase) -> Result<Imported, String> {
    let target = from.target();
    if !chain.live {
        return Err("it is not live".to_owned());
    }
    if chain.self_destruct {
        return Err("it runs once, and deletes itself: use `rallypoint exec`".to_owned());
    }
    let (schedule, theirs) = schedule(chain, time_zone)?;
    let mut notes = Vec::new();
    let mut keys = format!("schedule = {schedule}\nmisfire = \"SKIP\"\n");
    keys += match chain.max_instances {
        Some(1) => "overlap = \"SKIP\"\n",
        _ => "overlap = \"ALLOW\"\n",
    };
    if let Some(most) = chain.max_instances.filter(|most| *most > 1) {
        notes.push(format!(
            "max_instances is {most}: here there is no such limit"
        ));
    }
    if chain.exclusive {
        notes.push("exclusive_execution: let the steps hold a resource".to_owned());
    }
    if let Some(client) = &chain.client {
        notes.push(format!(
            "only the client {client} runs it, which means nothing here"
        ));
    }
    if chain.timeout > 0 {
        let seconds = (chain.timeout + 999) / 1000;
        let _ = writeln!(keys, "max_runtime = \"{seconds}s\"");
    }
    keys += &steps(chain, from, &mut notes)?;
    if let Some(statement) = chain.on_error.as_ref().filter(|text| !text.is_empty()) {
        let (statement, target) = (quoted(statement), quoted(target));
        let _ = writeln!(
            keys,
            "on_failure = [{{ statement = {statement}, target = {target} }}]"
        );
    }
    Ok(Imported {
        name: String::new(),
        source: String::new(),
        keys,
        theirs,
        time_zone: time_zone.to_owned(),
        notes,
        crontab_line: None,
    })
}

fn schedule(chain: &Chain, time_zone: &str) -> Result<(String, Option<Theirs>), String> {
    let text = chain.run_at.as_deref().unwrap_or("* * * * *").trim();
    if let Some(every) = chain.every.filter(|_| text.starts_with("@every")) {
        if every < 1.0 || every.fract() != 0.0 {
            return Err(format!("{text}: an interval has whole seconds here"));
        }
        return Ok((format!("{{ interval = {{ every = \"{every}s\" }} }}"), None));
    }
    if text.starts_with("@after") {
        let what = "counts from the end of a run: a job of ours is due at a time, or after another";
        return Err(format!("{text} {what}"));
    }
    if text.starts_with('@') {
        return Err(format!(
            "{text}: a job is due at a time; start it with the machine"
        ));
    }
    let fields = Fields::parse(text).map(Fields::joined_by_and);
    if fields.as_ref().is_some_and(Fields::restricts_both_days) {
        return Err(format!(
            "{text} names days of the month and days of the week, and means those that are both: a \
             job of ours runs on either; name one of them, and ask for the other in the statement"
        ));
    }
    let schedule = format!(
        "{{ cron = {}, time_zone = {} }}",
        quoted(text),
        quoted(time_zone)
    );
    Ok((schedule, fields.map(Theirs::of)))
}

fn steps(chain: &Chain, from: &FromDatabase, notes: &mut Vec<String>) -> Result<String, String> {
    if chain.tasks.is_empty() {
        return Err("it has no task".to_owned());
    }
    let mut keys = "steps = [\n".to_owned();
    let mut orders = 1..;
    for task in &chain.tasks {
        if task.kind != "SQL" {
            return Err(format!(
                "task {} is a {}: the service runs SQL; write a job with `claimed = true`, and run \
                 the program with `rallypoint jobs claim`",
                task.id, task.kind
            ));
        }
        let target = from.target();
        keys += &step(task, &mut orders, target)?;
        let place = "what its connection string names";
        from.refuse_elsewhere(task.connects, place)?;
        if let Some(role) = task.run_as.as_ref().filter(|role| !role.is_empty()) {
            notes.push(format!(
                "task {}: the server has to allow the role {role} on target `{target}`",
                task.id
            ));
        }
        if task.connects {
            notes.push(format!(
                "task {}: target `{target}` must be {place} (`serve --target`)",
                task.id
            ));
        }
    }
    keys += "]\n";
    let goes_on = chain.tasks.iter().filter(|task| task.ignore_error).count();
    keys += match goes_on == chain.tasks.len() {
        true => "on_step_failure = \"CONTINUE\"\n",
        false => "on_step_failure = \"CANCEL_REST\"\n",
    };
    if goes_on > 0 && goes_on < chain.tasks.len() {
        notes.push("a failed step ends the run here, also those that do not there".to_owned());
    }
    for task in chain.tasks.iter().filter(|task| task.timeout > 0) {
        notes.push(format!(
            "task {}: its timeout of {} ms is left out: set `max_runtime`, which is of the whole run",
            task.id, task.timeout
        ));
    }
    let together = chain.tasks.iter().filter(|task| !task.autonomous);
    let together = together.map(|task| task.parameters.len().max(1));
    if together.sum::<usize>() > 1 {
        notes.push("its tasks are one transaction there, here one each".to_owned());
    }
    Ok(keys)
}

/// A task runs once for each of its parameters, one after the other: in orders of their own.
fn step(
    task: &ChainTask,
    orders: &mut impl Iterator<Item = i64>,
    target: &str,
) -> Result<String, String> {
    let (statement, target) = (quoted(&task.command), quoted(target));
    let role = task.run_as.as_ref().filter(|role| !role.is_empty());
    let role = role.map_or_else(String::new, |role| format!(", role = {}", quoted(role)));
    let mut keys = String::new();
    let none = [Value::Array(Vec::new())];
    let all = match &task.parameters[..] {
        [] => &none[..],
        all => all,
    };
    // Not the other way round: that would take an order for no step at the end.
    for (values, order) in all.iter().zip(orders) {
        let values = match values {
            Value::Array(values) => values.as_slice(),
            Value::Null => &[],
            _ => return Err(format!("task {}: its parameters are no array", task.id)),
        };
        if values.iter().any(Value::is_null) {
            return Err(format!(
                "task {}: a parameter is null, which TOML has no word for: say it in the statement",
                task.id
            ));
        }
        let text = |value: &Value| match value {
            Value::String(text) => quoted(text),
            other => quoted(&other.to_string()),
        };
        let values: Vec<String> = values.iter().map(text).collect();
        let params = match values.is_empty() {
            true => String::new(),
            false => format!(", params = [{}]", values.join(", ")),
        };
        let _ = writeln!(
            keys,
            "  {{ statement = {statement}, target = {target}, order = {order}{role}{params} }},"
        );
    }
    Ok(keys)
}
