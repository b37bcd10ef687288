//! What becomes of a crontab.

use super::*;

fn imported(text: &str, system: bool) -> (Vec<Imported>, Vec<(String, String)>) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("crontab");
    fs::write(&file, text).expect("written");
    let from = FromCrontab {
        file,
        system,
        time_zone: Some("Europe/Berlin".to_owned()),
        to: To {
            written: PathBuf::new(),
            force: false,
        },
    };
    let (jobs, left_out, _) = from.read().expect("it can be read");
    readable(jobs, left_out)
}

#[test]
fn lines_become_claimed_jobs_and_the_rest_is_said() {
    let text = "MAILTO=ops\n\
                # nightly\n\
                30 2 * * *  /opt/bin/report.sh --all\n\
                @daily FOO=1 /opt/bin/report.sh\n\
                @reboot /opt/bin/start\n\
                CRON_TZ=America/New_York\n\
                */10 9-17 * * mon-fri poll\n\
                5/15 * * * * odd\n\
                nonsense\n";
    let (jobs, left_out) = imported(text, false);
    let names: Vec<(&str, &str)> = jobs
        .iter()
        .map(|job| (&*job.name, &*job.time_zone))
        .collect();
    let (berlin, york) = ("Europe/Berlin", "America/New_York");
    assert_eq!(
        names,
        [("report", berlin), ("report-2", berlin), ("poll", york)]
    );
    let lines = crontab_lines(jobs.iter());
    let [report, with_variable, zone, poll] = &lines[..] else {
        panic!("{lines:?}");
    };
    let expected = "30 2 * * *  rallypoint jobs claim report --wait 1m -- /opt/bin/report.sh --all";
    assert_eq!(report, expected);
    assert!(
        with_variable.ends_with("-- /bin/sh -c 'FOO=1 /opt/bin/report.sh'"),
        "{with_variable}"
    );
    assert_eq!(zone, "CRON_TZ=America/New_York");
    assert!(poll.starts_with("*/10 9-17"), "{poll}");
    let two = imported("@daily cd /x && echo 'a b'\n", false).0;
    let line = &crontab_lines(two.iter())[0];
    assert!(
        line.ends_with(r"-- /bin/sh -c 'cd /x && echo '\''a b'\'''"),
        "{line}"
    );
    let sources: Vec<&str> = left_out.iter().map(|(source, _)| &**source).collect();
    assert_eq!(sources, ["line 1", "line 5", "line 9", "line 8"]);
    assert!(left_out[3].1.contains("5-59/15"), "{left_out:?}");
}

#[test]
fn lines_keep_their_shell_and_the_zone_that_stands_above_them() {
    let text = "0 1 * * * . /etc/profile\n\
                SHELL=/bin/bash\n\
                CRON_TZ=America/New_York\n\
                0 2 99 * * /opt/left-out\n\
                0 2 * * * [[ -f /x ]] && -v\n\
                0 3 * * * /opt/-v --quiet\n\
                CRON_TZ=\n\
                0 4 * * * ./here +\\%F % x\n";
    let jobs = imported(text, false).0;
    let lines = crontab_lines(jobs.iter());
    let [sourced, york, tested, plain, none, here] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert_eq!((&**york, &**none), ("CRON_TZ=America/New_York", "CRON_TZ="));
    assert!(
        sourced.ends_with("-- /bin/sh -c '. /etc/profile'"),
        "{sourced}"
    );
    assert!(
        tested.ends_with("-- /bin/bash -c '[[ -f /x ]] && -v'"),
        "{tested}"
    );
    assert_eq!(
        plain,
        "0 3 * * *  rallypoint jobs claim v --wait 1m -- /opt/-v --quiet"
    );
    assert!(here.starts_with("0 4"), "{here}");
    assert!(
        here.ends_with("-- /bin/bash -c './here +\\%F '% x"),
        "{here}"
    );
}

