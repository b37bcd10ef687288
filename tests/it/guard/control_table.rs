//! `docs/control-table.md`: three resources with limits of their own, and waiters that a control
//! table would let ahead, or delete. What is printed is what the page shows.

use crate::harness::{
    page::{self, Shell, alike, blocks, commands},
    server::Server,
};
use std::fs;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/control-table");

#[tokio::test(flavor = "multi_thread")]
async fn a_control_table_is_replaced_as_the_page_says() {
    let server = Server::start().await;
    let page = page::read("control-table.md");
    let database = server.app.get_database().expect("a database");
    let shell = Shell::new(&server.url, database, EXAMPLES);
    for block in blocks(&page, "console") {
        for (command, shown) in commands(&block) {
            assert_eq!(alike(&shell.run(command)), alike(&shown), "{command}");
        }
    }
    // Whoever was removed while waiting has not run, now that all is free.
    let said = fs::read_to_string(shell.folder().join("bert.log")).expect("a log");
    assert!(!said.contains("bert has the list"), "{said}");
    let night = fs::read_to_string(shell.folder().join("night.sh")).expect("a script");
    assert!(night.contains(&blocks(&page, "sh")[0]), "{night}");
}
