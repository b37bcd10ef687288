//! Files of jobs: what is taken from them, what is said of those that make no sense, and what may
//! surprise.

mod step_files;
mod values;

use super::{
    file,
    finding::{Finding, findings},
    history::{self, Lengths},
    job::Job,
    rules::{Misfire, Overlap, Rerun},
};
use crate::toml_file::Faults;
use jiff::Timestamp;
use std::{path::Path, time::Duration};

fn read(text: &str) -> Result<Vec<Job>, Faults> {
    let mut faults = Faults::of(Path::new("jobs.toml"));
    let jobs = file::parse(text, Path::new(""), &mut faults);
    faults.into_result(jobs)
}

fn jobs(text: &str) -> Vec<Job> {
    read(text).unwrap_or_else(|faults| panic!("{faults}"))
}

/// What is said of a file that must be wrong.
fn said(text: &str) -> String {
    read(text).expect_err(text).to_string()
}

/// A job with one step, and with these lines.
fn job(name: &str, lines: &str) -> String {
    format!("[jobs.{name}]\nsteps = [{{ statement = \"select 1\" }}]\n{lines}\n")
}

const NIGHTLY: &str = r#"
[jobs.nightly]
overlap = "QUEUE_ONE"
misfire = "CATCH_UP"
catch_up_max = 5
max_runtime = "45m"
pause_after_failures = 3
rerun = { within_window = true, max = 2, delay = "5m" }
on_failure = [{ statement = "select alert()" }]

[jobs.nightly.schedule]
once_per = { period = "DAY", after = "13:00", before = "23:00" }
time_zone = "Europe/Berlin"
dst_fold = "SECOND"
start = 2026-12-01
end = 2027-12-01T08:00:00Z
exclude = [2026-12-24, "12-25", "2026-12-31..2027-01-01"]

[[jobs.nightly.steps]]
order = 100
statement = "select load()"
target = "dw"
retries = 2
labels = { team = "sales" }

[[jobs.nightly.steps]]
order = 200
statement = "select report($1)"
params = ["a", 7]

[jobs.report]
schedule.after = "nightly"
steps = [{ statement = "select 1" }]
"#;

