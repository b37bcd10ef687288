//! What the writer is given, and what it says became of it.

use crate::core::{BatchNo, Day, Epoch, Records, ShardId};

/// Records that are written together or not at all.
#[derive(Debug)]
pub struct Batch {
    pub shard: ShardId,
    /// The ownership it was decided under.
    pub epoch: Epoch,
    /// Previous batch number + 1.
    pub no: BatchNo,
    /// The day it was decided on: the partition of its rows, if there is one.
    pub day: Day,
    pub records: Records,
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commit {
    /// It is in the journal, through this send or an earlier one.
    Durable,
    /// Another replica owns the shard, or the database has lost commits: step down and recover.
    Fenced,
    /// Postgres will never accept it; nothing is written.
    Rejected {
        /// Empty when the batch could not even be sent.
        sqlstate: String,
        message: String,
    },
    /// Postgres did not accept it this time, and this send has written nothing: send it again, and
    /// take it apart when that goes on.
    RolledBack {
        sqlstate: String,
        message: String,
        /// Something in the batch may be the cause, besides its size.
        blames: bool,
    },
    /// Perhaps written, perhaps not: send it again under the same number.
    Unknown { message: String },
}
