//! For how long a claim of a run is kept, as its claimant is answered.

use super::{
    claims::{LEASE, at, claimed_daily},
    *,
};
use crate::core::{Claimant, RunKept, RunToken};
use uuid::Uuid;

impl World {
    fn kept(&mut self, token: RunToken) -> RunKept {
        match self.renew_run(token).expect("it is kept") {
            JobReply::Renewed(kept) => kept,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_claimant_learns_how_much_of_max_runtime_is_left() {
    let mut w = World::new(5);
    w.claimed_job(|settings| settings.max_runtime = Some(Duration::from_secs(40)));
    w.seconds(3600.0);
    let JobReply::Claimed(claimed, true) = w.claim_for("one") else {
        panic!("it is offered");
    };
    let token = claimed.claim.token;
    assert_eq!(claimed.kept.runtime_left, Some(Duration::from_secs(40)));
    w.seconds(14.0);
    assert_eq!(w.kept(token).runtime_left, Some(Duration::from_secs(26)));
    let shorter = claimed_daily(|settings| settings.max_runtime = Some(Duration::from_secs(20)));
    w.update("a", shorter);
    assert_eq!(w.kept(token).runtime_left, Some(Duration::from_secs(6)));
    w.update("a", claimed_daily(|_| {}));
    assert_eq!(w.kept(token).runtime_left, None);
}

#[test]
fn the_same_call_once_more_renews_its_claim() {
    let mut w = World::new(5);
    w.claimed_job(|_| {});
    w.seconds(3600.0);
    let mut ask = || {
        let claimant = Claimant {
            owner: "one".into(),
            request: Some(Uuid::from_u128(1)),
            lease: LEASE,
        };
        let verb = JobVerb::Claim {
            name: "a".into(),
            due: None,
            claimant,
        };
        let claimed = w.ask_jobs(verb).expect("it has it");
        w.seconds(14.0);
        match claimed {
            JobReply::Claimed(claimed, is_new) => (claimed.claim.token, is_new),
            other => panic!("{other:?}"),
        }
    };
    let (token, _) = ask();
    assert_eq!(ask(), (token, false));
    w.renew_run(token).expect("a whole lease since");
}

#[test]
fn another_call_under_the_same_id_is_refused() {
    let mut w = World::new(5);
    w.claimed_job(|_| {});
    w.seconds(3600.0);
    let first = Claimant {
        owner: "one".into(),
        request: Some(Uuid::from_u128(1)),
        lease: LEASE,
    };
    let ask = |w: &mut World, due: Option<u64>, claimant: &Claimant| {
        let verb = JobVerb::Claim {
            name: "a".into(),
            due: due.map(at),
            claimant: claimant.clone(),
        };
        w.ask_jobs(verb).map(drop)
    };
    let longer = Claimant {
        lease: 2 * LEASE,
        ..first.clone()
    };
    let of_another = Claimant {
        owner: "two".into(),
        ..first.clone()
    };
    assert_eq!(ask(&mut w, None, &first), Ok(()));
    assert_eq!(ask(&mut w, Some(3600), &first), Ok(()));
    let others = [
        (Some(7200), &first),
        (None, &longer),
        (Some(3600), &of_another),
    ];
    for (due, claimant) in others {
        assert_eq!(ask(&mut w, due, claimant), Err(Reject::RequestIdReused));
    }
}

#[test]
fn a_renewal_beside_a_cancel_says_no_more_than_is_left() {
    let mut w = World::new(5);
    w.claimed_job(|settings| settings.max_runtime = Some(Duration::from_secs(40)));
    w.seconds(3600.0);
    let token = w.claimed("one");
    let (name, due): (Arc<str>, _) = ("a".into(), at(3600));
    let verbs = [
        JobVerb::CancelRun {
            name: Arc::clone(&name),
            due,
        },
        JobVerb::RenewRun { name, due, token },
    ];
    let replies = w.commands(verbs.map(by_ann));
    let Some(Reply::Job(renewed)) = replies.last() else {
        panic!("it is kept until the batch is decided: {replies:?}");
    };
    let left = Some(Duration::from_secs(40));
    assert!(matches!(**renewed, JobReply::Renewed(kept) if kept.runtime_left == left));
    assert!(w.renew_run(token).is_err());
}
