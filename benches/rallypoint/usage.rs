//! What a server process uses, as the kernel counts it.

use anyhow::{Context, Result};
use std::fs;

/// Clock ticks per second of `/proc/PID/stat`: a constant of Linux' interface.
const TICKS: f64 = 100.0;

/// At one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Bytes of memory resident.
    pub resident: f64,
    /// Most bytes that ever were.
    pub peak: f64,
    /// Seconds of processor time so far.
    pub processor: f64,
}

impl Usage {
    /// Of the process with this id.
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Ok(Usage {
            resident: kibibytes(&status, "VmRSS:")? * 1024.0,
            peak: kibibytes(&status, "VmHWM:")? * 1024.0,
            processor: processor(&stat).context("/proc/PID/stat has another form")?,
        })
    }

    /// Resident memory in MiB.
    pub(crate) fn mib(&self) -> f64 {
        self.resident / f64::from(1 << 20)
    }

    /// The most there ever was, in MiB.
    pub(crate) fn peak_mib(&self) -> f64 {
        self.peak / f64::from(1 << 20)
    }
}

pub(crate) fn kibibytes(status: &str, name: &str) -> Result<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .with_context(|| format!("no {name} in /proc"))?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// User and system time; the name before them may hold anything, and ends with the last bracket.
pub(crate) fn processor(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS)
}
