//! One task: why it does not run or what holds it up, its attempts, and what came of it.

use super::{
    parts::{Look, Page, badge, facts, name_of, or_dash, plain, quiet, section, task_state, word},
    why,
};
use crate::cli::{
    enum_text, tasks,
    time_text::micros,
    top::{
        grid::{Column, Grid, column},
        place::Place,
        seen::OneTask,
        subject::Subject,
        text::{Kind, Piece, Row, Tone, lines},
        units::{ago, at, counted, first_line, labels, lasting, number, span},
    },
};
use rallypoint_client::api::{
    Attempt, Outcome, SchedulerState, SqlTask, TaskError, TaskView, sql_value, task,
};

/// Rows of a result that are shown.
const RESULT_ROWS: usize = 100;

pub(super) fn page(seen: &OneTask, look: &Look) -> Page {
    let OneTask {
        scheduler,
        task,
        explained,
        attempts,
        ..
    } = seen;
    let is_open = scheduler.state() == SchedulerState::Open;
    let mut rows = vec![summary(task, look)];
    rows.extend(retries(task));
    rows.push(Row::blank());
    rows.extend(why::rows(explained, look));
    let sql = match task.task.as_ref().and_then(|task| task.kind.as_ref()) {
        Some(task::Kind::Sql(sql)) => Some(sql),
        _ => None,
    };
    if let Some(done) = &task.done {
        let failed = done
            .error
            .as_ref()
            .filter(|_| done.outcome() != Outcome::Succeeded);
        rows.extend(failed.into_iter().flat_map(|said| error(said, sql, look)));
        rows.extend(result(task, look));
    }
    rows.extend(tried(attempts, look));
    let notices = task.done.as_ref().map_or("", |done| done.notices.as_str());
    if !notices.is_empty() {
        rows.push(Row::head("Notices", ""));
        rows.extend(lines(notices, look.width, Tone::Plain));
        rows.push(Row::blank());
    }
    rows.extend(submitted(task, sql, look));
    let seq = task.id.as_ref().map_or(0, |id| id.seq);
    let name = tasks::name(task).map_or_else(String::new, |name| format!(": {name}"));
    Page {
        title: format!("task {seq}{name} of {}", name_of(scheduler)),
        is_text: true,
        rows,
        subjects: vec![Subject::task(task, is_open)],
        ..Page::default()
    }
}

fn summary(task: &TaskView, look: &Look) -> Row {
    let order = match task.effective_order {
        None => "without an order".to_owned(),
        Some(order) => format!("order {order}"),
    };
    let by = task
        .submitted_by
        .as_ref()
        .map_or_else(String::new, |by| format!(" by {by}"));
    let mut text = format!(
        "  {order} · submitted {}{by}",
        ago(task.submitted_at.as_ref(), look.now)
    );
    if let Some(done) = task.done.as_ref().filter(|done| done.started_us > 0) {
        text.push_str(&format!(
            " · ran for {}",
            span(done.ended_us - done.started_us)
        ));
    }
    Row {
        kind: Kind::Head,
        ..Row::new(vec![task_state(task), quiet(text)])
    }
}

fn retries(task: &TaskView) -> Vec<Row> {
    let handle = task.id.clone().unwrap_or_default().handle;
    let row = |text: String, seq: i64| {
        Row::of(text, Tone::Plain)
            .keyed(format!("retry {seq}"))
            .to(Place::Task(handle.clone(), seq))
    };
    let after = task
        .retried_as
        .map(|seq| row(format!("It was retried as task {seq}."), seq));
    let before = task
        .retry_of
        .map(|seq| row(format!("It is a retry of task {seq}."), seq));
    after.into_iter().chain(before).collect()
}

fn error(said: &TaskError, sql: Option<&SqlTask>, look: &Look) -> Vec<Row> {
    let mut rows = vec![Row::head("Error", &said.code)];
    rows.extend(lines(&said.message, look.width, Tone::Bad));
    if !said.constraint.is_empty() {
        rows.push(Row::fact("constraint", &said.constraint));
    }
    if let Some((position, sql)) = said.position.zip(sql) {
        rows.extend(marked(&sql.statement, position, look));
    }
    rows.push(Row::blank());
    rows
}

/// The line of the statement at fault, with a mark below the place.
fn marked(statement: &str, position: i32, look: &Look) -> Vec<Row> {
    let before = usize::try_from(position).unwrap_or(0).saturating_sub(1);
    let head: String = statement.chars().take(before).collect();
    let number = head.matches('\n').count();
    let Some(line) = statement.lines().nth(number) else {
        return Vec::new();
    };
    let column = head.rsplit('\n').next().unwrap_or_default().chars().count();
    // A long line is shown from a little before the place.
    let from = column.saturating_sub(look.width / 2);
    let shown: String = line.replace('\t', " ").chars().skip(from).collect();
    let label = format!("line {}: ", number + 1);
    let pad = " ".repeat(label.chars().count() + column - from);
    vec![
        Row::new(vec![quiet(label), plain(shown)]),
        Row::new(vec![plain(pad), Piece::new("^", Tone::Bad)]),
    ]
}

