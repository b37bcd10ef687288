//! Calls about schedulers that have left memory: they are released and every task has ended.
//!
//! The journal still knows them, and nothing can change them any more, so they are answered from
//! the journal, beside the loop. The core does not count their streams; they are limited here.

use super::{cursor::EventStream, goal::Goal};
use crate::{
    coordinator::{
        admission::{Admission, Capacity, Permit},
        call_error::CallError,
    },
    core::{
        Counts, DoneNo, Handle, Namespace, Phase, Progress, Reject, Reply, Request, SchedulerImage,
        SchedulerState, SchedulerView, Seq, Until, Verb,
        model::limits::{LIMIT_WAIT, Limit},
    },
    journal::Reader,
};

/// Answers for ended schedulers. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct EndedSchedulers {
    reader: Reader,
    streams: Admission,
    /// Streams of one namespace, at most.
    max_streams: u32,
}

impl EndedSchedulers {
    pub(crate) fn new(reader: Reader, max_streams: u32) -> Self {
        // A single namespace gets half of the capacity.
        EndedSchedulers {
            reader,
            streams: Admission::new(Capacity {
                calls: 2 * max_streams as usize,
                bytes: 0,
            }),
            max_streams,
        }
    }

    fn permit(&self, namespace: &Namespace) -> Result<Permit, CallError> {
        let over_limit = Reject::LimitReached {
            limit: Limit::Streams,
            namespace: namespace.clone(),
            value: self.max_streams.into(),
            wait: Some(LIMIT_WAIT),
        };
        self.streams
            .admit(namespace, 0)
            .map_err(|_| CallError::Rejected(over_limit))
    }

    /// The reply to a call that the core has rejected because it does not know the scheduler.
    pub(crate) async fn call(
        &self,
        namespace: Namespace,
        handle: Handle,
        verb: &Verb,
    ) -> Result<Reply, CallError> {
        if let Verb::Open(open) = verb {
            return self.opened_before(namespace, open.request).await;
        }
        let image = self.image(namespace, handle).await?;
        let (highest, done_no) = (image.checkpoint.highest_seq, image.checkpoint.done_no);
        let is_there = |first: Seq, last: Seq| first.0 >= 1 && last <= highest;
        match verb {
            Verb::Release(_) => Ok(Reply::Released {
                already: true,
                pending: 0,
                done_no,
            }),
            Verb::Cancel(cancel) if cancel.tasks.iter().all(|of| is_there(of.first, of.last)) => {
                Ok(Reply::Cancelled {
                    waiting: 0,
                    running: 0,
                })
            }
            Verb::Snapshot(_) => Ok(Reply::Snapshot(None)),
            Verb::Explain(task) if is_there(task.seq, task.seq) => Ok(Reply::Explained(None)),
            Verb::Cancel(_) | Verb::Explain(_) => Err(CallError::Rejected(Reject::UnknownTask)),
            Verb::Describe => Ok(Reply::Scheduler(Box::new(view(image)))),
            Verb::Locate(tasks) => Ok(Reply::Located(vec![None; tasks.len()])),
            Verb::Select {
                before,
                phases,
                limit,
                ..
            } if phases.contains(&Phase::Done) => {
                let newest_first = (1..=highest.0.min(before.0 - 1)).rev();
                let seqs: Vec<Seq> = newest_first.take(*limit).map(Seq).collect();
                let next = seqs.last().copied().filter(|last| last.0 > 1);
                Ok(Reply::Selected { seqs, next })
            }
            Verb::Select { .. } => Ok(Reply::Selected {
                seqs: Vec::new(),
                next: None,
            }),
            Verb::Open(_) | Verb::Watch { .. } => Err(CallError::Rejected(Reject::UnknownHandle)),
            Verb::Submit(_)
            | Verb::Submitted(_)
            | Verb::Update(_)
            | Verb::Pause
            | Verb::Resume { .. } => Err(CallError::Rejected(Reject::Released)),
        }
    }

    /// The reply to a repeated open whose scheduler has ended.
    async fn opened_before(
        &self,
        namespace: Namespace,
        request: Option<Request>,
    ) -> Result<Reply, CallError> {
        let request = request.ok_or(CallError::Rejected(Reject::UnknownHandle))?;
        let found = self
            .reader
            .find_request(&namespace, request.id)
            .await
            .map_err(CallError::from_journal)?;
        let found = found.filter(|image| image.state == SchedulerState::Released);
        let image = found.ok_or(CallError::Rejected(Reject::UnknownHandle))?;
        if image.request != Some(request) {
            return Err(CallError::Rejected(Reject::RequestIdReused));
        }
        Ok(Reply::Scheduler(Box::new(view(image))))
    }

    /// A stream that reads only the journal.
    pub(crate) async fn watch(
        &self,
        namespace: Namespace,
        handle: Handle,
        after: DoneNo,
        until: Until,
    ) -> Result<EventStream, CallError> {
        let image = self.image(namespace.clone(), handle).await?;
        let (last_seq, done_no) = (image.checkpoint.highest_seq, image.checkpoint.done_no);
        if after > done_no {
            return Err(CallError::Rejected(Reject::CursorAhead { last: done_no }));
        }
        let permit = self.permit(&namespace)?;
        let goal = Goal {
            until,
            last_seq,
            outstanding: 0,
            opened_at: done_no,
        };
        let progress = Progress {
            done_no,
            released: true,
            ..Progress::default()
        };
        Ok(EventStream::new(handle, after, goal, self.reader.clone()).ended(progress, permit))
    }

    async fn image(
        &self,
        namespace: Namespace,
        handle: Handle,
    ) -> Result<SchedulerImage, CallError> {
        let image = self
            .reader
            .scheduler(&namespace, handle)
            .await
            .map_err(CallError::from_journal)?;
        let ended = |image: &SchedulerImage| image.state == SchedulerState::Released;
        image
            .filter(ended)
            .ok_or(CallError::Rejected(Reject::UnknownHandle))
    }
}

fn view(image: SchedulerImage) -> SchedulerView {
    SchedulerView {
        image,
        counts: Counts::default(),
        current_order: None,
        surplus: 0,
    }
}
