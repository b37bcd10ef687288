//! Jobs of others become a file of jobs: what they say, what has no place there, and their due
//! times beside ours. Where pgAgent is installed (`.ci/setup test` does so if it can), its
//! own function says when its schedules are due; what is said of its tables is tested without.

use super::{code, text};
use crate::harness::{
    postgres::{POSTGRES, connect, database},
    process::PROGRAM,
};
use rallypoint::postgres::SUPERUSER;
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection, Row};
use std::{fs, process::Command};

/// The tables of pgAgent, as far as they are read.
const PGAGENT: &str = "
    create schema pgagent;
    create table pgagent.pga_job (
        jobid int4 primary key, jobjclid int4, jobname text, jobenabled bool not null default true,
        jobhostagent text not null default '');
    create table pgagent.pga_jobstep (
        jstid int4 primary key, jstjobid int4, jstname text, jstenabled bool not null default true,
        jstkind char, jstcode text, jstconnstr text not null default '',
        jstdbname name not null default '', jstonerror char default 'f');
    create table pgagent.pga_schedule (
        jscid int4 primary key, jscjobid int4, jscname text,
        jscenabled bool not null default true, jscstart timestamptz not null,
        jscend timestamptz, jscminutes bool[], jschours bool[], jscweekdays bool[],
        jscmonthdays bool[], jscmonths bool[]);
    create table pgagent.pga_exception (
        jexid int4 primary key, jexscid int4, jexdate date, jextime time);";

const TIMETABLE: &str = "
    create schema timetable;
    create table timetable.chain (
        chain_id int8 primary key, chain_name text, run_at text, max_instances int,
        timeout int default 0, live bool, self_destruct bool default false,
        exclusive_execution bool default false, client_name text, on_error text);
    create table timetable.task (
        task_id int8 primary key, chain_id int8, task_order float8, task_name text,
        kind text default 'SQL', command text, run_as text, database_connection text,
        ignore_error bool default false, autonomous bool default false, timeout int default 0);
    create table timetable.parameter (task_id int8, order_id int, value jsonb);
    insert into timetable.chain values
        (1, 'nightly', '30 2 * * *', 1, 90000, true, false, false, null, 'select alarm()'),
        (2, 'often', '@every 10 minutes', null, 0, true, false, true, null, null),
        (3, 'behind', '@after 5 minutes', 1, 0, true, false, false, null, null),
        (4, 'both', '0 0 13 * 5', 1, 0, true, false, false, null, null),
        (5, 'paused', '* * * * *', 1, 0, false, false, false, null, null),
        (6, 'shell', null, 1, 0, true, false, false, null, null),
        (7, 'odd', '5/15 * * * *', 1, 0, true, false, false, null, null);
    insert into timetable.task (task_id, chain_id, task_order, command) values
        (10, 1, 1, 'select load($1)'), (11, 1, 2, 'select report()'), (20, 2, 1, 'select 2'),
        (30, 3, 1, 'select 3'), (40, 4, 1, 'select 4'), (50, 5, 1, 'select 5'),
        (70, 7, 1, 'select 7');
    insert into timetable.task (task_id, chain_id, task_order, kind, command) values
        (60, 6, 1, 'PROGRAM', 'ls');
    insert into timetable.parameter values (10, 1, '[\"a\"]'), (10, 2, '[7]');";

async fn run(session: &mut PgConnection, statements: &str) {
    let done = sqlx::raw_sql(AssertSqlSafe(statements.to_owned()));
    done.execute(session).await.expect(statements);
}

/// A new database of a zone of its own, with a session in it.
async fn somewhere() -> (String, PgConnection) {
    let name = database(SUPERUSER);
    let zone = format!("alter database {name} set timezone = 'Asia/Tokyo'");
    let options = POSTGRES.options_for(&name, SUPERUSER);
    run(&mut connect(&options).await, &zone).await;
    let mut session = connect(&options).await;
    // As programs are that do not say otherwise.
    run(&mut session, "set timezone = 'Asia/Tokyo'").await;
    (POSTGRES.url_for(&name, SUPERUSER), session)
}

