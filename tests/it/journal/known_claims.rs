//! A claim of a run that an owner has forgotten is read by its token.

use super::{
    Owned,
    jobs::{a_claim, of_job},
};
use rallypoint::core::*;

#[tokio::test]
async fn a_claim_is_read_by_its_token() {
    let mut owned = Owned::new().await;
    let mut jobs = of_job(3, owned.now);
    let key = RunKey {
        job: JobNo(3),
        due: owned.now,
    };
    let later = RunClaim {
        token: RunToken(6),
        ..a_claim(key)
    };
    jobs.claims.insert((key, later.token), later.clone());
    owned
        .write(Records {
            jobs,
            ..Records::default()
        })
        .await;
    let reader = owned.journal.reader();
    for (token, known) in [
        (3, None),
        (4, Some((a_claim(key), false))),
        (5, None),
        (6, Some((later, true))),
        (7, None),
    ] {
        let read = reader.run_claim(key, RunToken(token)).await.expect("read");
        assert_eq!(read, known, "{token}");
    }
}
