//! Schedulers that an owner has set aside and whose rows do not say so yet, since somebody had them
//! locked while the journal was read. They are noted when they are free, or the log says that they
//! are not.

use super::logged_error::LoggedError;
use crate::{
    core::Handle,
    journal::{Journal, JournalError},
};
use std::time::Duration;

/// Between tries to note them.
const NOTE_INTERVAL: Duration = Duration::from_secs(5);

/// Those of the present ownership.
#[derive(Debug, Default)]
pub(crate) struct Unnoted(Vec<Handle>);

impl Unnoted {
    /// What the last recovery has left. What an earlier core of this ownership had left was read
    /// again, and is among these unless it is noted or can be read.
    pub(super) fn set(&mut self, handles: Vec<Handle>) {
        self.0 = handles;
        if !self.is_empty() {
            tracing::warn!(
                schedulers = self.0.len(),
                "rows of schedulers that make no sense to this version are locked by somebody: \
                 until that ends, an owner that can read them again does not know that they were \
                 set aside, and may start a task twice that must start once"
            );
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes them once nobody has their rows locked. It may be dropped at any time: what is not
    /// known to be noted is left.
    pub(super) async fn note(&mut self, journal: &Journal) {
        self.note_by(|handles| async move { journal.note_set_aside(&handles).await })
            .await;
    }

    async fn note_by<N>(&mut self, mut note: impl FnMut(Vec<Handle>) -> N)
    where
        N: Future<Output = Result<Vec<Handle>, JournalError>>,
    {
        let mut logged = LoggedError::default();
        while !self.is_empty() {
            tokio::time::sleep(NOTE_INTERVAL).await;
            match note(self.0.clone()).await {
                Ok(left) => self.0 = left,
                Err(error) if logged.is_due(&error) => {
                    tracing::warn!(%error, "cannot note yet which schedulers were set aside");
                }
                Err(_) => {}
            }
        }
    }

    /// The ownership ends: says what it leaves without a note.
    pub(super) fn give_up(&mut self) {
        let left = std::mem::take(&mut self.0);
        if !left.is_empty() {
            tracing::warn!(
                schedulers = left.len(),
                "this ownership has ended, and it is not noted that schedulers were set aside: \
                 until now somebody had their rows locked"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use uuid::Uuid;

    #[tokio::test(start_paused = true)]
    async fn what_is_not_noted_when_the_ownership_ends_is_still_known() {
        let [one, other] = [1, 2].map(|id| Handle::from_uuid(Uuid::from_u128(id)));
        let mut unnoted = Unnoted(vec![one, other]);
        let mut tried = Vec::new();
        let note = |handles| {
            tried.push(handles);
            let tries = tried.len();
            async move {
                match tries {
                    1 => Err(JournalError::Timeout),
                    2 => Ok(vec![other]),
                    _ => pending().await,
                }
            }
        };
        let ends = Duration::from_secs(60);
        let noted = tokio::time::timeout(ends, unnoted.note_by(note)).await;
        assert!(noted.is_err(), "the ownership ends before the answer");
        assert_eq!(unnoted.0, [other]);
        assert_eq!(tried, [vec![one, other], vec![one, other], vec![other]]);
    }
}
