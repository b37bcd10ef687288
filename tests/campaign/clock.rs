//! The clock of a process, which can be set wrong while it runs: its time of day, as libfaketime
//! gives it. Monotonic clocks stay right, as on a machine whose clock is set.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Where packages put libfaketime: Debian and its like, Fedora and its like.
const FOLDERS: [&str; 2] = ["/usr/lib", "/usr/lib64"];
const FAKETIME: &str = "faketime/libfaketimeMT.so.1";

/// The time of day of one server.
#[derive(Debug)]
pub(crate) struct Clock {
    faketime: PathBuf,
    /// Holds its error.
    file: PathBuf,
}

impl Clock {
    /// A clock that is right; `None`: there is no libfaketime here.
    pub(crate) fn new(file: PathBuf) -> Option<Clock> {
        let clock = Clock {
            faketime: faketime()?,
            file,
        };
        clock.set(0);
        Some(clock)
    }

    /// Makes a program read this clock.
    pub(crate) fn apply_to(&self, command: &mut Command) {
        command.envs(self.environment());
    }

    /// What makes a program read this clock.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let variables = [
            ("LD_PRELOAD", path(&self.faketime)),
            ("FAKETIME_TIMESTAMP_FILE", path(&self.file)),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("NO_FAKE_STAT", "1".to_owned()),
        ];
        let owned = |(name, value): (&str, String)| (name.to_owned(), value);
        variables.into_iter().map(owned).collect()
    }

    /// Sets it `ahead` seconds ahead of the right time, or behind it.
    pub(crate) fn set(&self, ahead: i64) {
        self.set_exactly(ahead as f64);
    }

    /// The same with fractions of a second.
    pub(crate) fn set_exactly(&self, ahead: f64) {
        let next = self.file.with_extension("next");
        fs::write(&next, format!("{ahead:+.6}\n")).expect("a file");
        fs::rename(next, &self.file).expect("a file");
    }
}

/// Where libfaketime is.
pub(crate) fn faketime() -> Option<PathBuf> {
    let below = |place: &str| {
        fs::read_dir(place)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect::<Vec<_>>()
    };
    let folders = FOLDERS
        .iter()
        .flat_map(|place| [vec![PathBuf::from(place)], below(place)].concat());
    folders
        .map(|folder| folder.join(FAKETIME))
        .find(|path| Path::exists(path))
}
