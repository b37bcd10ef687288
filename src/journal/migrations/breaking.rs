//! Migrations that older programs cannot live with, and how an older owner is spared them.

use super::{MIGRATIONS, exists, newest};
use crate::{
    core::ShardId,
    journal::{JournalError, bounded_connection::BoundedConnection},
};

/// Stands in each migration that older programs cannot live with.
const BREAKING: &str = "update schema_version set compatible_since";

/// Refuses a migration that older programs cannot live with while one of them owns the shard: it
/// would lose it, and no server of its version could take it over.
pub(in crate::journal) async fn spare_owner(
    link: &mut BoundedConnection,
    shard: ShardId,
) -> Result<(), JournalError> {
    let newest = newest(link).await?;
    let Some(migration) = newest.and_then(breaking_after) else {
        return Ok(());
    };
    // The first versions had none.
    if !exists(link, "lease").await? {
        return Ok(());
    }
    let owner: Option<String> = sqlx::query_scalar(
        "-- owner_before_migration
         select owner
         from lease
         where shard = $1 and owner is not null and lease_until > now()",
    )
    .bind(shard.0)
    .fetch_optional(link)
    .await?;
    owner.map_or(Ok(()), |owner| {
        Err(JournalError::Owned { owner, migration })
    })
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
        for number in breaking {
            assert_eq!(breaking_after(number - 1), Some(number));
        }
        assert_eq!(breaking_after(33), Some(34));
        assert_eq!(breaking_after(i64::MAX), None);
    }
}
