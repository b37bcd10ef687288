//! `list`: the schedulers of the namespace.

use super::{
    connect::Server,
    enum_text,
    error::CliError,
    filter::{self, Label},
    number::whole,
    output,
    table::Table,
    time_text,
    when::When,
};
use clap::{Args, ValueEnum};
use rallypoint_client::api::{self, Scheduler};
use std::{collections::BTreeMap, process::ExitCode};

/// Schedulers per page.
const PAGE_SIZE: i32 = 1000;

/// Arguments of `list`.
#[derive(Args, Debug)]
pub(super) struct List {
    /// Only schedulers in this state (repeatable)
    #[arg(long = "state", value_enum, value_delimiter = ',')]
    states: Vec<State>,
    /// Only schedulers with this label (repeatable: with all of them)
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<Label>,
    /// Only schedulers opened under this name, of which one at most is open
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only schedulers with this display name
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,
    /// Only schedulers that a failure has halted, and that are not released unless --state asks for
    /// those
    #[arg(long)]
    halted: bool,
    /// Only schedulers opened since: 1h or 2d ago, 2026-03-01 (of UTC), or a time like
    /// 2026-03-01T12:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<When>,
    /// Number of schedulers, the newest ones
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = whole::<usize>(1..))]
    limit: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    Open,
    Releasing,
    Released,
}

impl List {
    /// Reads the schedulers and prints them, newest first.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let list = self.read(server).await?;
        let nothing = match list.schedulers.is_empty() && !output::is_json() {
            true => nothing(server).await,
            false => String::new(),
        };
        output::answer(&list, |list| print(&list.schedulers, &nothing));
        if !list.next_page_token.is_empty() {
            output::note("older schedulers are not shown: see --limit");
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The newest `limit` schedulers, with a token when there are older ones.
    async fn read(&self, server: &Server) -> Result<api::ListSchedulersResponse, CliError> {
        let client = server.client().await?;
        let mut request = api::ListSchedulersRequest {
            filter: Some(self.filter()),
            ..Default::default()
        };
        let mut schedulers = Vec::new();
        loop {
            let left = i32::try_from(self.limit - schedulers.len()).unwrap_or(PAGE_SIZE);
            request.page_size = left.clamp(1, PAGE_SIZE);
            let page = client.schedulers(request.clone()).await;
            let page = page.map_err(|error| CliError::call("cannot list schedulers", &error))?;
            schedulers.extend(page.schedulers);
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() || schedulers.len() >= self.limit {
                schedulers.truncate(self.limit);
                return Ok(api::ListSchedulersResponse {
                    schedulers,
                    next_page_token: request.page_token,
                });
            }
        }
    }

    fn filter(&self) -> api::SchedulerFilter {
        let state = |state: &State| match state {
            State::Open => api::SchedulerState::Open.into(),
            State::Releasing => api::SchedulerState::Releasing.into(),
            State::Released => api::SchedulerState::Released.into(),
        };
        let states = match (self.halted, &self.states[..]) {
            (true, []) => &[State::Open, State::Releasing],
            (_, states) => states,
        };
        api::SchedulerFilter {
            states: states.iter().map(state).collect(),
            labels: filter::labels(&self.labels),
            name: self.name.clone().unwrap_or_default(),
            display_name: self.display_name.clone().unwrap_or_default(),
            opened_from: self.since.map(filter::timestamp),
            halted: self.halted,
            ..Default::default()
        }
    }
}

/// That there are none: where, if the caller has other namespaces besides.
async fn nothing(server: &Server) -> String {
    let elsewhere = match server.names_namespace() {
        true => None,
        false => namespace_of_several(server).await,
    };
    match elsewhere {
        Some(here) => format!("no schedulers in namespace {here} (--namespace NAME)"),
        None => "no schedulers".to_owned(),
    }
}

/// The namespace of calls that name none, of a caller that has a role in all; `None`: it has not,
/// or that cannot be asked.
async fn namespace_of_several(server: &Server) -> Option<String> {
    let client = server.quiet_client().await.ok()?;
    let identity = client.identity().await.ok()??;
    let has_several = identity.knows_callers && !identity.everywhere.is_empty();
    (has_several && !identity.namespace.is_empty()).then_some(identity.namespace)
}

/// `nothing`: what is said where there are none.
fn print(schedulers: &[Scheduler], nothing: &str) {
    if schedulers.is_empty() {
        return output::line(nothing);
    }
    table(schedulers).print();
}

/// Where there is no room, the name stays longest, and before it when a scheduler was opened.
fn table(schedulers: &[Scheduler]) -> Table {
    let mut table = Table::new(&[
        "scheduler",
        "state",
        "??opened",
        ">tasks",
        "???>done",
        "???>running",
        "???>waiting",
        "?~name",
        "???~display name",
        "???~labels",
    ]);
    for scheduler in schedulers {
        let settings = scheduler.settings.clone().unwrap_or_default();
        let labels: BTreeMap<_, _> = settings.labels.iter().collect();
        let labels: Vec<_> = labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let waiting = scheduler.blocked + scheduler.queued + scheduler.retrying;
        table.row([
            scheduler.handle.clone(),
            enum_text::scheduler(scheduler).to_owned(),
            time_text::time(time_text::micros(scheduler.opened_at.as_ref())),
            scheduler.submitted.to_string(),
            scheduler.done.to_string(),
            scheduler.running.to_string(),
            waiting.to_string(),
            scheduler.name.clone(),
            settings.display_name,
            labels.join(" "),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_shows_the_name_of_a_scheduler_or_when_it_was_opened() {
        let named = Scheduler {
            handle: "h".repeat(36),
            state: api::SchedulerState::Open.into(),
            name: "night".to_owned(),
            settings: Some(api::SchedulerSettings {
                display_name: "rallypoint exec".to_owned(),
                ..Default::default()
            }),
            opened_at: Some(prost_types::Timestamp {
                seconds: 1,
                nanos: 0,
            }),
            ..Default::default()
        };
        let unnamed = Scheduler {
            name: String::new(),
            ..named.clone()
        };
        let heads_of = |scheduler: &Scheduler, room| {
            let table = table(std::slice::from_ref(scheduler));
            let head = table.lines(Some(room)).swap_remove(0);
            head.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(heads_of(&unnamed, 80), "SCHEDULER STATE OPENED TASKS");
        let heads = |room| heads_of(&named, room);
        assert_eq!(heads(80), "SCHEDULER STATE TASKS NAME");
        let counts = "SCHEDULER STATE OPENED TASKS DONE RUNNING WAITING";
        assert_eq!(heads(120), format!("{counts} NAME DISPLAY NA…"));
        // Nothing is cut for a column in which nothing stands.
        assert_eq!(heads(131), format!("{counts} NAME DISPLAY NAME"));
        assert_eq!(heads(132), format!("{counts} NAME DISPLAY NAME LABELS"));
    }
}
