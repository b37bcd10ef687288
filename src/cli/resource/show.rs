//! Resources and claims for people.

use crate::cli::{
    enum_text,
    output::{self, BOLD},
    table::Table,
    terminal_text::plain,
    time_text,
};
use rallypoint_client::api::{
    Claim, ClaimState, GetResourceResponse, Resource, ResourceMode, ResourceUse, WaitingTasks,
    WatchResourceResponse,
};

/// One resource. `remark`: what else there is to say.
pub(super) fn resource(resource: Option<&Resource>, remark: &str) {
    let Some(resource) = resource else { return };
    let settings = resource.settings.unwrap_or_default();
    let by = match resource.defined_by == resource.name {
        true => String::new(),
        false => format!(", by {}", resource.defined_by),
    };
    output::line(format!("{}{remark}{by}", resource.name));
    let mut lines = vec![
        ("capacity", capacity(settings.capacity)),
        ("permits in use", resource.permits_in_use.to_string()),
        ("holds", resource.holds.to_string()),
        ("waiting", resource.waiting.to_string()),
        ("waiting tasks", resource.waiting_tasks.to_string()),
    ];
    if let Some(refill) = settings.refill {
        let period = time_text::duration(time_text::duration_us(refill.period.as_ref()));
        lines.push(("refill", format!("{} in {period}", refill.permits)));
    }
    if settings.reader_preferred {
        lines.push(("readers", "pass the writers in line".to_owned()));
    }
    let mut times = |name, time: Option<&prost_types::Duration>| {
        let time = time_text::duration_us(time);
        if time > 0 {
            lines.push((name, time_text::duration(time)));
        }
    };
    times("lock delay", settings.lock_delay.as_ref());
    times("longest hold", settings.max_hold.as_ref());
    times("usual hold", resource.usual_hold.as_ref());
    for (name, value) in lines {
        output::line(format!("  {name:<15} {value}"));
    }
}

fn capacity(capacity: i32) -> String {
    match capacity {
        0 => "0: nothing is granted until it is raised".to_owned(),
        capacity => capacity.to_string(),
    }
}

/// Many of them.
pub(super) fn resources(resources: &[Resource]) {
    let mut table = Table::new(&[
        "name",
        ">capacity",
        ">in use",
        ">holds",
        ">waiting",
        ">usual hold",
    ]);
    for one in resources {
        let usual = one.usual_hold.as_ref();
        table.row([
            one.name.clone(),
            one.settings.unwrap_or_default().capacity.to_string(),
            one.permits_in_use.to_string(),
            one.holds.to_string(),
            (one.waiting + one.waiting_tasks).to_string(),
            usual.map_or_else(
                || "-".into(),
                |usual| time_text::duration(time_text::duration_us(Some(usual))),
            ),
        ]);
    }
    match table.is_empty() {
        true => output::note("no resources: `rallypoint resource create NAME --capacity N`"),
        false => table.print(),
    }
}

/// How many claims of a queue are shown, unless somebody says it.
pub(super) const LISTED: usize = 100;

/// Who holds a resource and who waits for it.
pub(super) fn queue(known: &GetResourceResponse) {
    resource(known.resource.as_ref(), "");
    claims(&known.holds, &known.queue);
    let is_cut = is_cut(known.resource.as_ref(), &known.queue);
    tasks(&known.queue, is_cut, &known.waiting_tasks);
}

/// A resource that is followed.
pub(super) fn state(state: &WatchResourceResponse) {
    let remark = match state.deleted {
        true => " (deleted)",
        false => "",
    };
    resource(state.resource.as_ref(), remark);
    claims(&state.holds, &state.queue);
    let is_cut = is_cut(state.resource.as_ref(), &state.queue);
    tasks(&state.queue, is_cut, &state.waiting_tasks);
}

/// Whether more claims wait for a resource than its queue shows.
fn is_cut(resource: Option<&Resource>, queue: &[Claim]) -> bool {
    resource.is_some_and(|resource| resource.waiting > queue.len() as i64)
}

