//! Splits a SQL text into statements exactly where psql does.
//!
//! A semicolon ends a statement unless it stands in quotes, in a comment, in parentheses, or in the
//! body `BEGIN … END` of a function or procedure. Pure; nothing is lost: the parts, one behind the
//! other, are the text. What a statement means is not decided here.

use super::{
    fault::Fault,
    sql_token::{self, Token},
};

/// A part of a text and the line on which it begins.
pub(super) struct Part<'a> {
    /// Where it begins in the text.
    pub at: usize,
    pub line: usize,
    pub text: &'a str,
    pub kind: Kind<'a>,
}

/// What a part is.
pub(super) enum Kind<'a> {
    /// Spaces or a block comment between statements.
    Space,
    /// A line comment between statements. `alone`: nothing else stands on its line.
    Comment {
        alone: bool,
    },
    /// A command of psql between statements, without its line break.
    Command,
    Statement(Statement<'a>),
}

/// What is known of a statement. Its text has the semicolon that ends it.
#[derive(Default)]
pub(super) struct Statement<'a> {
    /// Words outside parentheses; `\;` divides them.
    pub words: Vec<Vec<&'a str>>,
    /// Lines of the comments `-- …` inside.
    pub comments: Vec<(usize, &'a str)>,
    /// Where in the text the backslashes of `\;` and `\:` are.
    pub escapes: Vec<usize>,
    /// It is nothing but comments and semicolons.
    pub is_empty: bool,
}

/// The parts of a text. Ends with the first fault.
pub(super) fn parts(text: &str) -> Parts<'_> {
    Parts {
        text,
        at: 0,
        line: 1,
    }
}

/// See [`parts`].
pub(super) struct Parts<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Iterator for Parts<'a> {
    type Item = Result<Part<'a>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.text.len() {
            return None;
        }
        let (start, line) = (self.at, self.line);
        let kind = match self.kind() {
            Ok(kind) => kind,
            Err(fault) => {
                self.at = self.text.len();
                return Some(Err(fault));
            }
        };
        let text = &self.text[start..self.at];
        Some(Ok(Part {
            at: start,
            line,
            text,
            kind,
        }))
    }
}

impl<'a> Parts<'a> {
    /// Passes the data behind a COPY, if a line `\.` ends them.
    pub(super) fn pass_data(&mut self) {
        let rest = &self.text[self.at..];
        let ends = rest.split_inclusive('\n').scan(0, |end, line| {
            *end += line.len();
            Some((*end, line.trim_end() == "\\."))
        });
        let end = ends.into_iter().find(|(_, is_end)| *is_end);
        self.pass(end.map_or(0, |(end, _)| end));
    }

