//! Which schedulers an owner could not read is noted for the owners after it.

use super::{Owned, make::*};
use rallypoint::journal::recover;
use sqlx::Executor;

#[tokio::test]
async fn a_row_that_somebody_has_locked_is_noted_when_it_is_free() {
    let mut owned = Owned::new().await;
    let (locked, free, now) = (handle(), handle(), owned.now);
    owned
        .write_images([image(locked, now), image(free, now)])
        .await;
    let mut psql = owned.psql().await;
    psql.execute("update scheduler set settings = 'x'")
        .await
        .unwrap();
    psql.execute("begin").await.unwrap();
    sqlx::query("select from scheduler where handle = $1 for update")
        .bind(locked.uuid())
        .execute(&mut psql)
        .await
        .unwrap();
    let read = recover(&owned.journal, ENOUGH, since(now)).await.unwrap();
    assert_eq!(read.unreadable.len(), 2);
    assert_eq!(read.unnoted, [locked]);
    let mut set_aside = [locked, free];
    set_aside.sort_unstable();
    assert_eq!(read.jobs.set_aside, set_aside, "none of them is gone");
    let left = owned.journal.note_set_aside(&read.unnoted).await.unwrap();
    assert_eq!(left, [locked]);
    let noted = "select count(*) from scheduler where set_aside";
    assert_eq!(owned.count(noted).await, 1);
    psql.execute("rollback").await.unwrap();
    let left = owned.journal.note_set_aside(&left).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(owned.count(noted).await, 2);
    let again = recover(&owned.journal, ENOUGH, since(now)).await.unwrap();
    assert!(again.unnoted.is_empty(), "{:?}", again.unnoted);
}
