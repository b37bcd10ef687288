//! Files of SQL, which psql and `exec` split and run alike. psql 15 or later is the judge.

mod script;

use super::{code, run, text};
use crate::{
    harness::{
        postgres::{POSTGRES, database},
        standalone::Standalone,
    },
    rng::Rng,
};
use rallypoint::postgres::TARGET;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

/// Runs a program of Postgres on a database.
fn postgres(program: &str, name: &str, arguments: &[&str]) -> Output {
    Command::new(POSTGRES.program(program))
        .args(arguments)
        .arg(POSTGRES.url_for(name, TARGET))
        .output()
        .expect("it is installed beside the server")
}

fn path(file: &Path) -> &str {
    file.to_str().expect("a plain path")
}

/// A file of SQL for one test.
struct File {
    _folder: TempDir,
    path: PathBuf,
}

impl File {
    fn new(text: &str) -> File {
        let folder = TempDir::new().expect("a directory");
        let path = folder.path().join("test.sql");
        fs::write(&path, text).expect("written");
        File {
            _folder: folder,
            path,
        }
    }

    /// Its statements, as `exec` splits it; `None`: it is refused.
    fn statements(&self) -> Option<Vec<String>> {
        let output = run(&["exec", "--explain", "-o", "json", path(&self.path)]);
        let said = text(&output.stdout);
        let tasks = said.lines().map(serde_json::from_str::<Value>);
        let statement = |task: Value| task["statement"].as_str().map(without_empty_lines);
        let statements = tasks.map(|task| statement(task.expect("JSON")).expect("a statement"));
        (code(&output) == 0).then(|| statements.collect())
    }
}

/// A server whose target `app` is a new database.
fn server() -> (Standalone, String) {
    let name = database(TARGET);
    let target = format!("app={}", POSTGRES.url_for(&name, TARGET));
    let options = [Path::new("--target"), Path::new(&target)];
    (Standalone::with(&options), name)
}