fn result(task: &TaskView, look: &Look) -> Vec<Row> {
    let Some((done, result)) = task
        .done
        .as_ref()
        .and_then(|done| Some((done, done.result.as_ref()?)))
    else {
        return Vec::new();
    };
    let affected = counted(result.rows_affected, "row");
    let more = if result.truncated {
        ", not all are stored"
    } else {
        ""
    };
    let mut rows = vec![Row::head("Result", &format!("{affected}{more}"))];
    let values: Vec<serde_json::Value> =
        serde_json::from_str(&result.rows_json).unwrap_or_default();
    match result.rows_json.as_str() {
        "" if done.rows_omitted => rows.push(Row::of(
            "The rows are too large to be shown here.",
            Tone::Quiet,
        )),
        "" => {
            let text = "No rows are stored. To have some, submit with result_rows.";
            rows.push(Row::of(text, Tone::Quiet));
        }
        // Cut off in the middle: as text.
        text if values.is_empty() => rows.extend(lines(text, look.width, Tone::Plain)),
        _ => {
            let shown = values.iter().take(RESULT_ROWS);
            rows.extend(shown.flat_map(|row| lines(&row.to_string(), look.width, Tone::Plain)));
            if values.len() > RESULT_ROWS {
                let rest = number((values.len() - RESULT_ROWS) as i64);
                rows.push(Row::of(format!("… and {rest} more"), Tone::Quiet));
            }
        }
    }
    rows.push(Row::blank());
    rows
}

fn tried(attempts: &[Attempt], look: &Look) -> Vec<Row> {
    const COLUMNS: &[Column] = &[
        Column::number("attempt"),
        column("state"),
        column("started"),
        Column::number("lasted"),
        Column::text("where", 8),
        Column::number("pid"),
        Column::text("error", 12),
    ];
    if attempts.is_empty() {
        return Vec::new();
    }
    let mut grid = Grid::new(COLUMNS);
    for one in attempts.iter().rev() {
        let start = micros(one.started_at.as_ref());
        let end = one
            .ended_at
            .as_ref()
            .map_or(look.now, |end| micros(Some(end)));
        let lasted = if start > 0 {
            span(end - start)
        } else {
            String::new()
        };
        let place = match one.replica.as_str() {
            "" => String::new(),
            replica => format!("{replica}, slot {}", one.slot),
        };
        let pid = if one.backend_pid == 0 {
            String::new()
        } else {
            one.backend_pid.to_string()
        };
        let error = one.error.as_ref().map_or_else(String::new, |error| {
            format!("{} {}", error.code, first_line(&error.message))
        });
        let cells = vec![
            plain(one.attempt.to_string()),
            badge(enum_text::attempt_state(one.state())),
            or_dash(at(one.started_at.as_ref(), look.now)),
            or_dash(lasted),
            or_dash(place),
            or_dash(pid),
            Piece::new(error, Tone::Bad),
        ];
        grid.row(
            Row::new(Vec::new()).keyed(format!("attempt {}", one.attempt)),
            cells,
        );
    }
    section("Attempts", "newest first", grid, "", look)
}

fn submitted(task: &TaskView, sql: Option<&SqlTask>, look: &Look) -> Vec<Row> {
    let mut rows = vec![Row::head("As it was submitted", "")];
    let Some(sql) = sql else {
        rows.push(Row::of(
            "A no-op: it does nothing and succeeds.",
            Tone::Quiet,
        ));
        return rows;
    };
    rows.extend(lines(&sql.statement, look.width, Tone::Plain));
    for (index, value) in sql.params.iter().enumerate() {
        let text = match &value.kind {
            Some(sql_value::Kind::Text(text)) => text.as_str(),
            _ => "null",
        };
        rows.push(Row::fact(&format!("${}", index + 1), text));
    }
    rows.push(Row::blank());
    rows.extend(options(task, sql, look));
    rows
}

/// How it is to be run.
fn options(task: &TaskView, sql: &SqlTask, look: &Look) -> Vec<Row> {
    let mut rows = Vec::new();
    let options = task
        .task
        .as_ref()
        .and_then(|task| task.options.clone())
        .unwrap_or_default();
    let session = options.session.clone().unwrap_or_default();
    let attempts = options.retry.as_ref().and_then(|retry| retry.max_attempts);
    let target = if sql.target.is_empty() {
        "app"
    } else {
        &sql.target
    };
    rows.extend(facts([
        ("target", target.to_owned()),
        ("not before", at(options.not_before.as_ref(), look.now)),
        ("timeout", lasting(options.timeout.as_ref())),
        ("total timeout", lasting(options.total_timeout.as_ref())),
        (
            "attempts",
            attempts.map_or_else(String::new, |most| format!("up to {most}")),
        ),
        (
            "delivery",
            word(options.delivery().as_str_name(), "DELIVERY"),
        ),
        ("role", session.role.unwrap_or_default()),
        ("search path", session.search_path.join(", ")),
        ("labels", labels(&options.labels)),
    ]));
    for one in &options.resources {
        let mode = word(one.mode().as_str_name(), "RESOURCE_MODE");
        let row = Row::fact("resource", format!("{} {mode}", one.name));
        rows.push(
            row.keyed(format!("uses {}", one.name))
                .to(Place::Resource(one.name.clone())),
        );
    }
    rows
}
