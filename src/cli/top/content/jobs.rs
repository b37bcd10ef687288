//! Recurring jobs: when each is due next, and how the last runs went.

use super::parts::{Look, Page, badge, by_whom, leading, list, plain, quiet, word};
use crate::cli::top::{
    filter,
    grid::{Column, Grid, column},
    place::Place,
    seen::Jobs,
    subject::Subject,
    text::{Kind, Piece, Row, Tone},
    units::{ago, counted, lasting},
};
use rallypoint_client::api::{Agent, JobCounts, JobRun, RunState, Schedule, schedule::Rule};

const COLUMNS: &[Column] = &[
    Column::text("job", 12),
    Column::text("due", 10),
    column("next"),
    column("last runs"),
    column("last"),
    Column::number("failures"),
    Column::text("changed by", 8).wide(100),
];

pub(super) fn page(seen: &Jobs, look: &Look) -> Page {
    let words = filter::words(look.filter);
    let mut grid = Grid::new(COLUMNS);
    for job in &seen.jobs {
        let runs = seen.runs.get(&job.name).map(|(_, runs)| runs.as_slice());
        let settings = job.settings.clone().unwrap_or_default();
        let next = match (&job.paused, &job.next_due) {
            (Some(_), _) => badge("paused"),
            (None, Some(next)) => plain(ago(Some(next), look.now)),
            (None, None) => quiet("-"),
        };
        let last = runs.and_then(<[JobRun]>::first);
        let last = last.map_or_else(|| quiet("-"), |run| badge(&state(run.state())));
        let failures = match job.failures {
            0 => quiet(""),
            some => Piece::new(some.to_string(), Tone::Bad),
        };
        let row = leading(&job.name, Place::Job(job.name.clone())).about(Subject::job(job));
        let cells = vec![
            plain(&job.name),
            quiet(rule(settings.schedule.as_ref())),
            next,
            plain(marks(runs)),
            last,
            failures,
            quiet(&job.changed_by),
        ];
        grid.row(row, cells);
    }
    let nothing = [
        "No job is defined in this namespace. Describe one in a file and apply it:",
        "",
        "    # jobs.toml",
        "    [jobs.nightly]",
        "    schedule = { cron = \"30 2 * * *\", time_zone = \"Europe/Vienna\" }",
        "    steps = [{ statement = \"select refresh()\" }]",
        "",
        "    rallypoint jobs apply -f jobs.toml",
    ];
    let page = list(grid, &words, &nothing, look);
    let Some(counts) = &seen.status.jobs else {
        let text = "How they go is not known: no owner of the shard answers.";
        let mut rows = vec![Row::of(text, Tone::Bad), Row::blank()];
        rows.extend(page.rows);
        return Page { rows, ..page };
    };
    let agent = counts.agent.clone().unwrap_or_default();
    let mut rows = head(counts, &agent, look);
    rows.extend(page.rows);
    let stopped = agent.stopped;
    Page {
        rows,
        subjects: vec![Subject::Agent { stopped }],
        ..page
    }
}

fn head(counts: &JobCounts, agent: &Agent, look: &Look) -> Vec<Row> {
    let line = |pieces| Row {
        kind: Kind::Head,
        ..Row::new(pieces)
    };
    let mut rows = Vec::new();
    if agent.stopped {
        let (by, why) = (by_whom(&agent.changed_by, ""), by_whom("", &agent.reason));
        let text = format!("The agent is stopped{by}, and no job is fired{why}");
        rows.push(line(vec![Piece::new(text, Tone::Waiting)]));
    }
    let numbers = [
        ("running", agent.running, Tone::Busy),
        ("waiting", counts.waiting, Tone::Waiting),
        ("failing", counts.failing, Tone::Bad),
        ("late", counts.late, Tone::Bad),
        ("unreadable", counts.unreadable, Tone::Bad),
        ("paused", counts.paused, Tone::Waiting),
    ];
    let mut pieces = vec![plain(format!("{}  ", counted(counts.jobs, "job")))];
    for (name, value, tone) in numbers {
        pieces.push(quiet(format!("{name} ")));
        pieces.push(super::parts::count(value, tone));
        pieces.push(plain("  "));
    }
    if let Some(next) = &counts.next_due {
        pieces.push(quiet(format!("next {}", ago(Some(next), look.now))));
    }
    rows.push(line(pieces));
    rows.push(Row::blank());
    rows
}

/// What became of a due time.
pub(super) fn state(state: RunState) -> String {
    word(state.as_str_name(), "RUN_STATE")
}

/// How often it has failed without a success between: `once`, `3 times in a row`.
pub(super) fn in_a_row(failures: i32) -> String {
    match failures {
        1 => "once".to_owned(),
        many => format!("{many} times in a row"),
    }
}

/// When a job is due.
pub(super) fn rule(schedule: Option<&Schedule>) -> String {
    let Some(schedule) = schedule else {
        return String::new();
    };
    let zone = match schedule.time_zone.as_str() {
        "" | "UTC" => String::new(),
        zone => format!(" {zone}"),
    };
    match &schedule.rule {
        Some(Rule::Cron(cron)) => format!("{cron}{zone}"),
        Some(Rule::Interval(interval)) => format!("every {}", lasting(interval.every.as_ref())),
        Some(Rule::After(job)) => format!("after {job}"),
        Some(Rule::OncePer(once)) => {
            let period = word(once.period().as_str_name(), "PERIOD");
            let bound = |name, bound: &str| match bound {
                "" => String::new(),
                bound => format!(" {name} {bound}"),
            };
            let (after, before) = (bound("from", &once.after), bound("until", &once.before));
            format!("once a {period}{after}{before}{zone}")
        }
        None => String::new(),
    }
}

/// What became of the last due times, oldest first, a sign each. The next column has the last one
/// in words.
fn marks(runs: Option<&[JobRun]>) -> String {
    let sign = |run: &JobRun| match run.state() {
        RunState::Succeeded => '●',
        RunState::Failed | RunState::TimedOut | RunState::Lost => '✗',
        RunState::Missed => '!',
        RunState::Running => '▶',
        RunState::Waiting | RunState::Retrying => '…',
        RunState::Skipped | RunState::Cancelled | RunState::Unspecified => '·',
    };
    match runs {
        None => String::new(),
        Some([]) => "none yet".to_owned(),
        Some(runs) => runs.iter().rev().map(sign).collect(),
    }
}
