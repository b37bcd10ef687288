//! The account the server runs under. Postgres refuses to run as root, so root uses another
//! account.

use anyhow::{Context, Result, bail};
use nix::unistd::{User, chown, geteuid};
use std::{
    fs::{self, Permissions},
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::Path,
    process::Command,
};

/// The account that owns the server's processes and files.
pub(super) struct Account {
    user: User,
    /// We are root, and the account is another one.
    lent: bool,
}

impl Account {
    /// Our own account; for root `postgres`, or else `nobody`.
    pub(super) fn choose() -> Result<Self> {
        let own = geteuid();
        if !own.is_root() {
            let user = User::from_uid(own)?.with_context(|| {
                format!(
                    "the account {own} has no entry in the password file, which initdb needs: add \
                     one, or use a Postgres that runs already with --database"
                )
            })?;
            return Ok(Account { user, lent: false });
        }
        for name in ["postgres", "nobody"] {
            if let Some(user) = User::from_name(name)? {
                return Ok(Account { user, lent: true });
            }
        }
        bail!(
            "Postgres cannot run as root, and there is no account postgres or nobody to run it: \
             add one, or use a Postgres that runs already with --database"
        )
    }

    /// For names of things shared by the processes of the account.
    pub(super) fn uid(&self) -> u32 {
        self.user.uid.as_raw()
    }

    /// A command to run under this account, in `dir`, without our environment.
    pub(super) fn command(&self, program: &Path, dir: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(dir).env_clear().envs([
            ("TZ", "UTC"),
            ("LC_ALL", "C"),
            ("PATH", "/usr/bin:/bin"),
        ]);
        if self.lent {
            command
                .uid(self.user.uid.as_raw())
                .gid(self.user.gid.as_raw());
        }
        command
    }

    /// Makes `dir` accessible to this account only.
    pub(super) fn own(&self, dir: &Path) -> Result<()> {
        let context = || {
            format!(
                "cannot hand {} to the account {}",
                dir.display(),
                self.user.name
            )
        };
        if self.lent {
            chown(dir, Some(self.user.uid), Some(self.user.gid)).with_context(context)?;
        }
        fs::set_permissions(dir, Permissions::from_mode(0o700)).with_context(context)
    }

    /// Fails when the account cannot reach `dir` (root's home is closed to all others).
    pub(super) fn check_reach(&self, dir: &Path) -> Result<()> {
        let closed = |dir: &&Path| {
            fs::metadata(dir).is_ok_and(|m| m.uid() != self.uid() && m.mode() & 0o001 == 0)
        };
        match dir.ancestors().skip(1).find(closed) {
            Some(closed) if self.lent => bail!(
                "{} is closed to the account {}, under which Postgres runs: choose another --data-dir",
                closed.display(),
                self.user.name
            ),
            _ => Ok(()),
        }
    }

    /// Whether `path` is a directory that we or the account made, not a trap in a shared directory.
    pub(super) fn made(&self, path: &Path) -> bool {
        fs::symlink_metadata(path)
            .is_ok_and(|m| m.is_dir() && (m.uid() == self.uid() || m.uid() == geteuid().as_raw()))
    }
}
