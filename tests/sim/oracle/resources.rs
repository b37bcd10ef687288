//! Resources: every grant respects mode and capacity and passes no earlier claim that it would keep
//! waiting; tokens rise; nothing ends before its time, and nobody waits for the dead longer than
//! their lease and the delay of the resource.

use rallypoint::{
    coordinator::machine::Envelope,
    core::{
        ClaimEnd, ClaimEnding, ClaimEvent, ClaimNo, ClaimRecord, ClaimSpec, Command, Mode,
        Namespace, Refill, ResourceImage, ResourceKey, ResourceRecords, ResourceSettings,
        ResourceVerb, Time, Token, Want,
    },
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// A batch that takes so long may have kept callers from renewing.
const OUTAGE: Duration = Duration::from_secs(1);

/// What is taken is counted in millionths of permits, so that permits may be back a little late.
pub(super) const ROUNDING: Duration = Duration::from_millis(1);

/// What resources may have been while a batch was decided.
type Meanwhile = BTreeMap<ResourceKey, Vec<ResourceSettings>>;

/// What the journal holds of resources.
#[derive(Default)]
pub(crate) struct Resources {
    definitions: BTreeMap<ResourceKey, ResourceSettings>,
    /// Open claims, and those whose resources are not free yet.
    pub(super) claims: BTreeMap<ClaimNo, Claim>,
    /// Grants of the present core. Of many of them tasks may have kept others waiting that were
    /// passed too often.
    grants: u32,
    last: ClaimNo,
    token: Token,
    /// Grants of permits that come back by time, by resource: when, and how many.
    rates: BTreeMap<ResourceKey, Vec<(Time, u32)>>,
    /// Every open claim had a whole lease then: surely, and perhaps.
    kept: (Time, Time),
}

pub(super) struct Claim {
    pub spec: Arc<ClaimSpec>,
    requested_at: Time,
    granted_at: Option<Time>,
    /// It has ended, and what it held is free then.
    pub free_at: Option<Time>,
    pub token: Option<Token>,
    /// When it was renewed last: surely, and perhaps.
    kept: (Time, Time),
}

fn is_writer(claim: &Claim, name: &str) -> bool {
    let wants = &claim.spec.wants;
    wants
        .iter()
        .any(|want| *want.name == *name && want.mode == Mode::Exclusive)
}

impl Resources {
    /// A core is built anew.
    pub(crate) fn recovers(&mut self, now: Time) {
        self.kept = (now, now);
        self.grants = 0;
    }

    /// Somebody asks to renew a claim.
    pub(crate) fn may_be_renewed(&mut self, no: ClaimNo, now: Time) {
        if let Some(claim) = self.claims.get_mut(&no) {
            claim.kept.1 = claim.kept.1.max(now);
        }
    }

    /// Whatever was asked may be decided only now.
    pub(crate) fn may_all_be_renewed(&mut self, now: Time) {
        self.kept.1 = self.kept.1.max(now);
    }

    /// A renewal that was asked for then is answered.
    pub(crate) fn renewed(&mut self, no: ClaimNo, asked_at: Time) {
        if let Some(claim) = self.claims.get_mut(&no) {
            claim.kept.0 = claim.kept.0.max(asked_at);
            claim.kept.1 = claim.kept.1.max(asked_at);
        }
    }

    /// A batch is durable that was sent then.
    pub(crate) fn commits(&mut self, sent_at: Time, now: Time) {
        if now.since(sent_at) >= OUTAGE {
            self.may_all_be_renewed(now);
        }
    }

    /// A batch is written, which these commands have led to.
    pub(crate) fn durable(&mut self, records: &ResourceRecords, commands: &[Envelope]) {
        let meanwhile = self.meanwhile(records, commands);
        for (key, image) in &records.definitions {
            self.definitions.insert(key.clone(), image.settings);
        }
        for ClaimRecord { no, at, what } in &records.claims {
            match what {
                ClaimEvent::Requested(spec) => self.requested(*no, *at, spec),
                ClaimEvent::Granted { token, spec, .. } => {
                    if let Some(spec) = spec {
                        self.requested(*no, *at, spec);
                    }
                    assert!(*token > self.token, "token {} is given again", token.0);
                    self.token = *token;
                    self.grants += 1;
                    let may = self.may_be_granted(*no, *at, *at, &meanwhile);
                    assert!(may, "claim {} is granted out of turn", no.0);
                    let claim = self.claims.get_mut(no).expect("it is open");
                    claim.granted_at = Some(*at);
                    claim.token = Some(*token);
                    claim.kept = (*at, *at);
                    self.note_rates(*no, *at);
                }
                ClaimEvent::Ended(ending) => self.ended(*no, *at, ending),
            }
        }
    }

    fn requested(&mut self, no: ClaimNo, at: Time, spec: &Arc<ClaimSpec>) {
        assert!(no > self.last, "claim {} is given again", no.0);
        self.last = no;
        let claim = Claim {
            spec: spec.clone(),
            requested_at: at,
            granted_at: None,
            free_at: None,
            token: None,
            kept: (at, at),
        };
        self.claims.insert(no, claim);
    }

    fn settings(&self, namespace: &Namespace, name: &str) -> ResourceSettings {
        self.definitions[&self.defined_by(namespace, name)]
    }

    /// What defines a resource: its own definition, or a pattern.
    fn defined_by(&self, namespace: &Namespace, name: &str) -> ResourceKey {
        let key = |name: &str| ResourceKey {
            namespace: namespace.clone(),
            name: name.into(),
        };
        let pattern = name.split_once('/').map(|(stem, _)| format!("{stem}/*"));
        let all = [Some(key(name)), pattern.as_deref().map(key)];
        let mut defined = all.into_iter().flatten();
        defined
            .find(|key| self.definitions.contains_key(key))
            .expect("it is defined")
    }

    /// How many permits claims use of a resource, and whether one of them uses all of it.
    fn used<'a>(
        namespace: &Namespace,
        name: &str,
        claims: impl Iterator<Item = &'a Claim>,
    ) -> (u32, bool) {
        let (mut permits, mut all) = (0, false);
        let claims = claims.filter(|claim| claim.spec.namespace == *namespace);
        for want in claims.flat_map(|claim| &claim.spec.wants) {
            match want.mode {
                _ if *want.name != *name => {}
                Mode::Exclusive => all = true,
                Mode::Shared(some) => permits += some,
            }
        }
        (permits, all)
    }

    /// What each resource that a batch changes may have been between its commands.
    fn meanwhile(&self, records: &ResourceRecords, commands: &[Envelope]) -> Meanwhile {
        let changed = |(key, image): (&ResourceKey, &ResourceImage)| {
            let before = self.definitions.get(key);
            let asked = commands.iter().filter_map(|asked| capacity(asked, key));
            let capacities = asked.chain(before.map(|before| before.capacity));
            let drafts = capacities.map(|capacity| ResourceSettings {
                capacity,
                ..image.settings
            });
            let all = drafts.chain(before.copied()).chain([image.settings]);
            (key.clone(), all.collect())
        };
        records.definitions.iter().map(changed).collect()
    }

    /// Whether no earlier claim would have to wait for it, nor anybody share with it who must not.
    /// `back_at`: of what comes back by time counts what is back then.
    fn may_be_granted(&self, no: ClaimNo, at: Time, back_at: Time, meanwhile: &Meanwhile) -> bool {
        let claim = self
            .claims
            .get(&no)
            .filter(|claim| claim.granted_at.is_none());
        let claim = claim.expect("it waits");
        // Tasks that wait are in line with claims, from a time that is on no record.
        let first = match claim.spec.task {
            Some(_) => ClaimNo(0),
            None => no,
        };
        let namespace = &claim.spec.namespace;
        claim.spec.wants.iter().all(|want| {
            let key = self.defined_by(namespace, &want.name);
            let now = [self.definitions[&key]];
            let all = meanwhile.get(&key).map_or(&now[..], |all| all);
            let mut all = all.iter();
            all.any(|settings| self.is_left(settings, namespace, want, first, (at, back_at)))
        })
    }

    /// Whether claims before this one leave enough, and those that hold. `back_at`: of what comes
    /// back by time counts what is back then.
    pub(super) fn is_free(
        &self,
        namespace: &Namespace,
        wants: &[Want],
        no: ClaimNo,
        at: Time,
        back_at: Time,
    ) -> bool {
        wants.iter().all(|want| {
            let settings = self.settings(namespace, &want.name);
            self.is_left(&settings, namespace, want, no, (at, back_at))
        })
    }

    /// The same of one resource, by these settings.
    fn is_left(
        &self,
        settings: &ResourceSettings,
        namespace: &Namespace,
        want: &Want,
        no: ClaimNo,
        (at, back_at): (Time, Time),
    ) -> bool {
        let holds = |claim: &&Claim| {
            claim.granted_at.is_some() && claim.free_at.is_none_or(|free_at| free_at > at)
        };
        let passes = settings.reader_preferred && want.mode != Mode::Exclusive;
        let waits = |claim: &&Claim| {
            let is_behind = passes && is_writer(claim, &want.name);
            claim.granted_at.is_none() && claim.free_at.is_none() && !is_behind
        };
        let held = match settings.refill {
            Some(refill) => self.missing(namespace, &want.name, refill, back_at),
            None => Self::used(namespace, &want.name, self.claims.values().filter(holds)),
        };
        let earlier = self.claims.range(..no).map(|(_, claim)| claim);
        let ahead = Self::used(namespace, &want.name, earlier.filter(waits));
        let before = held.0 + ahead.0;
        match want.mode {
            _ if held.1 || ahead.1 || settings.capacity == 0 => false,
            Mode::Exclusive => before == 0,
            Mode::Shared(permits) => before == 0 || before + permits <= settings.capacity,
        }
    }

    fn note_rates(&mut self, no: ClaimNo, at: Time) {
        let spec = self.claims[&no].spec.clone();
        for want in &spec.wants {
            let refill = self.settings(&spec.namespace, &want.name).refill;
            if let (Some(_), Mode::Shared(permits)) = (refill, want.mode) {
                let key = ResourceKey {
                    namespace: spec.namespace.clone(),
                    name: want.name.clone(),
                };
                self.rates.entry(key).or_default().push((at, permits));
            }
        }
    }

    /// How many permits have not come back, the last one perhaps in part: what was granted since
    /// any moment, less by what has come back since then.
    fn missing(
        &self,
        namespace: &Namespace,
        name: &Arc<str>,
        refill: Refill,
        at: Time,
    ) -> (u32, bool) {
        let (mut granted, mut missing) = (0, 0);
        let key = ResourceKey {
            namespace: namespace.clone(),
            name: name.clone(),
        };
        for (since, permits) in self.rates.get(&key).into_iter().flatten().rev() {
            granted += permits;
            let elapsed = at.since(*since).as_micros() * u128::from(refill.permits);
            let back = elapsed / refill.period.as_micros();
            missing = missing.max(granted.saturating_sub(back as u32));
        }
        (missing, false)
    }

    fn ended(&mut self, no: ClaimNo, at: Time, ending: &ClaimEnding) {
        let kept = self.kept;
        let claim = self.claims.get(&no).filter(|claim| claim.free_at.is_none());
        let claim = claim.expect("it is open");
        let since = claim.granted_at.unwrap_or(claim.requested_at);
        let has_lease = claim.spec.task.is_none();
        let lease_over = has_lease && claim.kept.0.max(kept.0) + claim.spec.lease <= at;
        let max_hold = self.max_hold(claim);
        let is_due = match ending.how {
            ClaimEnd::Released => claim.granted_at.is_some(),
            ClaimEnd::Withdrawn => claim.granted_at.is_none(),
            ClaimEnd::Abandoned => claim.granted_at.is_none() && lease_over,
            ClaimEnd::Expired => claim.granted_at.is_some() && lease_over,
            ClaimEnd::TimedOut => claim.spec.wait.is_some_and(|wait| since + wait <= at),
            ClaimEnd::HeldTooLong => max_hold
                .filter(|_| has_lease)
                .is_some_and(|longest| since + longest <= at),
            ClaimEnd::Forced => true,
        };
        assert!(
            is_due,
            "claim {} ends {:?} before its time",
            no.0, ending.how
        );
        let lost = [ClaimEnd::Expired, ClaimEnd::HeldTooLong, ClaimEnd::Forced];
        let is_lost = claim.granted_at.is_some() && lost.contains(&ending.how);
        let wants = claim.spec.wants.iter();
        let namespace = &claim.spec.namespace;
        let delays = wants.map(|want| self.settings(namespace, &want.name).lock_delay);
        let delay = delays.max().filter(|_| is_lost).unwrap_or_default();
        assert_eq!(
            ending.free_at,
            at + delay,
            "claim {} keeps others out",
            no.0
        );
        if let Some(claim) = self.claims.get_mut(&no) {
            claim.free_at = Some(ending.free_at);
        }
        self.claims
            .retain(|_, claim| claim.free_at.is_none_or(|free_at| free_at > at));
    }

    fn max_hold(&self, claim: &Claim) -> Option<Duration> {
        let wants = claim.spec.wants.iter();
        wants
            .filter_map(|want| self.settings(&claim.spec.namespace, &want.name).max_hold)
            .min()
    }

    /// Everything due has happened: no claim outlives its time, and nobody waits who need not.
    pub(super) fn settled(&self, now: Time) {
        for (no, claim) in &self.claims {
            if claim.free_at.is_some() || claim.spec.task.is_some() {
                continue;
            }
            let lease = claim.kept.1.max(self.kept.1) + claim.spec.lease;
            let longest = match claim.granted_at {
                None => claim.spec.wait.map(|wait| claim.requested_at + wait),
                Some(since) => self.max_hold(claim).map(|longest| since + longest),
            };
            let until = longest.map_or(lease, |longest| longest.min(lease));
            assert!(now < until, "claim {} outlives its time", no.0);
            let waits = claim.granted_at.is_none();
            let may_be_kept = self.keeps_for_tasks();
            assert!(
                may_be_kept
                    || !(waits && self.may_be_granted(*no, now, now - ROUNDING, &Meanwhile::new())),
                "claim {} waits for nobody",
                no.0
            );
        }
    }

    /// Whether something may be kept for tasks that were passed too often.
    pub(super) fn keeps_for_tasks(&self) -> bool {
        self.grants >= 100
    }

    /// Nobody renews anything any more, and everything has come to its end.
    pub(crate) fn nothing_is_open(&self) {
        let open = self
            .claims
            .iter()
            .filter(|(_, claim)| claim.free_at.is_none());
        assert_eq!(open.count(), 0, "claims live on without their callers");
    }
}

/// The capacity that a command gives this resource.
fn capacity(asked: &Envelope, key: &ResourceKey) -> Option<u32> {
    let Command::Resource { caller, verb } = &asked.command else {
        return None;
    };
    match verb {
        ResourceVerb::Update { name, settings, .. } | ResourceVerb::Create { name, settings }
            if caller.namespace == key.namespace && **name == *key.name =>
        {
            Some(settings.capacity)
        }
        _ => None,
    }
}
