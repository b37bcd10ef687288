//! Which failures a halt counts: a column beside that of the halt, because an older version writes
//! a halt without what it does not know of. So the column names the halt it was written with, and
//! says nothing of any other one.

use crate::core::{Halt, HaltFailures};
use serde::{Deserialize, Serialize};

/// The value of the column, as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HaltFailuresOf {
    halt: Halt,
    failures: Box<HaltFailures>,
}

/// What is stored beside a halt.
pub(crate) fn of(halt: &Halt) -> Option<HaltFailuresOf> {
    let failures = halt.failures.clone()?;
    let halt = halt.clone();
    Some(HaltFailuresOf { halt, failures })
}

/// The halt with what is stored beside it.
pub(crate) fn with(halt: Halt, stored: Option<&[u8]>) -> Halt {
    let stored: Option<HaltFailuresOf> =
        stored.and_then(|stored| serde_json::from_slice(stored).ok());
    let failures = stored
        .filter(|stored| stored.halt == halt)
        .map(|stored| stored.failures);
    Halt { failures, ..halt }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{DoneNo, Order, Seq};

    #[test]
    fn what_is_stored_beside_one_halt_says_nothing_of_another() {
        let halt = Halt {
            order: Order(100),
            failed: vec![Seq(3)],
            failures: Some(Box::new(HaltFailures {
                since: DoneNo(7),
                by_order: [(Order(100), 1)].into(),
                until: DoneNo(9),
            })),
        };
        let stored = serde_json::to_vec(&of(&halt)).expect("JSON");
        let plain = Halt {
            failures: None,
            ..halt.clone()
        };
        assert_eq!(with(plain.clone(), Some(&stored)), halt);
        assert_eq!(with(plain.clone(), None), plain);
        let mut changed = plain.clone();
        changed.failed.push(Seq(4));
        assert_eq!(with(changed.clone(), Some(&stored)), changed);
    }
}
