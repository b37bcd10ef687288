//! What handlers of RPCs read of tasks and schedulers, and that a read survives a lost connection.

use super::{Owned, make::*, scene::scene};
use rallypoint::core::*;
use std::{collections::BTreeMap, time::Duration};
use uuid::Uuid;

/// The connections of readers.
const READERS: &str = "select count(*)
    from pg_stat_activity
    where datname = current_database() and application_name = 'rallypoint journal reader'";
/// Ends them.
const END_READERS: &str = "select count(pg_terminate_backend(pid))
    from pg_stat_activity
    where datname = current_database() and application_name = 'rallypoint journal reader'";

#[tokio::test]
async fn the_last_task_is_known_when_its_row_is_past_the_retention() {
    let mut owned = Owned::new().await;
    let (handle, now) = (handle(), owned.now);
    let mut quiesced = image(handle, now);
    quiesced.checkpoint.highest_seq = Seq(7);
    owned.write_images([quiesced]).await;
    let last = |owned: &Owned| {
        let reader = owned.journal.reader();
        async move { reader.last_submitted(handle).await.unwrap() }
    };
    assert_eq!(last(&owned).await, Seq(7));
    let later = records(vec![plain(handle, 8, 3, None, now)], vec![]);
    owned.write(later).await;
    assert_eq!(last(&owned).await, Seq(10));
}

