//! What a file of SQL becomes, and what is refused, by its line and with a remedy.

use super::*;
use proptest::prelude::*;

fn tasks(text: &str) -> Vec<Described> {
    parse(text, &How::default()).unwrap_or_else(|fault| panic!("{fault:?}"))
}

/// Orders and statements.
fn ordered(text: &str) -> Vec<(Option<i64>, String)> {
    let tasks = tasks(text).into_iter();
    tasks.map(|task| (task.order, task.statement)).collect()
}

fn pairs(expected: &[(Option<i64>, &str)]) -> Vec<(Option<i64>, String)> {
    let owned = |(order, text): &(Option<i64>, &str)| (*order, (*text).to_owned());
    expected.iter().map(owned).collect()
}

/// The fault of a text, which must be on this line, and say these words in `why` and `next`.
fn refused(text: &str, line: usize, why: &str, next: &str) {
    let faults = parse(text, &How::default()).expect_err(text);
    let [fault] = &faults[..] else {
        panic!("{text}: {faults:?}");
    };
    assert_eq!(fault.line, line, "{text}: {fault:?}");
    assert!(fault.why.contains(why), "{text}: {fault:?}");
    assert!(fault.next.contains(next), "{text}: {fault:?}");
}

#[test]
fn without_orders_each_statement_waits_for_the_one_before() {
    let text = "-- a header\n\\set ON_ERROR_STOP on\nselect 1;\nselect 2 -- two\n; ; \\;; /*+ */;\nselect 3";
    assert_eq!(
        ordered(text),
        pairs(&[
            (Some(1), "select 1"),
            (Some(2), "select 2 -- two"),
            (Some(3), "select 3")
        ])
    );
}

#[test]
fn an_order_holds_until_the_next_one() {
    let text = "create table t();
        -- @order 100
        select 1; select 2;
        -- @order none
        analyze;
        --@order 100
        select 3;
        -- @order 200
        select 4;";
    assert_eq!(
        ordered(text),
        pairs(&[
            (Some(1), "create table t()"),
            (Some(100), "select 1"),
            (Some(100), "select 2"),
            (None, "analyze"),
            (Some(100), "select 3"),
            (Some(200), "select 4")
        ])
    );
}

#[test]
fn orders_ascend_as_the_file_runs_in_psql() {
    refused(
        "-- @order 2\nselect 1;\n-- @order 1\nselect 2;",
        3,
        "order 1",
        "write 2 or more",
    );
    refused(
        "select 1; select 2;\n-- @order 2\nselect 3;",
        2,
        "order 2",
        "write 3 or more",
    );
    refused("-- @order", 1, "not an order", "@order 100");
    refused("-- @order -1\n", 1, "`-1` is not an order", "@order 100");
}

#[test]
fn an_option_is_of_the_next_task_alone() {
    let text = "-- @name load
        -- @timeout 30m
        -- @retries 3
        -- @max_losses 9
        -- @target dw
        -- @label team=sales
        -- @label level = 1
        -- @total_timeout 2h
        -- @delivery exactly-once
        -- @result_rows 5
        -- @read_only
        -- @isolation repeatable read
        -- @search_path app, public
        -- @statement_timeout 90s
        -- @role reporting
        select 1;
        select 2;";
    let tasks = tasks(text);
    let said: Vec<(&str, String)> = task_option::said(&tasks[0].how).collect();
    let expected = [
        ("name", "load"),
        ("target", "dw"),
        ("timeout", "30m"),
        ("total_timeout", "2h"),
        ("retries", "3"),
        ("max_losses", "9"),
        ("delivery", "exactly once"),
        ("result_rows", "5"),
        ("read_only", "on"),
        ("isolation", "repeatable read"),
        ("search_path", "app, public"),
        ("statement_timeout", "1m 30s"),
        ("role", "reporting"),
    ];
    assert_eq!(said, expected.map(|(name, value)| (name, value.to_owned())));
    let labels = task_option::labels(&tasks[0].how);
    assert_eq!(labels, [("level", "1"), ("team", "sales")].into());
    assert_eq!((tasks[0].line, &tasks[1].how), (Some(16), &How::default()));
    // Every option that is known is in this file.
    assert!(task_option::names().all(|name| text.contains(&format!("@{name}"))));
}

