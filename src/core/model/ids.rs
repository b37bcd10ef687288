//! The names of things: newtypes for every id and number that could be swapped.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, sync::Arc};
use uuid::{Builder, Uuid};

/// Names a scheduler. A version 7 UUID whose twelve `rand_a` bits hold the shard, so that every
/// call by handle knows where it belongs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Handle(Uuid);

/// One independent coordinator with its own journal. 0 to 4095; the first version has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardId(pub i16);

/// The number of a shard's ownership; rises at every takeover, which fences the old owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(pub i64);

/// The number of a batch in its shard's journal: 1, 2, … without a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchNo(pub i64);

/// Number of a task in its scheduler: 1, 2, …
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Seq(pub i64);

/// Number of an AsyncDone event in its scheduler: 1, 2, … without a gap; 0 = before the first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct DoneNo(pub i64);

/// Order of a task: equal orders run together, a higher one waits. Never negative.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Order(pub i64);

/// Number of an attempt of a task: 1, 2, …; 0 = none yet.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Attempt(pub i32);

/// The unit of isolation, fairness and quota. From the verified identity; `default` when
/// authentication is off.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Namespace(pub Arc<str>);

/// Number of a job in its shard: 1, 2, … A job that is deleted and made anew has another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobNo(pub i64);

/// Names a task: the log id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskId {
    /// Its scheduler.
    pub handle: Handle,
    /// Its number there.
    pub seq: Seq,
}

impl Handle {
    /// A handle of `shard` made from a time and 74 random bits (the shard replaces twelve of them).
    pub fn new(shard: ShardId, unix_ms: u64, random: [u8; 10]) -> Self {
        let mut bits = random;
        let id = (shard.0 as u16) & 0x0fff;
        bits[0] = (id >> 8) as u8;
        bits[1] = id as u8;
        Handle(Builder::from_unix_timestamp_millis(unix_ms, &bits).into_uuid())
    }

    /// The shard that owns the scheduler.
    pub fn shard(&self) -> ShardId {
        let bytes = self.0.as_bytes();
        ShardId(((u16::from(bytes[6] & 0x0f) << 8) | u16::from(bytes[7])) as i16)
    }

    /// As stored in the journal.
    pub fn uuid(&self) -> Uuid {
        self.0
    }

    /// From the journal.
    pub fn from_uuid(uuid: Uuid) -> Self {
        Handle(uuid)
    }
}

/// The text is not a handle: 36 characters, lower case, version 7.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a handle: expected 36 characters like 01890a5d-ac96-7000-8000-000000000001, \
     as GetScheduler returned it; with `name` and `reuse` it returns that of an open scheduler"
)]
pub struct MalformedHandle;

impl FromStr for Handle {
    type Err = MalformedHandle;

    /// Accepts the one canonical form only: braces, urn and short forms are refused.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let uuid = Uuid::try_parse(text).map_err(|_| MalformedHandle)?;
        let canonical = text.len() == 36
            && uuid.get_version_num() == 7
            && !text.bytes().any(|b| b.is_ascii_uppercase());
        if canonical {
            Ok(Handle(uuid))
        } else {
            Err(MalformedHandle)
        }
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.handle, self.seq.0)
    }
}

impl Seq {
    /// The number `n` further on.
    pub fn plus(self, n: u32) -> Seq {
        Seq(self.0 + i64::from(n))
    }
}

impl Namespace {
    /// The namespace of callers when authentication is off.
    pub fn default_namespace() -> Self {
        Namespace("default".into())
    }

    /// What a namespace may be called.
    pub const FORM: &str = "1 to 63 characters of a-z, 0-9 and -";

    /// The namespace of this name, if it has that form.
    pub fn named(name: &str) -> Option<Self> {
        let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let is_one = (1..=63).contains(&name.len()) && name.bytes().all(good);
        is_one.then(|| Namespace(name.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_carries_its_shard_and_survives_text() {
        for shard in [0, 1, 4095] {
            let handle = Handle::new(ShardId(shard), 1_800_000_000_000, [0xff; 10]);
            assert_eq!(handle.shard(), ShardId(shard));
            assert_eq!(handle.to_string().parse(), Ok(handle));
        }
    }

    #[test]
    fn only_the_canonical_form_of_a_handle_is_accepted() {
        let good = Handle::new(ShardId(0), 1, [0xab; 10]).to_string();
        let bad = [
            String::new(),
            good.to_uppercase(),
            format!("{{{good}}}"),
            format!("urn:uuid:{good}"),
            good.replace('-', ""),
            "00000000-0000-0000-0000-000000000000".into(),
            format!("{good}0"),
        ];
        for text in bad {
            assert_eq!(text.parse::<Handle>(), Err(MalformedHandle), "{text}");
        }
    }
}
