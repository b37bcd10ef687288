//! Callers that do not speak gRPC: the commands of `docs/http.md`, both versions of HTTP, what
//! pages of others may do, and that the same doors stand before calls in JSON.

mod documented;
mod refusals;
mod session;
mod streams;

use crate::harness::standalone::Standalone;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::{fs, path::Path, process::Command};
use tempfile::TempDir;

const JSON: &str = "content-type: application/json";

/// A server that knows its callers by `reader-token` and `operator-token`.
pub(crate) struct Knowing {
    pub(crate) server: Standalone,
    _folder: TempDir,
}

impl Knowing {
    pub(crate) fn start() -> Knowing {
        let folder = TempDir::new().expect("a directory");
        let (mut tokens, mut rules) = (String::new(), String::new());
        for role in ["reader", "operator"] {
            let hash = Sha256::digest(format!("{role}-token"));
            let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            tokens.push_str(&format!("{role} = \"sha256:{hash}\"\n"));
            rules.push_str(&format!(
                "[[access]]\nidentities = [\"token:{role}\"]\nnamespaces = [\"default\"]\n\
                 role = \"{role}\"\n"
            ));
        }
        let config = folder.path().join("rallypoint.toml");
        fs::write(folder.path().join("tokens.toml"), tokens).expect("written");
        let text = format!("[identity]\ntoken_file = \"tokens.toml\"\n{rules}");
        fs::write(&config, text).expect("written");
        Knowing {
            server: Standalone::with(&[Path::new("--config"), &config]),
            _folder: folder,
        }
    }
}

/// What curl got.
struct Answer {
    code: u16,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        assert!(self.text.ends_with('\n'), "{}", self.text);
        let json = serde_json::from_str(&self.text);
        json.unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The reason of an error.
    fn reason(&self) -> String {
        self.json()["details"][0]["reason"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

fn curl(arguments: &[&str]) -> Answer {
    let output = Command::new("curl")
        .args(["-sS", "--max-time", "60", "-w", "\n%{http_code}"])
        .args(arguments)
        .output()
        .expect("curl runs");
    let said = String::from_utf8(output.stdout).expect("text");
    let errors = String::from_utf8_lossy(&output.stderr);
    let (text, code) = said.rsplit_once('\n').expect("a code");
    Answer {
        code: code
            .parse()
            .unwrap_or_else(|_| panic!("{arguments:?}: {errors}")),
        text: text.to_owned(),
    }
}

/// Calls a method.
fn call(server: &Standalone, method: &str, message: &str) -> Answer {
    let url = format!("{}/rallypoint.v1.{method}", server.url);
    curl(&["-H", JSON, &url, "-d", message])
}

fn opened(server: &Standalone) -> String {
    let answer = call(server, "SchedulerService/GetScheduler", "{}");
    let handle = answer.json()["scheduler"]["handle"]
        .as_str()
        .map(str::to_owned);
    handle.expect("a handle")
}