#[test]
fn what_the_file_does_not_say_is_as_the_command_line_says() {
    let mut defaults = How::default();
    task_option::set(&mut defaults, "target", "dw")
        .unwrap()
        .unwrap();
    task_option::set(&mut defaults, "retries", "2")
        .unwrap()
        .unwrap();
    let tasks = parse("-- @retries 0\nselect 1; select 2", &defaults).unwrap();
    let said = |index: usize| task_option::said(&tasks[index].how).collect::<Vec<_>>();
    assert_eq!(said(0), [("target", "dw".to_owned())]);
    assert_eq!(
        said(1),
        [("target", "dw".to_owned()), ("retries", "2".to_owned())]
    );
}

#[test]
fn an_annotation_that_makes_no_sense_is_refused() {
    let known = "@order, @task, @end, @label, @resource, @name";
    for (name, next) in [("owner", known), ("retry", "did you mean `@retries`?")] {
        let text = format!("select 1;\n-- @{name} 3\nselect 2;");
        refused(&text, 2, &format!("`@{name}` is unknown"), next);
    }
    let all = [
        (
            "-- @timeout soon",
            "`@timeout`: write a length of time like 30s",
        ),
        ("-- @retries 1000", "from 0 to 999"),
        ("-- @delivery thrice", "`at-least-once`, `at-most-once`"),
        ("-- @isolation none", "`read-committed`, `repeatable-read`"),
        ("-- @read_only maybe", "neither `on` nor `off`"),
        ("-- @target", "nothing behind it"),
        ("-- @label a", "KEY=VALUE"),
        ("-- @name a\n-- @name b", "said twice"),
        ("-- @label a=1\n-- @label a=2", "`a` is said twice"),
        ("-- @resource a sharde", "did you mean `shared`?"),
    ];
    for (comments, why) in all {
        let line = comments.lines().count();
        refused(
            &format!("{comments}\nselect 1"),
            line,
            why,
            "mend the comment",
        );
    }
}

#[test]
fn an_annotation_stands_on_a_line_of_its_own_ahead_of_a_statement() {
    let ahead = "ahead of the statement";
    refused("select 1;\n-- @name a\n", 2, "no statement follows", ahead);
    refused(
        "select 1; -- @name a\nselect 2;",
        1,
        "a line of its own",
        ahead,
    );
    refused(
        "select 1\n-- @name a\n;",
        2,
        "`-- @name a` must stand",
        ahead,
    );
    let lone = "a space stands behind the `@`";
    refused("-- @ order 5\nselect 1;", 1, lone, "`-- @order 5`");
    refused("select 1\n-- @ order 5\n;", 2, lone, "`-- @order 5`");
    // Other comments may say anything.
    let other = "-- see @home, @ 1, a@b\n-- @1\nselect 1 -- mail a@b\n";
    assert_eq!(ordered(other).len(), 1);
}

#[test]
fn a_group_is_one_task_with_the_text_between() {
    let text = "-- @name move
        -- @task
        -- @retries 2
        begin; -- both or none
        set local work_mem = '1MB';
        create temp table t as select 1 \\; select 2;
        commit ;
        -- @end
        select 3;";
    let tasks = tasks(text);
    let expected = "begin; -- both or none
        set local work_mem = '1MB';
        create temp table t as select 1 ; select 2;
        commit";
    assert_eq!((tasks[0].order, tasks[0].line), (Some(1), Some(4)));
    assert_eq!(tasks[0].statement, expected);
    let said: Vec<_> = task_option::said(&tasks[0].how).collect();
    assert_eq!(
        said,
        [("name", "move".to_owned()), ("retries", "2".to_owned())]
    );
    assert_eq!((tasks.len(), tasks[1].order), (2, Some(2)));
}

#[test]
fn a_group_that_is_not_whole_is_refused() {
    refused(
        "select 1;\n-- @task\nselect 2;",
        2,
        "has no `@end`",
        "write `-- @end`",
    );
    refused("select 1;\n-- @end\n", 2, "no `@task`", "write `-- @task`");
    refused("\n-- @task\n-- @end\n", 2, "no statement", "between");
    refused(
        "-- @task\nselect 1;\n-- @task\n-- @end",
        3,
        "inside a task",
        "`-- @end`",
    );
    let twice = "-- @task\n-- @task\nselect 1;\n-- @end";
    refused(twice, 2, "`@task` of line 1", "`-- @end`");
    refused(
        "-- @task\nselect 1;\n-- @name a\n-- @end",
        3,
        "inside a task",
        "ahead of the first",
    );
    let named = "-- @task load\nselect 1;\n-- @end";
    refused(named, 1, "not `load`", "@name");
}