#[test]
fn a_file_describes_jobs() {
    let jobs = jobs(NIGHTLY);
    let [nightly, report] = &*jobs else {
        panic!("{jobs:?}");
    };
    assert_eq!((nightly.name.as_str(), nightly.line()), ("nightly", 2));
    assert_eq!(nightly.overlap, Overlap::QueueOne);
    assert_eq!(nightly.misfire, Misfire::CatchUp(5));
    let rerun = Rerun {
        within_window: true,
        max: Some(2),
        delay: Duration::from_secs(300),
    };
    assert_eq!(nightly.rerun, Some(rerun));
    assert_eq!(nightly.max_runtime, Some(Duration::from_secs(2700)));
    assert_eq!(nightly.pause_after_failures, Some(3));
    assert_eq!(nightly.on_failure.len(), 1);
    let steps = nightly.steps.iter();
    let steps: Vec<_> = steps
        .map(|step| (step.line, step.order, &*step.how.target))
        .collect();
    assert_eq!(
        steps,
        [(Some(19), Some(100), "dw"), (Some(26), Some(200), "")]
    );
    let params = ["a", "7"].map(|text| Some(text.to_owned()));
    assert_eq!(nightly.steps[1].params, params);
    let times = nightly.schedule.due_times(Timestamp::UNIX_EPOCH).take(2);
    let times: Vec<_> = times.map(|time| time.at.to_string()).collect();
    assert_eq!(times, ["2026-12-01T12:00:00Z", "2026-12-02T12:00:00Z"]);
    assert_eq!(report.follows(), Some("nightly"));
    let (overlap, misfire) = (report.overlap, report.misfire);
    assert_eq!(
        (overlap, misfire, report.rerun),
        (Overlap::Skip, Misfire::RunOnce, None)
    );
    let text = nightly.json().to_string();
    assert!(text.contains(r#""dst_fold":"SECOND""#), "{text}");
}

const WRONG: &str = r#"[jobs.a]
schedule.cron = "61 * * * *"
schedule.time_zone = "Europe/Berlni"
schedule.exclude = ["soon"]
overlap = "SOMETIMES"
misfire = "CATCH_UP"
max_runtime = "0s"
rerun = {}
steps = [{ statment = "select 1" }, 7]

[jobs.b]
schedule.cron = "0 0 31 2 *"
schedule.interval = { evry = "5m" }
stepz = []

[jobs.c]
schedule = { once_per = { period = "DAY", after = "noon" }, dst_gap = "SKIP" }
steps = [{ statement = "select 1", order = -1 }]
catch_up_max = 0

[jobs.d]
schedule.after = "e"
schedule.jitter = "5m"
rerun = { max = 1, delay = "400d" }
steps = []

[jobs.e]
schedule.after = "f"
steps = []

[other]
"#;

#[test]
fn a_slip_in_the_job_to_follow_is_said_with_the_one_that_was_meant() {
    let said = said(
        "[jobs.nightly]
         schedule.cron = \"0 3 * * *\"
         steps = [{ statement = \"select 1\" }]
         [jobs.report]
         steps = [{ statement = \"select 1\" }]
         [jobs.report.schedule]
         after = \"nightyl\"",
    );
    let fault = "line 7: jobs.report.schedule.after: there is no job `nightyl` in this file: did \
                 you mean `nightly`?";
    assert!(said.contains(fault), "no `{fault}` in\n{said}");
}

#[test]
fn everything_that_is_wrong_is_said_at_once_with_its_line() {
    let said = said(WRONG);
    for fault in [
        "line 2: jobs.a.schedule.cron: field 1 (minute): `61` must be 0 to 59",
        "line 3: jobs.a.schedule.time_zone: no time zone is called `Europe/Berlni`: did you mean",
        "line 4: jobs.a.schedule.exclude: not a date",
        "line 5: jobs.a.overlap: must be one of SKIP, QUEUE_ONE, QUEUE_ALL, KEEP_NEWEST,",
        "line 6: jobs.a.misfire: CATCH_UP needs a limit",
        "line 7: jobs.a.max_runtime: must be 1s to 366 days, like \"5m\"",
        "line 8: jobs.a.rerun: say how often",
        "line 9: jobs.a.steps[1].statment: it is unknown: did you mean `statement`?",
        "line 9: jobs.a.steps[1].statement: missing",
        "line 9: jobs.a.steps[2]: expected a table, and found something else: begin it with \
         `[[jobs.a.steps]]`, or write it in braces, like `{ statement = \"select 1\" }`",
        "line 12: jobs.b.schedule.cron: never fires: no month of field 4 (`2`)",
        "line 13: jobs.b.schedule.interval: a schedule has one rule: keep one of cron, interval",
        "line 13: jobs.b.schedule.interval: unknown key `evry`: did you mean `every`?",
        "line 13: jobs.b.schedule.interval.every: missing",
        "line 14: jobs.b: unknown key `stepz`: did you mean `steps`?",
        "line 11: jobs.b.steps: missing",
        "line 17: jobs.c.schedule.once_per.after: `noon` is not a time",
        "line 18: jobs.c.steps[1].order: `-1` is not an order",
        "line 19: jobs.c.catch_up_max: must be 1 to 1000",
        "line 23: jobs.d.schedule.jitter: a job that follows another",
        "line 24: jobs.d.rerun.delay: must be 0s to 366 days",
        "line 28: jobs.e.schedule.after: there is no job `f`",
        "line 31: unknown key `other`: it may be one of jobs",
    ] {
        assert!(said.contains(fault), "no `{fault}` in\n{said}");
    }
}

#[test]
fn jobs_that_wait_for_each_other_and_files_without_jobs_are_errors() {
    let after = |name, before| job(name, &format!("schedule.after = \"{before}\""));
    let circle = said(&(after("a", "b") + &after("b", "a")));
    assert!(circle.contains("a after b after a"), "{circle}");
    assert!(said("").contains("a job begins with `[jobs.NAME]`"));
    assert!(said(&job("a", "")).contains("jobs.a.schedule: missing"));
    let empty = said("jobs.a = 7\njobs.b = \"x\"");
    assert!(
        empty.contains("line 1: jobs.a: expected a table"),
        "{empty}"
    );
    let window = said(&job(
        "a",
        "schedule.cron = \"@daily\"\nrerun.within_window = true",
    ));
    assert!(window.contains("jobs.a.rerun.within_window: the schedule has no window"));
    let cron = said("[jobs.a]\ncron = \"0 3 * * *\"\nsteps = [{ statement = \"select 1\" }]\n");
    let meant = "line 2: jobs.a.cron: unknown key: did you mean `schedule.cron`?";
    assert!(
        cron.contains(meant) && !cron.contains("jobs.a.schedule: missing"),
        "{cron}"
    );
    let plain = said("[jobs.a]\nschedule = \"0 3 * * *\"\noverlap = \"skipp\"\n");
    assert!(
        plain.contains("line 2: jobs.a.schedule: a schedule is a table: write `schedule.cron ="),
        "{plain}"
    );
    assert!(plain.contains("ALLOW: did you mean \"SKIP\"?"), "{plain}");
    assert_eq!(plain.matches("jobs.a.schedule").count(), 1, "{plain}");
    let small = "schedule.cron = \"@daily\"\noverlap = \"queue_one\"";
    assert_eq!(jobs(&job("a", small))[0].overlap, Overlap::QueueOne);
    let broken = said("[jobs.a\nschedule = 1\n");
    assert!(broken.contains("line 1"), "{broken}");
}

/// What may surprise in a file from 2026-11-23 on.
fn found(text: &str) -> Vec<Finding> {
    findings(&jobs(text), "2026-11-23T12:00:00Z".parse().expect("a time"))
}

fn texts(text: &str) -> Vec<String> {
    let shown = |one: Finding| format!("{} {}", one.kind, one.text);
    found(text).into_iter().map(shown).collect()
}

#[test]
fn due_times_that_meet_a_change_of_the_clocks_are_found() {
    let at = |cron: &str, more: &str| {
        let zone = "schedule.time_zone = \"America/New_York\"";
        texts(&job(
            "a",
            &format!("schedule.cron = \"{cron}\"\n{zone}\n{more}"),
        ))
    };
    assert_eq!(
        at("30 2 * * *", ""),
        ["DST_GAP 2027-03-14: 02:30 does not exist: due after the gap (dst_gap = NEXT_VALID)"]
    );
    assert_eq!(
        at("*/20 2 * * *", "schedule.dst_gap = \"SKIP\""),
        ["DST_GAP 2027-03-14: 02:00 does not exist, like 2 more: not due (dst_gap = SKIP)"]
    );
    assert_eq!(
        at("30 1 * * *", "schedule.dst_fold = \"BOTH\""),
        [
            "DST_FOLD 2027-11-07: 01:30 comes twice: due both times, this is the first \
             (dst_fold = BOTH)"
        ]
    );
    assert_eq!(
        at("30 1 * * *", ""),
        ["DST_FOLD 2027-11-07: 01:30 comes twice: due the first time (dst_fold = FIRST)"]
    );
    assert!(at("0 3 * * *", "").is_empty() && at("30 * * * *", "").is_empty());
}

#[test]
fn runs_that_do_not_fit_are_found() {
    let window = "schedule.once_per = { period = \"DAY\", after = \"13:00\", before = \"13:30\" }";
    let narrow = texts(&job("a", &format!("{window}\nmax_runtime = \"1h\"")));
    assert_eq!(narrow.len(), 1, "{narrow:?}");
    assert!(
        narrow[0].starts_with("NARROW_WINDOW Mon 2026-11-23 13:00:00 +00"),
        "{narrow:?}"
    );
    assert!(
        narrow[0].contains("less than `max_runtime` (1h)"),
        "{narrow:?}"
    );
    assert!(texts(&job("a", &format!("{window}\nmax_runtime = \"30m\""))).is_empty());
    let late = texts(&job(
        "poll",
        &format!("{window}\nschedule.jitter = \"20h\""),
    ));
    assert!(late[0].contains("closes before it starts"), "{late:?}");
    let often = "schedule.cron = \"*/15 * * * *\"\nmax_runtime = \"20m\"";
    let long = texts(&job("a", often));
    assert!(
        long[0].starts_with("LONG_RUN a run may take 20m"),
        "{long:?}"
    );
    assert!(
        long[0].contains("due after 15m: `overlap = SKIP`"),
        "{long:?}"
    );
    assert!(texts(&job("a", &format!("{often}\noverlap = \"ALLOW\""))).is_empty());
    let ended = texts(&job(
        "a",
        "schedule.cron = \"@daily\"\nschedule.end = 2026-11-20",
    ));
    assert!(
        ended[0].starts_with("NOT_DUE is not due any more"),
        "{ended:?}"
    );
}

#[test]
fn many_jobs_at_one_minute_are_found_once_for_all_days() {
    let all = |more: &str| -> String {
        let lines = format!("schedule.cron = \"@daily\"\n{more}");
        (0..214)
            .map(|number| job(&format!("j{number}"), &lines))
            .collect()
    };
    let crowd = found(&all(""));
    assert_eq!(crowd.len(), 1, "{crowd:?}");
    assert_eq!((crowd[0].kind, &crowd[0].job), ("CROWD", &None));
    let text = "214 jobs start in the minute of 2026-11-24T00:00:00Z";
    assert!(crowd[0].text.starts_with(text), "{crowd:?}");
    assert!(found(&all("schedule.jitter = \"2h\"")).is_empty());
}

/// What so many runs that took so long say of a job.
fn learned(text: &str, seconds: u64, runs: usize) -> Vec<String> {
    let jobs = jobs(text);
    let mut lengths = vec![Duration::from_secs(seconds); runs];
    // One of a hundred may be as long as it likes.
    lengths.extend((runs >= 99).then(|| Duration::from_secs(1_000_000)));
    let from = "2026-11-23T12:00:00Z".parse().expect("a time");
    let findings = history::judge(&jobs[0], &Lengths::of(lengths), from, 3);
    findings
        .into_iter()
        .map(|finding| format!("{}: {}", finding.kind, finding.text))
        .collect()
}

#[test]
fn the_log_suggests_a_longest_time_of_runs() {
    let daily = |more: &str| job("a", &format!("schedule.cron = \"@daily\"\n{more}"));
    let said = learned(&daily(""), 700, 99);
    let [said] = &*said else { panic!("{said:?}") };
    assert_eq!(
        said,
        "MAX_RUNTIME: 99 of 100 runs take up to 11 min 40 s (100 runs in the log), and nothing \
         ends one that hangs: `max_runtime = \"35m\"` would be 3 times that"
    );
    let short = learned(&daily("max_runtime = \"10m\""), 700, 99);
    assert!(
        short.len() == 1 && short[0].contains("as long as `max_runtime`"),
        "{short:?}"
    );
    assert_eq!(learned(&daily("max_runtime = \"20m\""), 700, 99), [""; 0]);
    assert_eq!(learned(&daily(""), 700, 19), [""; 0], "too few of them");
}

#[test]
fn runs_that_take_longer_than_the_window_or_until_the_next_due_time_are_named() {
    let window = "schedule.once_per = { period = \"DAY\", after = \"13:00\", before = \"14:00\" }\n\
                  max_runtime = \"5h\"";
    let said = learned(&job("a", window), 3_700, 200);
    assert!(
        said.len() == 1 && said[0].starts_with("SLOW_FOR_WINDOW: 99 of 100 runs take up to 1 h 01"),
        "{said:?}"
    );
    assert_eq!(learned(&job("a", window), 3_500, 200), [""; 0]);
    let hourly = |overlap: &str| {
        let rule = "schedule.cron = \"@hourly\"\nmax_runtime = \"5h\"";
        job("a", &format!("{rule}\noverlap = \"{overlap}\""))
    };
    let said = learned(&hourly("SKIP"), 3_700, 200);
    assert!(
        said.len() == 1 && said[0].starts_with("SLOW_RUN: "),
        "{said:?}"
    );
    assert_eq!(learned(&hourly("ALLOW"), 3_700, 200), [""; 0]);
}
