//! What a task waits for that others hold, as a sentence.

use rallypoint_client::api::{
    ResourceHolder, ResourceMode, ResourceUse,
    blocker::{Resources, resources::Wanted},
};

/// Holders that a sentence names for each resource.
const NAMED: usize = 3;

pub(super) fn sentence(one: &Resources) -> String {
    let wanted: Vec<String> = one.wanted.iter().map(wanted).collect();
    format!("it waits for {}", wanted.join(", and for "))
}

fn wanted(one: &Wanted) -> String {
    let used = one.resource.clone().unwrap_or_default();
    let name = &used.name;
    let what = match one.capacity {
        None => return format!("resource {name:?}, which has been deleted: create it again"),
        Some(0) => return format!("resource {name:?}, whose capacity is 0: raise it"),
        Some(capacity) => amount(&used, capacity),
    };
    let holders: Vec<String> = one.holders.iter().take(NAMED).map(holder).collect();
    let more = if one.holders.len() > NAMED {
        ", …"
    } else {
        ""
    };
    let held = match holders.is_empty() {
        true => String::new(),
        false => format!(", held by {}{more}", holders.join(", ")),
    };
    format!(
        "{what}{held} (place {} among the claims and tasks in line)",
        one.position
    )
}

fn amount(used: &ResourceUse, capacity: i32) -> String {
    let name = &used.name;
    match (used.mode(), used.permits) {
        (ResourceMode::Shared, 1) => format!("a permit of {name:?}, which has {capacity}"),
        (ResourceMode::Shared, permits) => {
            format!("{permits} permits of {name:?}, which has {capacity}")
        }
        (_, _) => format!("{name:?} for itself alone"),
    }
}

fn holder(one: &ResourceHolder) -> String {
    match (one.handle.as_str(), one.owner.as_str()) {
        ("", "") => format!("claim {}", one.claim),
        ("", owner) => format!("{owner:?} (claim {})", one.claim),
        (handle, _) => format!("task {handle}/{}", one.seq),
    }
}