#[test]
fn what_needs_a_session_of_its_own_stands_in_a_group() {
    let all = [
        ("begin", "BEGIN belongs to a transaction"),
        ("SET x = 1", "SET counts in one session"),
        ("create temp table t()", "what is temporary"),
        ("select 1 into temp t", "what is temporary"),
        ("listen a", "LISTEN counts in one session"),
    ];
    for (statement, why) in all {
        refused(
            &format!("select 1;\n{statement};"),
            2,
            why,
            "between `-- @task` and `-- @end`",
        );
        let grouped = format!("-- @task\n{statement}; select 2;\n-- @end");
        assert_eq!(tasks(&grouped).len(), 1, "{statement}");
    }
    assert_eq!(
        ordered("begin \\; select 1 \\; commit;"),
        pairs(&[(Some(1), "begin ; select 1 ; commit")])
    );
}

#[test]
fn commands_of_psql_are_refused() {
    let all = [
        ("\\copy t from 'file'", "load the data"),
        ("\\i other.sql", "give `rallypoint exec` that file"),
        ("\\c other", "-- @target NAME"),
        ("\\set x 1", "ON_ERROR_STOP on"),
        ("\\set ON_ERROR_STOP off", "ON_ERROR_STOP on"),
        ("\\if :x", "run the file with psql"),
        ("\\.", "load the data"),
        ("\\", "leave it out"),
        ("\\gexec", "--help"),
    ];
    for (command, next) in all {
        refused(
            &format!("select 1;\n{command}\n"),
            2,
            "a command of psql",
            next,
        );
    }
    refused("select 1\n\\g\n", 2, "a command of psql", "semicolon");
    refused(
        "-- @task\n\\set ON_ERROR_STOP on\nselect 1;\n-- @end",
        2,
        "a command of psql",
        "between tasks",
    );
}

#[test]
fn copy_through_the_client_is_refused_in_a_group_too() {
    let data = "copy t from stdin;\n1\tit's\n\\.\n";
    refused(data, 1, "COPY", "INSERT");
    let grouped = format!("-- @task\n{data}-- @end");
    refused(&grouped, 2, "COPY", "INSERT");
    refused("select 1 \\; copy t to stdout;", 1, "COPY", "@result_rows");
    assert_eq!(ordered("copy t from '/data/t.csv';").len(), 1);
}

#[test]
fn a_text_that_no_task_can_have_is_refused() {
    refused(
        &format!("select 1;\nselect '{}'", "x".repeat(BODY_BYTES)),
        2,
        "bytes",
        "divide",
    );
    refused("select '\0'", 1, "NUL", "leave it out");
}

#[test]
fn variables_of_psql_are_left_as_they_are() {
    let text = r#"select :name, :'name', :"name", a[1:2], 1::int, \:x"#;
    let sent = r#"select :name, :'name', :"name", a[1:2], 1::int, :x"#;
    assert_eq!(ordered(text), pairs(&[(Some(1), sent)]));
}

proptest! {
    #[test]
    fn no_text_is_too_strange_to_be_taken_or_refused(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40),
        noise in ".{0,20}",
    ) {
        let text = pieces.concat() + &noise + &pieces.concat();
        match parse(&text, &How::default()) {
            Ok(tasks) => {
                prop_assert!(tasks.iter().all(|task| !task.statement.is_empty()));
                let orders = tasks.iter().filter_map(|task| task.order);
                prop_assert!(orders.is_sorted());
            }
            Err(faults) => {
                prop_assert!(!faults.is_empty());
                for fault in faults {
                    prop_assert!((1..=1 + text.matches('\n').count()).contains(&fault.line));
                    prop_assert!(!fault.why.is_empty() && !fault.next.is_empty());
                }
            }
        }
    }
}

const PIECES: &[&str] = &[
    "'",
    "E'",
    "\\",
    "\\;",
    ";",
    "(",
    ")",
    "$$",
    "--",
    "/*",
    "*/",
    "\n",
    " ",
    "ä",
    "select ",
    "begin ",
    "copy t from stdin",
    "\n-- @order 1\n",
    "\n-- @order none\n",
    "\n-- @task\n",
    "\n-- @end\n",
    "\n-- @name a\n",
    "\n-- @timeout 3s\n",
    "\n-- @x\n",
    "\n\\set ON_ERROR_STOP on\n",
];
