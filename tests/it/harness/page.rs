//! Pages of `docs/` whose commands are run, so that what they show is what is printed but for what
//! differs from run to run.

use super::{postgres::POSTGRES, process::PROGRAM};
use rallypoint::postgres::TARGET;
use std::{
    env,
    fs::{self, File},
    path::Path,
    process::Command,
};
use tempfile::TempDir;

/// Whose account runs the commands of a page.
pub(crate) const ACCOUNT: &str = "anna";

/// A page as it is now.
pub(crate) fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs")
        .join(name);
    fs::read_to_string(path).expect("a page")
}

/// A shell in a folder of examples, whose `rallypoint` calls a server and whose `psql` a database
/// of the shared Postgres, as `app`.
pub(crate) struct Shell {
    folder: TempDir,
    environment: Vec<(&'static str, String)>,
}

impl Shell {
    pub(crate) fn new(server: &str, database: &str, examples: &str) -> Shell {
        let folder = tempfile::tempdir().expect("a folder");
        for example in fs::read_dir(examples).expect("examples") {
            let example = example.expect("a file");
            let copy = folder.path().join(example.file_name());
            fs::copy(example.path(), copy).expect("copied");
        }
        let programs = [PROGRAM.into(), POSTGRES.program("psql")];
        let beside = programs.iter().filter_map(|program| program.parent());
        let path = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths(beside.map(Into::into).chain(env::split_paths(&path)));
        let path = path.expect("a path").to_string_lossy().into_owned();
        let socket = POSTGRES.socket_dir().display().to_string();
        let environment = vec![
            ("PATH", path),
            ("USER", ACCOUNT.to_owned()),
            ("RALLYPOINT_SERVER", server.to_owned()),
            ("PGHOST", socket),
            ("PGUSER", TARGET.to_owned()),
            ("PGDATABASE", database.to_owned()),
        ];
        Shell {
            folder,
            environment,
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a command and returns what it prints. What it leaves running may print on.
    pub(crate) fn run(&self, command: &str) -> String {
        let printed = self.folder().join("printed");
        let file = File::create(&printed).expect("a file");
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("exec 2>&1; {command}")])
            .envs(self.environment.iter().cloned())
            .current_dir(self.folder())
            .stdout(file)
            .status()
            .expect("it runs");
        fs::read_to_string(printed).expect("what it printed")
    }
}

/// The blocks of a language.
pub(crate) fn blocks(page: &str, language: &str) -> Vec<String> {
    let begin = format!("```{language}\n");
    let blocks = page.split(&begin).skip(1);
    let inside = blocks.filter_map(|rest| rest.split("```").next());
    inside.map(str::to_owned).collect()
}

/// Each command of a block, and what it prints.
pub(crate) fn commands(block: &str) -> Vec<(&str, String)> {
    let commands = block.split("$ ").filter(|text| !text.is_empty());
    let parts = commands.map(|text| text.split_once('\n').unwrap_or((text, "")));
    parts
        .map(|(command, shown)| (command, shown.to_owned()))
        .collect()
}

/// The lines without what differs from run to run, and in whatever sequence: tasks of one order end
/// in any.
pub(crate) fn alike(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(line).collect();
    lines.sort();
    lines
}

fn line(text: &str) -> String {
    let text = text.replace("replica test", "replica a");
    let text = match text.split_once(" since 20") {
        Some((said, _)) => said,
        None => &text,
    };
    let words = text.split_whitespace().filter(|word| !is_time(word));
    words.map(word).collect::<Vec<_>>().join(" ")
}

/// A number with a unit, or one with a fraction.
fn is_time(word: &str) -> bool {
    let number = word.trim_end_matches([',', 's', 'm', 'h']);
    word == "s" || (number != word || word.contains('.')) && number.parse::<f64>().is_ok()
}

/// A word without numbers that differ: handles, ports, process ids, and places among events.
fn word(word: &str) -> String {
    let differs = |part: &str| part.len() > 2 && part.bytes().any(|byte| byte.is_ascii_digit());
    match word.split_once('/') {
        Some((at, all)) if at.parse::<u32>().is_ok() => format!("N/{all}"),
        Some((handle, rest)) if differs(handle) => format!("N/{rest}"),
        _ if differs(word) => "N".to_owned(),
        _ => word.to_owned(),
    }
}
