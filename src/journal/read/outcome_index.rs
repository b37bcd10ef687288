//! The index of rows of `completion` by outcomes: it has those that did not all succeed, by which
//! of failed, cancelled, timed out and exhausted they have (1, 2, 4, 8).

use crate::core::{Outcome, TaskFilter};

/// The values of the index of outcomes that are looked for; `None`: it does not have all rows.
pub(super) fn values(filter: &TaskFilter) -> Option<Vec<i32>> {
    let has_succeeded = match filter.outcomes.is_empty() {
        // What has succeeded has no error.
        true => filter.error_codes.is_empty(),
        false => filter.outcomes.contains(&Outcome::Succeeded),
    };
    if has_succeeded {
        return None;
    }
    let bits = filter.outcomes.iter().map(|one| 1 << (*one as i16 - 2));
    let wanted: i32 = bits.fold(0, |all, one| all | one);
    let any = filter.outcomes.is_empty();
    let values = (1..16).filter(|value| any || value & wanted != 0);
    Some(values.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_looked_for_wherever_it_stands_among_others() {
        let values_of = |outcomes: &[Outcome], codes: &[&str]| {
            values(&TaskFilter {
                outcomes: outcomes.to_vec(),
                error_codes: codes.iter().map(|code| (*code).to_owned()).collect(),
                ..TaskFilter::default()
            })
        };
        let failed = values_of(&[Outcome::Failed], &["22012"]);
        assert_eq!(failed, Some(vec![1, 3, 5, 7, 9, 11, 13, 15]));
        let rare = values_of(&[Outcome::Exhausted, Outcome::TimedOut], &[]);
        assert_eq!(rare, Some((4..16).collect()));
        assert_eq!(values_of(&[Outcome::Succeeded, Outcome::Failed], &[]), None);
        assert_eq!(values_of(&[], &["LOST"]), Some((1..16).collect()));
        assert_eq!(values_of(&[], &[]), None);
    }
}
