//! Runs the text of one task on a session, in autocommit and without a wrapper.
//!
//! Text and parameters are never logged.

use super::{error::Failure, rows::Rows};
use crate::{core::TaskResult, executor_protocol::Body};
use futures_util::TryStreamExt;
use sqlx::{AssertSqlSafe, Either, PgConnection};
use std::str;

/// Runs a text and collects the first `max_rows` rows of its last statement. When it is dropped
/// before its end, the session must be dropped too.
pub(crate) async fn run(
    session: &mut PgConnection,
    body: &Body,
    max_rows: u32,
) -> Result<TaskResult, Failure> {
    let text = checked(&body.payload)?;
    let Some(params) = &body.params else {
        return stream(session, text.to_owned(), max_rows).await;
    };
    let execute = execute(&parsed(checked(params)?)?);
    prepare(session, text).await?;
    stream(session, execute, max_rows).await
}

/// Uses the simple protocol: any number of statements. Rows beyond `max_rows` are read and dropped.
async fn stream(
    session: &mut PgConnection,
    text: String,
    max_rows: u32,
) -> Result<TaskResult, Failure> {
    let mut rows = Rows::new(max_rows);
    let mut steps = sqlx::raw_sql(AssertSqlSafe(text)).fetch_many(session);
    while let Some(step) = steps.try_next().await? {
        match step {
            Either::Left(ended) => rows.end(ended.rows_affected()),
            Either::Right(row) => rows.add(&row),
        }
    }
    Ok(rows.into_result())
}

/// Prepares the text by SQL, so that Postgres infers the types of the parameters; sent in the
/// extended protocol, so that Postgres refuses a text of several statements.
async fn prepare(session: &mut PgConnection, text: &str) -> Result<(), Failure> {
    let prepare = format!("prepare rallypoint_task as {text}");
    sqlx::query(AssertSqlSafe(prepare))
        .persistent(false)
        .execute(session)
        .await?;
    Ok(())
}

fn execute(params: &[Option<String>]) -> String {
    let literals: Vec<_> = params
        .iter()
        .map(|param| param.as_deref().map_or_else(|| "null".into(), literal))
        .collect();
    let list = if literals.is_empty() {
        String::new()
    } else {
        format!("({})", literals.join(", "))
    };
    format!("execute rallypoint_task{list}")
}

/// The escape form means the same whatever `standard_conforming_strings` says.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

fn parsed(params: &str) -> Result<Vec<Option<String>>, Failure> {
    let params: Vec<Option<String>> = serde_json::from_str(params).map_err(|error| {
        Failure::refused(
            "PARAMS_INVALID",
            format!("not a JSON array of text or null: {error}"),
        )
    })?;
    match params.iter().flatten().any(|text| text.contains('\0')) {
        true => Err(Failure::refused(
            "BODY_NUL",
            "a parameter holds a NUL character, which Postgres does not take",
        )),
        false => Ok(params),
    }
}

fn checked(bytes: &[u8]) -> Result<&str, Failure> {
    match str::from_utf8(bytes) {
        Err(error) => Err(Failure::refused("BODY_NOT_UTF8", error.to_string())),
        Ok(text) if text.contains('\0') => Err(Failure::refused(
            "BODY_NUL",
            "the text holds a NUL character, which Postgres does not take",
        )),
        Ok(text) => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_cannot_leave_their_quotes() {
        assert_eq!(execute(&[]), "execute rallypoint_task");
        let params = [Some(r"a'b\'c".to_owned()), None];
        assert_eq!(
            execute(&params),
            r"execute rallypoint_task(E'a''b\\''c', null)"
        );
    }
}
