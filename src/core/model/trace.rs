//! Where a task belongs in a distributed trace, in the terms of W3C Trace Context. Values only: who
//! is traced is decided where calls come in, and spans are made where outcomes are released.
//!
//! The ids of a task's spans follow from its own: so its executor, its owner and the owner after a
//! takeover mean the same span without telling each other.

use crate::core::{Attempt, TaskId};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A span of a trace that is recorded. Its text form is a `traceparent` with the flag `sampled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SpanContext {
    /// Of the whole trace; never 0.
    pub trace_id: u128,
    /// Within it; never 0.
    pub span_id: u64,
}

/// What a caller says of its own span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traceparent {
    /// The span.
    pub span: SpanContext,
    /// Whether the caller records it. What follows is recorded, or not, likewise.
    pub sampled: bool,
}

/// The trace of a call's tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// The span of the call, under which those of its tasks are.
    pub call: SpanContext,
    /// The trace of the tasks of which these are copies: RetryTask and RetryFailed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retried: Option<SpanContext>,
}

/// A span of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSpan {
    /// From its submission to its end.
    Task,
    /// Until its first attempt.
    Wait,
    /// One attempt, from being handed out to its end.
    Attempt(Attempt),
    /// The statement of an attempt, on its target.
    Statement(Attempt),
    /// Until its end is durable and its AsyncDone can be read.
    Done,
}

impl SpanContext {
    /// The span of a task of this trace.
    pub fn of(self, task: TaskId, span: TaskSpan) -> SpanContext {
        let (kind, attempt) = match span {
            TaskSpan::Task => (1, 0),
            TaskSpan::Wait => (2, 0),
            TaskSpan::Attempt(attempt) => (3, attempt.0),
            TaskSpan::Statement(attempt) => (4, attempt.0),
            TaskSpan::Done => (5, 0),
        };
        let (high, low) = task.handle.uuid().as_u64_pair();
        let words = [high, low, task.seq.0 as u64, kind, attempt as u64];
        let seed = (self.trace_id >> 64) as u64 ^ mixed(self.trace_id as u64);
        let id = words.iter().fold(seed, |id, word| mixed(id ^ word));
        SpanContext {
            span_id: id.max(1),
            ..self
        }
    }
}

/// Spreads every bit over the whole word, without two words becoming one (the finalizer of
/// splitmix64).
fn mixed(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The text is no `traceparent`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent of W3C Trace Context")]
pub struct MalformedTraceparent;

impl FromStr for Traceparent {
    type Err = MalformedTraceparent;

    /// Later versions may add something behind the flags, which is passed over.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        read(text).ok_or(MalformedTraceparent)
    }
}

fn read(text: &str) -> Option<Traceparent> {
    let mut parts = text.splitn(5, '-');
    let mut part = |digits| hex(parts.next()?, digits);
    let (version, trace_id) = (part(2)?, part(32)?);
    let (span_id, flags) = (part(16)? as u64, part(2)?);
    let is_known = match version {
        0 => text.len() == 55,
        version => version < 0xff,
    };
    let span = SpanContext { trace_id, span_id };
    let sampled = flags & 1 == 1;
    (is_known && trace_id != 0 && span_id != 0).then_some(Traceparent { span, sampled })
}

/// A number of so many digits, in lower case.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_number = text.len() == digits && text.bytes().all(is_digit);
    is_number.then(|| u128::from_str_radix(text, 16).ok())?
}

impl fmt::Display for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SpanContext { trace_id, span_id } = self.span;
        let flags = u8::from(self.sampled);
        write!(f, "00-{trace_id:032x}-{span_id:016x}-{flags:02x}")
    }
}

impl fmt::Display for SpanContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sampled = Traceparent {
            span: *self,
            sampled: true,
        };
        sampled.fmt(f)
    }
}

impl From<SpanContext> for String {
    fn from(span: SpanContext) -> String {
        span.to_string()
    }
}

impl TryFrom<String> for SpanContext {
    type Error = MalformedTraceparent;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse::<Traceparent>().map(|parent| parent.span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Handle, Seq, ShardId};
    use std::collections::HashSet;

    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_is_read_and_written() {
        for text in [EXAMPLE, &format!("{}0", &EXAMPLE[..54])] {
            let parent: Traceparent = text.parse().expect("a traceparent");
            assert_eq!(parent.to_string(), text);
            assert_eq!(parent.sampled, text == EXAMPLE);
        }
        let later = format!("01{}-more", &EXAMPLE[2..]);
        assert_eq!(later.parse(), EXAMPLE.parse::<Traceparent>());
    }

    #[test]
    fn what_is_no_traceparent_is_not_read() {
        let none = [
            String::new(),
            EXAMPLE.to_uppercase(),
            EXAMPLE[..54].to_owned(),
            format!("{EXAMPLE}-more"),
            format!("ff{}", &EXAMPLE[2..]),
            EXAMPLE.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            EXAMPLE.replace("00f067aa0ba902b7", &"0".repeat(16)),
            EXAMPLE.replace("00f067aa0ba902b7", "+0f067aa0ba902b7"),
        ];
        for text in none {
            assert_eq!(text.parse::<Traceparent>(), Err(MalformedTraceparent));
        }
    }

    #[test]
    fn the_spans_of_tasks_differ() {
        let call = EXAMPLE.parse::<Traceparent>().expect("one").span;
        let mut seen = HashSet::new();
        for handle in 0..3 {
            let handle = Handle::new(ShardId(0), handle, [7; 10]);
            for seq in 1..1_000 {
                let task = TaskId {
                    handle,
                    seq: Seq(seq),
                };
                let attempts = [Attempt(1), Attempt(2)];
                let of = |attempt| [TaskSpan::Attempt(attempt), TaskSpan::Statement(attempt)];
                let spans = attempts.into_iter().flat_map(of);
                for span in spans.chain([TaskSpan::Task, TaskSpan::Wait, TaskSpan::Done]) {
                    assert!(seen.insert(call.of(task, span)), "{task:?} {span:?}");
                    assert_eq!(call.of(task, span), call.of(task, span));
                }
            }
        }
    }
}
