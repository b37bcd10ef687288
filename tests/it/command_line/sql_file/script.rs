//! Texts of SQL for a seed: statements with everything in them that hides a semicolon, and noise.

use crate::rng::Rng;

/// What may stand in a statement: each piece is whole.
const HIDDEN: &[&str] = &[
    "'a;b'",
    "'it''s;'",
    "'\\'",
    "E'a\\';b'",
    "e'\\\\'",
    "E'x\n;\\\n'",
    "U&'\\0061;'",
    "N'n;'",
    "B'01'",
    "\"a;b\"",
    "\"a\"\"b;\"",
    "U&\"d;\"",
    "$$a;'b$$",
    "$tag$ $$ ; $tag $tag$",
    "$ä$;$ä$",
    "/* ; */",
    "/* a /* ; */ ' */",
    "/**/",
    "/*/ ; /**/ */",
    "-- it's; (\n",
    "--\n",
    "(1; 2)",
    "(select ';', (';'))",
    "a$b$c",
    "$1",
    "1.5e3",
    "1..2",
    "x->>'a;'",
    "1 - -1",
    "2*/* ; */3",
    "begin",
    "end",
    "case when true then 1 end",
    "\\;",
    "\\:",
    "/*+ ; */",
    "\\:",
    "1::int",
    "\n\n",
    "\r\n",
    "\t",
    "+--;\n",
];

/// A whole statement, with what stands ahead of it.
pub(super) fn statement(rng: &mut Rng) -> String {
    let ahead = [
        "",
        "\n",
        "-- a; comment\n",
        "/* one; */ ",
        "\n\n/*+ a hint; */\n",
        "  ",
    ];
    let ahead = rng.one_of(&ahead);
    let (one, two) = (pieces(rng), pieces(rng));
    let name = rng.below(20);
    let body = match rng.below(6) {
        0 => format!("create rule r{name} as on insert to t do also ({one}; delete from t;{two})"),
        1 => format!(
            "create or replace function f{name}() returns int {one}\nbegin atomic\n select {two};\n \
             select case when true then 1 end;\nend"
        ),
        2 => format!("CREATE PROCEDURE p{name}() BEGIN ATOMIC; INSERT INTO t VALUES (1); END"),
        3 => format!(
            "create function g{name}() returns int as $f$ begin; {one} end; $f$ language sql"
        ),
        4 => format!("insert into t values ({one}) {two}"),
        _ => format!("select {one}, {two}"),
    };
    let end = [";", ";\n", " ;\n\n", "\n;", "; "];
    format!("{ahead}{body}{}", rng.one_of(&end))
}

/// Some pieces, without those that would make a body of their own.
fn pieces(rng: &mut Rng) -> String {
    let bodies = ["begin", "end", "case when true then 1 end", "\\;"];
    let all: Vec<&str> = HIDDEN
        .iter()
        .copied()
        .filter(|piece| !bodies.contains(piece))
        .collect();
    (0..rng.below(4))
        .map(|_| format!("{} ", rng.one_of(&all)))
        .collect()
}

/// Any pieces in any order, closed or not.
pub(super) fn noise(rng: &mut Rng) -> String {
    let open = [
        "'",
        "\"",
        "E'",
        "\\'",
        "$$",
        "$a$",
        "$",
        "/*",
        "*/",
        "--",
        "(",
        ")",
        ";",
        ";",
        ";\n",
        "\n",
        "\r",
        "create ",
        "or replace ",
        "function ",
        "procedure ",
        "begin ",
        "end ",
        "case ",
        "u&",
        "x",
        "1e",
        "1.",
        "e",
        "_",
        "ä",
        ":",
        "[",
        "*",
        "/",
        "-",
        "1..",
    ];
    let begins = [
        "select ",
        "create function f() ",
        "create or replace procedure p() ",
    ];
    let mut text = (*rng.one_of(&begins)).to_owned();
    for _ in 0..rng.below(25) {
        let from = if rng.percent(70) { &open[..] } else { HIDDEN };
        let piece: &&str = rng.one_of(from);
        text.push_str(piece);
    }
    text
}

/// Where the block comment ends that a text begins with.
pub(super) fn end_of_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    loop {
        match &text.as_bytes()[at..] {
            [] => return at,
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
}
