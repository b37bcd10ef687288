//! `status`: what the service is doing, once or continuously.

use super::{
    connect::Server,
    declare_dead, enum_text,
    error::CliError,
    output::{self, BOLD, Output, RED},
    table::Table,
    target_pause, time_text,
};
use clap::Args;
use rallypoint_client::{
    Error,
    api::{DayPin, Execution, GetStatusResponse, day_pin::Reason},
};
use serde_json::{Value, json};
use std::{
    io::{self, IsTerminal},
    process::ExitCode,
    time::Duration,
};

/// Shortest time between two updates of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Arguments of `status`.
#[derive(Args, Debug)]
pub(super) struct Status {
    /// What runs on each slot
    #[arg(long)]
    executions: bool,
    /// Print the executions whenever they change, until Ctrl-C
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    output: Output,
}

impl Status {
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let client = server.client().await?;
        if self.watch {
            let mut stream = client
                .watch_executions(WATCH_INTERVAL)
                .await
                .map_err(refused)?;
            while let Some(message) = stream
                .message()
                .await
                .map_err(|status| refused(status.into()))?
            {
                self.executions(&message.executions);
            }
        } else if self.executions {
            self.executions(&client.executions().await.map_err(refused)?);
        } else {
            let status = client.status().await.map_err(refused)?;
            if self.output.json() {
                output::json(&to_json(&status))
            } else {
                print(&status)
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn executions(&self, executions: &[Execution]) {
        if self.output.json() {
            return output::json(&executions.iter().map(execution).collect::<Vec<_>>().into());
        }
        if self.watch && io::stdout().is_terminal() {
            output::line(
                "\x1b[2J\x1b[H".to_owned() + &output::paint("executions (Ctrl-C ends)", BOLD),
            );
        }
        print_executions(executions);
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
    replicas(status);
    slots(status);
    targets(status);
    target_pause::print(&status.paused_targets);
    declare_dead::print(&status.pending_fences);
    unreadable(status);
    output::line("");
    output::line(backlog(status));
    output::line(journal(status));
}

fn replicas(status: &GetStatusResponse) {
    let mut table = Table::new(&["replica", "owner", ">epoch", ">up for", ">seen"]);
    for replica in &status.replicas {
        let started = time_text::micros(replica.started_at.as_ref());
        table.row([
            replica.name.clone(),
            if replica.owner { "yes" } else { "" }.to_owned(),
            replica.epoch.to_string(),
            time_text::ago(started).trim_end_matches(" ago").to_owned(),
            time_text::ago(time_text::micros(replica.seen_at.as_ref())),
        ]);
    }
    section(table);
}

fn slots(status: &GetStatusResponse) {
    let mut table = Table::new(&["slots", ">total", ">busy", ">free", ">reserved"]);
    for slot in &status.slots {
        let free = slot.total - slot.busy;
        let [total, busy, reserved] =
            [slot.total, slot.busy, slot.reserved].map(|number| number.to_string());
        table.row([slot.kind.clone(), total, busy, free.to_string(), reserved]);
    }
    section(table);
}

fn targets(status: &GetStatusResponse) {
    let mut table = Table::new(&["target", "replica", "available", ">sessions", "error"]);
    for target in &status.targets {
        let available = if target.available { "yes" } else { "no" };
        table.row([
            target.name.clone(),
            target.replica.clone(),
            available.to_owned(),
            target.sessions.to_string(),
            target.error.clone(),
        ]);
    }
    section(table);
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
    let mut table = Table::new(&["scheduler", "namespace", "why"]);
    for one in &status.unreadable_schedulers {
        table.row([one.handle.clone(), one.namespace.clone(), one.why.clone()]);
    }
    table.print();
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
    format!(
        "backlog  {} schedulers; {} blocked, {} queued, {} running, {} retrying{oldest}",
        backlog.schedulers, backlog.blocked, backlog.queued, backlog.running, backlog.retrying
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
            ", oldest day {day} (retention {} days: {})",
            journal.retention_days,
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

fn print_executions(executions: &[Execution]) {
    let mut table = Table::new(&[
        "replica", "kind", ">slot", ">backend", "task", ">order", ">try", ">elapsed", "caller",
    ]);
    for execution in executions {
        let idle = execution.handle.is_empty();
        let busy = |text: String| if idle { "-".to_owned() } else { text };
        table.row([
            execution.replica.clone(),
            execution.kind.clone(),
            execution.slot.to_string(),
            if execution.backend_pid == 0 {
                "-".to_owned()
            } else {
                execution.backend_pid.to_string()
            },
            if idle {
                "idle".to_owned()
            } else {
                format!("{}/{}", execution.handle, execution.seq)
            },
            enum_text::order(execution.effective_order),
            busy(execution.attempt.to_string()),
            busy(time_text::duration(time_text::duration_us(
                execution.elapsed.as_ref(),
            ))),
            execution.caller.clone(),
        ]);
    }
    table.print();
}

fn execution(execution: &Execution) -> Value {
    let idle = execution.handle.is_empty();
    json!({
        "replica": execution.replica,
        "kind": execution.kind,
        "slot": execution.slot,
        "backend_pid": execution.backend_pid,
        "idle": idle,
        "handle": execution.handle,
        "seq": execution.seq,
        "order": execution.effective_order,
        "attempt": execution.attempt,
        "namespace": execution.namespace,
        "caller": execution.caller,
        "started_at": time_text::rfc3339(time_text::micros(execution.started_at.as_ref())),
        "elapsed_ms": time_text::duration_us(execution.elapsed.as_ref()) / 1000,
    })
}

fn to_json(status: &GetStatusResponse) -> Value {
    let backlog = status.backlog.unwrap_or_default();
    let journal = status.journal.clone().unwrap_or_default();
    let replicas = status.replicas.iter().map(|replica| {
        json!({
            "name": replica.name, "owner": replica.owner, "epoch": replica.epoch,
            "started_at": time_text::rfc3339(time_text::micros(replica.started_at.as_ref())),
            "seen_at": time_text::rfc3339(time_text::micros(replica.seen_at.as_ref())),
        })
    });
    let slots = status.slots.iter().map(|slot| {
        json!({
            "kind": slot.kind, "total": slot.total, "busy": slot.busy, "reserved": slot.reserved,
        })
    });
    let targets = status.targets.iter().map(|target| {
        json!({
            "name": target.name, "replica": target.replica, "available": target.available,
            "error": target.error, "sessions": target.sessions,
            "unavailable_since":
                time_text::rfc3339(time_text::micros(target.unavailable_since.as_ref())),
        })
    });
    let unreadable = status
        .unreadable_schedulers
        .iter()
        .map(|one| json!({ "handle": one.handle, "namespace": one.namespace, "why": one.why }));
    json!({
        "version": status.version,
        "replicas": replicas.collect::<Vec<_>>(),
        "slots": slots.collect::<Vec<_>>(),
        "targets": targets.collect::<Vec<_>>(),
        "backlog": {
            "schedulers": backlog.schedulers, "blocked": backlog.blocked, "queued": backlog.queued,
            "running": backlog.running, "retrying": backlog.retrying,
            "oldest_queued_at": time_text::rfc3339(time_text::micros(backlog.oldest_queued_at.as_ref())),
        },
        "journal": {
            "batch_no": journal.batch_no, "last_durable_ms": time_text::duration_us(journal.last_durable_age.as_ref()) / 1000,
            "available": journal.available, "error": journal.error,
            "oldest_day": journal.oldest_day, "retention_days": journal.retention_days,
            "pinned": journal.pin.as_ref().map(pinned),
        },
        "paused_targets": target_pause::to_json(&status.paused_targets),
        "pending_fences": declare_dead::to_json(&status.pending_fences),
        "unreadable": unreadable.collect::<Vec<_>>(),
        "unreachable": status.unreachable,
    })
}
