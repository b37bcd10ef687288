//! What needs somebody: what is held up, parts that are away, halts, jobs that fail, errors.

use super::{
    jobs::in_a_row,
    parts::{Look, badge, by_whom, leading, plain, quiet},
};
use crate::cli::{
    status::silent,
    top::{
        grid::{Column, Grid, column},
        place::Place,
        seen::{Failure, Overview},
        text::{Row, Tone},
        units::{ago, clock, counted, first_line, number, short, span},
    },
};
use rallypoint_client::api::{GetStatusResponse, Halt, Scheduler, SchedulerState};
use std::collections::{BTreeMap, HashMap};

/// Errors that are shown.
const ERRORS: usize = 8;
/// Sessions whose end cannot be shown.
const FENCES: usize = 3;

/// How a target says no when the service asks whether a claimed run is done there: no failure of
/// a task of anybody.
const NOT_FINISHED: &str = "RP006";

/// One thing that needs somebody.
struct Need {
    kind: &'static str,
    what: String,
    more: String,
    place: Place,
}

impl Need {
    fn new(kind: &'static str, what: String, more: String, place: Place) -> Need {
        Need {
            kind,
            what,
            more,
            place,
        }
    }
}

/// All of it, worst first.
pub(super) fn rows(seen: &Overview, names: &HashMap<&str, String>, look: &Look) -> Vec<Row> {
    const COLUMNS: &[Column] = &[
        column("kind"),
        Column::text("what", 24),
        Column::remark("more", 10),
    ];
    let mut needs = held_up(seen, look);
    needs.extend(parts(&seen.status, look));
    needs.extend(halts(seen));
    needs.extend(failing(seen));
    needs.extend(errors(seen, names, look));
    let title = Row::head(
        "Needs a look",
        &match needs.len() {
            0 => String::new(),
            some => number(some as i64),
        },
    );
    let mut grid = Grid::new(COLUMNS);
    for need in needs {
        let key = format!("need {} {:?}", need.kind, need.place);
        let what = plain(&need.what);
        let kind = match need.kind {
            "held up" | "error" => crate::cli::top::text::Piece::new(need.kind, Tone::Bad),
            kind => badge(kind),
        };
        grid.row(
            leading(key, need.place),
            vec![kind, what, quiet(&need.more)],
        );
    }
    let mut rows = vec![title];
    match (grid.is_empty(), seen.status.unreachable.as_slice()) {
        (true, []) => {
            let text = "Nothing: no errors lately in the schedulers below, nothing held up, every \
                        target is there.";
            rows.extend(Row::remark(text, look.width));
        }
        (true, parts) => {
            let silent = parts.iter().map(|part| silent(part));
            rows.extend(silent.map(|text| Row::of(text, Tone::Bad)));
        }
        // Without the names of the columns: each row is a sentence.
        (false, _) => rows.extend(grid.laid_out(look.width).into_iter().skip(1)),
    }
    rows.push(Row::blank());
    rows
}

fn held_up(seen: &Overview, look: &Look) -> Vec<Need> {
    let need = |one: &crate::cli::top::seen::HeldUp| {
        let who = match one.pid {
            0 => "a prepared transaction".to_owned(),
            pid => format!("process {pid}"),
        };
        let what = format!("Task {} waits for a lock that {who} holds", one.seq);
        let whose = [&one.user, &one.application, &one.state].map(String::as_str);
        let whose: Vec<&str> = whose.into_iter().filter(|said| !said.is_empty()).collect();
        let more = format!(
            "{} · for {}",
            whose.join(", "),
            span(look.now - one.started)
        );
        Need::new(
            "held up",
            what,
            more,
            Place::Task(one.handle.clone(), one.seq),
        )
    };
    seen.held_up.iter().map(need).collect()
}

