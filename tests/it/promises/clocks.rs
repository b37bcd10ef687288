//! The clock of the database is set by days, forward and back, while servers run and between them:
//! nothing that was acknowledged is lost, and nobody is held up.

use crate::harness::{
    clock::Clock,
    server::{Server, Setup},
    work::{noop, sql},
};
use rallypoint::postgres::{Options, PrivatePostgres};
use rallypoint_client::api::SchedulerSettings;
use tempfile::TempDir;

const DAY_S: i64 = 86_400;

/// A Postgres whose clock can be set; `None`: there is no libfaketime here (`.ci/setup test`).
fn postgres(folder: &TempDir) -> Option<(PrivatePostgres, Clock)> {
    let clock = Clock::new(folder.path().join("clock"))?;
    let options = Options {
        environment: clock.environment(),
        ..Options::default()
    };
    Some((PrivatePostgres::start(options).expect("it starts"), clock))
}

/// A folder that the account of Postgres may enter.
fn folder() -> TempDir {
    let mut builder = tempfile::Builder::new();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    builder.permissions(open).tempdir().expect("a folder")
}

#[tokio::test]
async fn what_is_submitted_by_a_clock_that_is_days_off_is_not_lost() {
    let folder = folder();
    let Some((postgres, clock)) = postgres(&folder) else {
        println!("no libfaketime here");
        return;
    };
    let setup = || Setup {
        postgres: Some(&postgres),
        ..Setup::default()
    };
    let mut server = Server::with(setup()).await;
    let scheduler = server.open(SchedulerSettings::default()).await;
    let handle = scheduler.handle().to_owned();
    scheduler.scheduler.pause().await.expect("paused");
    let mut submitted = 0;
    for days in [10, 0, -10, 40, 400, 0] {
        clock.set(days * DAY_S);
        for restarted in [false, true] {
            if restarted {
                drop(server);
                server = Server::with(setup()).await;
            }
            let scheduler = server.client.scheduler(&handle);
            let tasks = vec![noop().into(), sql("select 1").into()];
            let accepted = scheduler.exec(tasks).await.expect("accepted");
            assert_eq!(accepted.first_seq, submitted + 1, "{days} days off");
            submitted += 2;
        }
    }
    server
        .client
        .scheduler(&handle)
        .resume(false)
        .await
        .expect("resumed");
    let conversation = crate::harness::conversation::Conversation {
        scheduler: server.client.scheduler(&handle),
        journal: server.journal.clone(),
    };
    let done = conversation.all_done().await;
    let numbers: Vec<i64> = done.iter().map(|done| done.done_no).collect();
    assert_eq!(numbers, (1..=submitted).collect::<Vec<_>>());
    let log = conversation.log().await;
    assert_eq!(log.outcomes(), [("succeeded", submitted as usize)].into());
}
