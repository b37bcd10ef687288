//! The `resume_token` of Synchronization: where a stream stands, with its goal, for whichever
//! replica it is given to. A token is good for one scheduler, and grants no access: the scheduler
//! must be one of the caller's all the same. Its hash is there to find what was cut or mixed up.
//!
//! Versions read each other's tokens: a field that a later one adds is passed over.

use super::{StreamQuery, hash::PayloadHash};
use crate::{
    core::{DoneNo, Handle, Order, Seq, Until},
    rpc::convert::stream::until,
};
use prost::Message;
use rallypoint_client::api::{
    End, SynchronizationResponse, end, peer::StreamPosition, until::Kind,
};
use std::fmt::Write;

/// Hexadecimal digits of the hash at the front.
const HASH_DIGITS: usize = 16;
/// No token is longer.
const MAX_BYTES: usize = 512;

impl StreamQuery {
    /// Moves past a message that has been sent.
    pub(crate) fn pass(&mut self, message: &SynchronizationResponse) {
        if let Some(last) = message.done.last() {
            self.after = DoneNo(last.done_no);
        }
        if let Until::Count(left) = &mut self.until {
            *left = left.saturating_sub(message.done.len() as u64);
        }
        // Its goal is met: nothing may follow, though other tasks go on.
        if message.end.as_ref().map(End::reason) == Some(end::Reason::Failure) {
            self.until = Until::Count(0);
        }
    }

    /// What resumes the stream, whose goal is fixed: `last_seq` is there.
    pub(crate) fn resume_token(&self) -> String {
        let position = StreamPosition {
            after: self.after.0,
            until: Some(until(self.until)),
            last_seq: self.last_seq.unwrap_or_default().0,
        };
        let position = position.encode_to_vec();
        let mut token = format!("{:016x}", hash(self.handle, &position));
        for byte in position {
            // A string takes whatever is written.
            let _ = write!(token, "{byte:02x}");
        }
        token
    }

    /// The stream of the scheduler `handle` that `token` resumes, unless it was issued for another
    /// one or not at all.
    pub(crate) fn resumed(handle: Handle, token: &str) -> Option<StreamQuery> {
        let good = (HASH_DIGITS..=MAX_BYTES).contains(&token.len()) && token.is_ascii();
        let (digits, position) = good.then(|| token.split_at(HASH_DIGITS))?;
        let position = bytes(position)?;
        if digits != format!("{:016x}", hash(handle, &position)) {
            return None;
        }
        let position = StreamPosition::decode(&position[..]).ok()?;
        let until = match position.until?.kind? {
            Kind::All(_) => Until::All,
            Kind::Order(order) => Until::Order(Order(order)),
            Kind::Count(left) => Until::Count(u64::try_from(left).ok()?),
            Kind::FirstFailure(_) => Until::FirstFailure,
            Kind::Forever(_) => Until::Forever,
        };
        let in_range = position.after >= 0 && position.last_seq >= 0;
        in_range.then_some(StreamQuery {
            handle,
            after: DoneNo(position.after),
            until,
            last_seq: Some(Seq(position.last_seq)),
        })
    }
}

fn hash(handle: Handle, position: &[u8]) -> u64 {
    let mut hash = PayloadHash::new("Synchronization");
    hash.bytes(handle.uuid().as_bytes());
    hash.bytes(position);
    hash.finish() as u64
}

/// What pairs of digits, in lower case, stand for.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    pairs.iter().map(byte).collect()
}