fn parts(status: &GetStatusResponse, look: &Look) -> Vec<Need> {
    let mut needs = Vec::new();
    let mut add = |kind, what: String, more: String| {
        needs.push(Need::new(kind, what, more, Place::System));
    };
    if let Some(journal) = status.journal.as_ref().filter(|journal| !journal.available) {
        let what = "The coordination database does not answer".to_owned();
        add("away", what, journal.error.clone());
    }
    for target in status.targets.iter().filter(|target| !target.available) {
        let more = format!(
            "seen from {}: {} · {}",
            target.replica,
            target.error,
            ago(target.unavailable_since.as_ref(), look.now)
        );
        add("away", format!("Target {} is away", target.name), more);
    }
    for fence in status.pending_fences.iter().take(FENCES) {
        let what = format!("The end of a session on {} cannot be shown", fence.target);
        let pid = fence.backend_pid;
        add(
            "lost",
            what,
            format!("process {pid} of {}: {}", fence.replica, fence.why),
        );
    }
    for pause in status
        .paused_targets
        .iter()
        .filter_map(|one| one.pause.as_ref())
    {
        let what = match pause.target.as_str() {
            "" => "All targets are paused".to_owned(),
            target => format!("Target {target} is paused"),
        };
        add(
            "paused",
            what,
            by_whom(&pause.paused_by, &pause.reason).trim().to_owned(),
        );
    }
    if status.unreadable > 0 {
        let what = format!(
            "{} cannot be read by this version",
            counted(status.unreadable, "scheduler")
        );
        add("lost", what, "their rows are kept as they are".to_owned());
    }
    let agent = status.jobs.as_ref().and_then(|jobs| jobs.agent.as_ref());
    if let Some(agent) = agent.filter(|agent| agent.stopped) {
        let what = "The agent is stopped: no job is fired".to_owned();
        needs.push(Need::new("paused", what, agent.reason.clone(), Place::Jobs));
    }
    needs
}

fn halts(seen: &Overview) -> Vec<Need> {
    // What a halt has blocked ends with the release, and nothing waits any more.
    let unreleased = |one: &&Scheduler| one.state() != SchedulerState::Released;
    let halted = seen.schedulers.iter().filter(unreleased);
    let halted = halted.filter_map(|one| Some((one, one.halt.as_ref()?)));
    let need = |(one, halt): (&Scheduler, &Halt)| {
        let what = format!("Order {} has failed tasks, later orders wait", halt.order);
        let more = format!("blocked: {}", counted(one.blocked, "task"));
        let place = match halt.failed_seqs.first() {
            Some(seq) => Place::Task(one.handle.clone(), *seq),
            None => Place::Scheduler(one.handle.clone()),
        };
        Need::new("halted", what, more, place)
    };
    halted.map(need).collect()
}

fn failing(seen: &Overview) -> Vec<Need> {
    let need = |job: &rallypoint_client::api::Job| {
        let times = in_a_row(job.failures);
        let more = if job.paused.is_some() {
            "it is paused"
        } else {
            ""
        };
        let what = format!("Job {} has failed {times}", job.name);
        Need::new(
            "failed",
            what,
            more.to_owned(),
            Place::Job(job.name.clone()),
        )
    };
    seen.jobs
        .iter()
        .filter(|job| job.failures > 0)
        .map(need)
        .collect()
}

/// The newest errors. The same error of schedulers of the same name is one row, with the newest
/// task.
fn errors(seen: &Overview, names: &HashMap<&str, String>, look: &Look) -> Vec<Need> {
    let all = seen.errors.iter().flat_map(|(handle, errors)| {
        errors
            .found
            .iter()
            .filter(|failure| failure.code != NOT_FINISHED)
            .map(move |failure| (handle.as_str(), failure))
    });
    let mut all: Vec<(&str, &Failure)> = all.collect();
    all.sort_by_key(|(_, failure)| -failure.at);
    let mut alike: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut shown: Vec<((String, String), &str, &Failure)> = Vec::new();
    for (handle, failure) in all {
        let name = names.get(handle).cloned().unwrap_or_else(|| short(handle));
        let words = failure
            .message
            .chars()
            .filter(|one| !one.is_ascii_digit())
            .collect();
        let key = (name, words);
        let times = alike.entry(key.clone()).or_default();
        *times += 1;
        if *times == 1 {
            shown.push((key, handle, failure));
        }
    }
    let need = |(key, handle, failure): ((String, String), &str, &Failure)| {
        let said = match first_line(&failure.message) {
            "" => failure.code.as_str(),
            line => line,
        };
        let what = format!("Task {}: {said}", failure.seq);
        let times = match alike[&key] {
            1 => String::new(),
            many => format!(" · {many} times"),
        };
        let goes_on = if failure.retried {
            " · it is tried again"
        } else {
            ""
        };
        let at = clock(failure.at, look.now);
        let more = format!("{} in {} · {at}{times}{goes_on}", failure.code, key.0);
        Need::new(
            "error",
            what,
            more,
            Place::Task(handle.to_owned(), failure.seq),
        )
    };
    shown.into_iter().take(ERRORS).map(need).collect()
}
