//! Callers that do not speak gRPC: the commands of `docs/http.md`, both versions of HTTP, what
//! pages of others may do, and that the same doors stand before calls in JSON.

mod documented;
mod refusals;
mod streams;

use crate::harness::standalone::Standalone;
use serde_json::Value;
use std::process::Command;

/// What curl got.
struct Answer {
    code: u16,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
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
    curl(&["-H", "content-type: application/json", &url, "-d", message])
}

fn opened(server: &Standalone) -> String {
    let answer = call(server, "SchedulerService/GetScheduler", "{}");
    let handle = answer.json()["scheduler"]["handle"]
        .as_str()
        .map(str::to_owned);
    handle.expect("a handle")
}
