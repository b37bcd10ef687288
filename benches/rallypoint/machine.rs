//! The machine and the versions on which the figures were measured.

use crate::environment::Environment;
use anyhow::Result;
use std::{fmt, fs, process::Command, thread};

/// Hardware and versions.
#[derive(Debug)]
pub(crate) struct Machine {
    pub cores: usize,
    pub memory_gib: f64,
    pub kernel: String,
    pub rust: String,
    pub postgres: String,
    pub commit: String,
}

impl Machine {
    pub(crate) async fn here() -> Result<Self> {
        // Must outlive the query.
        let environment = Environment::new().await?;
        let postgres: String = sqlx::query_scalar("show server_version")
            .fetch_one(&mut environment.admin().await?)
            .await?;
        let changed = output_of("git", &["status", "--porcelain", "--untracked-files=no"]);
        let commit = output_of("git", &["rev-parse", "--short=12", "HEAD"]);
        Ok(Machine {
            cores: thread::available_parallelism()?.get(),
            memory_gib: memory_gib(&fs::read_to_string("/proc/meminfo").unwrap_or_default()),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            rust: output_of("rustc", &["--version"]),
            postgres,
            commit: if changed.is_empty() {
                commit
            } else {
                format!("{commit}, with changes")
            },
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine {
            cores,
            memory_gib,
            kernel,
            rust,
            postgres,
            commit,
        } = self;
        writeln!(
            f,
            "machine: {cores} cores, {memory_gib:.0} GiB of memory, Linux {kernel}  "
        )?;
        writeln!(
            f,
            "versions: Rallypoint {commit}, {rust}, Postgres {postgres}  "
        )
    }
}

/// The output of a program; empty when it cannot be run.
fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default()
}

fn memory_gib(meminfo: &str) -> f64 {
    let total = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|total| total.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or_default() / f64::from(1 << 20)
}
