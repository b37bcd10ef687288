//! Recurring jobs in `status`: whether they fire, and what needs somebody's attention.

use super::INDENT;
use crate::cli::{
    output::{self, RED},
    time_text,
};
use rallypoint_client::api::JobCounts;

/// A line about jobs, if there are any.
pub(super) fn show(counts: Option<&JobCounts>) {
    let Some(counts) = counts.filter(|counts| counts.jobs + counts.unreadable > 0) else {
        return;
    };
    let agent = counts.agent.as_ref();
    let running = agent.map_or(0, |agent| agent.running);
    let mut line = format!("jobs     {}; runs: {running} running", counts.jobs);
    for (count, what) in [
        (counts.waiting, ", {} waiting"),
        (counts.paused, "; jobs paused: {}"),
        (counts.failing, "; whose last run failed: {}"),
        (counts.late, "; late: {}"),
        (
            counts.unreadable,
            "; not fired, as this version cannot read them, or a run of theirs: {}",
        ),
    ] {
        if count > 0 {
            line.push_str(&what.replace("{}", &count.to_string()));
        }
    }
    if let Some(next) = &counts.next_due {
        let next = time_text::exact(Some(next));
        line.push_str(&format!("; next due {next}"));
    }
    output::sentence(&line, INDENT, None);
    if let Some(agent) = agent.filter(|agent| agent.stopped) {
        let since = time_text::time(time_text::micros(agent.changed_at.as_ref()));
        let why = match &*agent.reason {
            "" => String::new(),
            reason => format!(" ({reason})"),
        };
        let by = match &*agent.changed_by {
            "" => String::new(),
            name => format!(" by {name}"),
        };
        let text = format!("the agent is stopped since {since}{by}: no job fires{why}");
        output::sentence(&text, 0, Some(RED));
    }
}
