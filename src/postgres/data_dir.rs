//! The directory of a private Postgres, with its data, log, lock and socket.
//!
//! The holder of the lock owns the directory. A temporary directory whose lock is free is
//! abandoned, and the next private Postgres removes it.

use super::{account::Account, stale_server};
use anyhow::{Context, Result, bail};
use nix::unistd::geteuid;
use std::{
    env,
    fs::{self, File, OpenOptions, TryLockError},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

/// The kernel allows 107 bytes for the path of a socket, of which Postgres adds 14.
const MAX_SOCKET_DIR_BYTES: usize = 85;
const TEMPORARY: &str = "rallypoint-pg-";
const LOCK: &str = "owner.lock";

/// A locked directory.
pub(crate) struct DataDir {
    base: PathBuf,
    socket: PathBuf,
    temporary: bool,
    /// Held as long as this value exists.
    _lock: File,
}

/// Default location of the data in the zero-setup mode.
pub fn default_data_dir() -> PathBuf {
    if geteuid().is_root() {
        return "/var/lib/rallypoint/postgres".into();
    }
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_else(|| "/var/tmp".into()));
    let state =
        env::var_os("XDG_STATE_HOME").map_or_else(|| home().join(".local/state"), PathBuf::from);
    state.join("rallypoint/postgres")
}

impl DataDir {
    /// The directory `dir`, made if it does not exist.
    pub(crate) fn persistent(dir: &Path, account: &Account) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| {
            format!("cannot create {}: choose another --data-dir", dir.display())
        })?;
        let base = fs::canonicalize(dir)?;
        check_ours(&base)?;
        account.check_reach(&base)?;
        let lock = lock(&base)?;
        account.own(&base)?;
        stale_server::end(&base.join("data"), true);
        let socket = if base.as_os_str().len() <= MAX_SOCKET_DIR_BYTES {
            base.clone()
        } else {
            socket_elsewhere(&base, account)?
        };
        Ok(DataDir {
            base,
            socket,
            temporary: false,
            _lock: lock,
        })
    }

    /// A new directory, removed when dropped. Removes abandoned ones first.
    pub(crate) fn temporary(account: &Account) -> Result<Self> {
        let root = temporary_root();
        sweep(&root, account);
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "{}-{}",
            process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed)
        );
        let hidden = root.join(format!(".{TEMPORARY}{name}"));
        let base = root.join(format!("{TEMPORARY}{name}"));
        fs::create_dir(&hidden).with_context(|| not_created(&hidden))?;
        let lock = lock(&hidden)?;
        account.own(&hidden)?;
        // Renamed only once it is locked: the sweep removes unlocked directories of that name.
        fs::rename(&hidden, &base)?;
        Ok(DataDir {
            socket: base.clone(),
            base,
            temporary: true,
            _lock: lock,
        })
    }

    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.base.join("data")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.base.join("postgres.log")
    }

    pub(crate) fn socket_dir(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.temporary
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        let gone = if self.temporary {
            &self.base
        } else {
            &self.socket
        };
        if self.temporary || self.socket != self.base {
            // Best effort: the rest is swept later.
            let _ = fs::remove_dir_all(gone);
        }
    }
}

/// Parent of temporary directories and the template. A long `TMPDIR` would leave no room for the
/// path of a socket.
pub(crate) fn temporary_root() -> PathBuf {
    let root = env::temp_dir();
    if root.as_os_str().len() <= MAX_SOCKET_DIR_BYTES - 30 {
        root
    } else {
        "/tmp".into()
    }
}

pub(super) fn not_created(temporary: &Path) -> String {
    let path = temporary.display();
    format!("cannot create {path}: let TMPDIR name a directory in which this account may")
}

/// Somebody else has made a directory of the name that ours has.
pub(super) fn foreign(temporary: &Path) -> String {
    let path = temporary.display();
    format!("{path} belongs to another account: remove it, or let TMPDIR name another directory")
}

/// Refuses a directory that holds anything and was never one of ours: it would be closed to
/// everybody else.
fn check_ours(dir: &Path) -> Result<()> {
    if dir.join(LOCK).exists() {
        return Ok(());
    }
    // A new volume is not quite empty.
    let foreign = |name: &std::ffi::OsStr| name != "lost+found";
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    match entries.flatten().find(|entry| foreign(&entry.file_name())) {
        Some(entry) => bail!(
            "{} is not empty and was not made by Rallypoint (it holds {}): \
             name an empty or a new directory with --data-dir",
            dir.display(),
            entry.file_name().to_string_lossy()
        ),
        None => Ok(()),
    }
}

fn lock(dir: &Path) -> Result<File> {
    let path = dir.join(LOCK);
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)?;
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0)?;
            write!(file, "{}", process::id())?;
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let owner = fs::read_to_string(&path).unwrap_or_default();
            bail!(
                "{} is in use by another Rallypoint (process {owner}): stop it, or choose another \
                 --data-dir",
                dir.display()
            )
        }
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

/// A short path for the socket when that of the data is long; the same at every start.
fn socket_elsewhere(base: &Path, account: &Account) -> Result<PathBuf> {
    let number = base
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let dir = temporary_root().join(format!("rallypoint-socket-{number:016x}"));
    match fs::create_dir(&dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error)?,
        _ if !account.made(&dir) => bail!(foreign(&dir)),
        _ => account.own(&dir)?,
    }
    Ok(dir)
}

/// Removes the temporary directories of processes that have ended.
fn sweep(root: &Path, account: &Account) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let dir = entry.path();
        let ours = entry.file_name().to_string_lossy().starts_with(TEMPORARY) && account.made(&dir);
        if ours && let Ok(_lock) = lock_again(&dir) {
            stale_server::end(&dir.join("data"), false);
            if let Err(error) = fs::remove_dir_all(&dir) {
                let dir = dir.display();
                tracing::warn!(%dir, %error, "cannot remove the directory of an earlier private Postgres");
            }
        }
    }
}

/// The lock of a directory that was locked before: one without a lock file is not ours to remove.
fn lock_again(dir: &Path) -> Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(dir.join(LOCK))?;
    file.try_lock()?;
    Ok(file)
}
