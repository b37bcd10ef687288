//! Every statement of the journal, read as text, keeps the rules under which shards can be spread
//! over a distributed Postgres later. The rules were found with Citus: what it refuses is not used
//! here.

use rallypoint::journal::statements;
use std::{fs, path::Path};

const TABLES: [&str; 23] = [
    "shard",
    "lease",
    "lived_day",
    "batch",
    "replica",
    "session",
    "scheduler",
    "submission",
    "completion",
    "attempt",
    "declared_dead",
    "target_pause",
    "task_label",
    "scheduler_label",
    "resource",
    "claim",
    "claim_checkpoint",
    "job",
    "job_state",
    "job_run",
    "job_claim",
    "job_agent",
    "audit",
];
/// Maintenance over all shards, which may be slow.
const CROSS_SHARD: [&str; 1] = ["last_batches"];
/// Where statements are put together: from names of partitions, and from the fragments of the
/// writer.
const BUILDERS: [&str; 3] = [
    "src/journal/maintenance/partition.rs",
    "src/journal/append.rs",
    "src/journal/append/statements.rs",
];

struct Statement {
    name: String,
    /// On one line, without the name.
    text: String,
}

#[test]
fn every_table_is_read_and_written_within_a_shard() {
    check(|statement| {
        let tables = references(&statement.text);
        let within = |(table, alias): &(String, String)| {
            let column = if alias.is_empty() {
                "shard".to_owned()
            } else {
                format!("{alias}.shard")
            };
            let inserted = statement
                .text
                .contains(&format!("insert into {table} (shard, "));
            inserted
                || words(&statement.text)
                    .windows(2)
                    .any(|pair| pair[0] == column && pair[1] == "=")
                || words(&statement.text)
                    .windows(2)
                    .any(|pair| pair[0] == "=" && pair[1] == column)
        };
        let bound = ["= $1", "values ($1", "select $1"]
            .iter()
            .any(|given| statement.text.contains(given));
        let missing: Vec<String> = tables
            .iter()
            .filter(|table| !within(table))
            .map(|(table, _)| table.clone())
            .collect();
        match () {
            _ if CROSS_SHARD.contains(&statement.name.as_str()) || tables.is_empty() => None,
            _ if !missing.is_empty() => Some(format!("no shard for {missing:?}")),
            _ if !bound => Some("no shard is given".to_owned()),
            _ => None,
        }
    });
}

#[test]
fn a_changed_row_never_depends_on_when_or_where_it_is_changed() {
    check(|statement| {
        let changes = ["insert into ", "update ", "delete from "]
            .iter()
            .any(|verb| statement.text.contains(verb));
        let volatile = [
            "random(",
            "gen_random_uuid(",
            "nextval(",
            "statement_timestamp(",
        ];
        let after = |word: &str| {
            statement
                .text
                .split_once(word)
                .map(|(_, after)| after)
                .unwrap_or_default()
        };
        // Up to the next insert of the statement.
        let update = after("do update").split(" insert into ").next();
        let update = update.unwrap_or_default();
        let end_of_change =
            |text: &str| text.split([')', ';']).next().unwrap_or_default().to_owned();
        match () {
            _ if !changes => None,
            _ if volatile.iter().any(|call| statement.text.contains(call)) => {
                Some("a volatile function in a change".to_owned())
            }
            _ if update.contains("now(") && !update.contains("select") => {
                Some("the time in `do update`: insert it, and take `excluded`".to_owned())
            }
            _ if end_of_change(after(" returning ")).contains('(') => {
                Some("a function in `returning`".to_owned())
            }
            _ if statement.text.contains("set shard") || statement.text.contains(", shard = ") => {
                Some("a row never changes its shard".to_owned())
            }
            _ => None,
        }
    });
}

#[test]
fn nothing_is_used_that_another_engine_does_not_know() {
    let banned = [
        "ctid",
        "listen",
        "notify",
        "pg_notify",
        "cursor",
        "trigger",
        "rollup",
        "pg_advisory_lock",
        "pg_try_advisory_lock",
    ];
    check(|statement| {
        let used = words(&statement.text)
            .into_iter()
            .find(|word| banned.contains(word));
        used.map(|word| format!("uses `{word}`"))
    });
}

#[test]
fn a_choice_never_depends_on_the_clock() {
    check(|statement| {
        let calls = |call: &str| {
            statement.text.match_indices(call).any(|(at, _)| {
                let inside = statement.text[at + call.len()..]
                    .split(')')
                    .next()
                    .unwrap_or_default();
                inside.contains("now(") || inside.contains("clock_timestamp(")
            })
        };
        (calls("coalesce(") || calls("case when"))
            .then(|| "the time in `coalesce` or `case`".to_owned())
    });
}

#[test]
fn a_list_is_not_looked_through_for_each_row() {
    // Behind `or` a list is no join: one that does not fit into `work_mem` is read from its
    // beginning for each row.
    check(|statement| {
        let text = statement.text.replace("( select ", "(select ");
        let mut lists = text.match_indices(" in (select ");
        let is_behind_or = |at: usize| {
            let before = &text[..at];
            let condition = before.rfind(['(', ')']).map_or(before, |at| &before[at..]);
            words(condition).contains(&"or")
        };
        let found = lists.any(|(at, _)| is_behind_or(at));
        found.then(|| "`in (select …)` behind `or`: use `exists`, or a bound".to_owned())
    });
}

