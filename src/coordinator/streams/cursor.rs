//! A stream of AsyncDone events: a cursor that waits for the scheduler's durable `done_no` to pass
//! it.
//!
//! Invariant: every event after the cursor is given once, in order, from the buffer or else from
//! the journal; missing events are an error, never skipped.
//!
//! A stream that is not read holds a bounded number of bytes, however many events it has to give:
//! what was read from the journal at once (128 KiB, and beyond that one event, whose result may
//! have 1 MiB), and two pages as messages, one that waits for the caller's window and one that is
//! being written. Over all streams the messages have a room (`rpc/room.rs`), and their number is
//! limited (`Limits::streams`).

use super::{
    event_buffer::{EventBuffer, EventBuffers, StreamState},
    event_ring::events_after,
    goal::Goal,
};
use crate::{
    coordinator::{admission::Permit, call_error::CallError},
    core::{Command, Done, DoneNo, Halt, Handle, Progress, Seq, Until},
    journal::{Events, Reader},
};
use std::{mem, sync::Arc, time::Duration};
use tokio::sync::{mpsc, watch};

/// Bytes of a page as a message, approximately. No page exceeds 256 KiB.
const PAGE_BYTES: usize = 96 << 10;
/// Bytes of an event without error and result, at most.
const EVENT_BYTES: usize = 96;
/// A larger result is left out of events.
pub const EVENT_RESULT_BYTES: usize = 64 << 10;
/// Bytes of events read from the journal at once, approximately.
const READ_BYTES: usize = 128 << 10;
/// The longest silence before an empty page.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// A range of a stream, for one message. Without events and end it is a keep-alive.
#[derive(Debug, Default)]
pub struct Page {
    /// Events in order; one with a count of n stands for n consecutive events and tasks.
    pub done: Vec<(DoneNo, Done)>,
    /// Unfinished tasks of the scheduler.
    pub pending: i64,
    /// Why this is the last page.
    pub end: Option<End>,
}

/// A page that is being filled.
struct Filling {
    page: Page,
    bytes: usize,
}

/// Why a stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The goal is met, or nothing more can come.
    Goal,
    /// A task failed.
    Failure,
    /// Every outstanding task is blocked.
    Halted {
        blocked: i64,
        /// What blocks them.
        halt: Halt,
    },
    /// The scheduler is released and every task has ended.
    Released,
}

/// One stream. Dropping it closes it.
#[derive(Debug)]
pub struct EventStream {
    /// Tasks up to this number count for the goal.
    pub last_seq: Seq,
    handle: Handle,
    cursor: DoneNo,
    goal: Goal,
    reader: Reader,
    /// Read from the journal and not given yet.
    unread: Vec<Events>,
    /// `None`: the scheduler has left memory, and all its events are in the journal.
    live: Option<Live>,
    /// Progress of a scheduler that has left memory.
    ended: Progress,
    _permit: Option<Permit>,
    /// The first page has been given. It is sent at once, so that the reader knows its goal.
    begun: bool,
}

#[derive(Debug)]
struct Live {
    buffer: Arc<EventBuffer>,
    buffers: EventBuffers,
    state: watch::Receiver<StreamState>,
    closed: mpsc::Sender<Command>,
}

impl EventStream {
    pub(crate) fn new(handle: Handle, after: DoneNo, goal: Goal, reader: Reader) -> Self {
        EventStream {
            last_seq: goal.last_seq,
            handle,
            cursor: after,
            goal,
            reader,
            unread: Vec::new(),
            live: None,
            ended: Progress::default(),
            _permit: None,
            begun: false,
        }
    }

    pub(crate) fn live(
        mut self,
        buffer: Arc<EventBuffer>,
        buffers: EventBuffers,
        closed: mpsc::Sender<Command>,
    ) -> Self {
        let state = buffer.subscribe();
        self.live = Some(Live {
            buffer,
            buffers,
            state,
            closed,
        });
        self
    }

    pub(crate) fn ended(mut self, progress: Progress, permit: Permit) -> Self {
        self.ended = progress;
        self._permit = Some(permit);
        self
    }

    /// Events up to this one have been given.
    pub fn cursor(&self) -> DoneNo {
        self.cursor
    }

    /// The next page: events as soon as there are some, the end, or a keep-alive. Do not ask again
    /// after the end.
    pub async fn next(&mut self) -> Result<Page, CallError> {
        loop {
            let progress = self.progress()?;
            let first = !mem::replace(&mut self.begun, true);
            if self.cursor < progress.done_no {
                return self.page(&progress).await;
            }
            if let Some(end) = self.end(&progress) {
                return Ok(Page {
                    pending: progress.pending,
                    end: Some(end),
                    ..Page::default()
                });
            }
            let Some(live) = &mut self.live else {
                return Ok(Page {
                    end: Some(End::Released),
                    ..Page::default()
                });
            };
            if first {
                return Ok(Page {
                    pending: progress.pending,
                    ..Page::default()
                });
            }
            if tokio::time::timeout(KEEP_ALIVE_INTERVAL, live.state.changed())
                .await
                .is_err()
            {
                // Submissions wake no stream: what is pending may be more by now.
                return Ok(Page {
                    pending: self.progress()?.pending,
                    ..Page::default()
                });
            }
        }
    }