    fn kind(&mut self) -> Result<Kind<'a>, Fault> {
        let (token, length) = self.peek()?;
        Ok(match token {
            Token::Space => {
                self.pass(length);
                Kind::Space
            }
            // A hint for the planner belongs to the statement behind it.
            Token::BlockComment if !self.text[self.at..].starts_with("/*+") => {
                self.pass(length);
                Kind::Space
            }
            Token::LineComment => {
                let before = self.text[..self.at].rsplit(['\n', '\r']).next();
                self.pass(length);
                Kind::Comment {
                    alone: before.is_none_or(|before| before.trim().is_empty()),
                }
            }
            Token::Backslash => {
                let rest = &self.text[self.at..];
                self.pass(rest.find(['\n', '\r']).unwrap_or(rest.len()));
                Kind::Command
            }
            _ => Kind::Statement(self.statement()?),
        })
    }

    /// Reads up to the semicolon that ends a statement, or the end of the text.
    fn statement(&mut self) -> Result<Statement<'a>, Fault> {
        let start = self.at;
        let mut depth = Depth::default();
        let mut statement = Statement {
            words: vec![Vec::new()],
            is_empty: true,
            ..Statement::default()
        };
        while self.at < self.text.len() {
            let (token, length) = self.peek()?;
            let (text, line) = (&self.text[self.at..self.at + length], self.line);
            match token {
                Token::Word => depth.word(text, line, &mut statement),
                Token::Open => depth.parentheses.push(line),
                Token::Close => drop(depth.parentheses.pop()),
                Token::LineComment => statement.comments.push((line, text)),
                Token::Escaped => {
                    statement.escapes.push(self.at - start);
                    if text == "\\;" {
                        statement.words.push(Vec::new());
                        depth.words.clear();
                    }
                }
                Token::Backslash => return Err(command_inside(line)),
                _ => (),
            }
            statement.is_empty &= match token {
                Token::Space | Token::LineComment | Token::BlockComment | Token::Semicolon => true,
                Token::Escaped => text == "\\;",
                _ => false,
            };
            self.pass(length);
            if token == Token::Semicolon && depth.is_outside() {
                return Ok(statement);
            }
        }
        depth.unclosed().map_or(Ok(statement), Err)
    }

    fn peek(&self) -> Result<(Token, usize), Fault> {
        sql_token::first(&self.text[self.at..])
            .map_err(|unclosed| not_closed(self.line, &unclosed.0))
    }

    fn pass(&mut self, length: usize) {
        let passed = &self.text.as_bytes()[self.at..self.at + length];
        self.line += passed.iter().filter(|b| **b == b'\n').count();
        self.at += length;
    }
}

fn not_closed(line: usize, begin: &str) -> Fault {
    Fault::new(
        line,
        format!("{begin} is opened here and never closed"),
        "close it; psql would send the rest of the file as one statement",
    )
}

fn command_inside(line: usize) -> Fault {
    Fault::new(
        line,
        "a backslash begins a command of psql, which stands inside a statement here",
        "end the statement with a semicolon and leave the command out",
    )
}

/// How deep inside of parentheses and bodies a place is: the lines on which they begin.
#[derive(Default)]
struct Depth<'a> {
    parentheses: Vec<usize>,
    bodies: Vec<usize>,
    /// The first words since the begin of the statement, in parentheses or not.
    words: Vec<&'a str>,
}

impl<'a> Depth<'a> {
    fn is_outside(&self) -> bool {
        self.parentheses.is_empty() && self.bodies.is_empty()
    }

    /// In a statement that creates a routine, BEGIN opens a body, which END closes; so does CASE
    /// inside of a body.
    fn word(&mut self, word: &'a str, line: usize, statement: &mut Statement<'a>) {
        if self.words.len() < 4 {
            self.words.push(word);
        }
        if !self.parentheses.is_empty() {
            return;
        }
        if let Some(words) = statement.words.last_mut() {
            words.push(word);
        }
        if !creates_routine(&self.words) {
            return;
        }
        let inside = !self.bodies.is_empty();
        let is = |other| word.eq_ignore_ascii_case(other);
        if is("begin") || (inside && is("case")) {
            self.bodies.push(line);
        } else if is("end") {
            self.bodies.pop();
        }
    }

    fn unclosed(&self) -> Option<Fault> {
        let parenthesis = self.parentheses.first().map(|line| not_closed(*line, "("));
        let body = || self.bodies.first().map(|line| not_closed(*line, "BEGIN"));
        parenthesis.or_else(body)
    }
}

