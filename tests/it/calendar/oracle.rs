//! The expansion in Python (`tests/python/calendar_oracle.py`), asked over a pipe.

use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// How many minutes, and the sum of their mixed bits: alike only for the same minutes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Digest(u64, u64);

impl Digest {
    pub(super) fn of(minutes: &[i64]) -> Self {
        let mixed = |minute: &i64| {
            let bits = minute.cast_unsigned();
            let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
        };
        let sum = minutes.iter().map(mixed).fold(0, u64::wrapping_add);
        Digest(minutes.len() as u64, sum)
    }

    fn read(answer: &Value) -> Self {
        let sum = answer[1].as_str().expect("a sum").parse();
        Digest(answer[0].as_u64().expect("a count"), sum.expect("a number"))
    }
}

/// What is to be expanded in a zone, from the first year to the last.
pub(super) struct Request<'a> {
    pub zone: &'a str,
    pub years: (i16, i16),
    /// Text, gap, fold.
    pub crons: Vec<(&'a str, Option<&'a str>, Option<&'a str>)>,
    /// Period, opening, closing, fold.
    pub windows: Vec<(&'a str, &'a str, &'a str, &'a str)>,
}

impl Request<'_> {
    fn json(&self, is_list: bool) -> Value {
        json!({
            "zone": self.zone,
            "first": self.years.0,
            "last": self.years.1,
            "crons": self.crons,
            "windows": self.windows,
            "list": is_list,
        })
    }
}

/// The running program.
pub(super) struct Oracle {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Oracle {
    /// Starts it with the time zones of this release.
    pub(super) fn start(release: &str) -> Self {
        let top = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut install = Command::new(top.join(".ci/calendar"));
        let installed = install.arg(release).stderr(Stdio::inherit()).output();
        let installed = installed.expect("a shell");
        assert!(installed.status.success(), "run `make setup-test`");
        let python = String::from_utf8(installed.stdout).expect("a path");
        let mut child = Command::new(python.trim())
            .arg(top.join("tests/python/calendar_oracle.py"))
            // Else zones of the machine, of whatever release, would come first.
            .env("PYTHONTZPATH", "")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        Oracle {
            stdin: child.stdin.take(),
            stdout: BufReader::new(stdout),
            child,
        }
    }

    /// Has a request expanded. The answer is there when it is asked for.
    pub(super) fn ask(&mut self, request: &Request<'_>) {
        self.write(request.json(false));
    }

    /// The digests of the expressions, then those of the windows.
    pub(super) fn digests(&mut self) -> Vec<Digest> {
        let answer = self.read();
        let lists = ["crons", "windows"].map(|list| answer[list].as_array().expect("a list"));
        lists.into_iter().flatten().map(Digest::read).collect()
    }

    /// The minutes of the only expression or window of a request.
    pub(super) fn minutes(&mut self, request: &Request<'_>) -> Vec<i64> {
        self.write(request.json(true));
        let answer = self.read();
        let lists = ["crons", "windows"].map(|list| answer[list].as_array().expect("a list"));
        let only = lists.into_iter().flatten().next().expect("one");
        let minutes = only.as_array().expect("a list").iter();
        minutes
            .map(|minute| minute.as_i64().expect("a minute"))
            .collect()
    }

    fn write(&mut self, request: Value) {
        let stdin = self.stdin.as_mut().expect("it reads");
        writeln!(stdin, "{request}").expect("it reads");
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("it answers");
        serde_json::from_str(&line).expect("an answer in JSON")
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // It ends with its input, and at once when a test has failed.
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
