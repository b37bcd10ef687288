//! Reads resources and claims.

use crate::core::{ClaimNo, ClaimState, RecoveredClaim, RecoveredResources, ShardId, Token};
use crate::journal::{
    JournalError, Reader,
    bounded_connection::BoundedConnection,
    rows::resource::{ClaimRow, ResourceRow},
};
use futures_util::TryStreamExt;

/// What a new owner needs: all resources, claims that were open or remembered at the checkpoint,
/// and later ones.
pub(super) async fn resources(
    connection: &mut BoundedConnection,
    shard: ShardId,
) -> Result<RecoveredResources, JournalError> {
    let definitions: Vec<ResourceRow> = sqlx::query_as(
        "-- recover_resources
         select r.namespace, r.name, r.settings, r.created_at, r.changed_at, r.changed_by, r.deleted
         from resource r
         where r.shard = $1 and not r.deleted",
    )
    .bind(shard.0)
    .fetch_all(&mut *connection)
    .await?;
    let checkpoint: Option<(i64, i64)> = sqlx::query_as(
        "-- recover_claim_checkpoint
         select c.last_claim, c.token
         from claim_checkpoint c
         where c.shard = $1",
    )
    .bind(shard.0)
    .fetch_optional(&mut *connection)
    .await?;
    let (last, token) = checkpoint.unwrap_or_default();
    let mut recovered = RecoveredResources {
        definitions: Vec::new(),
        claims: Vec::new(),
        last: ClaimNo(last),
        token: Token(token),
    };
    recovered.definitions = definitions.iter().map(ResourceRow::image).collect();
    claims(connection, shard, &mut recovered).await?;
    Ok(recovered)
}

/// Reads the rows of claims, by number.
async fn claims(
    connection: &mut BoundedConnection,
    shard: ShardId,
    recovered: &mut RecoveredResources,
) -> Result<(), JournalError> {
    let mut rows = sqlx::query_as::<_, ClaimRow>(
        "-- recover_claims
         with part as materialized (
             select unnest(c.needed + int8multirange(int8range(c.last_claim + 1, null))) as part
             from claim_checkpoint c
             where c.shard = $1
             union all
             select int8range(1, null)
             where not exists (select from claim_checkpoint c where c.shard = $1)
         )
         select c.claim_no, c.at, c.spec, c.token, c.taken, c.ended, c.free_at, c.ended_by, c.reason
         from part
         cross join lateral (
             select c.*
             from claim c
             where c.shard = $1
                 and c.claim_no >= lower(part.part)
                 and c.claim_no < coalesce(upper(part.part), 9223372036854775807)
         ) c
         order by c.claim_no, c.kind",
    )
    .bind(shard.0)
    .fetch(connection);
    let mut present: Option<RecoveredClaim> = None;
    while let Some(row) = rows.try_next().await? {
        // Also of a claim that cannot be read: neither number is ever given again.
        recovered.last = recovered.last.max(ClaimNo(row.claim_no));
        recovered.token = recovered.token.max(Token(row.token.unwrap_or(0)));
        let same = present.take_if(|claim| claim.no.0 == row.claim_no);
        recovered.claims.extend(present.take());
        present = row.add_cautiously(same);
    }
    recovered.claims.extend(present);
    Ok(())
}

impl Reader {
    /// A claim by its records, open or ended; `None`: there is none, or it is past its retention.
    pub async fn claim(&self, no: ClaimNo) -> Result<Option<RecoveredClaim>, JournalError> {
        let rows: Vec<ClaimRow> = self
            .read(|| {
                sqlx::query_as(
                    "-- claim
                     select c.claim_no, c.at, c.spec, c.token, c.taken, c.ended, c.free_at,
                         c.ended_by, c.reason
                     from claim c
                     where c.shard = $1 and c.claim_no = $2
                     order by c.kind",
                )
                .bind(self.shard.0)
                .bind(no.0)
                .fetch_all(&self.pool)
            })
            .await?;
        let mut claim = None;
        for row in rows {
            claim = Some(row.add_to(claim)?);
        }
        Ok(claim)
    }
}

impl RecoveredClaim {
    /// Where it stands.
    pub fn state(&self) -> ClaimState {
        match (&self.ended, self.granted) {
            (Some((at, ending)), granted) => ClaimState::Ended {
                granted,
                at: *at,
                ending: ending.clone(),
            },
            (None, Some((token, since))) => ClaimState::Held { token, since },
            (None, None) => ClaimState::Waiting,
        }
    }
}