fn claims(holds: &[Claim], queue: &[Claim]) {
    for (title, claims, is_held) in [("held", holds, true), ("waiting", queue, false)] {
        if claims.is_empty() {
            continue;
        }
        output::line("");
        output::styled(title, BOLD);
        let mut table = Table::new(&[
            ">claim", "~uses", "~owner", "~caller", ">since", ">token", "~reason",
        ]);
        for claim in claims {
            let since = match is_held {
                true => claim.granted_at.as_ref(),
                false => claim.requested_at.as_ref(),
            };
            let token = match claim.token {
                0 => "-".to_owned(),
                token => token.to_string(),
            };
            table.row([
                claim.claim.to_string(),
                uses(&claim.resources),
                who(claim),
                claim.caller.clone(),
                time_text::ago(time_text::micros(since)),
                token,
                claim.reason.clone(),
            ]);
        }
        table.print();
    }
}

/// Tasks that wait, of which the first stands for those behind it, each with how many claims come
/// before it. `is_cut`: of the queue no more are known.
fn tasks(queue: &[Claim], is_cut: bool, waiting: &[WaitingTasks]) {
    if waiting.is_empty() {
        return;
    }
    output::line("");
    output::styled("waiting tasks", BOLD);
    let mut table = Table::new(&["first task", "uses", ">claims before", "kept for it"]);
    for line in waiting {
        let kept = if line.is_kept { "yes" } else { "-" };
        table.row([
            format!("{}/{}", line.handle, line.seq),
            line.resource
                .as_ref()
                .map_or_else(String::new, |one| uses(std::slice::from_ref(one))),
            before(queue, is_cut, line.place),
            kept.to_owned(),
        ]);
    }
    table.print();
}

/// How many claims of a queue come before a place: `+` when there may be more than are known.
fn before(queue: &[Claim], is_cut: bool, place: i64) -> String {
    let before = queue.iter().filter(|one| one.claim < place).count();
    match is_cut && before == queue.len() {
        true => format!("{before}+"),
        false => before.to_string(),
    }
}

/// One claim in full. `closed`: it waits for a resource of capacity 0.
pub(super) fn claim(claim: Option<&Claim>, closed: Option<String>) {
    let Some(claim) = claim else { return };
    let state = match claim.state() {
        ClaimState::Waiting => match closed {
            Some(closed) => format!("waiting: {closed}"),
            None => format!("waiting, place {} among the claims", claim.position),
        },
        ClaimState::Held => format!("held, token {}", claim.token),
        ClaimState::Ended => format!("ended: {}", end(claim)),
        ClaimState::Unspecified => "unknown".to_owned(),
    };
    output::line(format!("claim {}: {state}", claim.claim));
    let time =
        |time: &Option<prost_types::Timestamp>| time_text::time(time_text::micros(time.as_ref()));
    for (name, value) in [
        ("resources", uses(&claim.resources)),
        ("owner", who(claim)),
        ("caller", claim.caller.clone()),
        ("reason", claim.reason.clone()),
        ("requested", time(&claim.requested_at)),
        ("granted", time(&claim.granted_at)),
        ("ended", time(&claim.ended_at)),
        ("ended by", claim.ended_by.clone()),
        ("because", claim.end_reason.clone()),
    ] {
        if !value.is_empty() && value != "-" {
            output::line(format!("  {name:<10} {}", plain(&value)));
        }
    }
}

/// The owner in the caller's words, or the task that holds it.
pub(super) fn who(claim: &Claim) -> String {
    match claim.handle.as_str() {
        "" => claim.owner.clone(),
        handle => format!("task {handle}/{}", claim.seq),
    }
}

/// How it ended, in a word.
fn end(claim: &Claim) -> String {
    enum_text::in_words(claim.end().as_str_name(), "CLAIM_END_")
}

/// Which resources, and how.
pub(crate) fn uses(uses: &[ResourceUse]) -> String {
    let one = |one: &ResourceUse| match one.mode() {
        ResourceMode::Shared => format!("{} (shared, {})", one.name, one.permits.max(1)),
        ResourceMode::Exclusive | ResourceMode::Unspecified => one.name.clone(),
    };
    uses.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_behind_a_cut_queue_may_come_before_a_task() {
        let claim = |claim| Claim {
            claim,
            ..Claim::default()
        };
        let resource = |waiting| Resource {
            waiting,
            ..Resource::default()
        };
        let queue = [claim(3), claim(5)];
        let said = |waiting, place| {
            let is_cut = is_cut(Some(&resource(waiting)), &queue);
            before(&queue, is_cut, place)
        };
        assert_eq!(said(2, 9), "2");
        assert_eq!(said(3, 9), "2+");
        assert_eq!(said(3, 4), "1");
    }
}
