//! Jobs of pgAgent: each of their schedules becomes a job with the steps in their order.

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
    server::pg_agent::{self, AgentJob, AgentSchedule, AgentStep},
};
use jiff::Timestamp;
use std::fmt::Write;

/// The day that stands for the last one of a month.
const LAST_DAY: usize = 31;

pub(super) async fn read(from: FromDatabase) -> Result<Read, CliError> {
    postgres_url::read(postgres_url::ADMINISTRATOR, &from.url, options_of)?;
    let read = pg_agent::read(&from.url).await;
    let mut tables = read.map_err(|error| unread("cannot read the tables of pgAgent", error))?;
    tables.time_zone = zone_of(from.time_zone.clone(), tables.time_zone)?;
    let (mut names, mut jobs, mut left_out) = (Names::default(), Vec::new(), Vec::new());
    for job in &tables.jobs {
        let source = format!("job {}", job.id);
        let steps = match steps(job, &tables.here, &from) {
            Ok(steps) => steps,
            Err(why) => {
                left_out.push((source, why));
                continue;
            }
        };
        for schedule in &job.schedules {
            let source = format!("schedule {} of job {}", schedule.id, job.id);
            match imported(job, schedule, &steps, &tables.time_zone) {
                Ok(imported) => jobs.push(Imported {
                    name: names.of(&job.name),
                    source,
                    ..imported
                }),
                Err(why) => left_out.push((source, why)),
            }
        }
    }
    Ok((jobs, left_out, from.to))
}

/// The steps of a job as keys, and what is to be said of them. The error: why there are none.
fn steps(job: &AgentJob, here: &str, from: &FromDatabase) -> Result<(String, Vec<String>), String> {
    let target = from.target();
    let enabled: Vec<&AgentStep> = job.steps.iter().filter(|step| step.enabled).collect();
    if !job.enabled {
        return Err("it is not enabled".to_owned());
    }
    if job.schedules.is_empty() {
        return Err(
            "it has no schedule: create it without one that is ever due, and use \
                    `rallypoint jobs run`"
                .to_owned(),
        );
    }
    if let Some(step) = enabled.iter().find(|step| !step.is_sql) {
        return Err(format!(
            "step {} ({:?}) is a program: the service runs SQL; write a job with `claimed = true`, \
             and run the program with `rallypoint jobs claim`",
            step.id, step.name
        ));
    }
    if enabled.is_empty() {
        return Err("it has no step that is enabled".to_owned());
    }
    let mut notes = Vec::new();
    let mut keys = "steps = [\n".to_owned();
    for (order, step) in (1..).zip(&enabled) {
        let _ = writeln!(
            keys,
            "  {{ statement = {}, target = {}, order = {order} }},",
            quoted(&step.code),
            quoted(target)
        );
        let place = place(step, here, from)?;
        let note = format!(
            "step {}: target `{target}` must be {place} (`serve --target`)",
            step.id
        );
        notes.push(note);
        if step.on_error == "s" {
            notes.push(format!(
                "a failure of step {} counts as success there, here the run has failed",
                step.id
            ));
        }
    }
    keys += "]\n";
    keys += on_step_failure(&enabled, &mut notes);
    if !job.host.is_empty() {
        notes.push(format!(
            "runs on {} alone, which means nothing here",
            job.host
        ));
    }
    Ok((keys, notes))
}

/// Where a step runs. The error: that is elsewhere, and nobody has named the target for it.
fn place(step: &AgentStep, here: &str, from: &FromDatabase) -> Result<String, String> {
    let (is_elsewhere, place) = match &step.database {
        Some(database) => (database != here, format!("database {database}")),
        None => (true, "what its connection string names".to_owned()),
    };
    from.refuse_elsewhere(is_elsewhere, &place)?;
    Ok(place)
}

/// What a failed step does to those behind it, as a key.
fn on_step_failure(steps: &[&AgentStep], notes: &mut Vec<String>) -> &'static str {
    let goes_on = steps.iter().filter(|step| step.on_error != "f").count();
    if goes_on == steps.len() {
        return "on_step_failure = \"CONTINUE\"\n";
    }
    if goes_on > 0 {
        notes.push("a failed step ends the run here, also those that do not there".to_owned());
    }
    "on_step_failure = \"CANCEL_REST\"\n"
}

