//! Reads the logs of both Postgres while they are written, and writes into the history when one
//! crashes or is stopped, by the clock that no fault can set. The plan has most of them do so;
//! a crash that it has not brought about accuses nobody.

use crate::{
    fixture::Fixture,
    history::{Entry, now},
};
use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::time::sleep;

const READ_INTERVAL: Duration = Duration::from_millis(50);
/// A line with one of these tells of a crash or a stop, or why there is one.
const CRASHES: [&str; 9] = [
    "PANIC:",
    "Assertion",
    "futex facility",
    "*** ",
    "terminated by signal",
    "reinitializing",
    "received fast shutdown",
    "received immediate shutdown",
    "was not properly shut down",
];

/// What is read of a log.
struct Log {
    path: PathBuf,
    /// Up to here it is read.
    read: u64,
}

/// Watches both for ever.
pub(crate) async fn watch(fixture: Arc<Fixture>) {
    let databases = fixture.databases().into_iter();
    let mut logs: Vec<(&str, Log)> = databases
        .map(|database| (database.name, Log::new(database.log())))
        .collect();
    loop {
        for (database, log) in &mut logs {
            for line in log.crashes().unwrap_or_default() {
                let database = database.to_string();
                let at = now();
                fixture.history.write(&Entry::Crash { database, at, line });
            }
        }
        sleep(READ_INTERVAL).await;
    }
}

impl Log {
    fn new(path: PathBuf) -> Log {
        Log { path, read: 0 }
    }

    /// The lines that were written since and tell of a crash.
    fn crashes(&mut self) -> std::io::Result<Vec<String>> {
        let mut file = File::open(&self.path)?;
        if file.metadata()?.len() < self.read {
            // It was begun anew.
            self.read = 0;
        }
        file.seek(SeekFrom::Start(self.read))?;
        let mut new = Vec::new();
        file.read_to_end(&mut new)?;
        // The last line may not be whole yet.
        let whole = new.iter().rposition(|byte| *byte == b'\n');
        new.truncate(whole.map_or(0, |at| at + 1));
        self.read += new.len() as u64;
        let new = String::from_utf8_lossy(&new);
        let crashes = new
            .lines()
            .filter(|line| CRASHES.iter().any(|crash| line.contains(crash)));
        Ok(crashes.map(str::to_owned).collect())
    }
}

#[test]
fn a_log_is_read_once_line_by_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("postgres.log");
    let mut log = Log::new(path.clone());
    let mut written = String::new();
    let mut read = |more: &str, log: &mut Log| {
        written.push_str(more);
        std::fs::write(&path, &written).expect("a log");
        log.crashes().expect("lines")
    };
    assert!(
        read(
            "LOG:  ready\nLOG:  server process (PID 7) was termi",
            &mut log
        )
        .is_empty()
    );
    let crash = "LOG:  server process (PID 7) was terminated by signal 9: Killed";
    assert_eq!(read("nated by signal 9: Killed\n", &mut log), [crash]);
    assert!(read("LOG:  ready\n", &mut log).is_empty());
    std::fs::write(&path, "LOG:  received fast shutdown request\n").expect("a log");
    assert_eq!(log.crashes().expect("lines").len(), 1);
}