#[tokio::test]
async fn a_task_is_read_with_everything_about_it() {
    let scene = scene().await;
    let reader = scene.owned.journal.reader();
    let task = reader.task(scene.handle, Seq(4)).await.unwrap().unwrap();
    assert_eq!(
        (task.order, task.effective, task.submitted_at),
        (Some(Order(5)), Some(Order(7)), scene.now)
    );
    assert_eq!(task.spec, noop());
    assert_eq!(task.done, Some((DoneNo(4), scene.done[3].clone())));
    assert_eq!(task.body.unwrap().body, "body 4");
    let task = reader.task(scene.handle, Seq(6)).await.unwrap().unwrap();
    assert_eq!(task.done, None);
    let all = reader.attempts(scene.handle, Seq(6), Attempt(0), 9);
    assert_eq!(all.await.unwrap().len(), 1);
    assert_eq!(task.submitted_at, scene.now + Duration::from_micros(70));
    for (handle, seq) in [
        (scene.handle, 0),
        (scene.handle, 7),
        (scene.handle, i64::MAX),
        (handle(), 1),
    ] {
        assert!(reader.task(handle, Seq(seq)).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn tasks_are_listed_in_pages_newest_first() {
    let scene = scene().await;
    let reader = scene.owned.journal.reader();
    let search = |order| {
        let filter = TaskFilter {
            order,
            ..TaskFilter::default()
        };
        reader.search(scene.handle, filter)
    };
    let all = search(None).await.unwrap();
    for limit in 1..8 {
        let (mut seqs, mut before) = (Vec::new(), Some(Seq(i64::MAX)));
        while let Some(next) = before {
            let page = reader.tasks(&all, next, limit).await.unwrap();
            assert!(page.tasks.len() <= limit);
            assert!(
                page.tasks
                    .iter()
                    .all(|task| task.done.is_some() == (task.seq.0 < 6))
            );
            seqs.extend(page.tasks.iter().map(|task| task.seq.0));
            before = page.next;
        }
        assert_eq!(seqs, [6, 5, 4, 3, 2, 1], "pages of {limit}");
    }
    let of_order = search(Some(Order(7))).await.unwrap();
    let page = reader.tasks(&of_order, Seq(i64::MAX), 9).await.unwrap();
    assert_eq!(
        page.tasks.iter().map(|task| task.seq.0).collect::<Vec<_>>(),
        [4, 3]
    );
}

#[tokio::test]
async fn schedulers_are_listed_newest_first_page_by_page() {
    let mut owned = Owned::new().await;
    let (handles, images) = five_schedulers(&mut owned).await;
    let released = SchedulerImage {
        state: SchedulerState::Released,
        paused: true,
        ..images[&handles[3]].clone()
    };
    owned
        .write(Records {
            schedulers: BTreeMap::from([(handles[3], released.clone())]),
            ..Records::default()
        })
        .await;
    let released = read_again(released);
    let reader = owned.journal.reader();
    let list = async |namespace: &str, before, states: &[SchedulerState]| {
        let filter = SchedulerFilter {
            states: states.to_vec(),
            ..SchedulerFilter::default()
        };
        let namespace = Namespace(namespace.into());
        let page = reader.schedulers(&namespace, &filter, before, 3).await;
        page.unwrap()
    };
    let page = list("default", None, &[]).await;
    let listed: Vec<Handle> = page.images.iter().map(|image| image.handle).collect();
    assert_eq!((&listed[..], page.next), (&handles[..3], Some(handles[2])));
    let page = list("default", page.next, &[]).await;
    let oldest = read_again(images[&handles[4]].clone());
    assert_eq!(page.images, [released.clone(), oldest]);
    assert_eq!(page.next, None);
    let page = list("default", None, &[SchedulerState::Released]).await;
    assert_eq!((page.images, page.next), (vec![released], None));
    assert!(list("other", None, &[]).await.images.is_empty());
}

#[tokio::test]
async fn a_scheduler_is_found_by_the_request_that_opened_it() {
    let mut owned = Owned::new().await;
    let (handles, _) = five_schedulers(&mut owned).await;
    let reader = owned.journal.reader();
    let find = async |namespace: &str, request| {
        let namespace = Namespace(namespace.into());
        let request = Uuid::from_u128(request);
        reader.find_request(&namespace, request).await.unwrap()
    };
    assert_eq!(find("default", 7).await.unwrap().handle, handles[0]);
    assert!(find("default", 8).await.is_none());
    assert!(find("other", 7).await.is_none());
}

/// Five schedulers of one request: their handles, newest first, and their images.
async fn five_schedulers(owned: &mut Owned) -> (Vec<Handle>, BTreeMap<Handle, SchedulerImage>) {
    let now = owned.now;
    let mut handles: Vec<Handle> = (0..5).map(|_| handle()).collect();
    let images: BTreeMap<Handle, SchedulerImage> = handles
        .iter()
        .map(|handle| (*handle, image(*handle, now)))
        .collect();
    owned
        .write(Records {
            schedulers: images.clone(),
            ..Records::default()
        })
        .await;
    handles.reverse();
    (handles, images)
}

#[tokio::test]
async fn the_status_knows_the_last_batch_and_the_oldest_day() {
    let scene = scene().await;
    let status = scene.owned.journal.reader().status().await.unwrap();
    assert_eq!(
        (status.last_batch, status.epoch),
        (BatchNo(3), scene.owned.epoch)
    );
    assert_eq!(status.oldest_day, Some(scene.now.day()));
    assert!(status.now >= status.last_at && status.last_at >= scene.now);
    assert_eq!(status.replicas.len(), 1);
}

#[tokio::test]
async fn a_read_outlives_the_loss_of_its_connection() {
    let scene = scene().await;
    let reader = scene.owned.journal.reader();
    assert!(
        reader
            .scheduler(&namespace(), scene.handle)
            .await
            .unwrap()
            .is_some()
    );
    assert!(scene.owned.count(END_READERS).await >= 1);
    assert!(
        reader
            .scheduler(&namespace(), scene.handle)
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test]
async fn so_do_reads_of_jobs_and_claims() {
    let owned = Owned::new().await;
    let (reader, job, default) = (owned.journal.reader(), JobNo(1), namespace());
    let run = RunKey {
        job,
        due: owned.now,
    };
    for read in 0..8 {
        reader.scheduler(&default, handle()).await.unwrap();
        assert!(owned.count(END_READERS).await >= 1);
        while owned.count(READERS).await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        match read {
            0 => assert!(reader.job(&default, "a").await.unwrap().is_none()),
            1 => assert!(reader.job_no(&default, "a").await.unwrap().is_none()),
            2 => assert!(reader.jobs(&default, "", 9).await.unwrap().items.is_empty()),
            3 => assert!(reader.job_runs(job, owned.now, 9).await.unwrap().is_empty()),
            4 => assert!(reader.run_claims(run, 100).await.unwrap().is_empty()),
            5 => {
                let read = reader.run_claim(run, RunToken(1)).await;
                assert!(read.unwrap().is_none());
            }
            6 => assert!(reader.run_of(run).await.unwrap().is_none()),
            _ => assert!(reader.claim(ClaimNo(1)).await.unwrap().is_none()),
        }
    }
}

#[tokio::test]
async fn a_dropped_read_does_no_harm() {
    let scene = scene().await;
    let reader = scene.owned.journal.reader();
    for us in (0..2_000).step_by(100) {
        let read = reader.task(scene.handle, Seq(4));
        let _ = tokio::time::timeout(Duration::from_micros(us), read).await;
    }
    assert!(reader.task(scene.handle, Seq(4)).await.unwrap().is_some());
}

/// Rows of results may be megabytes a task.
#[tokio::test]
async fn lists_leave_the_rows_of_results_in_the_journal() {
    let scene = scene().await;
    let reader = scene.owned.journal.reader();
    let search = reader
        .search(scene.handle, TaskFilter::default())
        .await
        .unwrap();
    let listed = reader
        .tasks(&search, Seq(i64::MAX), 100)
        .await
        .unwrap()
        .tasks;
    for task in &listed {
        let result = task.done.as_ref().and_then(|(_, done)| done.result.clone());
        let rows = result.as_ref().map(|result| result.rows_json.len());
        assert!(rows.is_none_or(|bytes| bytes == 0), "{task:?}");
        assert_eq!(task.rows_omitted, task.seq == Seq(2), "{task:?}");
        if task.seq == Seq(2) {
            assert_eq!(result.map(|result| result.rows_affected), Some(2));
        }
    }
    let whole = reader.task(scene.handle, Seq(2)).await.unwrap().unwrap();
    assert_eq!(whole.done, Some((DoneNo(1), scene.done[0].clone())));
    assert!(!whole.rows_omitted);
}
