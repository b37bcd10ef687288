//! Keeps the private Postgres of the zero-setup mode running: it is started again when it has ended
//! by itself, and the server ends with an error when that does not help.

use crate::postgres::PrivatePostgres;
use anyhow::bail;
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

/// Between looks at its process.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Pause after a failed start: backends of the one that ended may still use its memory.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// Starts in a row that may fail.
const MAX_FAILURES: u32 = 5;

/// Returns only when it cannot be kept running.
pub(super) async fn keep(private: Option<Arc<PrivatePostgres>>) -> anyhow::Result<()> {
    let Some(private) = private else {
        return std::future::pending().await;
    };
    let mut failures = 0;
    loop {
        sleep(POLL_INTERVAL).await;
        let private = Arc::clone(&private);
        match tokio::task::spawn_blocking(move || private.revive()).await? {
            Ok(None) => failures = 0,
            Ok(Some(status)) => {
                tracing::error!(%status, "the private Postgres had ended; it was started again");
            }
            Err(error) => {
                failures += 1;
                tracing::error!(%error, "the private Postgres has ended and cannot be started");
                if failures == MAX_FAILURES {
                    bail!("the private Postgres has ended and cannot be started again: {error:#}");
                }
                sleep(RETRY_PAUSE).await;
            }
        }
    }
}
