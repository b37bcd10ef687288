//! The role of this replica for its shard: what it may do and which calls it may answer.

/// What this replica is for the shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It has just been started and does not know yet.
    #[default]
    Starting,
    /// Another replica owns the shard, or nobody does.
    Standby,
    /// It owns the shard and reads the journal.
    Recovering,
    /// It owns the shard and decides.
    Owner,
}

impl Role {
    /// Whether this replica owns the shard.
    pub(crate) fn is_owner(self) -> bool {
        match self {
            Role::Starting | Role::Standby => false,
            Role::Recovering | Role::Owner => true,
        }
    }
}
