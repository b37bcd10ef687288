//! Resources and claims in the journal: what was written is read again, and what a checkpoint does
//! not need is neither read nor kept for ever.

use super::{Owned, aged::at_work_ago, make::*};
use rallypoint::{core::*, journal::*};
use std::time::Duration;

async fn recovered(owned: &Owned) -> RecoveredResources {
    let read = recover(&owned.journal, ENOUGH, since(owned.now)).await;
    read.expect("it can be read").resources
}

fn of_claims(claims: Vec<ClaimRecord>) -> Records {
    Records {
        resources: ResourceRecords {
            claims,
            ..ResourceRecords::default()
        },
        ..Records::default()
    }
}

fn checkpoint(last: i64, token: i64, needed: &[(i64, i64)]) -> ResourceRecords {
    let range = |(first, last): &(i64, i64)| (ClaimNo(*first), ClaimNo(*last));
    ResourceRecords {
        checkpoint: Some(ClaimsCheckpoint {
            last: ClaimNo(last),
            token: Token(token),
            needed: needed.iter().map(range).collect(),
        }),
        ..ResourceRecords::default()
    }
}

#[tokio::test]
async fn what_was_written_of_resources_is_recovered() {
    let mut owned = Owned::new().await;
    let now = owned.now;
    let later = now + Duration::from_micros(1);
    let claims = vec![
        requested(1, now),
        granted(2, now, 1, true),
        granted(1, later, 2, false),
        ended(2, later, ClaimEnd::Forced),
        requested(3, later),
        ended(3, later, ClaimEnd::TimedOut),
    ];
    let mut records = of_claims(claims);
    records.resources.definitions = definition(now).definitions;
    let mut expected = RecoveredResources::default();
    expected.remember(&records.resources);
    owned.write(records).await;
    assert_eq!(recovered(&owned).await, expected);
    let reader = owned.journal.reader();
    for claim in expected.claims {
        assert_eq!(reader.claim(claim.no).await.unwrap(), Some(claim));
    }
    assert_eq!(reader.claim(ClaimNo(4)).await.unwrap(), None);
    let mut image = definition(now).definitions;
    image.values_mut().for_each(|image| image.deleted = true);
    owned
        .write(Records {
            resources: ResourceRecords {
                definitions: image,
                ..ResourceRecords::default()
            },
            ..Records::default()
        })
        .await;
    assert_eq!(recovered(&owned).await.definitions, []);
}

#[tokio::test]
async fn of_claims_before_a_checkpoint_only_those_are_read_that_it_needs() {
    let mut owned = Owned::new().await;
    let now = owned.now;
    for no in 1..=6 {
        owned
            .write(of_claims(vec![granted(no, now, no, true)]))
            .await;
    }
    for needed in [&[(2, 3), (5, 5)][..], &[]] {
        let records = Records {
            resources: checkpoint(5, 40, needed),
            ..Records::default()
        };
        owned.write(records).await;
        let found = recovered(&owned).await;
        let numbers: Vec<i64> = found.claims.iter().map(|claim| claim.no.0).collect();
        let expected = match needed.is_empty() {
            true => vec![6],
            false => vec![2, 3, 5, 6],
        };
        assert_eq!(numbers, expected);
        assert_eq!((found.last, found.token), (ClaimNo(6), Token(40)));
    }
}

#[tokio::test]
async fn a_row_that_makes_no_sense_keeps_nothing_else_from_being_recovered() {
    let mut owned = Owned::new().await;
    let now = owned.now;
    let claims = vec![granted(1, now, 1, true), granted(2, now, 2, true)];
    owned.write(of_claims(claims)).await;
    let damage = "update claim set spec = 'x' where claim_no = 2";
    sqlx::raw_sql(damage)
        .execute(&mut owned.psql().await)
        .await
        .unwrap();
    let found = recovered(&owned).await;
    let numbers: Vec<i64> = found.claims.iter().map(|claim| claim.no.0).collect();
    assert_eq!(numbers, [1]);
    // Neither number is given again.
    assert_eq!((found.last, found.token), (ClaimNo(2), Token(2)));
}

#[tokio::test]
async fn ended_claims_go_after_their_retention_unless_a_recovery_needs_them() {
    let mut owned = at_work_ago(40).await;
    let now = owned.now;
    let old = now - Duration::from_secs(35 * 86_400);
    let claims = vec![
        granted(1, old, 1, true),
        ended(1, old, ClaimEnd::Released),
        granted(2, old, 2, true),
        granted(3, old, 3, true),
        ended(3, now, ClaimEnd::Released),
        granted(4, old, 4, true),
        ended(4, old, ClaimEnd::Released),
    ];
    owned.write(of_claims(claims)).await;
    assert_eq!(owned.drop_ended_claims().await, 0, "there is no checkpoint");
    let records = Records {
        resources: checkpoint(3, 3, &[(2, 2)]),
        ..Records::default()
    };
    owned.write(records).await;
    assert_eq!(owned.drop_ended_claims().await, 2, "both rows of one claim");
    let left = "select count(distinct claim_no) from claim where claim_no in (2, 3, 4)";
    assert_eq!(owned.count(left).await, 3);
}

#[tokio::test]
async fn as_many_claims_go_in_one_round_as_are_past_their_retention() {
    let mut owned = at_work_ago(40).await;
    let rows = "insert into claim (shard, claim_no, kind, at, spec)
        select 0, claim_no, kind, now() + case claim_no when 7 then '1 year' else '-35 days' end::interval,
            case kind when 2 then '{}'::bytea end
        from generate_series(1, 6001) claim_no, generate_series(2, 3) kind
        where kind = 2 or claim_no <= 6000";
    sqlx::raw_sql(rows)
        .execute(&mut owned.psql().await)
        .await
        .unwrap();
    let young = vec![granted(6002, owned.now, 2, true)];
    owned.write(of_claims(young)).await;
    let records = Records {
        resources: checkpoint(6002, 2, &[(6001, 6002)]),
        ..Records::default()
    };
    owned.write(records).await;
    // One that was recorded by a clock a year ahead keeps no other.
    assert_eq!(owned.drop_ended_claims().await, 11_998);
    assert_eq!(owned.count("select count(*) from claim").await, 4);
    assert_eq!(owned.drop_ended_claims().await, 0);
}

#[tokio::test]
async fn a_deleted_resource_goes_when_it_is_past_the_retention() {
    let mut owned = at_work_ago(40).await;
    let old = owned.now - Duration::from_secs(35 * 86_400);
    for (name, at, deleted) in [
        ("old", old, true),
        ("young", owned.now, true),
        ("there", old, false),
    ] {
        let (_, image) = definition(at).definitions.pop_first().expect("one");
        let namespace = image.key.namespace.clone();
        let key = ResourceKey {
            namespace,
            name: name.into(),
        };
        let image = ResourceImage {
            key: key.clone(),
            deleted,
            ..image
        };
        let mut records = Records::default();
        records.resources.definitions = [(key, image)].into();
        owned.write(records).await;
    }
    let maintenance = owned.journal.maintenance();
    let calendar = maintenance.live(owned.now, None).await.expect("it lives");
    let dropped = maintenance.drop_deleted_resources(&calendar).await;
    assert_eq!(dropped.expect("it can"), 1);
    assert_eq!(owned.count("select count(*) from resource").await, 2);
    let gone = "select count(*) from resource where name = 'old'::bytea";
    assert_eq!(owned.count(gone).await, 0);
}
