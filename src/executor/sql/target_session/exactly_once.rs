//! Runs the text of an EXACTLY_ONCE task on a session: its marker, the text and the commit, in two
//! writes.
//!
//! Invariant: COMMIT is sent only behind the completed marker, and when the text has succeeded.

use super::Live;
use crate::{
    clock::Clock,
    core::{SessionReset, model::diagnostics::Diagnostics},
    executor::{
        pg_client::{Frame, Report},
        sql::{
            answer::{Answer, Answered, Left, Wrapping},
            error::{Failure, error},
            markers::Marker,
            marking::{self, Marking},
            notices,
            statement::Conditions,
        },
    },
    executor_protocol::Body,
};
use postgres_protocol::message::backend::Message;

impl Live {
    /// Runs it. Returns when its transaction has ended, or nobody knows whether it has. When it is
    /// dropped before its end, the session must be dropped too.
    pub(crate) async fn run_once(
        &mut self,
        mut marking: Marking,
        body: &Body,
        conditions: &Conditions,
        clock: &Clock,
    ) -> Answered {
        marking.backend_pid = self.session.pid;
        let wrapping = match marking::is_prepared(body, conditions) {
            true => Wrapping::Prepare {
                prefix: marking::prefix().len() as u32,
            },
            false => Wrapping::Run,
        };
        let mut answer = Answer::wrapped(conditions.max_rows, wrapping);
        let read = self.read_text(&mut answer, &marking, body, conditions);
        let read = read.await;
        let mut answered = answer.finish(read);
        if let Ok(result) = &answered.result {
            let marker = marking.marker(clock.now(), result, &answered.said);
            let commit = self.commit(answered, marker, &marking, conditions.reset);
            answered = commit.await;
        }
        answered
    }

    async fn read_text(
        &mut self,
        answer: &mut Answer,
        marking: &Marking,
        body: &Body,
        conditions: &Conditions,
    ) -> Result<(), Failure> {
        let out = self.connection.out();
        let opening = marking.put_text(body, conditions, out);
        let opening = opening.inspect_err(|_| out.clear())?;
        self.used_by = Some((conditions.task.handle, conditions.session.clone()));
        // Unless the server says otherwise.
        self.left = Left::Transaction;
        self.connection.send().await?;
        let (mut done, mut refusal) = (0, None);
        loop {
            let frame = self.connection.receive().await?;
            match frame {
                Frame::Message(Message::CommandComplete(_)) if done < opening.all => done += 1,
                Frame::Message(Message::ErrorResponse(body)) if done < opening.all => {
                    let failure = opening.failure(done, Report::of(body.fields()));
                    if failure.is_ambiguous() {
                        return Err(failure);
                    }
                    refusal = Some(failure);
                }
                // Rows of ours.
                Frame::Message(Message::DataRow(_)) if done < opening.all => {}
                Frame::Message(Message::CloseComplete) => {}
                frame => {
                    if let Some(left) = answer.take(frame)? {
                        self.left = left;
                        return refusal.map_or(Ok(()), Err);
                    }
                }
            }
        }
    }

    /// Commits what the text has done with its marker.
    async fn commit(
        &mut self,
        answered: Answered,
        marker: Marker,
        marking: &Marking,
        reset: SessionReset,
    ) -> Answered {
        let mut answer = Answer::wrapped(0, Wrapping::Run);
        let read = self.read_commit(&mut answer, &marker, marking, reset).await;
        let committed = answer.finish(read);
        // What was put off until the commit speaks there, too late for the marker in the database.
        let notices = notices::joined(&answered.said.notices, &committed.said.notices);
        let said = |of: Diagnostics| Diagnostics { notices, ..of };
        match committed.result {
            Ok(_) => Answered {
                marker: Some(Box::new(Marker {
                    said: said(marker.said),
                    ..marker
                })),
                ..answered
            },
            Err(failure) => Answered {
                result: Err(failure),
                said: said(committed.said),
                marker: None,
            },
        }
    }

    async fn read_commit(
        &mut self,
        answer: &mut Answer,
        marker: &Marker,
        marking: &Marking,
        reset: SessionReset,
    ) -> Result<(), Failure> {
        let cleaning = match reset {
            SessionReset::Task => self.cleaned_by,
            SessionReset::Scheduler => &[],
        };
        let out = self.connection.out();
        if let Err(refused) = marking.put_commit(marker, cleaning, out) {
            out.clear();
            return Err(refused);
        }
        self.cleaning = reset == SessionReset::Task;
        self.connection.send().await?;
        let mut committed = false;
        loop {
            let frame = self.connection.receive().await?;
            match &frame {
                Frame::Message(Message::CommandComplete(done)) => {
                    committed |= done.tag().is_ok_and(|tag| tag == "COMMIT");
                }
                Frame::Message(Message::CloseComplete) => continue,
                _ => {}
            }
            if let Some(left) = answer.take(frame)? {
                self.left = left;
                return match committed || answer.has_failed() {
                    true => Ok(()),
                    false => Err(Failure::Confused(error(
                        "PROTOCOL",
                        "the target has answered neither a commit nor an error".into(),
                    ))),
                };
            }
        }
    }
}
