//! Finds the server programs of Postgres on this machine. Downloads nothing.

use anyhow::{Context, Result, bail};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The oldest supported version; older ones lack `client_connection_check_interval` and lz4.
const OLDEST: u32 = 14;

/// Where packages install the programs; Debian's are not on the path. `*` stands for one directory.
const WELL_KNOWN: [&str; 6] = [
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
    "/usr/local/pgsql/bin",
];

/// The server programs in one directory.
pub(crate) struct Binaries {
    bin: PathBuf,
    /// Major version.
    pub(crate) major: u32,
}

impl Binaries {
    /// The programs `RALLYPOINT_PG_BIN` names, or else those of the highest version found.
    pub(crate) fn find() -> Result<Self> {
        if let Some(bin) = env::var_os("RALLYPOINT_PG_BIN") {
            let bin = PathBuf::from(bin);
            return Self::at(&bin).with_context(|| {
                let bin = bin.display();
                format!("RALLYPOINT_PG_BIN names {bin}: name the directory of initdb and postgres")
            });
        }
        let found = candidates()
            .into_iter()
            .filter_map(|bin| Self::at(&bin).ok());
        found.max_by_key(|programs| programs.major).with_context(|| {
            format!(
                "no server programs of Postgres {OLDEST} or later found: install them (apt install \
                 postgresql, brew install postgresql@18), or name their directory in \
                 RALLYPOINT_PG_BIN, or use a Postgres that runs already with --database"
            )
        })
    }

    pub(crate) fn path(&self, program: &str) -> PathBuf {
        self.bin.join(program)
    }

    fn at(bin: &Path) -> Result<Self> {
        if !bin.join("initdb").is_file() {
            bail!("there is no initdb in {}", bin.display());
        }
        let output = Command::new(bin.join("postgres"))
            .arg("--version")
            .output()
            .context("cannot run postgres")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let major =
            major_version(&text).with_context(|| format!("postgres --version says {text:?}"))?;
        if major < OLDEST {
            bail!("it is of Postgres {major}, and {OLDEST} or later is needed");
        }
        Ok(Binaries {
            bin: bin.to_owned(),
            major,
        })
    }
}

/// From `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`, also `18beta1`.
fn major_version(text: &str) -> Option<u32> {
    let version = text.split_whitespace().nth(2)?;
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn candidates() -> Vec<PathBuf> {
    let configured = Command::new("pg_config").arg("--bindir").output().ok();
    let configured =
        configured.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    let on_path = env::var_os("PATH")
        .map(|path| env::split_paths(&path).collect::<Vec<_>>())
        .unwrap_or_default();
    let known = WELL_KNOWN.iter().flat_map(|pattern| expand(pattern));
    configured.into_iter().chain(known).chain(on_path).collect()
}

/// The directories a pattern with at most one `*` stands for.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let Some((before, after)) = pattern.split_once('*') else {
        return vec![pattern.into()];
    };
    let Some((parent, prefix)) = before.rsplit_once('/') else {
        return Vec::new();
    };
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let matching = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    matching
        .map(|entry| entry.path().join(after.trim_start_matches('/')))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_from_every_form_of_the_banner() {
        assert_eq!(
            major_version("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"),
            Some(15)
        );
        assert_eq!(major_version("postgres (PostgreSQL) 19beta1"), Some(19));
        assert_eq!(major_version("bash: no such file"), None);
    }
}