/// What `import` says, and the file that it writes.
fn imported(arguments: &[&str], url: &str) -> (Value, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(PROGRAM)
        .args(["-o", "json", "import"])
        .args(arguments)
        .args(["--url", url])
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let file = fs::read_to_string(folder.path().join("jobs.toml")).expect("written");
    let said = serde_json::from_slice(&output.stdout).expect("JSON");
    (said, file)
}

fn sources(said: &Value, of: &str) -> Vec<String> {
    let all = said[of].as_array().expect("a list").iter();
    all.map(|one| one["source"].as_str().expect("a text").to_owned())
        .collect()
}

/// A schedule from tomorrow on for twenty days, or for so long that it meets the last day of a
/// month: numbers of minutes, hours, days of the week from Sunday as 1, days of the month, of which
/// 32 is the last one.
fn schedule(id: i32, job: i32, sets: [&str; 4]) -> String {
    let set = |text: &str, low: i32, high: i32| {
        format!("array(select i = any('{{{text}}}'::int[]) from generate_series({low}, {high}) i)")
    };
    let [minutes, hours, weekdays, days] = sets;
    let end = if days == "32" { 62 } else { 21 };
    format!(
        "insert into pgagent.pga_schedule (jscid, jscjobid, jscname, jscstart, jscend, jscminutes,
             jschours, jscweekdays, jscmonthdays, jscmonths)
         select {id}, {job}, 's{id}', date_trunc('day', now()) + interval '1 day',
             date_trunc('day', now()) + interval '{end} days', {}, {}, {}, {}, {};",
        set(minutes, 0, 59),
        set(hours, 0, 23),
        set(weekdays, 1, 7),
        set(days, 1, 32),
        set("", 1, 12)
    )
}

async fn fill(session: &mut PgConnection) {
    let jobs = "
        insert into pgagent.pga_job (jobid, jobjclid, jobname, jobenabled) values
            (1, 1, 'night', true), (2, 1, 'batch', true), (3, 1, 'off', false);
        insert into pgagent.pga_jobstep (jstid, jstjobid, jstname, jstkind, jstcode, jstdbname,
            jstonerror)
        values
            (1, 1, 'b', 's', 'select 2', 'app', 'f'), (2, 1, 'a', 's', 'select ''1''', 'app', 'f'),
            (3, 2, 'a', 'b', 'ls', '', 'f'), (4, 3, 'a', 's', 'select 3', 'app', 'f');";
    run(session, jobs).await;
    let schedules = [
        schedule(1, 1, ["30", "2", "", ""]),
        schedule(2, 1, ["0,30", "9,10,11,12,13,14,15,16,17", "2,3,4,5,6", ""]),
        schedule(3, 1, ["0", "4", "", "32"]),
        schedule(4, 1, ["0", "4", "2", "1,15"]),
        schedule(5, 1, ["", "3", "", ""]),
        schedule(6, 2, ["0", "", "", ""]),
        schedule(7, 3, ["0", "", "", ""]),
    ];
    run(session, &schedules.concat()).await;
    let exceptions = "
        insert into pgagent.pga_exception (jexid, jexscid, jexdate, jextime) values
            (1, 1, (now() + interval '4 days')::date, null), (2, 2, null, '10:30');";
    run(session, exceptions).await;
}

