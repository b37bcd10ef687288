//! Says that the server cannot be reached, or does not take what it is asked for, and that this is
//! over: a command keeps trying by itself, and would just seem to take long.

use super::{api_words, error::broken_off, time_text};
use rallypoint_client::Outage;
use std::{
    pin::pin,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::time::sleep;

/// How often a command looks whether there is something to say.
const INTERVAL: Duration = Duration::from_millis(500);
/// The shortest outage that is said.
const SHORTEST: Duration = Duration::from_secs(2);

/// What has been said of the outages of a stream.
pub(super) struct OutageNote {
    outage: Outage,
    /// The outage that was said, and whether it was one without a server.
    said: Option<(SystemTime, bool)>,
}

impl OutageNote {
    pub(super) fn of(outage: Outage) -> OutageNote {
        OutageNote { outage, said: None }
    }

    /// The server cannot be reached at present.
    pub(super) fn is_away(&self) -> bool {
        self.outage.since().is_some()
    }

    /// Waits for something, and says meanwhile what is new.
    pub(super) async fn beside<T>(
        &mut self,
        waiting: impl Future<Output = T>,
        say: impl Fn(String),
    ) -> T {
        let mut waiting = pin!(waiting);
        loop {
            let ended = tokio::select! {
                ended = &mut waiting => Some(ended),
                () = sleep(INTERVAL) => None,
            };
            self.news(SystemTime::now()).into_iter().for_each(&say);
            if let Some(ended) = ended {
                return ended;
            }
        }
    }

    /// What is to be said now, if there is something new.
    fn news(&mut self, now: SystemTime) -> Option<String> {
        let passed = |since: SystemTime| now.duration_since(since).unwrap_or_default();
        match (self.outage.since(), self.said) {
            (Some(since), said)
                if passed(since) >= SHORTEST && said.is_none_or(|(of, _)| of != since) =>
            {
                let error = self.outage.error()?;
                self.said = Some((since, error.transport));
                let since = since.duration_since(UNIX_EPOCH).unwrap_or_default();
                let since = time_text::time(since.as_micros() as i64);
                let what = match error.transport {
                    true => "the server cannot be reached",
                    false => "the server has not taken the call",
                };
                let advice = broken_off(&error).map(|advice| format!("\n  {advice}"));
                let reason = error.reason.as_ref().map(|reason| format!(", {reason}"));
                Some(format!(
                    "{what} since {since} ({}{}): trying again …{}",
                    api_words::translated(&error.message),
                    reason.unwrap_or_default(),
                    advice.unwrap_or_default()
                ))
            }
            (None, Some((since, was_away))) => {
                self.said = None;
                let lasted = time_text::duration(passed(since).as_micros() as i64);
                Some(match was_away {
                    true => format!("the server is back after {lasted}"),
                    false => format!("the server takes calls again after {lasted}"),
                })
            }
            _ => None,
        }
    }
}
