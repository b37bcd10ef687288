//! The examples of the documents, run word for word by psql, on a journal that has something to
//! show for each of them.

use super::{Owned, config, make::*};
use crate::harness::postgres::start;
use rallypoint::{
    core::*,
    journal::Journal,
    postgres::{COORDINATION, PrivatePostgres, SUPERUSER},
};
use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};
use uuid::Uuid;

/// The scheduler of the examples.
const HANDLE: Uuid = Uuid::from_u128(0x01890a5d_ac96_7000_8a2e_6f1d3b5c7e90);
const BY_SUPERUSER: &str = "-- as a superuser\n";

#[tokio::test]
async fn the_examples_of_the_documents_run_as_they_stand() {
    let postgres = start(Vec::new());
    let mut owned = Owned::on(postgres.options_for(COORDINATION, COORDINATION)).await;
    write_history(&mut owned).await;
    let (readme, log) = (examples("README.md"), examples("docs/log.md"));
    let (roles, asked): (Vec<&String>, Vec<&String>) = readme
        .iter()
        .chain(&log)
        .partition(|example| example.starts_with(BY_SUPERUSER));
    assert_eq!((roles.len(), asked.len()), (2, 7));
    for example in roles {
        psql(&postgres, SUPERUSER, example);
    }
    for role in [COORDINATION, "auditor"] {
        for example in &asked {
            let said = psql(&postgres, role, example);
            assert!(!said.contains("(0 rows)"), "{role}: {example}\n{said}");
        }
    }
    let said = asked
        .iter()
        .map(|example| psql(&postgres, "auditor", example));
    let said = said.collect::<Vec<String>>().join("\n");
    for word in ["division by zero", "select 1/0", "succeeded", "app", "lost"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    // The login that the documents make has all that the service needs.
    let made = postgres.options_for("rallypoint_coordination", "rallypoint_service");
    let journal = Journal::open(config(&made)).await.unwrap();
    let maintenance = journal.maintenance();
    maintenance.make_batches().await.unwrap();
    maintenance.drop_batches().await.unwrap();
    Owned::on(made).await.write(Records::default()).await;
}

/// Two tasks that have ended, one after a lost attempt, and one that runs.
async fn write_history(owned: &mut Owned) {
    let (handle, now) = (Handle::from_uuid(HANDLE), owned.now);
    let mut call = plain(handle, 1, 3, Some(100), now);
    let texts: [&[u8]; 3] = [b"select 1", b"select 1/0", b"select pg_sleep(60)"];
    Arc::make_mut(&mut call.submit).bodies = Packed::new(texts);
    let step = |seq, what| AttemptRecord {
        handle,
        seq: Seq(seq),
        attempt: Attempt(1),
        what,
        at: now,
        ran: None,
    };
    let lost = AttemptEvent::Lost {
        next_at: now,
        error: None,
    };
    let failed = Done {
        outcome: Outcome::Failed,
        attempt: Attempt(2),
        error: Some(Arc::new(TaskError {
            code: "22012".into(),
            message: "division by zero".into(),
        })),
        ..done(2, 1, now)
    };
    owned
        .write(Records {
            schedulers: images([image(handle, now)]),
            submissions: vec![call],
            attempts: vec![
                step(2, AttemptEvent::Start),
                step(2, lost),
                step(3, AttemptEvent::Start),
            ],
            ..Records::default()
        })
        .await;
    let ended = completion(handle, 1, vec![done(1, 1, now), failed]);
    owned.write(records(vec![], vec![ended])).await;
}

/// The blocks of SQL in a document that are about the log, or about roles.
fn examples(document: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
    let text = fs::read_to_string(path).expect(document);
    let blocks = text.split("```sql\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap_or_default());
    let ours = |block: &&str| block.contains("rallypoint_log") || block.starts_with(BY_SUPERUSER);
    blocks.filter(ours).map(str::to_owned).collect()
}

/// What psql says to a script, which must run to its end.
fn psql(postgres: &PrivatePostgres, role: &str, script: &str) -> String {
    let mut psql = Command::new("psql")
        .args(["-X", "-v", "ON_ERROR_STOP=1", "-d"])
        .arg(postgres.url_for(COORDINATION, role))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("psql is installed");
    let mut stdin = psql.stdin.take().expect("its input");
    stdin.write_all(script.as_bytes()).expect("it reads");
    drop(stdin);
    let output = psql.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{role}: {script}\n{said}{complaint}"
    );
    said
}
