//! Memory and processor time of a server process, as the kernel counts them.

use anyhow::{Context, Result};
use std::fs;

/// Clock ticks per second of `/proc/PID/stat`: a constant of Linux' interface.
const TICKS: f64 = 100.0;

/// The usage at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Resident memory in bytes.
    pub resident: f64,
    /// Peak resident memory in bytes.
    pub peak: f64,
    /// Processor time so far, in seconds.
    pub processor: f64,
}

impl Usage {
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Ok(Usage {
            // A process that is about to end has no memory any more.
            resident: kibibytes(&status, "VmRSS:").unwrap_or(0.0) * 1024.0,
            peak: kibibytes(&status, "VmHWM:").unwrap_or(0.0) * 1024.0,
            processor: processor(&stat).context("/proc/PID/stat is malformed")?,
        })
    }

    /// Resident memory in MiB.
    pub(crate) fn mib(&self) -> f64 {
        self.resident / f64::from(1 << 20)
    }

    /// Peak resident memory in MiB.
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

/// User and system time. The program name before them may contain anything; it ends at the last
/// bracket.
pub(crate) fn processor(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS)
}
