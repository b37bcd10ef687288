//! Files of `order, statement` lines.
//!
//! The first comma ends the order, so the statement may contain commas. Nothing is guessed: a line
//! without an order is an error that names the line.

use crate::cli::error::CliError;
use std::{io::Read, path::Path};

/// One task of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Its order; `None`: no order.
    pub order: Option<i64>,
    pub statement: String,
}

/// Reads a file, or stdin for `-`.
pub(super) fn read(path: &Path) -> Result<Vec<Line>, CliError> {
    let name = if path.as_os_str() == "-" {
        "stdin".to_owned()
    } else {
        path.display().to_string()
    };
    let text = match name.as_str() {
        "stdin" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        }
        _ => std::fs::read_to_string(path),
    };
    let text = text.map_err(|error| CliError::new(format!("cannot read {name}")).why(error))?;
    parse(&text).map_err(|(number, why)| {
        CliError::new(format!("{name}, line {number} is not `order, statement`"))
            .why(why)
            .next("write `100, select 1`, or `, select 1` for a task without an order")
    })
}

/// The tasks of a text, or the first malformed line: its number and what is wrong.
fn parse(text: &str) -> Result<Vec<Line>, (usize, String)> {
    let lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()));
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| one(line).map_err(|why| (number, why)))
        .collect()
}

fn one(line: &str) -> Result<Line, String> {
    let (order, statement) = line.split_once(',').ok_or("there is no comma")?;
    let (order, statement) = (order.trim(), statement.trim());
    if statement.is_empty() {
        return Err("there is no statement after the comma".to_owned());
    }
    let order = match order {
        "" => None,
        order => Some(
            order
                .parse::<i64>()
                .map_err(|_| format!("`{order}` is not an order: it must be a whole number"))?,
        ),
    };
    Ok(Line {
        order,
        statement: statement.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(order: Option<i64>, statement: &str) -> Line {
        Line {
            order,
            statement: statement.to_owned(),
        }
    }

    #[test]
    fn lines_have_an_order_and_a_statement_that_may_hold_commas() {
        let text = "# nightly\n\n100, select f(1, 2)\n  200,select 3  \n, vacuum\n";
        let lines = parse(text).unwrap();
        assert_eq!(
            lines,
            [
                line(Some(100), "select f(1, 2)"),
                line(Some(200), "select 3"),
                line(None, "vacuum")
            ]
        );
    }

    #[test]
    fn a_bad_line_is_named() {
        assert_eq!(parse("100, select 1\nselect 1").unwrap_err().0, 2);
        assert_eq!(
            parse("select 1, 2").unwrap_err(),
            (
                1,
                "`select 1` is not an order: it must be a whole number".to_owned()
            )
        );
        assert_eq!(parse("\n\n100,").unwrap_err().0, 3);
    }
}
