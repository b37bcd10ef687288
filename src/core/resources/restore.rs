//! Rebuilding resources from what the journal remembers. Every open claim has a whole lease before
//! it, since its caller may have had nobody to renew it with.

use super::{Resources, claim::Claim};
use crate::core::{
    ClaimEnding, ClaimState, RecoveredClaim, RecoveredResources, Time, model::steady::Pace,
};
use std::sync::Arc;

impl Resources {
    /// As of the last durable batch. `since`: claims that ended before are forgotten.
    pub(crate) fn restore(now: Time, since: Time, recovered: RecoveredResources) -> Self {
        let mut resources = Resources {
            last: recovered.last,
            recorded: recovered.last,
            token: recovered.token,
            leases_since: Pace::default().steady(now),
            now,
            restored: true,
            ..Resources::default()
        };
        for image in recovered.definitions {
            resources.definitions.put(image);
        }
        for claim in recovered.claims {
            resources.restore_claim(now, since, claim);
        }
        resources.ended.make_contiguous().sort_unstable();
        // The others have nobody to grant anything to.
        let waited_for = resources
            .in_use
            .iter()
            .filter(|(_, one)| one.is_waited_for());
        resources.changed = waited_for.map(|(key, _)| key.clone()).collect();
        resources
    }

    fn restore_claim(&mut self, now: Time, since: Time, recovered: RecoveredClaim) {
        let RecoveredClaim {
            no,
            spec,
            requested_at,
            granted,
            taken,
            ended,
        } = recovered;
        self.last = self.last.max(no);
        self.recorded = self.last;
        // The clock by which it was recorded may have been set back since.
        let granted = granted.map(|(token, at)| (token, at.min(now)));
        if let Some((token, at)) = granted {
            self.take_again(&spec.namespace, (token, no), at, &taken);
        }
        let mut claim = Claim::new(spec, requested_at.min(now), self.leases_since);
        if let Some((at, ending)) = ended.map(|ended| not_beyond(now, ended)) {
            claim.keeps_others_out = granted.is_some() && ending.free_at > now;
            let is_remembered = at >= since && claim.spec.task.is_none();
            if !is_remembered && !claim.keeps_others_out {
                return;
            }
            claim.state = ClaimState::Ended {
                granted,
                at,
                ending,
            };
            self.ended.push_back((at, no));
            if !claim.keeps_others_out {
                self.ended_bytes += claim.spec.bytes();
            }
            self.count_ended(now);
        } else if let Some((token, since)) = granted {
            claim.state = ClaimState::Held { token, since };
        }
        let (is_open, waits) = (claim.is_open(), claim.state == ClaimState::Waiting);
        let holds = !waits && (is_open || claim.keeps_others_out);
        let request = claim.spec.request;
        let call = request.map(|request| (claim.spec.namespace.clone(), request.id));
        self.claims.insert(no, claim);
        self.requests.extend(call.map(|call| (call, no)));
        if is_open {
            self.note_open(no);
        }
        let task = self.claims[&no].spec.task.filter(|_| is_open);
        self.holders.extend(task.map(|task| (task, no)));
        if holds {
            self.hold_again(no, &taken);
        } else if waits {
            self.enqueue(no);
        }
        if holds || waits {
            self.set_timer(now, no);
        }
    }
}

/// An end by a clock that may have been set back since: nobody is kept out for longer than the
/// delay.
fn not_beyond(now: Time, (at, ending): (Time, Arc<ClaimEnding>)) -> (Time, Arc<ClaimEnding>) {
    let latest = now + ending.free_at.since(at);
    if ending.free_at <= latest {
        return (at, ending);
    }
    let ending = ClaimEnding {
        free_at: latest,
        ..(*ending).clone()
    };
    (at.min(now), Arc::new(ending))
}