/// `CREATE [OR REPLACE] {FUNCTION | PROCEDURE}`.
fn creates_routine(words: &[&str]) -> bool {
    let is = |index: usize, other| {
        let word = words.get(index);
        word.is_some_and(|word: &&str| word.eq_ignore_ascii_case(other))
    };
    let routine = |index| is(index, "function") || is(index, "procedure");
    is(0, "create") && (routine(1) || (is(1, "or") && is(2, "replace") && routine(3)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The statements of a text with their lines.
    fn statements(text: &str) -> Vec<(usize, &str)> {
        let parts = parts(text).map(|part| part.unwrap());
        let statements = parts.filter(|part| matches!(part.kind, Kind::Statement(_)));
        statements.map(|part| (part.line, part.text)).collect()
    }

    #[test]
    fn a_semicolon_ends_a_statement_only_outside() {
        let whole = [
            "select ';', \";\", $$;$$, (select 1;), /* ; */ 2 -- ;\n;",
            "create rule r as on insert to t do (insert into u values (1); select 2);",
            "create or replace function f() returns int begin atomic select case when true then 1 \
             end; select 2; end;",
            "CREATE PROCEDURE p() LANGUAGE sql BEGIN ATOMIC; INSERT INTO t VALUES (1); END;",
            "select 1 \\; select 2;",
        ];
        for text in whole {
            assert_eq!(statements(text), [(1, text)]);
        }
        let text = "begin; select 1; end;\ncreate function f() returns int as $$ begin; $$;\n\n x";
        assert_eq!(
            statements(text),
            [
                (1, "begin;"),
                (1, "select 1;"),
                (1, "end;"),
                (2, "create function f() returns int as $$ begin; $$;"),
                (4, "x")
            ]
        );
    }

    #[test]
    fn a_comment_ahead_of_a_statement_is_no_part_of_it_but_a_hint_is() {
        let text = "/* of */ -- no\n/* importance */\n/*+ SeqScan(t) */ select /* b */ 1;";
        assert_eq!(
            statements(text),
            [(3, "/*+ SeqScan(t) */ select /* b */ 1;")]
        );
    }

    #[test]
    fn what_is_not_closed_is_named_by_its_line() {
        let all = [
            ("select 1;\nselect 'a", 2, "'"),
            ("select (\n1, (2)\n;", 1, "("),
            ("\n/* ", 2, "/*"),
            ("create function f()\nbegin atomic select 1;", 2, "BEGIN"),
        ];
        for (text, line, begin) in all {
            let fault = parts(text).find_map(Result::err).unwrap();
            assert_eq!(fault, not_closed(line, begin), "{text}");
        }
    }

    #[test]
    fn a_command_inside_a_statement_is_named_by_its_line() {
        let fault = parts("select 1\n\\gexec\n").find_map(Result::err).unwrap();
        assert_eq!(fault, command_inside(2));
    }

    proptest! {
        #[test]
        fn the_parts_of_any_text_are_the_text(
            pieces in prop::collection::vec(prop::sample::select(PIECES), 0..60),
            noise in ".{0,20}",
        ) {
            let text = pieces.concat() + &noise + &pieces.concat();
            let read: Vec<_> = parts(&text).collect();
            prop_assert!(read.iter().rev().skip(1).all(Result::is_ok));
            let whole = read.iter().all(Result::is_ok);
            let read: Vec<Part<'_>> = read.into_iter().filter_map(Result::ok).collect();
            let joined: String = read.iter().map(|part| part.text).collect();
            prop_assert!(text.starts_with(&joined));
            prop_assert!(!whole || joined == text);
            for part in read {
                let before = joined.len() - text[part_at(&text, part.text)..joined.len()].len();
                prop_assert_eq!(part.line, 1 + text[..before].matches('\n').count());
            }
        }
    }

    /// Where in a text a slice of it begins.
    fn part_at(text: &str, part: &str) -> usize {
        part.as_ptr() as usize - text.as_ptr() as usize
    }

    const PIECES: &[&str] = &[
        "'",
        "''",
        "\"",
        "E'",
        "\\",
        "\\'",
        "\\;",
        ";",
        "(",
        ")",
        "$$",
        "$a$",
        "$",
        "--",
        "/*",
        "*/",
        "\n",
        " ",
        "ä",
        "1",
        "u&'",
        "create ",
        "or replace ",
        "function ",
        "procedure ",
        "begin ",
        "end ",
        "case ",
        "select ",
        "\r",
        "\u{feff}",
        "\\.",
        "-- @order 1\n",
    ];
}