/// A schedule as a job, but for its name. The error: why there is none.
fn imported(
    job: &AgentJob,
    schedule: &AgentSchedule,
    (steps, notes): &(String, Vec<String>),
    time_zone: &str,
) -> Result<Imported, String> {
    if !schedule.enabled {
        return Err("it is not enabled".to_owned());
    }
    let fields = cron(schedule)?;
    let mut keys = format!(
        "schedule = {{ cron = {}, time_zone = {}",
        quoted(&fields),
        quoted(time_zone)
    );
    let time = |seconds: i64| Timestamp::from_second(seconds).ok();
    let now = Timestamp::now();
    if let Some(start) = time(schedule.start).filter(|start| *start > now) {
        // Its minute counts.
        let minute = time(schedule.start.div_euclid(60) * 60).unwrap_or(start);
        let _ = write!(keys, ", start = {}", quoted(&minute.to_string()));
    }
    // There the end itself counts.
    if let Some(behind) = schedule.end.and_then(|end| time(end + 1)) {
        let _ = write!(keys, ", end = {}", quoted(&behind.to_string()));
    }
    let mut notes = notes.clone();
    if job.schedules.len() > 1 {
        notes.push("its schedules are a job each, which may run at the same time".to_owned());
    }
    let mut dates = Vec::new();
    for (id, date, time) in &schedule.exceptions {
        match (date, time) {
            (Some(date), None) => dates.push(quoted(date)),
            _ => notes.push(format!("exception {id} is about a time of day: left out")),
        }
    }
    if !dates.is_empty() {
        let _ = write!(keys, ", exclude = [{}]", dates.join(", "));
    }
    keys += " }\noverlap = \"SKIP\"\nmisfire = \"RUN_ONCE\"\n";
    Ok(Imported {
        name: String::new(),
        source: String::new(),
        keys: keys + steps,
        theirs: Some(theirs(schedule)),
        time_zone: time_zone.to_owned(),
        notes,
        crontab_line: None,
    })
}

/// When pgAgent runs it: at each minute that all of its sets have, of which an empty one has all.
fn theirs(schedule: &AgentSchedule) -> Theirs {
    let bits = |set: &[bool], low: usize, len: usize| {
        let chosen = set.iter().take(len).enumerate();
        let bits = chosen
            .filter(|(_, is)| **is)
            .map(|(at, _)| 1_u64 << (at + low));
        match bits.fold(0, |all, bit| all | bit) {
            0 if set.iter().any(|is| *is) => 0,
            0 => ((1_u64 << len) - 1) << low,
            chosen => chosen,
        }
    };
    let [minutes, hours, weekdays, days, months] = &schedule.sets;
    // The last day counts if it is the only one.
    let is_last = chosen(days) == [LAST_DAY];
    let fields = Fields::of_sets(
        [
            bits(minutes, 0, 60),
            bits(hours, 0, 24),
            bits(days, 1, 31),
            bits(months, 1, 12),
            bits(weekdays, 0, 7),
        ],
        is_last,
    );
    let time = |text: &Option<String>| text.as_ref().and_then(|text| text.parse().ok());
    let exceptions = schedule.exceptions.iter();
    Theirs {
        start: Timestamp::from_second(schedule.start).ok(),
        end: schedule
            .end
            .and_then(|end| Timestamp::from_second(end).ok()),
        exceptions: exceptions
            .map(|(_, date, at)| (date.as_ref().and_then(|date| date.parse().ok()), time(at)))
            .collect(),
        ..Theirs::of(fields)
    }
}

/// Five fields that mean the same. The error: why there are none.
fn cron(schedule: &AgentSchedule) -> Result<String, String> {
    let [minutes, hours, weekdays, days, months] = &schedule.sets;
    let has_days = !chosen(days).is_empty();
    if has_days && !matches!(chosen(weekdays).len(), 0 | 7) {
        return Err(format!(
            "schedule {:?} names days of the month and days of the week, and means those that are \
             both: a job of ours runs on either; name one of them, and ask for the other in the \
             statement",
            schedule.name
        ));
    }
    let days = match &chosen(days)[..] {
        [LAST_DAY] => "L".to_owned(),
        _ => field(&days[..days.len().min(LAST_DAY)], 1),
    };
    Ok(format!(
        "{} {} {days} {} {}",
        field(minutes, 0),
        field(hours, 0),
        field(months, 1),
        field(weekdays, 0)
    ))
}

/// The places of what is chosen.
fn chosen(set: &[bool]) -> Vec<usize> {
    let chosen = set.iter().enumerate().filter(|(_, is)| **is);
    chosen.map(|(at, _)| at).collect()
}

/// A set as a field: an empty one is a whole one.
fn field(set: &[bool], low: usize) -> String {
    let numbers: Vec<usize> = chosen(set).iter().map(|at| at + low).collect();
    if numbers.is_empty() || numbers.len() == set.len() {
        return "*".to_owned();
    }
    let ranges = numbers.chunk_by(|one, next| one + 1 == *next);
    let text = |range: &[usize]| match range {
        [first, .., last] => format!("{first}-{last}"),
        one => one[0].to_string(),
    };
    ranges.map(text).collect::<Vec<_>>().join(",")
}
