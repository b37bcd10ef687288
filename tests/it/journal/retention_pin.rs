//! What keeps an old day: a checkpoint that needs it, or an unfinished task. The status names it.

use super::{
    aged::{at_work_ago, checkpoint, ended, make_day, tasks},
    make::*,
};
use rallypoint::{core::*, journal::*};

#[tokio::test]
async fn a_day_that_a_checkpoint_needs_stays_until_it_is_written_anew() {
    let mut owned = at_work_ago(40).await;
    let (a, b, now) = (handle(), handle(), owned.now);
    for handle in [a, b] {
        owned
            .write_ago(40, checkpoint(handle, now, 0, 0, &[]))
            .await;
        owned.write_ago(40, tasks(handle, 1, 3, now)).await;
        owned.write_ago(40, ended(handle, 1, 3, now)).await;
    }
    owned.write(checkpoint(b, now, 3, 3, &[])).await;
    let maintenance = owned.journal.maintenance();
    let calendar = maintenance.live(now, None).await.unwrap();
    assert_eq!(
        maintenance
            .stale_checkpoints(&calendar, &[], 10)
            .await
            .unwrap(),
        [a]
    );
    assert_eq!(maintenance.drop_days(&calendar).await.unwrap(), 0);
    let status = owned.journal.reader().status().await.unwrap();
    assert_eq!(
        (status.oldest_day, status.pin),
        (Some(owned.days_ago(40)), Some(RetentionPin::Checkpoint(a)))
    );
    assert_eq!(
        recover(&owned.journal, ENOUGH, since(owned.now))
            .await
            .unwrap()
            .schedulers
            .iter()
            .map(|one| one.outcomes.len())
            .sum::<usize>(),
        1
    );

    owned.write(checkpoint(a, now, 3, 3, &[])).await;

    assert_eq!(
        owned.journal.reader().status().await.unwrap().pin,
        Some(RetentionPin::Due)
    );
    assert_eq!(
        maintenance
            .stale_checkpoints(&calendar, &[], 10)
            .await
            .unwrap(),
        []
    );
    assert_eq!(maintenance.drop_days(&calendar).await.unwrap(), 4);
    assert_eq!(owned.journal.reader().status().await.unwrap().pin, None);
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_renewed_hides_none_of_later_days() {
    let mut owned = at_work_ago(40).await;
    let (unreadable, other, now) = (handle(), handle(), owned.now);
    make_day(&owned, 38).await;
    for (handle, ago) in [(unreadable, 40), (other, 38)] {
        owned
            .write_ago(ago, checkpoint(handle, now, 0, 0, &[]))
            .await;
        owned.write_ago(ago, tasks(handle, 1, 3, now)).await;
        owned.write_ago(ago, ended(handle, 1, 3, now)).await;
    }
    let maintenance = owned.journal.maintenance();
    let calendar = maintenance.live(now, None).await.unwrap();
    let stale = async |besides: &[Handle]| {
        let stale = maintenance.stale_checkpoints(&calendar, besides, 10).await;
        stale.unwrap()
    };
    assert_eq!(stale(&[]).await, [unreadable]);
    assert_eq!(stale(&[unreadable]).await, [other]);
}

#[tokio::test]
async fn recovery_looks_no_further_back_than_the_checkpoint_needs() {
    let mut owned = at_work_ago(40).await;
    make_day(&owned, 3).await;
    let (a, now) = (handle(), owned.now);
    owned.write_ago(40, tasks(a, 1, 3, now)).await;
    owned.write_ago(40, ended(a, 1, 2, now)).await;
    let first_days = |ago: i32| {
        let mut records = checkpoint(a, now, 3, 2, &[(3, 3)]);
        records.schedulers.get_mut(&a).unwrap().checkpoint.first_day = Day(now.day().0 - ago);
        records
    };
    owned.write(first_days(40)).await;
    assert_eq!(
        recover(&owned.journal, ENOUGH, since(owned.now))
            .await
            .unwrap()
            .schedulers[0]
            .runs
            .len(),
        1
    );
    assert_eq!(
        owned
            .count("select (current_date - first_day)::int8 from scheduler")
            .await,
        43
    );
    owned.write(first_days(0)).await;
    assert_eq!(
        owned
            .count("select (current_date - first_day)::int8 from scheduler")
            .await,
        3
    );
    assert_eq!(
        recover(&owned.journal, ENOUGH, since(owned.now))
            .await
            .unwrap()
            .schedulers[0]
            .runs
            .len(),
        0,
        "older days are not looked at"
    );
}

#[tokio::test]
async fn the_status_names_an_unfinished_task_whose_row_is_not_moved_yet() {
    let mut owned = at_work_ago(40).await;
    let (a, now) = (handle(), owned.now);
    owned.write_ago(40, checkpoint(a, now, 0, 0, &[])).await;
    owned.write_ago(40, tasks(a, 1, 3, now)).await;
    owned.write(checkpoint(a, now, 3, 2, &[(2, 2)])).await;
    assert_eq!(
        owned.journal.reader().status().await.unwrap().pin,
        Some(RetentionPin::Unfinished(a))
    );
}