    fn progress(&mut self) -> Result<Progress, CallError> {
        let Some(live) = &mut self.live else {
            return Ok(self.ended.clone());
        };
        let state = live.state.borrow_and_update();
        if state.moved {
            return Err(CallError::NotOwner);
        }
        Ok(state.progress.clone().unwrap_or_default())
    }

    /// The next events: from what was read before, else from the buffer, else from the journal.
    async fn page(&mut self, progress: &Progress) -> Result<Page, CallError> {
        let mut page = Filling {
            page: Page {
                pending: progress.pending,
                ..Page::default()
            },
            bytes: 0,
        };
        let from = self.cursor;
        let recent = match &self.live {
            Some(live) if self.unread.is_empty() => live.buffer.read(from, PAGE_BYTES),
            _ => Vec::new(),
        };
        for (done_no, done) in recent.iter().flat_map(|record| events_after(record, from)) {
            if !self.take(done_no, done, &mut page) {
                break;
            }
        }
        if recent.is_empty() {
            if self.unread.is_empty() {
                self.unread = self.read(progress.done_no).await?;
            }
            let mut unread = mem::take(&mut self.unread);
            for event in unread.iter().flat_map(|events| events.after(from)) {
                let (done_no, done) = event.map_err(CallError::from_journal)?;
                if !self.take(done_no, done, &mut page) {
                    break;
                }
            }
            unread.retain(|events| events.last() > self.cursor);
            if !unread.is_empty() {
                self.unread = unread;
            }
        }
        let mut page = page.page;
        if page.end.is_none() && (self.cursor >= progress.done_no || self.goal.is_met(self.cursor))
        {
            page.end = self.end(progress);
        }
        Ok(page)
    }

    /// Events after the cursor from the journal.
    async fn read(&self, done_no: DoneNo) -> Result<Vec<Events>, CallError> {
        let events = self
            .reader
            .events(self.handle, self.cursor, READ_BYTES)
            .await
            .map_err(CallError::from_journal)?;
        // Every event up to the progress is durable: what is missing at the front was dropped by
        // the retention.
        match events.first().map(Events::first) {
            Some(first) if first.0 <= self.cursor.0 + 1 => Ok(events),
            first => Err(CallError::Truncated {
                oldest: first.map_or(done_no, |first| DoneNo(first.0 - 1)),
            }),
        }
    }

    /// Puts events on the page, as far as there is space and the goal wants them, and moves the
    /// cursor. Returns whether more may follow.
    fn take(&mut self, done_no: DoneNo, mut done: Done, filling: &mut Filling) -> bool {
        let each = size(&done);
        let space = PAGE_BYTES.saturating_sub(filling.bytes).div_ceil(each) as u32;
        let whole = done.count <= space;
        done.count = self.goal.wanted(done.count.min(space));
        self.goal.count(done_no, &done);
        self.cursor = DoneNo(done_no.0 + i64::from(done.count) - 1);
        filling.bytes += each * done.count as usize;
        if self.goal.until == Until::FirstFailure && done.outcome.is_failure() {
            filling.page.end = Some(End::Failure);
        }
        filling.page.done.push((done_no, done));
        let ended = filling.page.end.is_some() || self.goal.until == Until::Count(0);
        whole && !ended && filling.bytes < PAGE_BYTES
    }

    /// Why the stream ends here, if it does; the cursor has reached `progress`.
    fn end(&self, progress: &Progress) -> Option<End> {
        if self.goal.is_met(self.cursor) {
            return Some(End::Goal);
        }
        if self.live.is_some() && self.cursor < self.goal.opened_at {
            return None;
        }
        let forever = self.goal.until == Until::Forever;
        if progress.pending == 0 {
            return match (forever, progress.released) {
                (_, true) => Some(End::Released),
                (true, false) => None,
                (false, false) => Some(End::Goal),
            };
        }
        match &progress.halt {
            Some(halt) if !forever && progress.pending == progress.blocked => Some(End::Halted {
                blocked: progress.blocked,
                halt: halt.clone(),
            }),
            _ => None,
        }
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        let Some(Live {
            buffer,
            buffers,
            closed,
            state,
        }) = self.live.take()
        else {
            return;
        };
        buffers.close(self.handle, buffer);
        if state.borrow().moved {
            return;
        }
        let command = Command::StreamClosed(self.handle);
        if let Err(mpsc::error::TrySendError::Full(command)) = closed.try_send(command)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            // The queue is full; the loop must still learn of it, or the scheduler would never
            // count as idle.
            runtime.spawn(async move { closed.send(command).await });
        }
    }
}

/// Bytes of one of these events in a message, at most.
fn size(done: &Done) -> usize {
    let error = done
        .error
        .as_ref()
        .map_or(0, |error| error.code.len() + error.message.len());
    let result = done
        .result
        .as_ref()
        .map_or(0, |result| result.rows_json.len());
    EVENT_BYTES
        + done.diagnostics.len()
        + error
        + if result > EVENT_RESULT_BYTES {
            0
        } else {
            result
        }
}