#[test]
fn a_command_keeps_its_input_and_its_signs() {
    let text = "0 1 * * * mail -s night ops%hello%you\n\
                0 2 * * * /opt/load%a\n\
                0 3 * * * echo \\\\%x\n\
                0 4 * * * echo \\\\\\%x\n";
    let jobs = imported(text, false).0;
    let commands: Vec<String> = crontab_lines(jobs.iter())
        .iter()
        .filter_map(|line| Some(line.split_once(" -- ")?.1.to_owned()))
        .collect();
    let expected = [
        "/bin/sh -c 'mail -s night ops'%hello%you",
        "/opt/load%a",
        r"/bin/sh -c 'echo \\'%x",
        r"/bin/sh -c 'echo \\\%x'",
    ];
    assert_eq!(commands, expected);
    let notes: Vec<usize> = jobs.iter().map(|job| job.notes.len()).collect();
    assert_eq!(notes, [0, 0, 1, 0]);
}

#[test]
fn a_command_that_cannot_be_shown_is_left_out() {
    let text = "@daily echo \x1b]0;owned\x07\n\
                @daily echo\tgood\n\
                @daily drop \u{202e}elbat\n\
                SHELL=/bin/\x1bc\n\
                @daily poll\n";
    let (jobs, left_out) = imported(text, false);
    let lines = crontab_lines(jobs.iter());
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].ends_with("'echo\tgood'"), "{lines:?}");
    let said: Vec<(&str, bool)> = (left_out.iter())
        .map(|(source, why)| (&**source, why.starts_with("U+")))
        .collect();
    assert_eq!(said, [("line 1", true), ("line 3", true), ("line 5", true)]);
    assert!(left_out[0].1.contains("U+001B"), "{left_out:?}");
}

#[test]
fn a_time_zone_that_nobody_knows_is_named_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("crontab");
    fs::write(&file, "0 1 * * * a\nCRON_TZ=Berlin\n0 2 * * * b\n").expect("written");
    let from = FromCrontab {
        file,
        system: false,
        time_zone: Some("UTC".to_owned()),
        to: To {
            written: PathBuf::new(),
            force: false,
        },
    };
    let error = from.read().err().expect("refused").in_words();
    assert!(error.contains("line 2: CRON_TZ=Berlin"), "{error}");
    let error = zone_of(None, "localtime".to_owned()).expect_err("refused");
    assert!(format!("{error:?}").contains("--time-zone"), "{error:?}");
    assert_eq!(
        zone_of(Some("UTC".into()), "x".into()).ok(),
        Some("UTC".into())
    );
}

#[test]
fn users_of_a_system_crontab_are_named() {
    let (jobs, _) = imported("0 4 * * * root /usr/sbin/rotate\n", true);
    assert_eq!(jobs[0].name, "rotate");
    assert!(jobs[0].notes[0].contains("root"));
}

#[test]
fn firings_are_those_of_the_other_cron_and_differences_are_found() {
    let (jobs, _) = imported(
        "30 2 * * * a\n*/7 * * * * b\n0 0 */2 * mon c\n0 0 13 * fri d\n",
        false,
    );
    let winter: Timestamp = "2027-01-10T00:00:00Z".parse().expect("a time");
    let same = |job: &Imported| {
        job.compare(winter)
            .expect("an oracle")
            .first_difference
            .is_none()
    };
    let all: Vec<bool> = jobs.iter().map(same).collect();
    assert_eq!(all, [true, true, false, true]);
    let notes = jobs[2].notes_beside(None);
    assert!(notes[0].contains("both fields of days"), "{notes:?}");
    assert!(jobs[2].text().contains("# cron runs it when both fields"));
    // 02:30 is left out on 28 March 2027: by the clock it does not run, here at 03:00.
    let spring: Timestamp = "2027-03-20T00:00:00Z".parse().expect("a time");
    let compared = jobs[0].compare(spring).expect("an oracle");
    let first = compared.first_difference.map(|at| at.to_string());
    assert_eq!(first.as_deref(), Some("2027-03-28T01:00:00Z"));
    assert_eq!((compared.ours, compared.theirs), (30, 29));
}
