//! Everything that is wrong with a configuration file.

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// What is wrong with a file: a line of text for each fault.
#[derive(Debug)]
pub struct Faults {
    path: PathBuf,
    found: Vec<Fault>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Fault {
    /// From 1.
    pub line: Option<usize>,
    pub what: String,
}

impl Faults {
    pub(super) fn of(path: &Path) -> Self {
        Faults {
            path: path.to_owned(),
            found: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, line: Option<usize>, what: impl Into<String>) {
        let what = what.into();
        self.found.push(Fault { line, what });
    }

    pub(super) fn into_result<T>(self, value: T) -> Result<T, Faults> {
        if self.found.is_empty() {
            Ok(value)
        } else {
            Err(self)
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        for (index, fault) in self.found.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            match fault.line {
                Some(line) => write!(f, "{path} line {line}: {}", fault.what)?,
                None => write!(f, "{path}: {}", fault.what)?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}
