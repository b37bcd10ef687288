//! A run that a signal ends while its scheduler is being opened.

use super::run::Run;
use crate::cli::{error::CliError, signals::Signals};
use std::time::Duration;
use tokio::time::timeout;

/// For how long the answer is waited for, and then the release: the server may be away.
const GIVE_BACK_TIMEOUT: Duration = Duration::from_secs(1);

/// Gives back what the call under way opens, of which nobody would know. What is not answered in
/// time, or before another signal, is released when it has been idle for long.
pub(super) async fn give_back(
    opening: impl Future<Output = Result<Run, CliError>>,
    signals: &mut Signals,
) {
    let opened = tokio::select! {
        opened = timeout(GIVE_BACK_TIMEOUT, opening) => opened,
        _ = signals.next() => return,
    };
    if let Ok(Ok(run)) = opened {
        timeout(GIVE_BACK_TIMEOUT, run.withdraw(signals)).await.ok();
    }
}
