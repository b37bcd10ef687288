//! Values of a file that make no sense: each is named, and what it is to be.

use super::{job, jobs, said};

#[test]
fn every_fault_of_a_window_is_named() {
    let window = |period: &str| {
        let window = format!("{{ {period}after = \"25:00\", before = \"noon\" }}");
        said(&job("a", &format!("schedule.once_per = {window}")))
    };
    for period in ["period = \"dayly\", ", ""] {
        let said = window(period);
        for fault in [
            "once_per.period: m",
            "once_per.after: `25:00` is no point of a day, a week or a month",
            "once_per.before: `noon` is no point of a day, a week or a month",
        ] {
            assert!(said.contains(fault), "no `{fault}` in\n{said}");
        }
    }
    assert!(window("period = \"dayly\", ").contains("did you mean \"DAY\"?"));
    // What is one of some period may be right.
    let of_week = "schedule.once_per = { period = \"weak\", after = \"MON 13:00\" }";
    assert_eq!(said(&job("a", of_week)).lines().count(), 1);
}

#[test]
fn a_length_of_time_of_a_step_has_its_unit_like_any_other() {
    let steps = |timeout: &str| {
        let steps = format!("steps = [{{ statement = \"a\", timeout = {timeout} }}]");
        format!("[jobs.a]\nschedule.cron = \"@daily\"\n{steps}\n")
    };
    for wrong in ["30", "\"45\"", "0.5"] {
        let said = said(&steps(wrong));
        let is_named = said.contains("line 3: jobs.a.steps[1].timeout: ");
        assert!(is_named && said.contains("like \"30s\""), "{said}");
    }
    let read = jobs(&steps("\"1h30m\""));
    let timeout = read[0].steps[0]
        .how
        .options
        .timeout
        .map(|time| time.seconds);
    assert_eq!(timeout, Some(5_400));
    let long = said(&steps("\"900d\""));
    assert!(long.contains("steps[1].timeout: it must be"), "{long}");
}

#[test]
fn who_writes_a_value_for_a_table_reads_how_to_write_it() {
    let said = said(
        "[jobs.a]
         schedule.interval = \"15m\"
         rerun = 3
         steps = [{ statement = \"select 1\" }]
         [jobs.b]
         schedule.once_per = \"DAY\"
         steps = [{ statement = \"select 1\" }]",
    );
    for fault in [
        "line 2: jobs.a.schedule.interval: expected a table, like `interval = { every = \"15m\" }`",
        "line 3: jobs.a.rerun: expected a table, like `rerun = { max = 3, delay = \"5m\" }`",
        "line 6: jobs.b.schedule.once_per: expected a table, like `once_per = { period = \"DAY\", ",
    ] {
        assert!(said.contains(fault), "no `{fault}` in\n{said}");
    }
}

#[test]
fn tasks_that_the_service_would_not_take_together_are_a_fault() {
    let steps = |statement: &str, count: usize| {
        let step = format!("{{ statement = \"{statement}\" }}");
        let steps = vec![step; count].join(", ");
        said(&format!(
            "[jobs.a]\nschedule.cron = \"@daily\"\nsteps = [{steps}]\n"
        ))
    };
    let large = steps(&"x".repeat(300 << 10), 4);
    assert!(
        large.contains("line 3: jobs.a.steps: the tasks of a job are 1 MiB"),
        "{large}"
    );
    let many = steps("a", 1_001);
    assert!(many.contains("a job has at most 1000 steps"), "{many}");
}
