//! `status`: what the service is doing, once or continuously.

mod executions;
mod jobs;

use super::{
    connect::Server,
    declare_dead, enum_text,
    error::CliError,
    output::{self, BOLD, RED},
    plural,
    table::Table,
    target_pause,
    terminal_text::plain,
    time_text,
};
use clap::Args;
use rallypoint_client::{
    Client, Error,
    api::{DayPin, GetStatusResponse, ReplicaStatus, TargetStatus, day_pin::Reason},
};
use std::{
    io::{self, IsTerminal},
    process::ExitCode,
    time::Duration,
};

/// Shortest time between two updates of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Where what is said of a part of the service begins, behind its name.
const INDENT: usize = 9;
/// A replica that was not seen for so long has ended, as far as people are concerned.
const GONE: Duration = Duration::from_secs(60);
/// One that has ended is shown for so long.
const GONE_SHOWN: Duration = Duration::from_secs(3_600);

/// Arguments of `status`.
#[derive(Args, Debug)]
pub(super) struct Status {
    /// What runs on each slot
    #[arg(long)]
    executions: bool,
    /// Again and again, until Ctrl-C: once a second, the executions whenever they change
    #[arg(long)]
    watch: bool,
}

impl Status {
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let client = server.client().await?;
        match (self.executions, self.watch) {
            (false, false) => output::answer(&client.status().await.map_err(refused)?, print),
            (true, false) => {
                let executions = client.executions().await.map_err(refused)?;
                output::answer(&executions, |answer| {
                    executions::print(&answer.executions, 0)
                });
            }
            (false, true) => output::while_read(watch_status(&client)).await?,
            (true, true) => output::while_read(watch_executions(&client)).await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn watch_status(client: &Client) -> Result<(), CliError> {
    let mut ticks = tokio::time::interval(WATCH_INTERVAL);
    // After a stop of hours it goes on once.
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let status = client.status().await.map_err(refused)?;
        output::answer(&status, |status| {
            begin_screen();
            print(status);
        });
    }
}

async fn watch_executions(client: &Client) -> Result<(), CliError> {
    loop {
        let stream = client.watch_executions(WATCH_INTERVAL).await;
        let mut stream = stream.map_err(refused)?;
        let broken = loop {
            match stream.message().await {
                Ok(Some(message)) => output::answer(&message, |message| {
                    begin_screen();
                    executions::print(&message.executions, message.left_out);
                }),
                Ok(None) => break None,
                Err(status) => break Some(Error::from(status)),
            }
        };
        if let Some(error) = broken.filter(|error| !error.transport && !error.is_retryable()) {
            return Err(refused(error));
        }
        // The stream is not resumed by itself; a call is repeated until somebody answers.
        client.status().await.map_err(refused)?;
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// Clears a terminal; elsewhere one update follows the other.
fn begin_screen() {
    if io::stdout().is_terminal() {
        output::verbatim("\x1b[2J\x1b[H".to_owned() + &output::paint("Ctrl-C ends", BOLD));
    }
}

fn refused(error: Error) -> CliError {
    CliError::call("cannot read the status of the server", &error)
}

fn print(status: &GetStatusResponse) {
    output::styled(format!("rallypoint {}", status.version), BOLD);
    for part in &status.unreachable {
        output::sentence(&silent(part), INDENT, Some(RED));
    }
    target_pause::print(&status.paused_targets);
    replicas(status);
    slots(status);
    targets(status);
    declare_dead::print(&status.pending_fences);
    unreadable(status);
    output::line("");
    output::sentence(&backlog(status), INDENT, None);
    if let Some(claims) = status
        .claims
        .filter(|claims| claims.holds + claims.waiting > 0)
    {
        let (holds, waiting) = (claims.holds, claims.waiting);
        output::line(format!("resources: {holds} claims hold, {waiting} wait"));
    }
    jobs::show(status.jobs.as_ref());
    let (text, style) = journal(status);
    output::sentence(&text, INDENT, style);
}

/// A part of the service that has not answered, or a replica by its name.
pub(super) fn silent(part: &str) -> String {
    match part {
        "journal" => "no answer from the journal, the coordination database".to_owned(),
        "coordinator" => "no answer from the coordinator of this server".to_owned(),
        "owner" => "no owner (the replica that leads) answers".to_owned(),
        replica => format!("no answer from replica {replica}"),
    }
}

fn replicas(status: &GetStatusResponse) {
    let mut table = Table::new(&["replica", "owner", ">epoch", ">up for", ">seen"]);
    for (replica, is_gone) in shown(&status.replicas) {
        let started = time_text::micros(replica.started_at.as_ref());
        let seen = time_text::micros(replica.seen_at.as_ref());
        let up_for = match is_gone {
            true => "gone".to_owned(),
            // Until it was seen last: who knows about the time since?
            false => time_text::duration(seen - started),
        };
        table.row([
            replica.name.clone(),
            if replica.owner { "yes" } else { "" }.to_owned(),
            replica.epoch.to_string(),
            up_for,
            time_text::ago(seen),
        ]);
    }
    section(table);
}

/// Those that are there, and of those that are gone the recent ones, each with whether it is gone:
/// it was not seen for so long that it has ended, or is cut off. One that was started again under
/// its name is not gone.
pub(super) fn shown(replicas: &[ReplicaStatus]) -> Vec<(&ReplicaStatus, bool)> {
    let seen = |one: &ReplicaStatus| time_text::micros(one.seen_at.as_ref());
    let started = |one: &ReplicaStatus| time_text::micros(one.started_at.as_ref());
    // By their own clock, that of the database.
    let last = replicas.iter().map(seen).max().unwrap_or_default();
    let is_silent_for = |one: &ReplicaStatus, length: Duration| {
        u128::from(last.abs_diff(seen(one))) >= length.as_micros()
    };
    let is_gone = |one: &ReplicaStatus| is_silent_for(one, GONE);
    let is_shown = |one: &&ReplicaStatus| {
        let mut alike = replicas.iter().filter(|other| other.name == one.name);
        let goes_on =
            alike.any(|other| started(other) > seen(one) || is_gone(one) && !is_gone(other));
        one.owner || !goes_on && !is_silent_for(one, GONE_SHOWN)
    };
    let shown = replicas.iter().filter(is_shown);
    shown.map(|one| (one, is_gone(one))).collect()
}

fn slots(status: &GetStatusResponse) {
    let mut table = Table::new(&["slots of", ">total", ">busy", ">free", ">reserved"]);
    for slot in &status.slots {
        let free = slot.total - slot.busy;
        let [total, busy, reserved] =
            [slot.total, slot.busy, slot.reserved].map(|number| number.to_string());
        table.row([
            enum_text::slot_kind(slot.kind.as_ref()),
            total,
            busy,
            free.to_string(),
            reserved,
        ]);
    }
    section(table);
}

fn targets(status: &GetStatusResponse) {
    let mut table = Table::new(&["target", "replica", "state", ">sessions", "~error"]);
    for target in &status.targets {
        table.row([
            target.name.clone(),
            target.replica.clone(),
            target_state(target, status).to_owned(),
            target.sessions.to_string(),
            target.error.clone(),
        ]);
    }
    section(table);
}

fn target_state(target: &TargetStatus, status: &GetStatusResponse) -> &'static str {
    let mut pauses = status.paused_targets.iter().flat_map(|one| &one.pause);
    let is_paused = pauses.any(|pause| pause.target.is_empty() || pause.target == target.name);
    match (target.available, is_paused) {
        // Whether it can be reached shows when a task needs one.
        (true, false) if target.sessions == 0 => "no sessions",
        // The owner of the shard knows whether it is paused.
        (true, false) if status.backlog.is_none() => "reachable",
        (true, false) => "available",
        (true, true) => "paused",
        (false, false) => "away",
        (false, true) => "away, paused",
    }
}

fn unreadable(status: &GetStatusResponse) {
    if status.unreadable_schedulers.is_empty() {
        return;
    }
    output::line("");
    output::styled(
        "DATA_UNREADABLE: these schedulers are set aside; run the version that wrote their rows, \
         or restore the rows from a backup",
        RED,
    );
    let mut table = Table::new(&["scheduler", "namespace", "~why"]);
    for one in &status.unreadable_schedulers {
        table.row([one.handle.clone(), one.namespace.clone(), one.why.clone()]);
    }
    table.print();
    let more = status.unreadable - status.unreadable_schedulers.len() as i64;
    if more > 0 {
        output::line(format!("and {more} more"));
    }
}

fn section(table: Table) {
    if !table.is_empty() {
        output::line("");
        table.print();
    }
}

fn backlog(status: &GetStatusResponse) -> String {
    // The owner alone knows it.
    let Some(backlog) = &status.backlog else {
        return "backlog  unknown".to_owned();
    };
    let oldest = time_text::micros(backlog.oldest_queued_at.as_ref());
    let oldest = if oldest == 0 {
        String::new()
    } else {
        format!(", the oldest submitted {}", time_text::ago(oldest))
    };
    let schedulers = plural::count(backlog.schedulers, "scheduler");
    format!(
        "backlog  {schedulers}; {} blocked, {} queued, {} running, {} retrying{oldest}",
        backlog.blocked, backlog.queued, backlog.running, backlog.retrying
    )
}

/// What is said of it, and in which style.
fn journal(status: &GetStatusResponse) -> (String, Option<&'static str>) {
    let journal = status.journal.clone().unwrap_or_default();
    if !journal.available {
        let text = format!("journal  unavailable: {}", journal.error);
        return (plain(&text), Some(RED));
    }
    let oldest = match (&journal.pin, journal.oldest_day.as_str()) {
        (_, "") => String::new(),
        (None, day) => format!(", oldest day {day}"),
        (Some(pin), day) => format!(
            ", oldest day {day} (retention {}: {})",
            plural::count(journal.retention_days, "day"),
            pinned(pin)
        ),
    };
    let age = time_text::duration(time_text::duration_us(journal.last_durable_age.as_ref()));
    let text = format!(
        "journal  batch {}, durable {age} ago{oldest}",
        journal.batch_no
    );
    (text, None)
}

/// What keeps the oldest day beyond its retention.
fn pinned(pin: &DayPin) -> String {
    match pin.reason() {
        Reason::Checkpoint => format!("pinned by the checkpoint of {}", pin.handle),
        Reason::Unfinished => format!("pinned by an unfinished task of {}", pin.handle),
        Reason::Reader => format!(
            "pinned by a long transaction of backend {} {}",
            pin.backend_pid, pin.application
        ),
        Reason::Due | Reason::Unspecified => {
            "it is dropped once the service has also run for the retention since".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_does_not_answer_is_told_from_a_replica() {
        assert_eq!(silent("r2"), "no answer from replica r2");
        assert!(silent("journal").ends_with("the coordination database"));
    }

    #[test]
    fn what_only_the_owner_counts_is_unknown_without_it() {
        let mut status = GetStatusResponse::default();
        assert_eq!(backlog(&status), "backlog  unknown");
        status.backlog = Some(rallypoint_client::api::Backlog::default());
        assert!(backlog(&status).contains("0 queued"));
    }

    #[test]
    fn a_target_is_called_available_only_where_its_pauses_are_known() {
        let target = TargetStatus {
            available: true,
            sessions: 1,
            ..TargetStatus::default()
        };
        let mut status = GetStatusResponse::default();
        assert_eq!(target_state(&target, &status), "reachable");
        status.backlog = Some(rallypoint_client::api::Backlog::default());
        assert_eq!(target_state(&target, &status), "available");
    }

    #[test]
    fn a_replica_that_was_started_again_is_shown_once_and_one_that_is_gone_not_for_ever() {
        let now = 10_000_000_000;
        let at = |ago_s: i64| {
            Some(prost_types::Timestamp {
                seconds: now / 1_000_000 - ago_s,
                nanos: 0,
            })
        };
        let replica = |name: &str, started: i64, seen: i64| ReplicaStatus {
            name: name.to_owned(),
            started_at: at(started),
            seen_at: at(seen),
            ..ReplicaStatus::default()
        };
        let replicas = [
            replica("a", 20, 1),
            replica("a", 299, 25),
            replica("a", 900, 300),
            replica("b", 800, 600),
            replica("b", 950, 900),
            replica("c", 9_000, 7_200),
            replica("d", 90, 2),
            replica("d", 80, 1),
            // Both were there for a time.
            replica("e", 900, 290),
            replica("e", 300, 5),
        ];
        let seen_ago = |one: &ReplicaStatus| now / 1_000_000 - one.seen_at.unwrap().seconds;
        let shown: Vec<_> = shown(&replicas)
            .into_iter()
            .map(|(one, is_gone)| (&*one.name, seen_ago(one), is_gone))
            .collect();
        let expected = [
            ("a", 1, false),
            ("b", 600, true),
            ("d", 2, false),
            ("d", 1, false),
            ("e", 5, false),
        ];
        assert_eq!(shown, expected);
    }
}
