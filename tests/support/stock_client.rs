//! Callers that use the stock gRPC clients of other families: Python's C core (`python/caller.py`)
//! and Node's (`node/caller.js`). They call until they are stopped and tell of every answer, of
//! which this file says whether a caller may see it.

use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

/// An answer as a client has told it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct StockAnswer {
    #[serde(default)]
    pub family: String,
    pub call: String,
    /// The code that it gets while nothing goes wrong.
    pub wanted: String,
    pub code: String,
    /// An error came with its reason.
    pub with_reason: bool,
    /// The caller has cancelled the call.
    pub cancelled: bool,
    pub message: String,
}

/// Answers, and how often each was given.
pub(crate) type StockAnswers = BTreeMap<StockAnswer, u64>;

/// The caller of all schedulers that stock clients open.
#[allow(dead_code)] // Only the campaign tells them from others.
pub(crate) const STOCK_CALLER: &str = "stock";

/// A running client.
pub(crate) struct StockClient {
    child: Child,
    stdin: Option<ChildStdin>,
    answers: Arc<Mutex<StockAnswers>>,
    reading: Option<JoinHandle<()>>,
}

impl StockAnswer {
    /// It is as it ought to be, or says that the server could not be reached or took too long.
    pub(crate) fn is_allowed(&self) -> bool {
        match self.code.as_str() {
            "UNAVAILABLE" | "DEADLINE_EXCEEDED" => true,
            "OK" => matches!(
                self.wanted.as_str(),
                "OK" | "CANCELLED" | "DEADLINE_EXCEEDED"
            ),
            "CANCELLED" => self.cancelled,
            code => code == self.wanted && self.with_reason,
        }
    }

    /// It is as it ought to be.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_allowed() && self.code == self.wanted
    }
}

impl StockClient {
    /// One client of each family, with these addresses (`host:port`).
    pub(crate) fn of_each_family(addresses: &[String]) -> Vec<StockClient> {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let (python, modules) = installed();
        let mut python = Command::new(python);
        python.arg(tests.join("python/caller.py"));
        let mut node = Command::new("node");
        node.arg(tests.join("node/caller.js"))
            .env("NODE_PATH", modules);
        let start = |(family, command)| StockClient::start(family, command, addresses);
        [("python", python), ("node", node)].map(start).into()
    }

    fn start(family: &'static str, mut command: Command, addresses: &[String]) -> StockClient {
        command.arg(addresses.join(","));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the client starts");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let answers = Arc::<Mutex<StockAnswers>>::default();
        let received = answers.clone();
        let reading = thread::spawn(move || {
            for line in stdout.lines() {
                let answer: StockAnswer = serde_json::from_str(&line.expect("a line"))
                    .expect("the client tells of an answer");
                let family = family.to_owned();
                let answer = StockAnswer { family, ..answer };
                let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
                *received.entry(answer).or_default() += 1;
            }
        });
        StockClient {
            stdin: child.stdin.take(),
            child,
            answers,
            reading: Some(reading),
        }
    }

    /// The answers so far.
    pub(crate) fn answers(&self) -> StockAnswers {
        let answers = self.answers.lock();
        answers.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has it end the present conversation and returns all answers.
    pub(crate) fn stop(mut self) -> StockAnswers {
        drop(self.stdin.take());
        if let Some(reading) = self.reading.take() {
            reading.join().expect("every line was read");
        }
        let status = self.child.wait().expect("our own child");
        assert!(status.success(), "the client failed: {status}");
        self.answers()
    }
}

impl Drop for StockClient {
    fn drop(&mut self) {
        // It has ended already unless a test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The Python and the folder of Node's modules that have what the clients need.
pub(crate) fn installed() -> (String, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/clients");
    let output = Command::new(script)
        .stderr(Stdio::inherit())
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match said.split_once('\n') {
        Some((python, modules)) if output.status.success() => {
            (python.to_owned(), modules.trim().to_owned())
        }
        _ => panic!("the stock clients cannot be installed: run `make setup-test`"),
    }
}
