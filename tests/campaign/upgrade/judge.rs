//! What must hold when two versions have run side by side, besides the promises of the campaign,
//! and whether both came to own the shard after the other one.

use super::{Upgrade, Version};
use crate::{
    check::{Facts, Verdict},
    load::Load,
    report,
    server::INSTALLED,
};
use serde_json::Value;
use std::{collections::BTreeMap, path::Path};

/// The kind of attempt that only the newer version writes.
const KIND_OF_NEWER: i32 = 1_000;
/// How tonic calls the end of a connection whose server was killed.
const BROKEN_CONNECTIONS: [&str; 4] = [
    "Unknown  transport error",
    "Unknown  h2 protocol error",
    "Unknown  error reading a body",
    "Cancelled  operation was canceled",
];
/// What the callers of the campaign provoke.
const REFUSALS: [&str; 3] = ["ORDER_CLOSED", "HANDLE_RELEASED", "REQUEST_ID_REUSED"];

impl Upgrade {
    pub(crate) async fn judge(&self, load: &Load, facts: &Facts, verdict: &mut Verdict) {
        self.colors_are_unharmed(verdict).await;
        nothing_but_unavailable(load, verdict);
        self.servers_did_as_told(verdict);
        let (to_newer, to_older) = self.hand_overs();
        let rows = facts.attempts.get(&KIND_OF_NEWER).copied().unwrap_or(0);
        let happened = [
            ("hand-overs from the older to the newer version", to_newer),
            ("hand-overs from the newer to the older version", to_older),
            ("kills", self.kills),
            ("stops", self.stops),
            ("schedulers with a color", self.answered.len() as u64),
            (
                "changes of them by the older version",
                self.changes_by_older,
            ),
            ("attempts of a kind that the older one skips", rows as u64),
        ];
        for (what, count) in happened {
            println!("{what} {count}");
            verdict.expect(
                "everything that was to happen has happened",
                count > 0,
                || format!("no {what}"),
            );
        }
    }

    pub(crate) fn report(&self, facts: &Facts, verdict: &Verdict) {
        report::promises(verdict);
        report::load(facts, verdict);
        report::broken(verdict);
        let violations = verdict.violations.values().map(Vec::len).sum::<usize>();
        println!("violations {violations}");
    }

    /// What the newer version has set is as it was, whichever version owned the shard since.
    async fn colors_are_unharmed(&self, verdict: &mut Verdict) {
        let promise = "what the newer version has set outlives the older one";
        let session = self.fixture.journal.session();
        let mut session = session.await.expect("the journal");
        for (handle, color, answered) in &self.answered {
            let wanted = Some(color.clone());
            let same = answered.iter().all(|answered| *answered == wanted);
            verdict.expect(promise, same, || {
                format!("{handle} is {color}, and the servers tell {answered:?}")
            });
            let row = sqlx::query_as::<_, (Option<String>, Option<String>)>(
                "select convert_from(settings, 'UTF8')::jsonb ->> 'color',
                    convert_from(color, 'UTF8')
                from scheduler
                where handle = $1::uuid",
            );
            let row = row.bind(handle).fetch_one(&mut session).await;
            let row = row.expect("a row");
            verdict.expect(promise, row == (wanted.clone(), wanted), || {
                format!("{handle} is {color}, and its row says {row:?}")
            });
        }
    }

    fn servers_did_as_told(&self, verdict: &mut Verdict) {
        let promise = "servers do as they are told";
        let problems = &self.problems;
        verdict.expect(promise, problems.is_empty(), || problems.join("; "));
    }

    /// How often the shard went from the older to the newer version, and back: by the log of each
    /// server, which says when it owns the shard.
    fn hand_overs(&self) -> (u64, u64) {
        let mut owners = BTreeMap::new();
        for server in &self.fixture.servers {
            let mut version = Version::Older;
            for line in server.log().lines() {
                match line.strip_prefix(INSTALLED) {
                    Some(program) => version = self.version_of(Path::new(program)),
                    None => owners.extend(begun_epoch(line).map(|epoch| (epoch, version))),
                }
            }
        }
        let owners: Vec<Version> = owners.into_values().collect();
        let count = |from: Version| {
            let pair = [from, from.other()];
            owners.windows(2).filter(|owners| **owners == pair).count() as u64
        };
        (count(Version::Older), count(Version::Newer))
    }

    fn version_of(&self, program: &Path) -> Version {
        match program == self.programs.older {
            true => Version::Older,
            false => Version::Newer,
        }
    }
}

/// The epoch of an ownership that begins with this line of a log.
fn begun_epoch(line: &str) -> Option<i64> {
    let line: Value = serde_json::from_str(line).ok()?;
    line["fields"].get("last_batch")?;
    line["fields"].get("epoch")?.as_i64()
}

/// Callers learn that a server is away or going away, and nothing else.
fn nothing_but_unavailable(load: &Load, verdict: &mut Verdict) {
    for (why, count) in load.failures() {
        let broken = BROKEN_CONNECTIONS.iter().any(|how| why.starts_with(how));
        let allowed = broken || why.starts_with("Unavailable ") || REFUSALS.contains(&&*why);
        println!("  {count} times {why}");
        verdict.expect("callers see nothing but UNAVAILABLE", allowed, || {
            format!("{count} times {why}")
        });
    }
}
