//! `docs/failed-night.md`: what it says is done, and what is printed is what it shows, but for
//! times, handles and process ids.

use crate::harness::{
    conversation::WAIT_TIMEOUT,
    postgres::{connect, start},
    process::PROGRAM,
    server::{Server, Setup},
};
use sqlx::{Connection, Executor};
use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};
use tokio::time::sleep;

const PAGE: &str = include_str!("../../../docs/failed-night.md");
const STAGED: &str = "create table staged (id int, region text, amount numeric, share numeric);
    insert into staged values (1, 'north', 10), (2, 'south', 0);
    create table price (id int, valid_until date);
    insert into price values (1, null)";
const LOCKING: &str = "set application_name = 'payroll'; begin; update price set id = 2";

#[tokio::test(flavor = "multi_thread")]
async fn a_night_that_failed_is_repaired_as_the_page_says() {
    let far = start(Vec::new());
    let server = Server::with(Setup {
        far: Some(&far),
        ..Setup::default()
    })
    .await;
    let folder = tempfile::tempdir().expect("a folder");
    let page = PAGE.replace("dw", "far");
    let night = blocks(&page, "sql").remove(0);
    fs::write(folder.path().join("night.sql"), night).expect("written");
    connect(&server.app)
        .await
        .execute(STAGED)
        .await
        .expect("staged");
    let mut payroll = connect(&server.app).await;
    payroll.execute(LOCKING).await.expect("locked");
    let mut payroll = Some(payroll);
    let made = "rallypoint exec --target far 'create table day_total (day date, amount numeric)'";
    run(&server.url, folder.path(), made);
    far.stop();
    for block in blocks(&page, "console") {
        for (command, shown) in commands(&block) {
            match command.split(' ').next() {
                Some("psql") => drop(payroll.take().expect("it is ended once").close().await),
                Some("systemctl") => far.restart().expect("started again"),
                _ => {
                    let call = || alike(&run(&server.url, folder.path(), command));
                    let (mut printed, shown) = (call(), alike(&shown));
                    // What is on its way at first.
                    let begun = Instant::now();
                    while printed != shown
                        && command.contains(" explain ")
                        && begun.elapsed() < WAIT_TIMEOUT
                    {
                        sleep(Duration::from_millis(50)).await;
                        printed = call();
                    }
                    assert_eq!(printed, shown, "{command}");
                }
            }
        }
    }
}

/// The blocks of a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let begin = format!("```{language}\n");
    let blocks = page.split(&begin).skip(1);
    let inside = blocks.filter_map(|rest| rest.split("```").next());
    inside.map(str::to_owned).collect()
}

/// Each command of a block, and what it prints.
fn commands(block: &str) -> Vec<(&str, String)> {
    let commands = block.split("$ ").filter(|text| !text.is_empty());
    let parts = commands.map(|text| text.split_once('\n').unwrap_or((text, "")));
    parts
        .map(|(command, shown)| (command, shown.to_owned()))
        .collect()
}

fn run(server: &str, folder: &Path, command: &str) -> String {
    let command = command.replacen("rallypoint", &format!("'{PROGRAM}'"), 1);
    let output = Command::new("sh")
        .args(["-c", &format!("{command} 2>&1")])
        .env("RALLYPOINT_SERVER", server)
        .current_dir(folder)
        .output()
        .expect("it runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The lines without what differs from run to run, and in whatever sequence: tasks of one order end
/// in any.
fn alike(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(line).collect();
    lines.sort();
    lines
}

fn line(text: &str) -> String {
    let text = text.replace("replica test", "replica a");
    let text = match text.split_once(" since 20") {
        Some((said, _)) => said,
        None => &text,
    };
    let words = text.split_whitespace().filter(|word| !is_time(word));
    words.map(word).collect::<Vec<_>>().join(" ")
}

/// A number with a unit, or one with a fraction.
fn is_time(word: &str) -> bool {
    let number = word.trim_end_matches([',', 's', 'm', 'h']);
    word == "s" || (number != word || word.contains('.')) && number.parse::<f64>().is_ok()
}

/// A word without numbers that differ: handles, ports, process ids, and places among events.
fn word(word: &str) -> String {
    let differs = |part: &str| part.len() > 2 && part.bytes().any(|byte| byte.is_ascii_digit());
    match word.split_once('/') {
        Some((at, all)) if at.parse::<u32>().is_ok() => format!("N/{all}"),
        Some((handle, rest)) if differs(handle) => format!("N/{rest}"),
        _ if differs(word) => "N".to_owned(),
        _ => word.to_owned(),
    }
}
