//! A memory cgroup for one process, with far less memory than any process needs, so that the kernel
//! ends it. It needs the right to make cgroups.

use nix::unistd::Pid;
use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

const NAME: &str = "rallypoint-campaign-";
/// In bytes. What a process had before it was added is not counted.
const LIMIT: &str = "262144";

/// For each version of cgroups: the folder, and the files that limit memory, limit swap, and count
/// the processes that were ended.
const VERSIONS: [[&str; 4]; 2] = [
    [
        "/sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.memsw.limit_in_bytes",
        "memory.oom_control",
    ],
    [
        "/sys/fs/cgroup",
        "memory.max",
        "memory.swap.max",
        "memory.events",
    ],
];

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A cgroup. Gone when dropped.
#[derive(Debug)]
pub(crate) struct MemoryCgroup {
    folder: PathBuf,
    /// Says how many processes were ended.
    count: PathBuf,
}

impl MemoryCgroup {
    /// Makes a cgroup; `None`: we may not.
    pub(crate) fn create() -> Option<MemoryCgroup> {
        VERSIONS.into_iter().find_map(MemoryCgroup::of)
    }

    fn of([place, limit, swap, count]: [&str; 4]) -> Option<MemoryCgroup> {
        sweep(Path::new(place));
        let folder = Path::new(place).join(format!(
            "{NAME}{}-{}",
            process::id(),
            NEXT.fetch_add(1, Relaxed)
        ));
        fs::create_dir(&folder).ok()?;
        let cgroup = MemoryCgroup {
            count: folder.join(count),
            folder,
        };
        fs::write(cgroup.folder.join(limit), LIMIT).ok()?;
        // Swap is not counted everywhere.
        let _ = fs::write(
            cgroup.folder.join(swap),
            if limit == "memory.max" { "0" } else { LIMIT },
        );
        Some(cgroup)
    }

    /// Moves a process into it.
    pub(crate) fn add(&self, pid: Pid) -> io::Result<()> {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string())
    }

    /// The number of processes in it that the kernel has ended, by its own count.
    pub(crate) fn kills(&self) -> u64 {
        let count = fs::read_to_string(&self.count).unwrap_or_default();
        count
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
            .unwrap_or(0)
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Removes the cgroups of campaigns that were killed.
fn sweep(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix(NAME)
            .and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}
