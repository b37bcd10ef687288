//! Writes the executor's database sessions into the register, where the owner of the shard finds
//! them when it has to fence this executor. A session may run a statement only once it is
//! registered: the executor waits for the acknowledgement that is sent from here. Sessions whose
//! end cannot be shown are noted there too, for operators.

use crate::{
    executor::SessionNote,
    journal::{JournalError, Sessions},
};
use tokio::sync::mpsc;

/// Session notes that may wait to be written.
const QUEUED_NOTES: usize = 256;

/// Starts the task that writes session notes; returns where the executor sends them.
pub(super) fn spawn(sessions: Sessions) -> mpsc::Sender<SessionNote> {
    let (notes, mut received) = mpsc::channel(QUEUED_NOTES);
    tokio::spawn(async move {
        while let Some(note) = received.recv().await {
            if let Err(error) = write(&sessions, note).await {
                tracing::warn!(%error, "cannot write the register of sessions");
            }
        }
    });
    notes
}

async fn write(sessions: &Sessions, note: SessionNote) -> Result<(), JournalError> {
    match note {
        SessionNote::Register { session, done } => {
            if sessions
                .register(
                    &session.target,
                    session.slot,
                    session.pid,
                    session.backend_start,
                    session.postmaster.as_ref(),
                )
                .await?
            {
                // A slot that no longer waits opens another session.
                let _ = done.send(());
            }
            Ok(())
        }
        SessionNote::Forget(session) => {
            sessions
                .let_go(&session.target, session.pid, session.backend_start)
                .await
        }
        SessionNote::Pending {
            session,
            why,
            declared_dead,
        } => {
            let (target, pid, start) = (&session.target, session.pid, session.backend_start);
            let declared = sessions.note_pending(target, pid, start, &why).await?;
            // Who no longer waits asks again.
            let _ = declared_dead.send(declared);
            Ok(())
        }
    }
}
