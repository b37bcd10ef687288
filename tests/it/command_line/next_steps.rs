//! What an error says is to be done next.

use super::{code, text};
use crate::harness::standalone::Standalone;

const FILE: &str = "[jobs.a]\nschedule.cron = \"0 3 * * *\"\n\
                    steps = [{ statement = \"select 1\" }]\n\
                    [jobs.\"b c\"]\nschedule.after = \"a\"\n\
                    steps = [{ statement = \"select 1\" }]\n";

#[test]
fn a_call_about_a_job_that_is_refused_says_what_to_do() {
    let server = Standalone::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("jobs.toml");
    std::fs::write(&file, FILE).expect("written");
    let applied = server.run(&["jobs", "apply", "-f", &file.display().to_string()]);
    assert_eq!(code(&applied), 0, "{}", text(&applied.stderr));
    for (call, next) in [
        (
            "delete a",
            "`rallypoint jobs delete 'b c'` deletes that one",
        ),
        (
            "backfill a --from 2026-01-26 --until 2026-01-01",
            "give --until a later time than --from",
        ),
        (
            "backfill a --from 1976-01-01 --until 2026-01-01",
            "repeat the command for parts of that time",
        ),
    ] {
        let words: Vec<&str> = ["jobs"].into_iter().chain(call.split(' ')).collect();
        let refused = server.run(&words);
        let said = text(&refused.stderr);
        assert_eq!(code(&refused), 1, "{call}: {said}");
        assert!(said.contains(&format!("  next: {next}")), "{call}: {said}");
    }
}
