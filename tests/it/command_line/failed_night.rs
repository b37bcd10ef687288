//! `docs/failed-night.md`: what it says is done, and what is printed is what it shows, but for
//! times, handles and process ids.

use crate::harness::{
    conversation::WAIT_TIMEOUT,
    page::{ACCOUNT, alike, blocks, commands},
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
            match command.split(' ').collect::<Vec<_>>()[..] {
                ["psql", ..] => drop(payroll.take().expect("it is ended once").close().await),
                ["rallypoint", "serve", ..] => far.restart().expect("started again"),
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

fn run(server: &str, folder: &Path, command: &str) -> String {
    let command = command.replacen("rallypoint", &format!("'{PROGRAM}'"), 1);
    let output = Command::new("sh")
        .args(["-c", &format!("{command} 2>&1")])
        .env("RALLYPOINT_SERVER", server)
        .env("USER", ACCOUNT)
        .current_dir(folder)
        .output()
        .expect("it runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
