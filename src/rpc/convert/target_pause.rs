//! Pauses of targets in API form.

use super::timestamp;
use crate::core::{PauseMode, PauseView, TargetPause};
use rallypoint_client::api;

/// A pause.
pub(crate) fn target_pause(pause: &TargetPause) -> api::TargetPause {
    let mode = match pause.mode {
        PauseMode::Drain => api::PauseMode::Drain,
        PauseMode::CancelRunning => api::PauseMode::CancelRunning,
    };
    api::TargetPause {
        target: pause.target.as_deref().unwrap_or_default().to_owned(),
        mode: mode.into(),
        since: Some(timestamp(pause.since)),
        paused_by: pause.by.to_string(),
        reason: pause.reason.to_string(),
    }
}

/// A pause, and what still runs under it.
pub(crate) fn paused_target(view: &PauseView) -> api::PausedTarget {
    api::PausedTarget {
        pause: Some(target_pause(&view.pause)),
        running: view.running.into(),
        in_doubt: view.in_doubt.into(),
    }
}
