//! A stream of AsyncDone events: a cursor that waits for the scheduler's durable `done_no` to pass
//! it.

use super::event_buffer::{EventBuffer, EventBuffers, StreamState, events_after};
use crate::{
    coordinator::{admission::Permit, call_error::CallError},
    core::{Command, Done, DoneNo, Halt, Handle, Order, Progress, Seq, Until},
    journal::{Events, Reader},
};
use std::{mem, sync::Arc, time::Duration};
use tokio::sync::{mpsc, watch};

/// Bytes of a page as a message, about: what a reader that does not read holds besides its
/// flow-control window. None is over 256 KiB.
const PAGE_BYTES: usize = 96 << 10;
/// Bytes of an event without error and result, at most.
const EVENT_BYTES: usize = 96;
/// A result over this is left out of events.
pub const EVENT_RESULT_BYTES: usize = 64 << 10;
/// Bytes of events read from the journal at once, about.
const READ_BYTES: usize = 128 << 10;
/// The longest silence.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

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

/// A page in the making.
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
    /// What is outstanding is blocked.
    Halted {
        /// How many tasks.
        blocked: i64,
        /// By what.
        halt: Halt,
    },
    /// Released, and every task has ended.
    Released,
}

/// A goal, fixed when the stream opened.
#[derive(Clone, Debug)]
pub(crate) struct Goal {
    pub until: Until,
    pub last_seq: Seq,
    /// Tasks that count and had not ended at the event `opened_at`.
    pub outstanding: i64,
    pub opened_at: DoneNo,
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
    /// Read from the journal and not told yet.
    unread: Vec<Events>,
    /// `None`: the scheduler has left memory; everything is in the journal, and this is how far it
    /// came.
    live: Option<Live>,
    ended: Progress,
    _permit: Option<Permit>,
    /// The first page has been given: it comes at once, so that a reader knows its goal.
    begun: bool,
}

#[derive(Debug)]
struct Live {
    buffer: Arc<EventBuffer>,
    buffers: EventBuffers,
    told: watch::Receiver<StreamState>,
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
        let told = buffer.subscribe();
        self.live = Some(Live {
            buffer,
            buffers,
            told,
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
            if tokio::time::timeout(KEEP_ALIVE, live.told.changed())
                .await
                .is_err()
            {
                return Ok(Page {
                    pending: progress.pending,
                    ..Page::default()
                });
            }
        }
    }

    fn progress(&mut self) -> Result<Progress, CallError> {
        let Some(live) = &mut self.live else {
            return Ok(self.ended.clone());
        };
        let told = live.told.borrow_and_update();
        match told.moved {
            true => Err(CallError::NotOwner),
            false => Ok(told.progress.clone().unwrap_or_default()),
        }
    }

    /// What comes next: of what has been read before, else from the ring, else from the journal.
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
        if page.end.is_none() && (self.cursor >= progress.done_no || self.goal_met()) {
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
        // Every event up to the progress is durable: what is missing at the front has gone with its
        // day.
        match events.first().map(Events::first) {
            Some(first) if first.0 <= self.cursor.0 + 1 => Ok(events),
            first => Err(CallError::Truncated {
                oldest: first.map_or(done_no, |first| DoneNo(first.0 - 1)),
            }),
        }
    }

    /// Puts events on the page, as far as there is room and the goal wants them, and moves the
    /// cursor; whether more may follow.
    fn take(&mut self, done_no: DoneNo, mut done: Done, filling: &mut Filling) -> bool {
        let each = size(&done);
        let room = PAGE_BYTES.saturating_sub(filling.bytes).div_ceil(each) as u32;
        let whole = done.count <= room;
        done.count = self.wanted(done.count.min(room));
        self.count(done_no, &done);
        self.cursor = DoneNo(done_no.0 + i64::from(done.count) - 1);
        filling.bytes += each * done.count as usize;
        if self.goal.until == Until::FirstFailure && done.outcome.is_failure() {
            filling.page.end = Some(End::Failure);
        }
        filling.page.done.push((done_no, done));
        let over = filling.page.end.is_some() || self.goal.until == Until::Count(0);
        whole && !over && filling.bytes < PAGE_BYTES
    }

    fn wanted(&self, count: u32) -> u32 {
        if let Until::Count(left) = self.goal.until {
            left.min(u64::from(count)) as u32
        } else {
            count
        }
    }

    /// Takes an event into account for the goal.
    fn count(&mut self, done_no: DoneNo, done: &Done) {
        if let Until::Count(left) = &mut self.goal.until {
            *left -= u64::from(done.count);
        }
        let after_opening = (done_no.0 + i64::from(done.count) - 1 - self.goal.opened_at.0)
            .clamp(0, i64::from(done.count));
        let first = done.first.0 + i64::from(done.count) - after_opening;
        let within = (self.last_seq.0 - first + 1).clamp(0, after_opening);
        let matches = |limit: Order| done.order.is_some_and(|order| order <= limit);
        if !matches!(self.goal.until, Until::Order(limit) if !matches(limit)) {
            self.goal.outstanding -= within;
        }
    }

    fn goal_met(&self) -> bool {
        match self.goal.until {
            Until::All | Until::Order(_) | Until::FirstFailure => {
                self.goal.outstanding <= 0 && self.cursor >= self.goal.opened_at
            }
            Until::Count(left) => left == 0,
            Until::Forever => false,
        }
    }

    /// Why the stream ends here, if it does; the cursor has reached `progress`.
    fn end(&self, progress: &Progress) -> Option<End> {
        if self.goal_met() {
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
            told,
        }) = self.live.take()
        else {
            return;
        };
        buffers.close(self.handle, buffer);
        if told.borrow().moved {
            return;
        }
        let command = Command::StreamClosed(self.handle);
        if let Err(mpsc::error::TrySendError::Full(command)) = closed.try_send(command)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            // The loop is behind; it must still hear of it, or the scheduler would never count as
            // idle.
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
        + error
        + if result > EVENT_RESULT_BYTES {
            0
        } else {
            result
        }
}
