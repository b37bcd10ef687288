//! Which statements make no sense as a task of their own: they need a session that others share, or
//! a client that sends data. Told by their first words, as a reader would.

/// Why a statement, given by its words, cannot run in a session by itself.
pub(super) fn needs_session(words: &[&str]) -> Option<String> {
    let is = |index: usize, any: &[&str]| is_one(words.get(index), any);
    let first = words.first()?.to_uppercase();
    match () {
        () if is(1, &["prepared"]) => None,
        () if is(0, TRANSACTION) || is(0, &["start"]) && is(1, &["transaction"]) => Some(format!(
            "{first} belongs to a transaction of several statements"
        )),
        () if is(0, SESSION) => Some(format!(
            "{first} counts in one session, which ends with its task"
        )),
        () if is_temporary(words) => {
            Some("what is temporary goes with its session, which ends with its task".to_owned())
        }
        () => None,
    }
}

/// Whether a statement is a COPY that has its data from the client, or gives them to it.
pub(super) fn copies_through_client(words: &[&str]) -> bool {
    let mut pairs = words.windows(2);
    is_one(words.first(), &["copy"])
        && pairs.any(|pair| {
            pair[0].eq_ignore_ascii_case("from") && pair[1].eq_ignore_ascii_case("stdin")
                || pair[0].eq_ignore_ascii_case("to") && pair[1].eq_ignore_ascii_case("stdout")
        })
}

const TRANSACTION: &[&str] = &[
    "begin",
    "commit",
    "end",
    "rollback",
    "abort",
    "savepoint",
    "release",
    "lock",
];
const SESSION: &[&str] = &[
    "set",
    "reset",
    "discard",
    "load",
    "prepare",
    "execute",
    "deallocate",
    "declare",
    "fetch",
    "move",
    "close",
    "listen",
    "unlisten",
];
const TEMPORARY: &[&str] = &["temp", "temporary"];

/// `CREATE TEMPORARY …` or `SELECT … INTO TEMPORARY …`.
fn is_temporary(words: &[&str]) -> bool {
    let creates = is_one(words.first(), &["create"]);
    let before = ["or", "replace", "global", "local"];
    let mut object = words.iter().skip(1);
    let created = object.find(|word| !is_one(Some(word), &before));
    let selects = is_one(words.first(), &["select", "with", "values", "table"]);
    let mut pairs = words.windows(3);
    creates && is_one(created, TEMPORARY)
        || selects
            && pairs.any(|three| {
                // After INSERT or MERGE it is the name of a table.
                !is_one(Some(&three[0]), &["insert", "merge"])
                    && three[1].eq_ignore_ascii_case("into")
                    && is_one(Some(&three[2]), TEMPORARY)
            })
}

fn is_one(word: Option<&&str>, any: &[&str]) -> bool {
    word.is_some_and(|word| any.iter().any(|one| word.eq_ignore_ascii_case(one)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        text.split(' ').collect()
    }

    #[test]
    fn what_lasts_as_long_as_its_session_is_no_task_of_its_own() {
        let shared = [
            "BEGIN",
            "start transaction",
            "commit",
            "end",
            "Rollback to s",
            "savepoint s",
            "lock table t",
            "SET search_path",
            "set local x",
            "reset all",
            "create temp table t",
            "create or replace TEMPORARY view v",
            "create local temp sequence s",
            "select a into temp t from u",
            "with a as select select a into temporary t from a",
            "prepare p as select",
            "execute p",
            "declare c cursor",
            "listen x",
            "load x",
            "discard all",
        ];
        for text in shared {
            assert!(needs_session(&words(text)).is_some(), "{text}");
        }
        let alone = [
            "commit prepared",
            "rollback prepared",
            "select a into t from u",
            "notify x",
            "create table temp",
            "insert into temp values",
            "with a as select insert into temp select a",
            "with a as select merge into temp using a",
            "alter table t",
            "vacuum",
            "call p",
            "create function f",
            "update t set x",
            "start",
        ];
        for text in alone {
            assert_eq!(needs_session(&words(text)), None, "{text}");
        }
    }

    #[test]
    fn a_copy_of_the_client_is_told_from_one_of_the_server() {
        for text in [
            "copy t from stdin",
            "COPY t FROM STDIN with csv",
            "copy to stdout",
        ] {
            assert!(copies_through_client(&words(text)), "{text}");
        }
        for text in [
            "copy stdin from program",
            "copy t to program",
            "select from stdin",
        ] {
            assert!(!copies_through_client(&words(text)), "{text}");
        }
    }
}
