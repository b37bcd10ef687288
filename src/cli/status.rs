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
    target_pause, time_text,
};
use clap::Args;
use jiff::Timestamp;
use rallypoint_client::{
    Client, Error,
    api::{DayPin, GetStatusResponse, PausedTarget, TargetStatus, day_pin::Reason},
};
use std::{
    io::{self, IsTerminal},
    process::ExitCode,
    time::Duration,
};

/// Shortest time between two updates of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// A replica that was not seen for so long has ended, as far as people are concerned.
const GONE: Duration = Duration::from_secs(60);

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
            (false, true) => watch_status(&client).await?,
            (true, true) => watch_executions(&client).await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn watch_status(client: &Client) -> Result<(), CliError> {
    let mut ticks = tokio::time::interval(WATCH_INTERVAL);
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
    let stream = client.watch_executions(WATCH_INTERVAL).await;
    let mut stream = stream.map_err(refused)?;
    let broken = |status: tonic::Status| refused(status.into());
    while let Some(message) = stream.message().await.map_err(broken)? {
        output::answer(&message, |message| {
            begin_screen();
            executions::print(&message.executions, message.left_out);
        });
    }
    Ok(())
}

/// Clears a terminal; elsewhere one update follows the other.
fn begin_screen() {
    if io::stdout().is_terminal() {
        output::line("\x1b[2J\x1b[H".to_owned() + &output::paint("Ctrl-C ends", BOLD));
    }
}

fn refused(error: Error) -> CliError {
    CliError::call("cannot read the status of the server", &error)
}

fn print(status: &GetStatusResponse) {
    output::line(output::paint(
        &format!("rallypoint {}", status.version),
        BOLD,
    ));
    for part in &status.unreachable {
        output::line(output::paint(&format!("not reached: {part}"), RED));
    }
    target_pause::print(&status.paused_targets);
    replicas(status);
    slots(status);
    targets(status);
    declare_dead::print(&status.pending_fences);
    unreadable(status);
    output::line("");
    output::line(backlog(status));
    if let Some(claims) = status
        .claims
        .filter(|claims| claims.holds + claims.waiting > 0)
    {
        let (holds, waiting) = (claims.holds, claims.waiting);
        output::line(format!("resources: {holds} claims hold, {waiting} wait"));
    }
    jobs::show(status.jobs.as_ref());
    output::line(journal(status));
}

fn replicas(status: &GetStatusResponse) {
    let mut table = Table::new(&["replica", "owner", ">epoch", ">up for", ">seen"]);
    for replica in &status.replicas {
        let (started, seen) = (&replica.started_at, &replica.seen_at);
        let [started, seen] = [started, seen].map(|at| time_text::micros(at.as_ref()));
        let silent_us = Timestamp::now().as_microsecond() - seen;
        let up_for = match silent_us >= GONE.as_micros() as i64 {
            true => "gone".to_owned(),
            false => time_text::ago(started).trim_end_matches(" ago").to_owned(),
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
            target_state(target, &status.paused_targets).to_owned(),
            target.sessions.to_string(),
            target.error.clone(),
        ]);
    }
    section(table);
}

fn target_state(target: &TargetStatus, pauses: &[PausedTarget]) -> &'static str {
    let mut pauses = pauses.iter().flat_map(|one| &one.pause);
    let is_paused = pauses.any(|pause| pause.target.is_empty() || pause.target == target.name);
    match (target.available, is_paused) {
        // Nobody has logged in since the replica started, or since an outage.
        (true, false) if target.sessions == 0 => "not used yet",
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
    output::line(output::paint(
        "DATA_UNREADABLE: these schedulers are set aside; run the version that wrote their rows, \
         or restore the rows from a backup",
        RED,
    ));
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
    let backlog = status.backlog.unwrap_or_default();
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

fn journal(status: &GetStatusResponse) -> String {
    let journal = status.journal.clone().unwrap_or_default();
    if !journal.available {
        return output::paint(&format!("journal  unavailable: {}", journal.error), RED);
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
    format!(
        "journal  batch {}, durable {age} ago{oldest}",
        journal.batch_no
    )
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
        Reason::Due | Reason::Unspecified => "it is dropped in the next round".to_owned(),
    }
}
