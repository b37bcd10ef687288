//! Why a task does not run, or what holds it up: every reason, down to the process that holds a
//! lock. The sentences are the server's.

use super::parts::{Look, facts, quiet};
use crate::cli::{
    api_words,
    top::{
        place::Place,
        text::{Piece, Row, Tone, lines},
        units::{counted, lasting, number},
    },
};
use rallypoint_client::api::{
    Blocker, ExplainTaskResponse, ResourceHolder, RunningAttempt, TaskState,
    blocker::{Kind, Session, resources::Wanted},
};

pub(super) fn rows(explained: &ExplainTaskResponse, look: &Look) -> Vec<Row> {
    let title = match explained.state() {
        TaskState::Done => "What became of it",
        TaskState::Running => "What it does",
        _ => "Why it is not running",
    };
    let mut rows = vec![Row::head(title, "")];
    if let Some(running) = &explained.running {
        rows.extend(place(running));
    }
    if explained.blockers.is_empty() {
        rows.extend(lines(&said(&explained.text), look.width, Tone::Plain));
    }
    let handle = explained.id.clone().unwrap_or_default().handle;
    for (index, blocker) in explained.blockers.iter().enumerate() {
        rows.extend(reason(index, blocker, &handle, look));
    }
    if let Some(place) = &explained.place
        && place.ahead + place.in_lower_orders > 0
    {
        let least = if place.at_least { "at least " } else { "" };
        let text = format!(
            "ahead of it: {least}{}, and {} in lower orders",
            counted(place.ahead, "task"),
            number(place.in_lower_orders)
        );
        rows.push(Row::of(text, Tone::Quiet));
    }
    rows.push(Row::blank());
    rows
}

fn said(text: &str) -> String {
    let text = api_words::translated(text.trim());
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// Where it runs, and what its session waits for.
fn place(running: &RunningAttempt) -> Vec<Row> {
    let replica = match running.replica.as_str() {
        "" => "not known yet".to_owned(),
        replica => format!("{replica}, slot {}", running.slot),
    };
    let pid = match running.backend_pid {
        0 => String::new(),
        pid => pid.to_string(),
    };
    let (waits, lock) = match &running.wait {
        None => (running.wait_unknown.clone(), String::new()),
        Some(wait) if wait.wait_event_type.is_empty() => {
            ("nothing, it works".to_owned(), String::new())
        }
        Some(wait) => {
            let lock = match (wait.lock_type.as_str(), wait.lock_relation.as_str()) {
                ("", _) => String::new(),
                (kind, "") => format!("{} on {kind}", wait.lock_mode),
                (_, relation) => format!("{} on relation {relation}", wait.lock_mode),
            };
            (
                format!("{} / {}", wait.wait_event_type, wait.wait_event),
                lock,
            )
        }
    };
    let stopped = if running.stopping { "yes" } else { "" };
    facts([
        ("where", replica),
        ("process", pid),
        ("waits for", waits),
        ("lock", lock),
        ("being stopped", stopped.to_owned()),
    ])
    .collect()
}

/// One reason, with what it names.
fn reason(index: usize, blocker: &Blocker, handle: &str, look: &Look) -> Vec<Row> {
    let text = match blocker.text.as_str() {
        "" => "a reason without words, from a newer server".to_owned(),
        text => said(text),
    };
    let text = format!("{}. {text}", index + 1);
    let mut rows = lines(&text, look.width, Tone::Waiting);
    let key = |what: &str| format!("reason {index} {what}");
    let task = |seq: i64, what: &str| {
        Row::of(format!("   {what} task {seq}"), Tone::Plain)
            .keyed(key(&seq.to_string()))
            .to(Place::Task(handle.to_owned(), seq))
    };
    match &blocker.kind {
        Some(Kind::LowerOrder(lower)) => {
            rows.extend(lower.seqs.iter().map(|seq| task(*seq, "it waits for")));
        }
        Some(Kind::Halted(halt)) => {
            rows.extend(
                halt.failed_seqs
                    .iter()
                    .take(10)
                    .map(|seq| task(*seq, "failed:")),
            );
        }
        Some(Kind::Resources(resources)) => {
            rows.extend(
                resources
                    .wanted
                    .iter()
                    .flat_map(|wanted| resource(wanted, &key)),
            );
        }
        Some(Kind::Session(session)) => rows.extend(holder(session, &key)),
        Some(
            Kind::NoExecutor(_)
            | Kind::TargetAway(_)
            | Kind::TargetPaused(_)
            | Kind::FencePending(_),
        ) => {
            let row = Row::of("   see the system", Tone::Plain);
            rows.push(row.keyed(key("system")).to(Place::System));
        }
        _ => {}
    }
    rows
}

fn resource(wanted: &Wanted, key: &dyn Fn(&str) -> String) -> Vec<Row> {
    let name = wanted.resource.clone().unwrap_or_default().name;
    let row = Row::of(
        format!(
            "   {name}: place {} among the claims and tasks in line",
            wanted.position
        ),
        Tone::Plain,
    );
    let mut rows = vec![row.keyed(key(&name)).to(Place::Resource(name))];
    rows.extend(wanted.holders.iter().map(|one| held(one, key)));
    rows
}

fn held(one: &ResourceHolder, key: &dyn Fn(&str) -> String) -> Row {
    let who = match (one.handle.as_str(), one.owner.as_str()) {
        ("", "") => format!("claim {}", one.claim),
        ("", owner) => owner.to_owned(),
        _ => format!("task {}", one.seq),
    };
    let row =
        Row::of(format!("     held by {who}"), Tone::Plain).keyed(key(&format!("{}", one.claim)));
    match one.handle.as_str() {
        "" => row,
        handle => row.to(Place::Task(handle.to_owned(), one.seq)),
    }
}

/// Who holds a lock, or stands in the way of who does.
fn holder(one: &Session, key: &dyn Fn(&str) -> String) -> Vec<Row> {
    let who = match one.backend_pid {
        0 => "A prepared transaction".to_owned(),
        pid => format!("Process {pid}"),
    };
    let role = match one.depth {
        ..=1 => "holds the lock",
        _ => "is in the way of the session above",
    };
    let mut rows = vec![Row::new(vec![
        Piece::new(format!("   {who}"), Tone::Bad),
        quiet(format!(" {role}")),
    ])];
    let state = match one.state.as_str() {
        "" => "this login may not see it",
        state => state,
    };
    let waits = match one.wait_event_type.as_str() {
        "" => String::new(),
        kind => format!("{kind} / {}", one.wait_event),
    };
    rows.extend(facts([
        ("   user", one.user.clone()),
        ("   application", one.application.clone()),
        ("   kind", one.backend_type.clone()),
        ("   state", state.to_owned()),
        ("   waits for", waits),
        ("   transaction for", lasting(one.transaction_age.as_ref())),
    ]));
    if let Some(task) = &one.task {
        let row = Row::fact("   runs", format!("task {}", task.seq));
        let place = Place::Task(task.handle.clone(), task.seq);
        rows.push(row.keyed(key(&format!("runs {}", task.seq))).to(place));
    }
    // A task would run again if its session were ended.
    let (what, remedy) = match (&one.task, one.backend_pid) {
        (Some(task), _) => {
            let cancel = format!("rallypoint cancel {} {}", task.handle, task.seq);
            ("   to cancel it", cancel)
        }
        (None, 0) => (
            "   on the target",
            "select * from pg_prepared_xacts".to_owned(),
        ),
        (None, pid) => (
            "   on the target",
            format!("select pg_terminate_backend({pid})"),
        ),
    };
    rows.push(Row::fact(what, remedy));
    rows
}