#[tokio::test]
async fn schedules_of_pgagent_become_jobs_and_what_does_not_map_is_named() {
    let (url, mut session) = somewhere().await;
    run(&mut session, PGAGENT).await;
    fill(&mut session).await;
    // Its steps run in another database than the one of its tables.
    let (said, file) = imported(&["pgagent", "--target", "app"], &url);
    let of = |id: i32| format!("schedule {id} of job 1");
    assert_eq!(
        sources(&said, "jobs"),
        [of(1), of(2), of(3), of(5)],
        "{said}"
    );
    assert_eq!(
        sources(&said, "left_out"),
        [of(4), "job 2".to_owned(), "job 3".to_owned()]
    );
    for part in [
        "cron = \"30 2 * * *\", time_zone = \"Asia/Tokyo\"",
        "cron = \"0,30 9-17 * * 1-5\"",
        "cron = \"0 4 L * *\"",
        "cron = \"* 3 * * *\"",
        "{ statement = \"select '1'\", target = \"app\", order = 1 }",
        "{ statement = \"select 2\", target = \"app\", order = 2 }",
        "on_step_failure = \"CANCEL_REST\"",
        "exclude = [",
    ] {
        assert!(file.contains(part), "{part}: {file}");
    }
    for job in said["jobs"].as_array().expect("a list") {
        let is_excepted = job["source"] == of(2);
        let is_same = job["firings"] == job["firings_before"];
        assert_eq!(is_same, !is_excepted, "{job}");
    }
    let notes = said["jobs"][1]["notes"].to_string();
    assert!(notes.contains("exception 2"), "{notes}");
}

/// Says of a test that it has shown nothing, past what captures the output of tests; and where all
/// of them must run, it fails.
fn left_out(why: &str) {
    let remedy = "install it with `.ci/setup test`";
    assert!(std::env::var_os("CI").is_none(), "{why}: {remedy}");
    let said = format!("\nLEFT OUT, AND GREEN ALL THE SAME: {why}; {remedy}\n");
    std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes()).expect("said");
}

#[tokio::test]
async fn pgagent_itself_runs_its_schedules_when_it_is_said_to() {
    let (url, mut session) = somewhere().await;
    let known = "select count(*) from pg_available_extensions where name = 'pgagent'";
    let known: i64 = sqlx::query_scalar(known)
        .fetch_one(&mut session)
        .await
        .expect(known);
    if known == 0 {
        return left_out("pgAgent is not installed");
    }
    run(&mut session, "create extension pgagent").await;
    fill(&mut session).await;
    let (said, _) = imported(&["pgagent", "--target", "app"], &url);
    let fires = "
        with recursive firing (id, at) as (
            select jscid, pgagent.pga_next_schedule(jscid, jscstart, jscend, jscminutes, jschours,
                jscweekdays, jscmonthdays, jscmonths)
            from pgagent.pga_schedule
            union all
            select id, pgagent.pga_next_schedule(jscid, at + interval '1 minute', jscend,
                jscminutes, jschours, jscweekdays, jscmonthdays, jscmonths)
            from firing
            join pgagent.pga_schedule on jscid = id
            where at is not null
        )
        select id, count(at) filter (where at < now() + interval '30 days') as fired
        from firing
        where id < 6
        group by id
        order by id";
    let rows = sqlx::query(fires)
        .fetch_all(&mut session)
        .await
        .expect(fires);
    let mut compared = 0;
    for row in rows {
        let (id, fired): (i32, i64) = (row.get("id"), row.get("fired"));
        let source = format!("schedule {id} of job 1");
        let mut jobs = said["jobs"].as_array().expect("a list").iter();
        if let Some(job) = jobs.find(|job| job["source"] == source) {
            assert_eq!(job["firings_before"], fired, "{source}");
            compared += 1;
        }
    }
    assert_eq!(compared, 4);
}

#[tokio::test]
async fn tables_that_cannot_be_read_are_answered_by_what_to_name() {
    let (url, _session) = somewhere().await;
    let nowhere = "postgres://x@127.0.0.1:1/x".to_owned();
    for from in ["pg-cron", "pgagent", "pg-timetable"] {
        for (url, next) in [
            (&url, "next: name the database that has them with --url"),
            (&nowhere, "nothing listens there"),
        ] {
            let mut command = Command::new(PROGRAM);
            let output = command.args(["import", from, "--url", url]).output();
            let output = output.expect("the program runs");
            let said = text(&output.stderr);
            assert_eq!(code(&output), 1, "{said}");
            assert!(said.contains(next), "{from}: {said}");
        }
    }
}

