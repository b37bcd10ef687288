//! Calls about schedulers that have left memory: released, every task ended, and others have ended since. The journal knows
//! them, and nothing can change them any more.

use super::cursor::Goal;
use crate::coordinator::{
    CallError, Coordinator, EventStream,
    admission::{Admission, Demand, Permit},
};
use crate::core::{
    Counts, DoneNo, Handle, Namespace, Phase, Progress, Reject, Reply, Request, SchedulerImage,
    SchedulerState, SchedulerView, Seq, Until, Verb,
    model::limits::{LIMIT_WAIT, Limit},
};

/// The streams of schedulers that have left memory: the core does not count them. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct EndedStreams {
    room: Admission,
    most: u32,
}

impl EndedStreams {
    /// At most so many of one namespace.
    pub(crate) fn new(most: u32) -> Self {
        // A namespace alone gets half of a room.
        EndedStreams {
            room: Admission::new(Demand {
                calls: 2 * most as usize,
                bytes: 0,
            }),
            most,
        }
    }

    fn take(&self, namespace: &Namespace) -> Result<Permit, CallError> {
        let (value, wait) = (self.most.into(), Some(LIMIT_WAIT));
        let over = Reject::LimitReached {
            limit: Limit::Streams,
            namespace: namespace.clone(),
            value,
            wait,
        };
        self.room
            .take(namespace, 0)
            .map_err(|_| CallError::Rejected(over))
    }
}

impl Coordinator {
    /// The answer for a scheduler the core does not know.
    pub(crate) async fn ended(
        &self,
        namespace: Namespace,
        handle: Handle,
        verb: &Verb,
    ) -> Result<Reply, CallError> {
        if let Verb::Open { request, .. } = verb {
            return self.opened_before(namespace, *request).await;
        }
        let image = self.ended_image(namespace, handle).await?;
        let (highest, done_no) = (image.checkpoint.highest_seq, image.checkpoint.done_no);
        match verb {
            Verb::Release(_) => Ok(Reply::Released {
                already: true,
                pending: 0,
                done_no,
            }),
            Verb::Cancel(place) if place.seq.0 >= 1 && place.seq <= highest => {
                Ok(Reply::Cancelling {
                    running: false,
                    cancelled: false,
                })
            }
            Verb::Cancel(_) => Err(CallError::Rejected(Reject::UnknownTask)),
            Verb::Describe => Ok(Reply::Scheduler(Box::new(view(image)))),
            Verb::Locate(places) => Ok(Reply::Located(vec![None; places.len()])),
            Verb::Select {
                before,
                phase: Phase::Done,
                limit,
                ..
            } => {
                let newest_first = (1..=highest.0.min(before.0 - 1)).rev();
                let seqs: Vec<Seq> = newest_first.take(*limit).map(Seq).collect();
                let next = seqs.last().copied().filter(|last| last.0 > 1);
                Ok(Reply::Selected { seqs, next })
            }
            Verb::Select { .. } => Ok(Reply::Selected {
                seqs: Vec::new(),
                next: None,
            }),
            Verb::Open { .. } | Verb::Watch { .. } => {
                Err(CallError::Rejected(Reject::UnknownHandle))
            }
            Verb::Submit(_) | Verb::Update(_) | Verb::Pause | Verb::Resume { .. } => {
                Err(CallError::Rejected(Reject::Released))
            }
        }
    }

    /// The answer to a repeated open whose scheduler is over.
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
        let same = found.filter(|image| {
            image.request == Some(request) && image.state == SchedulerState::Released
        });
        same.map(|image| Reply::Scheduler(Box::new(view(image))))
            .ok_or(CallError::Rejected(Reject::UnknownHandle))
    }

    /// A stream that reads the journal only.
    pub(crate) async fn watch_ended(
        &self,
        namespace: Namespace,
        handle: Handle,
        after: DoneNo,
        until: Until,
    ) -> Result<EventStream, CallError> {
        let image = self.ended_image(namespace.clone(), handle).await?;
        let (last_seq, done_no) = (image.checkpoint.highest_seq, image.checkpoint.done_no);
        if after > done_no {
            return Err(CallError::Rejected(Reject::CursorAhead { last: done_no }));
        }
        let place = self.ended_streams.take(&namespace)?;
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
        Ok(EventStream::new(handle, after, goal, self.reader.clone()).ended(progress, place))
    }

    async fn ended_image(
        &self,
        namespace: Namespace,
        handle: Handle,
    ) -> Result<SchedulerImage, CallError> {
        let image = self
            .reader
            .scheduler(handle)
            .await
            .map_err(CallError::from_journal)?;
        let ended = |image: &SchedulerImage| {
            image.namespace == namespace && image.state == SchedulerState::Released
        };
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
