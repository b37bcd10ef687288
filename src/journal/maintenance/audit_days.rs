//! Days of the audit: made with those of the journal, and dropped when their retention is over.
//! Nothing needs them but people.

use super::{Maintenance, calendar::Calendar, partition};
use crate::{
    core::Day,
    journal::{
        JournalError,
        bounded_connection::BoundedConnection,
        day_partitions::{date, day_of, partition as name_of},
    },
};

const TABLE: &str = "audit";

impl Maintenance {
    /// Drops days of the audit whose retention is over. Returns how many.
    pub async fn drop_audit_days(&self, calendar: &Calendar) -> Result<u64, JournalError> {
        let mut connection = self.connect().await?;
        let is_over = |name: &str| {
            day_of(TABLE, name).is_some_and(|day| calendar.is_over(day, self.retention_days))
        };
        partition::finish(&mut connection, TABLE, is_over).await?;
        let attached = partition::attached(&mut connection, TABLE).await?;
        let mut dropped = 0;
        for one in attached.iter().filter(|one| is_over(&one.name)) {
            partition::remove(&mut connection, TABLE, &one.name).await?;
            dropped += 1;
        }
        connection.close().await?;
        Ok(dropped)
    }
}

/// Makes those of these days that are missing.
pub(super) async fn make(
    connection: &mut BoundedConnection,
    days: impl Iterator<Item = Day>,
) -> Result<(), JournalError> {
    let attached = partition::attached(connection, TABLE).await?;
    for day in days {
        let name = name_of(TABLE, day)?;
        if !attached.iter().any(|partition| partition.name == name) {
            let (from, to) = (date(day)?.to_string(), date(Day(day.0 + 1))?.to_string());
            partition::make(connection, TABLE, &name, &from, &to).await?;
        }
    }
    Ok(())
}
