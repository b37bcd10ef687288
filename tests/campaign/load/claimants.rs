//! Callers that claim resources: some renew their claims by calls, some leave that to the stream,
//! some to the Rust client. They hold, release, withdraw, and vanish. While they hold something
//! they draw marks on the Postgres of the tasks.

use super::{Load, caller::Caller, claim::Claim, client_claim::ClientClaim, resources};
use crate::{claims::ClaimEntry, database::Database, fixture::Fixture, history::Entry, rng::Rng};
use rallypoint::postgres::TARGET;
use sqlx::PgConnection;
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::{
    sync::Mutex,
    task::JoinSet,
    time::{sleep, timeout},
};

/// Callers at any time.
const CLAIMANTS: u64 = 50;
/// Conversations whose tasks declare resources.
const CONVERSATIONS: u64 = 2;
/// Sessions in which marks are made.
const SESSIONS: usize = 4;
/// A mark that takes longer is none.
const MARK_TIMEOUT: Duration = Duration::from_secs(1);
/// Between two marks of a hold.
pub(super) const MARK_INTERVAL: Duration = Duration::from_millis(100);

/// How long something is held.
pub(super) fn hold_length(rng: &mut Rng) -> Duration {
    let longest = match rng.percent(10) {
        true => Duration::from_secs(4),
        false => Duration::from_millis(300),
    };
    rng.up_to(longest)
}

/// Makes marks while something is held.
pub(super) struct Witness {
    fixture: Arc<Fixture>,
    sessions: [Mutex<Option<PgConnection>>; SESSIONS],
}

impl Witness {
    /// The number of a mark that was made meanwhile.
    pub(super) async fn mark(&self, claim: i64) -> Option<i64> {
        timeout(MARK_TIMEOUT, self.insert(claim)).await.ok()?
    }

    async fn insert(&self, claim: i64) -> Option<i64> {
        let mut session = self.sessions[claim as usize % SESSIONS].lock().await;
        // Taken, so that one of which the answer was not awaited is not used again.
        let mut open = match session.take() {
            Some(open) => open,
            None => self.target().login(TARGET).await.ok()?,
        };
        let query = "insert into hold (claim) values ($1) returning number";
        let mark = sqlx::query_scalar(query).bind(claim);
        let number = mark.fetch_one(&mut open).await.ok()?;
        *session = Some(open);
        Some(number)
    }

    fn target(&self) -> &Database {
        &self.fixture.target
    }
}

impl Load {
    /// Claims resources and runs tasks that declare some, until [`Load::stop`].
    pub(crate) async fn claim_resources(
        self: &Arc<Self>,
        fixture: &Arc<Fixture>,
        seed: u64,
    ) -> JoinSet<()> {
        let mut running = JoinSet::new();
        if !self.one_version {
            return running;
        }
        let mut keeper = resources::Keeper::new(self.clone(), seed);
        keeper.create_all().await;
        running.spawn(keeper.change_some());
        let witness = Arc::new(Witness {
            fixture: fixture.clone(),
            sessions: Default::default(),
        });
        let seeds = seed.wrapping_mul(7_919)..;
        for (number, seed) in (0..CLAIMANTS).zip(seeds) {
            running.spawn(self.clone().claim_often(witness.clone(), number, seed));
        }
        for number in 0..CONVERSATIONS {
            let load = self.clone();
            running.spawn(async move {
                let mut seed = seed.wrapping_mul(104_729).wrapping_add(number);
                while !load.is_stopping() {
                    seed = seed.wrapping_add(CONVERSATIONS);
                    let caller = Caller::new(load.clone(), seed).with_resources();
                    caller.hold().await;
                }
            });
        }
        running
    }

    async fn claim_often(self: Arc<Self>, witness: Arc<Witness>, number: u64, seed: u64) {
        let mut rng = Rng::new(seed);
        while !self.is_stopping() {
            sleep(rng.up_to(Duration::from_millis(800))).await;
            match number % 10 {
                0 => {
                    let claim = ClientClaim::new(self.clone(), witness.clone(), &mut rng);
                    claim.live().await;
                }
                of_ten => {
                    let by_stream = of_ten <= 2;
                    let claim = Claim::new(self.clone(), witness.clone(), by_stream, &mut rng);
                    claim.live().await;
                }
            }
        }
    }

    pub(super) fn new_claim(&self) -> u64 {
        self.next_claim.fetch_add(1, Relaxed)
    }

    pub(super) fn note(&self, id: u64, what: ClaimEntry) {
        self.history.write(&Entry::Claim { id, what });
    }
}