#[tokio::test]
async fn jobs_of_other_databases_are_left_out_until_a_target_is_named() {
    let (url, mut session) = somewhere().await;
    let table = "
        create schema cron;
        create table cron.job (jobid int8, schedule text, command text, database text,
            username text, active bool default true, jobname text);
        insert into cron.job (jobid, schedule, command, database, username) values
            (1, '0 1 * * *', 'select 1', current_database(), 'app'),
            (2, '0 2 * * *', 'select 2', 'other', 'bob');";
    run(&mut session, table).await;
    let (said, file) = imported(&["pg-cron"], &url);
    assert_eq!(sources(&said, "jobs"), ["job 1"], "{said}");
    assert_eq!(sources(&said, "left_out"), ["job 2"], "{said}");
    let why = said["left_out"].to_string();
    assert!(
        why.contains("database other") && why.contains("--target"),
        "{why}"
    );
    assert!(!file.contains("bob"), "{file}");
    let (said, file) = imported(&["pg-cron", "--target", "there"], &url);
    assert_eq!(sources(&said, "jobs"), ["job 1", "job 2"], "{said}");
    let note = "target `there` must be database other with login bob (`serve --target`)";
    assert!(file.contains(&format!("\n# {note}\n")), "{file}");
    assert!(said["jobs"].to_string().contains(note), "{said}");
}

#[tokio::test]
async fn a_connection_string_of_a_step_is_shown_nowhere() {
    let (url, mut session) = somewhere().await;
    run(&mut session, TIMETABLE).await;
    let secret =
        "update timetable.task set database_connection = 'password=secret' where chain_id = 2";
    run(&mut session, secret).await;
    let (said, _) = imported(&["pg-timetable"], &url);
    assert_eq!(sources(&said, "jobs"), ["chain 1"], "{said}");
    let (named, file) = imported(&["pg-timetable", "--target", "app"], &url);
    assert_eq!(sources(&named, "jobs"), ["chain 1", "chain 2"], "{named}");
    let note = "# task 20: target `app` must be what its connection string names";
    assert!(file.contains(note), "{file}");
    assert!(!format!("{said}{named}{file}").contains("secret"));
}

#[tokio::test]
async fn chains_of_pg_timetable_become_jobs_and_what_does_not_map_is_named() {
    let (url, mut session) = somewhere().await;
    run(&mut session, TIMETABLE).await;
    let (said, file) = imported(&["pg-timetable"], &url);
    assert_eq!(sources(&said, "jobs"), ["chain 1", "chain 2"], "{said}");
    let left_out = [3, 4, 5, 6, 7].map(|id| format!("chain {id}"));
    assert_eq!(sources(&said, "left_out"), left_out);
    for part in [
        "cron = \"30 2 * * *\", time_zone = \"Asia/Tokyo\"",
        "interval = { every = \"600s\" }",
        "max_runtime = \"90s\"",
        "{ statement = \"select load($1)\", target = \"app\", order = 1, params = [\"a\"] }",
        "{ statement = \"select load($1)\", target = \"app\", order = 2, params = [\"7\"] }",
        "{ statement = \"select report()\", target = \"app\", order = 3 }",
        "on_failure = [{ statement = \"select alarm()\", target = \"app\" }]",
        "overlap = \"ALLOW\"",
    ] {
        assert!(file.contains(part), "{part}: {file}");
    }
    let nightly = &said["jobs"][0];
    assert_eq!(nightly["firings"], nightly["firings_before"]);
    let notes = nightly["notes"].to_string();
    assert!(notes.contains("one transaction"), "{notes}");
}
