//! Who may open a journal, own its shard and write to it.

use super::{Owned, config, enrolled, make::*, replica, take_over};
use rallypoint::{core::*, journal::*};
use sqlx::{AssertSqlSafe, Executor};
use std::time::Duration;
use tokio::time::sleep;

#[tokio::test]
async fn a_stale_owner_writes_nothing() {
    let mut owned = Owned::new().await;
    owned.write(Records::default()).await;
    let again = replica("one");
    let taken = take_over(&owned.journal, &again).await;
    assert_eq!(
        (taken.epoch, taken.last_batch),
        (Epoch(owned.epoch.0 + 1), owned.next)
    );
    let late = || records(vec![plain(handle(), 1, 3, None, taken.now)], vec![]);
    assert_eq!(owned.append(late()).await, Commit::Fenced);
    assert_eq!(owned.count("select count(*) from submission").await, 0);

    let batch = Batch {
        shard: ShardId(0),
        epoch: taken.epoch,
        no: BatchNo(taken.last_batch.0 + 1),
        day: owned.now.day(),
        records: late(),
    };
    let mut writer = owned.journal.writer(&again);
    assert_eq!(writer.append(&batch).await, Commit::Durable);
    assert_eq!(owned.append(late()).await, Commit::Fenced);
    assert_eq!(owned.count("select count(*) from submission").await, 1);
}

#[tokio::test]
async fn a_lease_goes_to_who_has_watched_it_unless_it_was_renewed_and_the_old_owner_learns_of_it() {
    let owned = Owned::new().await;
    let one = owned.replica.clone();
    let two = enrolled(&owned.journal, "two").await;
    let lease = Duration::from_secs(5);
    let take = async |claim| {
        owned
            .journal
            .take_over(&two, claim, lease, None, Epoch(0))
            .await
            .unwrap()
    };
    let mut watcher = owned.journal.heartbeat(two.clone(), lease);
    let watched = watcher.renew(None).await.unwrap().owned_until;
    assert!(watched.is_some());

    let mut heart = owned.journal.heartbeat(one, lease);
    let beat = heart.renew(Some(owned.epoch)).await.unwrap();
    assert!(beat.lease_until.unwrap() > beat.now);
    for claim in [
        Claim::Start,
        Claim::Successor(None),
        Claim::Successor(watched),
    ] {
        assert_eq!(take(claim).await, TakeOver::Refused, "{claim:?}");
    }
    // Whoever has watched this one says that it is over, whatever the database's clock says.
    let TakeOver::Owned(taken) = take(Claim::Successor(beat.lease_until)).await else {
        panic!("nobody has renewed it")
    };
    assert_eq!(taken.epoch, Epoch(owned.epoch.0 + 1));
    assert_eq!(take(Claim::Owner(owned.epoch)).await, TakeOver::Refused);
    // As if the answer to that had been lost.
    let TakeOver::Owned(taken) = take(Claim::Owner(taken.epoch)).await else {
        panic!("the claim before was granted")
    };
    assert_eq!(taken.epoch, Epoch(owned.epoch.0 + 2));
    assert_eq!(
        heart.renew(Some(owned.epoch)).await.unwrap().lease_until,
        None
    );
    assert_eq!(heart.renew(None).await.unwrap().lease_until, None);
    let status = owned.journal.reader().status().await.unwrap();
    let owners: Vec<(&str, bool)> = status
        .replicas
        .iter()
        .map(|row| (row.name.as_str(), row.owner))
        .collect();
    assert_eq!(owners, [("two", true), ("one", false)]);
}

/// A database that was set back has epochs of which replicas have heard later ones.
#[tokio::test]
async fn an_epoch_that_anybody_has_heard_of_is_not_given_again() {
    let owned = Owned::new().await;
    let one = owned.replica.clone();
    let two = enrolled(&owned.journal, "two").await;
    let lease = Duration::from_secs(5);
    let later = |by| Epoch(owned.epoch.0 + by);
    let mut others = owned.journal.heartbeat(two, lease);
    others.renew(None).await.unwrap();
    let mut heart = owned.journal.heartbeat(one.clone(), lease);
    let beat = heart.renew(Some(owned.epoch)).await.unwrap();
    assert_eq!((beat.epoch, beat.heard), (owned.epoch, owned.epoch));
    others.heard = later(2);
    others.renew(None).await.unwrap();
    let beat = heart.renew(Some(owned.epoch)).await.unwrap();
    assert_eq!((beat.epoch, beat.heard), (owned.epoch, later(2)));
    assert!(
        beat.lease_until.is_some(),
        "by the database it is the owner"
    );

    let take = async |epoch, heard| {
        let claim = Claim::Owner(epoch);
        let taken = owned.journal.take_over(&one, claim, lease, None, heard);
        match taken.await.unwrap() {
            TakeOver::Owned(taken) => taken.epoch,
            TakeOver::Refused => panic!("it owns the shard"),
        }
    };
    let third = take(owned.epoch, Epoch(0)).await;
    assert_eq!(third, later(3), "of what another replica has heard");
    others.heard = later(5);
    let beat = others.renew(None).await.unwrap();
    assert_eq!(beat.epoch, third);
    others.renew(None).await.unwrap();
    assert_eq!(others.heard, later(5), "it does not forget");
    let sixth = take(third, later(4)).await;
    assert_eq!(sixth, later(6));
    let tenth = take(sixth, later(9)).await;
    assert_eq!(tenth, later(10), "of what it has heard itself");
}

