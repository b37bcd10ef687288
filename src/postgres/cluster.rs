//! The database cluster: made once, with its roles and databases, and then served.
//!
//! A directory named `data` is always complete: it is made under another name and renamed.

use super::{
    COORDINATION, Options, SUPERUSER, TARGET,
    account::Account,
    binaries::Binaries,
    data_dir::{self, DataDir},
    process::Child,
};
use anyhow::{Context, Result, bail};
use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{self, Command, Output, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Allows for crash recovery of a big database.
const START_TIMEOUT: Duration = Duration::from_secs(600);
/// Increase it when the contents of the template change, so that no old one is used.
const TEMPLATE_VERSION: u32 = 2;
const LARGEST_LOG: u64 = 16 << 20;

const SETTINGS: [(&str, &str); 8] = [
    ("listen_addresses", ""),
    ("port", "5432"),
    ("unix_socket_permissions", "0700"),
    ("max_connections", "200"),
    ("shared_buffers", "128MB"),
    ("client_connection_check_interval", "500ms"),
    // The log must not hold the text of tasks.
    ("log_min_error_statement", "panic"),
    ("log_min_messages", "log"),
];
const NOT_DURABLE: [(&str, &str); 3] = [
    ("fsync", "off"),
    ("synchronous_commit", "off"),
    ("full_page_writes", "off"),
];

/// Makes the data directory of `place` if it is not there; checks that it fits the programs if it
/// is.
pub(super) fn prepare(binaries: &Binaries, account: &Account, data_dir: &DataDir) -> Result<()> {
    let data = data_dir.data();
    if data.exists() {
        return check_version(binaries, &data);
    }
    if data_dir.is_temporary() {
        let template = template(binaries, account)?;
        return run(Command::new("cp")
            .arg("-a")
            .arg("--reflink=auto")
            .arg(&template)
            .arg(&data))
        .map(drop);
    }
    let unfinished = data_dir.base().join("data.unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    initialise(binaries, account, &unfinished, true)?;
    Ok(fs::rename(&unfinished, &data)?)
}

/// Starts the server on the data of `place` and waits until it takes connections.
pub(super) fn start(
    binaries: &Binaries,
    account: &Account,
    data_dir: &DataDir,
    options: &Options,
) -> Result<Child> {
    let path = data_dir.log();
    let fresh = fs::metadata(&path).is_ok_and(|log| log.len() > LARGEST_LOG);
    let log = OpenOptions::new()
        .create(true)
        .write(true)
        .append(!fresh)
        .truncate(fresh)
        .open(&path)?;
    let mut command = account.command(&binaries.path("postgres"), data_dir.base());
    command
        .envs(options.environment.iter().cloned())
        .arg("-D")
        .arg(data_dir.data())
        .arg("-k")
        .arg(data_dir.socket_dir());
    let relaxed: &[_] = if options.durable { &[] } else { &NOT_DURABLE };
    for (name, value) in SETTINGS.iter().chain(relaxed) {
        command.arg("-c").arg(format!("{name}={value}"));
    }
    for (name, value) in &options.settings {
        command.arg("-c").arg(format!("{name}={value}"));
    }
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    let child = Child::spawn(command)?;
    await_ready(&child, data_dir)?;
    Ok(child)
}

/// An empty database for `owner`. Both names have been checked.
pub(super) fn create_database(name: &str, owner: &str) -> Vec<String> {
    vec![format!(
        "create database {name} owner {owner} template template0"
    )]
}

/// Lets only `owner` connect to the database `name`; to be run in it.
pub(super) fn close_database(name: &str, owner: &str) -> Vec<String> {
    vec![
        format!("revoke all on database {name} from public"),
        format!("alter schema public owner to {owner}"),
        "revoke all on schema public from public".into(),
    ]
}

fn await_ready(child: &Child, data_dir: &DataDir) -> Result<()> {
    let end = Instant::now() + START_TIMEOUT;
    loop {
        if is_ready(child.pid(), &data_dir.data()) {
            return Ok(());
        }
        if let Some(status) = child.ended() {
            bail!(
                "the private Postgres ended at its start ({status}); its log ends with:\n{}",
                tail(&data_dir.log())
            );
        }
        if Instant::now() > end {
            bail!(
                "the private Postgres was not ready within {} s; its log ends with:\n{}",
                START_TIMEOUT.as_secs(),
                tail(&data_dir.log())
            );
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the server says so, in the eighth line of its pid file; the file of an earlier server
/// does not count.
fn is_ready(pid: i32, data: &Path) -> bool {
    let text = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let line = |n| text.lines().nth(n).map(str::trim);
    line(0) == Some(&pid.to_string()) && line(7) == Some("ready")
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

fn check_version(binaries: &Binaries, data: &Path) -> Result<()> {
    let version = fs::read_to_string(data.join("PG_VERSION"))?;
    if version.trim() != binaries.major.to_string() {
        bail!(
            "{} was made by Postgres {}, but the programs found are of version {}: name the \
             directory of the others in RALLYPOINT_PG_BIN, or choose another --data-dir",
            data.display(),
            version.trim(),
            binaries.major
        );
    }
    Ok(())
}

/// A pristine data directory to copy, which is ten times as fast as making one. It is cached.
fn template(binaries: &Binaries, account: &Account) -> Result<PathBuf> {
    // Processes that make it at the same time use names of their own; threads wait here.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let root = data_dir::temporary_root();
    let name = format!(
        "rallypoint-template-{}-{TEMPLATE_VERSION}-{}",
        binaries.major,
        account.uid()
    );
    let template = root.join(&name).join("data");
    if account.made(&template) {
        return Ok(template);
    }
    let unfinished = root.join(format!("{name}-{}", process::id()));
    fs::create_dir(&unfinished).with_context(|| data_dir::not_created(&unfinished))?;
    account.own(&unfinished)?;
    initialise(binaries, account, &unfinished.join("data"), false)?;
    if fs::rename(&unfinished, root.join(&name)).is_err() {
        // Another process was faster.
        fs::remove_dir_all(&unfinished)?;
    }
    if account.made(&template) {
        Ok(template)
    } else {
        bail!(data_dir::foreign(&template))
    }
}

fn initialise(binaries: &Binaries, account: &Account, data: &Path, durable: bool) -> Result<()> {
    let base = data.parent().context("the data directory has no parent")?;
    let mut command = account.command(&binaries.path("initdb"), base);
    command.arg("-D").arg(data).args([
        "-U",
        SUPERUSER,
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C",
        "--no-instructions",
    ]);
    if !durable {
        command.arg("--no-sync");
    }
    run(&mut command)?;
    let mut first = vec![];
    for name in [COORDINATION, TARGET] {
        first.push(format!("create role {name} login"));
        first.extend(create_database(name, name));
    }
    // The view execution_status shows which task the sessions of the other role run.
    first.push(format!("grant pg_read_all_stats to {COORDINATION}"));
    first.push("revoke all on database postgres from public".into());
    first.push("revoke all on database template1 from public".into());
    single_user(binaries, account, data, "postgres", &first)?;
    for name in [COORDINATION, TARGET] {
        single_user(binaries, account, data, name, &close_database(name, name))?;
    }
    Ok(())
}

/// Runs statements in single-user mode. An error ends the program because of `exit_on_error`.
fn single_user(
    binaries: &Binaries,
    account: &Account,
    data: &Path,
    database: &str,
    statements: &[String],
) -> Result<()> {
    let base = data.parent().context("the data directory has no parent")?;
    let mut command = account.command(&binaries.path("postgres"), base);
    command
        .arg("--single")
        .args(["-c", "exit_on_error=on"])
        .arg("-D")
        .arg(data)
        .arg(database);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it ended early, its status says so below.
        let _ = stdin.write_all((statements.join("\n") + "\n").as_bytes());
    }
    checked(child.wait_with_output()?, "postgres --single").map(drop)
}

fn run(command: &mut Command) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        // Ctrl-C is for this program, which ends when these steps are done.
        .process_group(0)
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    checked(output, &name)
}

fn checked(output: Output, name: &str) -> Result<Output> {
    if !output.status.success() {
        bail!(
            "{name} failed ({}):\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(output)
}
