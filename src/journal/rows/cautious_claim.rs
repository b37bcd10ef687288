//! What is made of a row about resources that makes no sense as a whole to this version: nobody
//! else gets what it may be about. What it names can mostly be read all the same, as it is JSON.

use crate::core::{ClaimSpec, Mode, ResourceSettings, Want};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

/// The longest lease a caller may ask for.
const LONGEST_LEASE: Duration = Duration::from_secs(3_600);

/// A claim on all that the row names, for a lease that is long enough. `None`: it names nothing.
pub(crate) fn claim(row: &[u8]) -> Option<ClaimSpec> {
    let row: Value = serde_json::from_slice(row).ok()?;
    let wants: Vec<Want> = match field(&row, "wants") {
        Some(wants) => wants,
        None => {
            let uses = row.get("wants")?.as_array()?.iter();
            let names = uses.filter_map(|one| one.get("name")?.as_str());
            let mut names: Vec<&str> = names.collect();
            names.sort_unstable();
            names.dedup();
            let all = names.into_iter().map(|name| Want {
                name: name.into(),
                mode: Mode::Exclusive,
            });
            all.collect()
        }
    };
    let is_of_any = !wants.is_empty();
    is_of_any.then_some(ClaimSpec {
        namespace: field(&row, "namespace")?,
        wants,
        owner: field(&row, "owner").unwrap_or_default(),
        caller: field(&row, "caller").unwrap_or_default(),
        reason: field(&row, "reason").unwrap_or_default(),
        labels: field(&row, "labels").unwrap_or_default(),
        request: field(&row, "request"),
        lease: field(&row, "lease").unwrap_or(LONGEST_LEASE),
        wait: field(&row, "wait"),
        task: field(&row, "task"),
    })
}

/// Of a definition that makes no sense nothing is granted, until it is updated.
pub(crate) fn closed() -> ResourceSettings {
    ResourceSettings {
        capacity: 0,
        lock_delay: Duration::ZERO,
        max_hold: None,
        refill: None,
        reader_preferred: false,
    }
}

fn field<T: DeserializeOwned>(row: &Value, name: &str) -> Option<T> {
    serde_json::from_value(row.get(name)?.clone()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_row_names_is_kept_as_a_whole() {
        let row = json!({
            "namespace": "one",
            "wants": [{"name": "b", "mode": {"Shared": "many"}}, {"name": "a", "mode": 7}],
            "owner": "ann",
            "lease": "long",
            "request": {"id": "00000000-0000-0000-0000-000000000007", "hash": 3},
            "more": 1,
        });
        let claim = claim(row.to_string().as_bytes()).expect("it names something");
        let wants: Vec<_> = claim
            .wants
            .iter()
            .map(|one| (&*one.name, one.mode))
            .collect();
        assert_eq!(wants, [("a", Mode::Exclusive), ("b", Mode::Exclusive)]);
        assert_eq!((&*claim.owner, claim.lease), ("ann", LONGEST_LEASE));
        // The call that asked for it may be repeated, and gets no second one.
        let request = claim.request.expect("it names the call");
        assert_eq!((request.id.as_u128(), request.hash), (7, 3));
    }

    #[test]
    fn a_row_that_names_nothing_is_no_claim() {
        for row in ["?", "{}", r#"{"namespace": "one", "wants": []}"#] {
            assert!(claim(row.as_bytes()).is_none(), "{row}");
        }
    }
}
