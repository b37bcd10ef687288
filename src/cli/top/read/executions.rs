//! What runs on each slot.

use rallypoint_client::{Client, Result, api::Execution};
use std::time::Duration;

/// What runs, and how many slots are left out: the first message of the stream, which has a
/// thousand slots at most, those that run something first. ListExecutions has no such choice, and
/// a stream that was kept would send what nobody draws while another view is looked at.
pub(super) async fn executions(client: &Client) -> Result<(Vec<Execution>, i64)> {
    let mut stream = client.watch_executions(Duration::from_secs(1)).await?;
    let first = stream.message().await?.unwrap_or_default();
    Ok((first.executions, first.left_out))
}
