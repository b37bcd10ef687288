//! A memory cgroup for one process, with far less in it than any process needs, so that the kernel ends it. Only who may make
//! cgroups can have one.

use nix::unistd::Pid;
use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

const NAME: &str = "rallypoint-campaign-";
/// What a process has had before it comes here is not counted.
const LIMIT: &str = "262144";

/// Where cgroups are made, the file that limits them, the one that limits swap, the one that counts who was ended.
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
pub(crate) struct Trap {
    folder: PathBuf,
    /// Says how many processes were ended.
    count: PathBuf,
}

impl Trap {
    /// `None`: we may not make any.
    pub(crate) fn set() -> Option<Trap> {
        VERSIONS.into_iter().find_map(Trap::of)
    }

    fn of([place, limit, swap, count]: [&str; 4]) -> Option<Trap> {
        sweep(Path::new(place));
        let folder = Path::new(place).join(format!(
            "{NAME}{}-{}",
            process::id(),
            NEXT.fetch_add(1, Relaxed)
        ));
        fs::create_dir(&folder).ok()?;
        let trap = Trap {
            count: folder.join(count),
            folder,
        };
        fs::write(trap.folder.join(limit), LIMIT).ok()?;
        // Not everywhere is swap counted.
        let _ = fs::write(
            trap.folder.join(swap),
            if limit == "memory.max" { "0" } else { LIMIT },
        );
        Some(trap)
    }

    /// Puts a process into it.
    pub(crate) fn catch(&self, pid: Pid) -> io::Result<()> {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string())
    }

    /// How many processes the kernel has ended in it, by its own count.
    pub(crate) fn kills(&self) -> u64 {
        let count = fs::read_to_string(&self.count).unwrap_or_default();
        count
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
            .unwrap_or(0)
    }
}

impl Drop for Trap {
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
