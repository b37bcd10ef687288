//! Steps in a file of SQL beside the file of jobs.

use super::super::file;
use std::fs;

/// What is made of a job with these steps, beside this file.
fn read(steps: &str, sql: &str) -> Result<Vec<(Option<i64>, String)>, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let jobs = folder.path().join("jobs.toml");
    fs::write(folder.path().join("nightly.sql"), sql).expect("it is written");
    let text = format!("[jobs.a]\nschedule.cron = \"0 3 * * *\"\nsteps = {steps}\n");
    fs::write(&jobs, text).expect("it is written");
    let read = file::read(&jobs).map_err(|faults| faults.to_string())?;
    let steps = read[0].steps.iter();
    Ok(steps
        .map(|step| (step.order, step.statement.clone()))
        .collect())
}

#[test]
fn steps_of_a_file_have_its_orders_and_statements() {
    let sql = "-- @order 100\nselect 1;\nselect 2;\n-- @order 200\nselect 3;\n";
    let steps = read("\"nightly.sql\"", sql).expect("jobs");
    let orders: Vec<_> = steps.iter().map(|(order, _)| *order).collect();
    assert_eq!(orders, [Some(100), Some(100), Some(200)]);
    assert!(steps[2].1.contains("select 3"), "{steps:?}");
    // As `exec` does.
    let steps = read("\"nightly.sql\"", "select 1;\nselect 2;\n").expect("jobs");
    assert!(steps[0].0 < steps[1].0, "{steps:?}");
}

#[test]
fn a_file_of_steps_that_cannot_be_used_is_named_with_the_line() {
    for (steps, sql, fault) in [
        ("\"nosuch.sql\"", "", "nosuch.sql"),
        (
            "\"nightly.sql\"",
            "-- nothing\n",
            "there is no statement in that file",
        ),
        (
            "\"nightly.sql\"",
            "select 1;\n-- @order x\nselect 2;\n",
            "nightly.sql, line 2: ",
        ),
        ("\"nightly.txt\"", "", "or the name of a .sql file"),
        ("5", "", "expected a list of tables"),
    ] {
        let said = read(steps, sql).expect_err(steps);
        let place = "line 3: jobs.a.steps: ";
        assert!(
            said.contains(place) && said.contains(fault),
            "no `{fault}` in\n{said}"
        );
    }
}
