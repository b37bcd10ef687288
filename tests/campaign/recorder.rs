//! Watches the databases from outside, past all proxies, and writes when something happened there
//! by the one clock that no fault can set: the monotonic one of this machine.

use crate::{
    fixture::Fixture,
    history::{Entry, now},
    postgres_log,
};
use rallypoint::postgres::TARGET;
use sqlx::PgConnection;
use std::{sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

/// Between two moments: marks of tasks are placed in time that precisely.
const MOMENT_INTERVAL: Duration = Duration::from_millis(5);
/// Between two looks at the last batch.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);
const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);
/// A database that takes longer is asked anew.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Records until the tasks are dropped.
pub(crate) fn start(fixture: &Arc<Fixture>) -> JoinSet<()> {
    let mut recording = JoinSet::new();
    recording.spawn(moments(fixture.clone()));
    recording.spawn(progress(fixture.clone()));
    recording.spawn(postgres_log::watch(fixture.clone()));
    recording
}

/// Draws numbers as marks do. A mark with a lower number was made before the answer to a higher
/// one arrived here, one with a higher number after a lower one was asked for. The number is
/// stored, because a crash may take back what is only drawn.
async fn moments(fixture: Arc<Fixture>) {
    loop {
        if let Ok(mut session) = fixture.target.login(TARGET).await {
            while let Some(moment) = moment(&mut session).await {
                fixture.history.write(&moment);
                sleep(MOMENT_INTERVAL).await;
            }
        }
        sleep(RECONNECT_INTERVAL).await;
    }
}

async fn moment(session: &mut PgConnection) -> Option<Entry> {
    let asked = now();
    let query = sqlx::query_scalar("insert into moment default values returning number");
    let answer = timeout(ANSWER_TIMEOUT, query.fetch_one(session)).await;
    Some(Entry::Moment {
        number: answer.ok()?.ok()?,
        asked,
        answered: now(),
    })
}

/// Notes when the shard moves on, and when its owner renews its lease.
async fn progress(fixture: Arc<Fixture>) {
    let mut last = (0, 0);
    let mut lease = None;
    loop {
        if let Ok(mut session) = fixture.journal.session().await {
            while let Some((batch, epoch, until)) = last_batch(&mut session).await {
                if until != lease {
                    lease = until;
                    fixture.history.write(&Entry::Renewed { at: now() });
                }
                let begins = epoch > last.1;
                if begins {
                    fixture.history.write(&Entry::Epoch { at: now(), epoch });
                }
                let moves_on = batch > last.0;
                last = last.max((batch, epoch));
                // With which an ownership begins is no progress.
                if moves_on && !begins {
                    fixture.history.write(&Entry::Progress { at: now(), batch });
                }
                sleep(PROGRESS_INTERVAL).await;
            }
        }
        sleep(RECONNECT_INTERVAL).await;
    }
}

/// Its number and its epoch, and until when the shard has an owner. `None`: no answer, or no table
/// yet.
async fn last_batch(session: &mut PgConnection) -> Option<(i64, i64, Option<String>)> {
    let query = "select batch_no, epoch, (select lease_until::text from lease where shard = 0)
        from batch
        where shard = 0
        order by batch_no desc
        limit 1";
    let answer = timeout(
        ANSWER_TIMEOUT,
        sqlx::query_as(query).fetch_optional(session),
    )
    .await;
    Some(answer.ok()?.ok()?.unwrap_or_default())
}
