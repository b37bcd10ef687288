//! The statements of the writer: one for each set of tables that a batch has rows for. Each is the gate, the batch row
//! and one insert per table, all joined to the gate, so that a batch is written as a whole or not at all.

use super::{attempt, completion, scheduler, submission};
use std::sync::LazyLock;

/// Which tables a batch has rows for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    pub submissions: bool,
    pub completions: bool,
    pub attempts: bool,
    pub schedulers: bool,
}

const GATE: &str = "-- append
with g as materialized (
    select shard, $4::date as day
    from shard
    where shard = $1 and epoch = $2 and exists (select 1 from batch where shard = $1 and batch_no = $3 - 1)
    for no key update
)";

const BATCH: &str = "
insert into batch (shard, batch_no, epoch, at)
select g.shard, $3, $2, now()
from g";

/// Parameters of the gate.
const GATE_PARAMETERS: usize = 4;

static STATEMENTS: LazyLock<[String; 16]> = LazyLock::new(|| std::array::from_fn(|number| Shape::from_number(number).build()));

/// Every statement the writer may send, for a test to prepare.
pub fn statements() -> impl Iterator<Item = &'static str> {
    STATEMENTS.iter().map(String::as_str)
}

impl Shape {
    /// The statement of this shape.
    pub fn statement(self) -> &'static str {
        &STATEMENTS[self.number()]
    }

    fn number(self) -> usize {
        usize::from(self.submissions)
            | usize::from(self.completions) << 1
            | usize::from(self.attempts) << 2
            | usize::from(self.schedulers) << 3
    }

    fn from_number(number: usize) -> Self {
        let bit = |place: usize| number & (1 << place) != 0;
        Shape { submissions: bit(0), completions: bit(1), attempts: bit(2), schedulers: bit(3) }
    }

    fn build(self) -> String {
        let fragments = [
            (self.submissions, "submitted", submission::SQL),
            (self.completions, "completed", completion::SQL),
            (self.attempts, "attempted", attempt::SQL),
            (self.schedulers, "changed", scheduler::SQL),
        ];
        let mut statement = String::from(GATE);
        let mut parameters = GATE_PARAMETERS;
        for (_, name, sql) in fragments.into_iter().filter(|(present, ..)| *present) {
            let (shifted, highest) = shift(sql, parameters);
            statement.push_str(&format!(",\n{name} as ({shifted}\n)"));
            parameters = highest;
        }
        statement.push_str(BATCH);
        statement
    }
}

/// `sql` with `by` added to the number of each parameter, and the highest number there is now.
fn shift(sql: &str, by: usize) -> (String, usize) {
    let mut parts = sql.split('$');
    let mut shifted = parts.next().unwrap_or_default().to_owned();
    let mut highest = by;
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let number = by + part[..digits].parse::<usize>().unwrap_or_default();
        highest = highest.max(number);
        shifted.push_str(&format!("${number}{}", &part[digits..]));
    }
    (shifted, highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_shifted() {
        assert_eq!(shift("a = $1 and b = ($12::int8[])", 3), ("a = $4 and b = ($15::int8[])".to_owned(), 15));
        assert_eq!(shift("none", 3), ("none".to_owned(), 3));
    }

    #[test]
    fn a_shape_is_its_number() {
        for number in 0..16 {
            assert_eq!(Shape::from_number(number).number(), number);
        }
    }
}