#[tokio::test]
async fn since_when_calls_may_be_repeated_is_taken_from_the_owner_before_and_from_no_other() {
    const MEMORY: Duration = Duration::from_secs(15 * 60);
    const LEASE: Duration = Duration::from_secs(5);
    let owned = Owned::new().await;
    let one = owned.replica.clone();
    let mut psql = owned.psql().await;
    let long_ago = owned.now - Duration::from_secs(3 * 24 * 3600);
    let mut heart = owned.journal.heartbeat(one.clone(), LEASE);
    heart.requests_since = Some(long_ago);
    heart.renew(Some(owned.epoch)).await.unwrap();
    let start = owned
        .journal
        .take_over(&one, Claim::Start, LEASE, None, Epoch(0))
        .await;
    assert_eq!(start.unwrap(), TakeOver::Refused, "it lives");
    drop(heart);
    let alive = "select count(*) from replica r join pg_stat_activity a on a.pid = r.heartbeat_pid";
    while owned.count(alive).await > 0 {
        sleep(Duration::from_millis(10)).await;
    }
    let second = take_over(&owned.journal, &one).await;
    assert_eq!(second.requests_since, long_ago);
    // An owner that ends before its first heartbeat passes on what it was given.
    let third = take_over(&owned.journal, &one).await;
    assert_eq!(third.requests_since, long_ago);

    // A version that does not know of it owned the shard in between.
    psql.execute("update shard set epoch = epoch + 1")
        .await
        .unwrap();
    let fifth = take_over(&owned.journal, &one).await;
    assert_eq!(fifth.epoch, Epoch(third.epoch.0 + 2));
    let usual = fifth.requests_since;
    assert!(usual >= owned.now - MEMORY, "{usual:?}");
    assert!(usual <= fifth.now - MEMORY, "{usual:?}");
    let sixth = take_over(&owned.journal, &one).await;
    assert_eq!(sixth.requests_since, usual);
}

#[tokio::test]
async fn a_claim_waits_a_while_for_an_append_of_the_owner_and_begins_behind_it() {
    let owned = Owned::new().await;
    let append = format!(
        "begin;
         insert into batch (shard, batch_no, epoch, at) values (0, {}, {}, now())",
        owned.next.0, owned.epoch.0
    );
    let mut psql = owned.psql().await;
    psql.execute(AssertSqlSafe(append)).await.unwrap();
    let lease = Duration::from_secs(5);
    let again = replica("one");
    let claim = |durable| {
        let (journal, durable) = (&owned.journal, Some((owned.epoch, durable)));
        journal.take_over(&again, Claim::Start, lease, durable, Epoch(0))
    };
    assert_eq!(
        claim(owned.next).await.unwrap(),
        TakeOver::Refused,
        "for too long"
    );
    let beat = owned.journal.heartbeat(owned.replica.clone(), lease);
    let beat = { beat }.renew(Some(owned.epoch)).await.unwrap();
    assert!(beat.lease_until.is_some(), "nothing has changed");
    let (taken, committed) = tokio::join!(claim(owned.next), async {
        let waits = "select count(*)
            from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock'";
        while owned.count(waits).await == 0 {
            sleep(Duration::from_millis(5)).await;
        }
        psql.execute("commit").await
    });
    committed.unwrap();
    let TakeOver::Owned(taken) = taken.unwrap() else {
        panic!("the append has ended");
    };
    assert_eq!(taken.last_batch, BatchNo(owned.next.0 + 1));
    assert_eq!(taken.survived, Some(owned.next));
    // The batch that begins an ownership is none of those before.
    let TakeOver::Owned(next) = claim(BatchNo(owned.next.0 + 5)).await.unwrap() else {
        panic!("nothing is in the way");
    };
    assert_eq!(next.survived, Some(owned.next));
    // So an owner is told that has been followed by another one, and which one the database knows.
    for (durable, survived) in [
        (owned.next.0 - 1, owned.next.0 - 1),
        (owned.next.0, owned.next.0),
        (owned.next.0 + 5, owned.next.0),
    ] {
        let durable = (owned.epoch, BatchNo(durable));
        let found = owned.journal.survived(durable).await.unwrap();
        let expected = (next.epoch, Some(BatchNo(survived)));
        assert_eq!(found, expected, "{durable:?}");
    }
}

#[tokio::test]
async fn an_unsafe_server_and_an_unknown_schema_are_refused() {
    let owned = Owned::new().await;
    let mut connection = owned.psql().await;
    let strict = JournalConfig {
        allow_unsafe: false,
        ..config(&owned.options)
    };
    let fsync: String = sqlx::query_scalar("show fsync")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    if fsync == "off" {
        assert!(matches!(
            Journal::open(strict).await,
            Err(JournalError::Unsafe(_))
        ));
    }
    Journal::open(config(&owned.options)).await.unwrap();
    let newer = "insert into _sqlx_migrations
        (version, description, success, checksum, execution_time)
        values (9999, 'x', true, '', 0)";
    connection.execute(newer).await.unwrap();
    Journal::open(config(&owned.options))
        .await
        .expect("the schema says that this program may go on");
    connection
        .execute("update schema_version set compatible_since = 9999")
        .await
        .unwrap();
    let mine = Claim::Owner(owned.epoch);
    let claim =
        owned
            .journal
            .take_over(&owned.replica, mine, Duration::from_secs(5), None, Epoch(0));
    for refused in [
        Journal::open(config(&owned.options)).await.err(),
        claim.await.err(),
        recover(&owned.journal, ENOUGH, since(owned.now))
            .await
            .err(),
    ] {
        let error = refused.expect("it is too new").to_string();
        assert!(
            error.contains("9999") && error.contains("newer version"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn several_replicas_may_start_at_once() {
    let options = super::database();
    let open = || Journal::open(config(&options));
    let (one, two, three) = tokio::join!(open(), open(), open());
    for journal in [one, two, three] {
        journal
            .unwrap()
            .maintenance()
            .ensure_partitions(None)
            .await
            .unwrap();
    }
}
