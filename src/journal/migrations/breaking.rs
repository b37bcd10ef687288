//! Migrations that older programs cannot live with, and how an older owner is spared them.

use super::{MIGRATIONS, exists, newest};
use crate::{
    core::ShardId,
    journal::{JournalError, bounded_connection::BoundedConnection},
};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Stands in each migration that older programs cannot live with.
const BREAKING: &str = "update schema_version set compatible_since";
/// Between two looks at a lease that is over.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Refuses a migration that older programs cannot live with while one of them owns the shard: it
/// would lose it, and no server of its version could take it over. An owner whose lease is over has
/// `return_time` to renew it: the database may have been away from it as well. `waits_for` hears of
/// that owner before it is waited for.
pub(in crate::journal) async fn spare_owner(
    link: &mut BoundedConnection,
    shard: ShardId,
    return_time: Duration,
    waits_for: &mut (dyn FnMut(&str) + Send),
) -> Result<(), JournalError> {
    let (begun, mut is_said) = (Instant::now(), false);
    loop {
        // A server that starts meanwhile migrates.
        let newest = newest(link).await?;
        let Some(migration) = newest.and_then(breaking_after) else {
            return Ok(());
        };
        match owner(link, shard).await? {
            Some((owner, true)) => return Err(JournalError::Owned { owner, migration }),
            Some((owner, false)) if begun.elapsed() < return_time => {
                if !is_said {
                    waits_for(&owner);
                }
                is_said = true;
                sleep(LOOK_INTERVAL).await;
            }
            Some(_) | None => return Ok(()),
        }
    }
}

/// The owner, and whether its lease lasts.
async fn owner(
    link: &mut BoundedConnection,
    shard: ShardId,
) -> Result<Option<(String, bool)>, JournalError> {
    // The first versions had none.
    if !exists(link, "lease").await? {
        return Ok(None);
    }
    let owner = sqlx::query_as(
        "-- owner_before_migration
         select owner, lease_until is not null and lease_until > now()
         from lease
         where shard = $1 and owner is not null",
    );
    Ok(owner.bind(shard.0).fetch_optional(link).await?)
}

/// The first migration after this one that older programs cannot live with.
fn breaking_after(newest: i64) -> Option<i64> {
    let mut later = MIGRATIONS.iter().filter(|(number, ..)| *number > newest);
    later
        .find(|(.., text)| text.contains(BREAKING))
        .map(|(number, ..)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_older_program_may_live_with_is_known_by_its_text() {
        let says = |(_, _, text): &&(i64, &str, &str)| text.contains("set compatible_since");
        let breaking = MIGRATIONS.iter().filter(says).map(|(number, ..)| *number);
        let breaking: Vec<i64> = breaking.collect();
        for (newest, ..) in MIGRATIONS {
            let later = breaking.iter().filter(|number| *number > newest);
            assert_eq!(breaking_after(*newest), later.min().copied(), "{newest}");
        }
        assert_eq!(breaking_after(33), Some(34));
        assert_eq!(breaking_after(i64::MAX), None);
    }
}