#[test]
fn every_key_and_index_begins_with_the_shard() {
    let schema = ["0001_journal.sql", "0003_maintenance.sql", "0017_lists.sql"]
        .map(|file| one_line(&fs::read_to_string(top().join("migrations").join(file)).unwrap()))
        .join(" ");
    let keys = schema
        .split("primary key (")
        .skip(1)
        .filter(|key| !key.starts_with("shard"))
        .count();
    assert_eq!(keys, 0);
    for index in schema.split("create index ").skip(1) {
        let on = index.split(';').next().unwrap_or_default();
        assert!(
            on.contains(" (shard, ") || on.contains("using brin"),
            "{on}"
        );
    }
    assert!(
        !schema.contains("references")
            && !schema.contains("serial")
            && !schema.contains("identity")
    );
}

#[test]
fn every_statement_stands_in_the_sources_under_a_name() {
    let mut names: Vec<String> = sources()
        .iter()
        .flat_map(|(_, text)| literal_statements(text))
        .map(|s| s.name)
        .collect();
    assert!(
        names.len() > 30,
        "the reader of the sources finds them: {names:?}"
    );
    names.sort_unstable();
    let twice: Vec<&[String]> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
    for (path, text) in sources()
        .iter()
        .filter(|(path, _)| !BUILDERS.contains(&path.as_str()))
    {
        let asked = text.matches("sqlx::query").count();
        assert_eq!(
            asked,
            literal_statements(text).len(),
            "{path}: a statement without a name, or not spelled out"
        );
        assert!(
            !text.contains("AssertSqlSafe"),
            "{path}: statements are put together in {BUILDERS:?} only"
        );
    }
}

#[test]
fn the_reader_of_statements_sees_tables_and_their_names() {
    let text = one_line(
        "with a as (select 1 from scheduler r join batch on true)
         insert into session (shard, x) select 1 from a",
    );
    let found: Vec<(String, String)> = references(&text);
    let pair = |table: &str, alias: &str| (table.to_owned(), alias.to_owned());
    assert_eq!(
        found,
        [
            pair("scheduler", "r"),
            pair("batch", ""),
            pair("session", "")
        ]
    );
    let source =
        "sqlx::query(concat!(\"-- one\n select \", columns!(), \" from shard\nwhere shard = $1\"))";
    let statements = literal_statements(source);
    assert_eq!(
        (statements[0].name.as_str(), statements[0].text.as_str()),
        ("one", "select from shard where shard = $1")
    );
}

/// Checks every statement, those of the writer included.
#[track_caller]
fn check(fault: impl Fn(&Statement) -> Option<String>) {
    let mut all: Vec<Statement> = sources()
        .iter()
        .flat_map(|(_, text)| literal_statements(text))
        .collect();
    all.extend(statements().map(|text| Statement {
        name: "append".to_owned(),
        text: one_line(text),
    }));
    let faults: Vec<String> = all
        .iter()
        .filter_map(|s| Some(format!("{}: {}\n    {}", s.name, fault(s)?, s.text)))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Our tables after `from`, `join`, `using`, `into`, `update`, each with its alias.
fn references(text: &str) -> Vec<(String, String)> {
    let words = words(text);
    let verbs = ["from", "join", "using", "into", "update"];
    let no_alias = [
        "where", "join", "left", "cross", "full", "on", "set", "order", "for", "group", "select",
        "values", "using", "limit", "and", "as", "or", "union", "offset", "lateral",
    ];
    let mut found = Vec::new();
    for pair in words.windows(3) {
        // A name in brackets is the column list of an insert
        if verbs.contains(&pair[0]) && TABLES.contains(&pair[1]) {
            let alias = pair[2];
            let inserted = pair[0] == "into" || text.contains(&format!("{} ({alias}", pair[1]));
            found.push((
                pair[1].to_owned(),
                if inserted || no_alias.contains(&alias) {
                    String::new()
                } else {
                    alias.to_owned()
                },
            ));
        }
    }
    found
}

fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !(c.is_alphanumeric() || "_.$=<>".contains(c)))
        .filter(|word| !word.is_empty())
        .collect()
}

fn one_line(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split("--").next().unwrap_or_default().trim());
    lines
        .collect::<Vec<_>>()
        .join(" ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// The statements a source spells out: literals that begin with a comment that names them, joined
/// by `concat!` to others.
fn literal_statements(source: &str) -> Vec<Statement> {
    let mut found = Vec::new();
    for (at, _) in source.match_indices("\"-- ") {
        let joined = source[..at].trim_end().ends_with("concat!(");
        let mut text = String::new();
        let mut rest = &source[at + 1..];
        loop {
            let end = rest.find('"').unwrap_or(rest.len());
            text.push_str(&rest[..end]);
            rest = &rest[(end + 1).min(rest.len())..];
            // The next literal of a `concat!`, unless its bracket closes first
            let Some(next) = rest.find('"').filter(|_| joined) else {
                break;
            };
            if rest[..next].replace("()", "").contains(')') {
                break;
            }
            text.push(' ');
            rest = &rest[next + 1..];
        }
        let name = text
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("-- ")
            .trim()
            .to_owned();
        let body: Vec<&str> = text.lines().skip(1).collect();
        if !body.is_empty() {
            found.push(Statement {
                name,
                text: one_line(&body.join("\n")),
            });
        }
    }
    found
}

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources() -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = vec![top().join("src/journal")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            match entry.extension() {
                None => folders.push(entry),
                Some(_) => files.push(entry),
            }
        }
    }
    let name = |path: &Path| {
        path.strip_prefix(top())
            .unwrap()
            .to_string_lossy()
            .into_owned()
    };
    files
        .iter()
        .map(|path| (name(path), fs::read_to_string(path).unwrap()))
        .collect()
}
