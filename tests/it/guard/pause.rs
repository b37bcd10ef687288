//! `docs/guard.md`: what it says is done, with processes that are suspended, and what is printed is
//! what it shows.

use super::run;
use crate::harness::{
    page::{self, Shell, alike, blocks, commands},
    postgres::{POSTGRES, connect},
    server::Server,
};
use rallypoint::postgres::{SUPERUSER, TARGET};
use std::{fs, path::Path};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/guard");

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_was_suspended_writes_with_a_lease_and_not_with_the_guard() {
    let server = Server::start().await;
    let page = page::read("guard.md");
    let database = server.app.get_database().expect("a database").to_owned();
    let shell = Shell::new(&server.url, &database, EXAMPLES);
    let url = POSTGRES.url_for(&database, TARGET);
    let config = format!("[targets.app]\nurl = '{url}'\n");
    fs::write(shell.folder().join("rallypoint.toml"), config).expect("written");
    let administrator = POSTGRES.url_for(&database, SUPERUSER);
    for block in blocks(&page, "console") {
        for (command, shown) in commands(&block) {
            let url = format!("'{administrator}'");
            let called = command.replace("postgres://postgres@db/app", &url);
            let printed = shell.run(&called);
            assert_eq!(alike(&printed), alike(&shown), "{command}");
        }
    }
    let texts = blocks(&page, "sql");
    for (text, file) in texts.iter().zip(["plain.sql", "guarded.sql"]) {
        let example = fs::read_to_string(Path::new(EXAMPLES).join(file));
        assert_eq!(*text, example.expect("a file"), "{file}");
    }
    let mut writer = connect(&server.app).await;
    run(&mut writer, &texts[2]).await.expect("the trigger");
    let refused = run(&mut writer, "truncate orders").await;
    assert_eq!(refused.expect_err("no token").0, "RP004");
}
