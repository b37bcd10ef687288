//! Numbers with what they count.

use std::fmt::Display;

/// So many of them: `1 task`, `3 tasks`.
pub(super) fn count<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let is_one = number == N::from(1);
    format!("{number} {}", noun_of(is_one, noun))
}

/// The noun of one, or of more.
pub(super) fn noun_of(is_one: bool, noun: &str) -> String {
    match is_one {
        true => noun.to_owned(),
        false => format!("{noun}s"),
    }
}

/// So many of them, with a verb: `1 task goes on`, `3 tasks go on`.
pub(super) fn with_verb<N: Display + PartialEq + From<u8>>(
    number: N,
    [one, many]: [&str; 2],
) -> String {
    match number == N::from(1) {
        true => format!("1 {one}"),
        false => format!("{number} {many}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!(count(1_i64, "task"), "1 task");
        assert_eq!(count(0_usize, "task"), "0 tasks");
        let went = ["task goes on", "tasks go on"];
        assert_eq!(with_verb(1_i32, went), "1 task goes on");
        assert_eq!(with_verb(2_i32, went), "2 tasks go on");
    }
}
