//! A small disk for the databases alone, which can be filled. Only root can mount one.

use nix::unistd::geteuid;
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{self, Command},
};

const NAME: &str = "rallypoint-campaign-";

/// A mounted disk in memory. Gone when dropped.
pub(crate) struct Disk(PathBuf);

impl Disk {
    /// Mounts a disk; `None`: we may not.
    pub(crate) fn mount(mebibytes: u64) -> Option<Disk> {
        if !geteuid().is_root() {
            return None;
        }
        sweep();
        let path = std::env::temp_dir().join(format!("{NAME}{}", process::id()));
        fs::create_dir(&path).ok()?;
        let disk = Disk(path);
        let options = format!("size={mebibytes}m,mode=0755");
        run(
            "mount",
            &[
                "-t",
                "tmpfs",
                "-o",
                &options,
                "rallypoint",
                &disk.0.to_string_lossy(),
            ],
        )
        .then_some(disk)
    }

    /// Where a Postgres may keep its data.
    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Takes all space that is left; returns the number of bytes.
    pub(crate) fn fill(&self) -> u64 {
        let ballast = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.0.join("ballast"));
        let Ok(mut ballast) = ballast else { return 0 };
        let (piece, mut bytes) = (vec![0_u8; 1 << 20], 0);
        for size in [1 << 20, 1 << 12] {
            while ballast.write_all(&piece[..size]).is_ok() {
                bytes += size as u64;
            }
        }
        bytes
    }

    /// Frees the space again.
    pub(crate) fn free(&self) {
        let _ = fs::remove_file(self.0.join("ballast"));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes the disks of campaigns that were killed.
fn sweep() {
    for entry in fs::read_dir(std::env::temp_dir())
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix(NAME)
            .and_then(|pid| pid.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            remove(&entry.path());
        }
    }
}

fn remove(path: &Path) {
    run("umount", &["--lazy", &path.to_string_lossy()]);
    let _ = fs::remove_dir(path);
}

fn run(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .status()
        .is_ok_and(|status| status.success())
}