/// Everything in a database: its schema, and the rows of each table.
fn contents(name: &str) -> (String, BTreeMap<String, String>) {
    let dump = postgres("pg_dump", name, &["--schema-only", "--dbname"]);
    assert!(dump.status.success(), "{}", text(&dump.stderr));
    // A random key stands behind some commands of psql.
    let dump = text(&dump.stdout);
    let lines = dump.lines().filter(|line| !line.starts_with('\\'));
    let schema = lines.collect::<Vec<_>>().join("\n");
    let query = |query: &str| {
        let output = postgres("psql", name, &["-XAtc", query]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let tables = query(
        "select oid::regclass from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace",
    );
    let rows = tables.lines().map(|table| {
        let rows = format!("select to_jsonb(t) from {table} t order by to_jsonb(t)::text");
        (table.to_owned(), query(&rows))
    });
    (schema, rows.collect())
}

#[test]
fn the_examples_have_the_same_effect_in_psql_and_in_exec() {
    for example in ["nightly.sql", "migration.sql"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("examples")
            .join(example);
        let by_psql = database(TARGET);
        let psql = postgres("psql", &by_psql, &["-Xqf", path(&file)]);
        assert_eq!(code(&psql), 0, "{}", text(&psql.stderr));
        let (server, by_exec) = server();
        let exec = server.run(&["exec", path(&file)]);
        assert_eq!(
            code(&exec),
            0,
            "{}{}",
            text(&exec.stdout),
            text(&exec.stderr)
        );
        let (expected, found) = (contents(&by_psql), contents(&by_exec));
        assert!(expected.1.values().any(|rows| !rows.is_empty()));
        assert_eq!(found, expected, "{example}");
    }
}

#[test]
fn a_file_without_orders_stops_at_a_failure_as_psql_does() {
    let text_of_file = "\\set ON_ERROR_STOP on
        create table t (n int primary key);
        insert into t values (1);
        insert into t values (1);
        insert into t values (2);";
    let file = File::new(text_of_file);
    let by_psql = database(TARGET);
    let psql = postgres("psql", &by_psql, &["-Xqf", path(&file.path)]);
    assert_eq!(code(&psql), 3, "{}", text(&psql.stderr));
    let (server, by_exec) = server();
    let exec = server.run(&["exec", "-o", "json", path(&file.path)]);
    assert_eq!(code(&exec), 3, "{}", text(&exec.stderr));
    let outcomes: Vec<Value> = super::lines(&exec)
        .into_iter()
        .map(|done| done["outcome"].clone())
        .collect();
    let expected = ["SUCCEEDED", "SUCCEEDED", "FAILED", "CANCELLED"];
    assert_eq!(outcomes, expected.map(|word| format!("OUTCOME_{word}")));
    assert_eq!(contents(&by_exec), contents(&by_psql));
    let goes_on = server.run(&["exec", "--on-failure", "continue", path(&file.path)]);
    assert_eq!(code(&goes_on), 3, "{}", text(&goes_on.stderr));
    assert_eq!(contents(&by_exec).1["t"].lines().count(), 2);
}

#[test]
fn an_event_names_the_line_of_the_file_that_it_is_about() {
    let (server, _) = server();
    let file = File::new(
        "-- @order 1\n-- @name one\nselect\n1;\n-- @task\nbegin;\nselect 1;\n\nselect *\nfrom nowhere;\ncommit;\n-- @end",
    );
    let json = server.run(&["exec", "-o", "json", path(&file.path)]);
    let mut events = super::lines(&json);
    events.sort_by_key(|event| event["seq"].as_i64());
    let named = |event: &Value| (event["name"].clone(), event["line"].clone());
    assert_eq!(named(&events[0]), ("one".into(), 3.into()));
    assert_eq!(named(&events[1]), (Value::Null, 10.into()));
    let table = text(&server.run(&["exec", path(&file.path)]).stdout);
    assert!(table.contains("one: select 1"), "{table}");
    assert!(table.contains("line 10: begin; select 1;"), "{table}");
    let object = r#"{"statement": "select\n1\nfrom nowhere"}"#;
    let output = super::exec_file(&server, &format!("\n{object}"), &["-o", "json"]);
    assert_eq!(super::lines(&output)[0]["line"], 2);
}

#[test]
fn a_table_of_tasks_is_submitted_from_psql() {
    let (server, name) = server();
    let prepared = File::new(
        "create table todo (step int, sql text);
        create table done (n int);
        insert into todo values (1, E'insert into done\n  values (1)'), (2, 'insert into done select n + 1 from done'), (null, '');
        delete from todo where step is null;",
    );
    assert_eq!(code(&server.run(&["exec", path(&prepared.path)])), 0);
    let query = "select json_build_object('order', step, 'statement', sql) from todo";
    let rows = postgres("psql", &name, &["-AtXc", query]);
    let exec = super::exec_file(&server, &text(&rows.stdout), &["-o", "json"]);
    assert_eq!(code(&exec), 0, "{}", text(&exec.stderr));
    assert_eq!(contents(&name).1["done"], "{\"n\": 1}\n{\"n\": 2}\n");
}

#[test]
fn sql_and_parameters_come_from_stdin() {
    let (server, name) = server();
    let sql = "create table t (n int, text text);\ninsert into t\nvalues (1, 'a;b');";
    let exec = super::exec_file(&server, sql, &["--format", "sql"]);
    assert_eq!(code(&exec), 0, "{}", text(&exec.stderr));
    let object = r#"{"statement": "insert into t values ($1, $2)", "params": [2, null]}"#;
    assert_eq!(code(&super::exec_file(&server, object, &[])), 0);
    let insert = "insert into t select $1::int, $2";
    let params = ["exec", "--param", "3", "--param", "-x", insert];
    assert_eq!(code(&server.run(&params)), 0);
    let rows = contents(&name).1["t"].trim().replace('\n', "; ");
    let expected = r#"{"n": 1, "text": "a;b"}; {"n": 2, "text": null}; {"n": 3, "text": "-x"}"#;
    assert_eq!(rows, expected);
    let twice = r#"{"statement": "select 1", "order": 1, "order": 2}"#;
    let refused = super::exec_file(&server, twice, &[]);
    assert_eq!(code(&refused), 1);
    assert!(text(&refused.stderr).contains("stdin, line 1: not a task in JSON: `order` stands"));
}

#[test]
fn what_exec_shows_of_a_file_of_sql_can_be_run() {
    let (server, name) = server();
    let file = File::new(
        "create table t (n int);\n-- @name one\n-- @label a=b\ninsert into t\nvalues (1);",
    );
    let shown = server.run(&["exec", "--explain", "-o", "json", path(&file.path)]);
    assert_eq!(
        code(&super::exec_file(&server, &text(&shown.stdout), &[])),
        0
    );
    assert_eq!(contents(&name).1["t"], "{\"n\": 1}\n");
}

#[test]
fn a_pipeline_is_shown_without_a_server() {
    let file = File::new(
        "-- @order 1\nselect 1;\n-- @name b\n-- @target dw\nselect 2;\n-- @order 2\nselect 3;",
    );
    let nowhere = ["--server", "http://127.0.0.1:1", "exec", "--explain"];
    let output = run(&[&nowhere, &[path(&file.path), "--timeout", "5m"][..]].concat());
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let expected = "\
3 tasks in 2 orders; after a failure no later order starts

order 1  ┬─ task 1  line 2  select 1  (timeout 5m)
         └─ task 2  line 5  b: select 2  (target dw, timeout 5m)
         ▼
order 2  ── task 3  line 7  select 3  (timeout 5m)
";
    assert_eq!(text(&output.stdout), expected);
}

#[test]
fn the_pipeline_of_the_readme_is_drawn_as_it_is_there() {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"));
    let readme = readme.expect("there is one");
    let between = |from: &str, to: &str| {
        let (_, rest) = readme.split_once(from).expect(from);
        rest.split_once(to).expect(to).0.to_owned()
    };
    let file = File::new(&between("```sql\n", "```"));
    let output = run(&["exec", "--explain", path(&file.path)]);
    let shown = between("rallypoint exec --explain close.sql\n", "\n$ ");
    assert_eq!(text(&output.stdout), shown);
}

#[test]
fn a_file_of_sql_stands_alone() {
    let file = File::new("select 1;");
    let file = path(&file.path);
    for more in [&["select 2"][..], &["-f", "-"], &[file]] {
        let output = run(&[&["exec", "--explain", file], more].concat());
        assert_eq!(code(&output), 2, "{more:?}");
        assert!(
            text(&output.stderr).contains("stands alone"),
            "{}",
            text(&output.stderr)
        );
    }
    assert_eq!(code(&run(&["exec", "--explain", "-f", file])), 0);
    let missing = run(&["exec", "--explain", "missing.sql"]);
    assert!(text(&missing.stderr).contains("cannot read missing.sql"));
}

#[test]
fn what_is_refused_is_named_by_file_and_line_before_anything_runs() {
    let file = File::new("select 1;\n\ncopy t from stdin;\n1\n\\.\n");
    let output = run(&["--server", "http://127.0.0.1:1", "exec", path(&file.path)]);
    let said = text(&output.stderr);
    assert_eq!(code(&output), 1);
    assert!(
        said.contains("test.sql, line 3: COPY") && said.contains("next: load the data"),
        "{said}"
    );
}

#[test]
fn every_fault_of_a_file_is_said_and_none_hides_or_makes_another() {
    let faults = [
        "-- @oder 1",
        "copy t from stdin;\na; it's data\n\\.",
        "-- @name a\nset x = 1;",
        "-- @name b\nselect 1;\n-- @task nightly\ncopy t to stdout;\n-- @end",
        "\\connect other",
        "-- @order 5\nselect 2;\n-- @order 3\nselect 3; -- @name c",
        "-- @task\n-- @label k=v\n-- @end",
        "select (4",
    ];
    let file = File::new(&faults.join("\n"));
    let output = run(&["exec", "--explain", path(&file.path)]);
    let said = text(&output.stderr);
    assert_eq!(code(&output), 1, "{said}");
    assert!(
        said.contains("test.sql cannot be used: 10 faults"),
        "{said}"
    );
    let lines = said
        .lines()
        .filter_map(|line| line.split_once("why:  line"));
    let lines = lines.filter_map(|(_, line)| line.split_once(": "));
    let lines: Vec<&str> = lines.map(|(line, _)| line).collect();
    // The faults of the two COPY are equal, and said once.
    let expected = [
        " 1", "s 2, 10", " 6", " 9", " 12", " 15", " 16", " 17", " 20",
    ];
    assert_eq!(lines, expected, "{said}");
    assert!(said.contains("line 6: SET counts in one session"), "{said}");
    assert!(text(&output.stdout).is_empty(), "{output:?}");
}

/// What psql sends of these files, each of which begins with a statement of its own.
fn sent_by_psql(files: &[File]) -> Vec<String> {
    let log = TempDir::new().expect("a directory");
    let log = log.path().join("log");
    let mut arguments = vec!["-XqL", path(&log)];
    arguments.extend(files.iter().flat_map(|file| ["-f", path(&file.path)]));
    postgres("psql", &database(TARGET), &arguments);
    let log = fs::read(&log).expect("a log");
    let log = String::from_utf8_lossy(&log).into_owned();
    let queries = log.split("********* QUERY **********\n").skip(1);
    let query = |text: &str| {
        let (query, _) = text
            .split_once("\n**************************\n")
            .expect("its end");
        without_end(&without_empty_lines(without_comments(query, true))).to_owned()
    };
    // What holds nothing but comments and semicolons is no task.
    let is_empty = |query: &str| without_comments(query, false).is_empty();
    queries
        .map(query)
        .filter(|query| !is_empty(query))
        .collect()
}

fn without_end(text: &str) -> &str {
    text.trim_end_matches(|c: char| c == ';' || c.is_whitespace())
}

/// psql leaves out empty lines.
fn without_empty_lines(text: &str) -> String {
    let lines = text.split('\n').filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

/// A text without the comments ahead of it, which psql keeps; hints belong to the statement.
fn without_comments(text: &str, hints_stay: bool) -> &str {
    let mut text = text.trim_start();
    let is_hint = |text: &str| hints_stay && text.starts_with("/*+");
    while text.starts_with("--") || text.starts_with("/*") && !is_hint(text) {
        let end = match text.starts_with("--") {
            true => text.find(['\n', '\r']).unwrap_or(text.len()),
            false => script::end_of_comment(text),
        };
        text = text[end..].trim_start();
    }
    text
}

#[test]
fn two_thousand_statements_are_split_as_psql_splits_them() {
    let mut rng = Rng::new(2_000);
    let script: String = (0..2_000).map(|_| script::statement(&mut rng)).collect();
    let file = File::new(&script);
    let statements = file.statements().expect("nothing in it is refused");
    assert_eq!(statements.len(), 2_000);
    let sent = sent_by_psql(&[file]);
    for (statement, sent) in statements.iter().zip(&sent) {
        assert_eq!(statement, sent);
    }
    assert_eq!(sent.len(), 2_000);
}

#[test]
fn whatever_is_not_refused_is_split_as_psql_splits_it() {
    let mut rng = Rng::new(7);
    let (mut files, mut expected) = (Vec::new(), Vec::new());
    for number in 0..400 {
        let noise = script::noise(&mut rng);
        let file = File::new(&format!("select 'file {number}';\n{noise}"));
        if let Some(statements) = file.statements() {
            expected.extend(statements);
            files.push(file);
        }
    }
    assert!(files.len() > 100, "only {} files are taken", files.len());
    let sent = sent_by_psql(&files);
    for (expected, sent) in expected.iter().zip(&sent) {
        assert_eq!(expected, sent);
    }
    assert_eq!(expected.len(), sent.len());
}
