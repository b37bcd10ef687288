//! The resources of a campaign: what they are like, who uses them how, and how they change while
//! they are used.

use super::Load;
use crate::{
    claims::{Definition, Use},
    history::{Answer, Entry, now},
    rng::Rng,
};
use prost_types::FieldMask;
use rallypoint_client::api::{self, resource_service_client::ResourceServiceClient};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;
use tonic::{Response, Status, transport::Channel};

const SECOND_US: i64 = 1_000_000;
/// How often one of them is changed.
const CHANGE_INTERVAL: Duration = Duration::from_millis(900);
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Its capacity is changed while it is used.
const ELASTIC: &str = "elastic";
/// It is deleted and made again.
const FLEETING: &str = "fleeting";

/// All of them, by name.
const DEFINITIONS: [(&str, Definition); 14] = [
    ("lock-1", permits(1)),
    ("lock-2", permits(1).delayed().limited()),
    ("lock-3", permits(1).limited()),
    ("pool-1", permits(3)),
    ("pool-2", permits(5).delayed()),
    ("readers-1", permits(4)),
    ("readers-2", permits(8)),
    ("news", permits(4).preferring_readers()),
    (ELASTIC, permits(4)),
    (FLEETING, permits(1)),
    ("key/*", permits(1)),
    ("rate/*", permits(3).refilled(4)),
    ("tasks/*", permits(1)),
    ("tasks-pool", permits(3)),
];

/// What callers claim: a name, and of how many permits. `None`: all of it, now and then.
const CALLER_USES: [(&str, Option<u32>); 20] = [
    ("lock-1", None),
    ("lock-2", None),
    ("lock-3", None),
    ("pool-1", Some(2)),
    ("pool-2", Some(3)),
    ("readers-1", Some(2)),
    ("readers-2", Some(4)),
    ("news", Some(2)),
    (ELASTIC, Some(3)),
    (FLEETING, None),
    ("key/1", None),
    ("key/2", None),
    ("key/3", None),
    ("rate/1", Some(2)),
    ("rate/2", Some(1)),
    ("tasks/1", None),
    ("tasks/2", None),
    ("tasks/3", None),
    ("tasks-pool", Some(2)),
    ("readers-1", None),
];

/// What tasks declare.
pub(crate) const TASK_USES: [&[(&str, Option<u32>)]; 5] = [
    &[("tasks/1", None)],
    &[("tasks/2", None)],
    &[("tasks-pool", Some(1))],
    &[("tasks/3", None), ("tasks-pool", Some(1))],
    &[("tasks-pool", None)],
];

const fn permits(capacity: u32) -> Definition {
    Definition {
        capacity,
        lock_delay: 0,
        max_hold: None,
        refill: None,
        reader_preferred: false,
    }
}

impl Definition {
    const fn delayed(mut self) -> Self {
        self.lock_delay = SECOND_US;
        self
    }

    /// Nobody holds it for longer than two seconds.
    const fn limited(mut self) -> Self {
        self.max_hold = Some(2 * SECOND_US);
        self
    }

    const fn preferring_readers(mut self) -> Self {
        self.reader_preferred = true;
        self
    }

    /// So many permits come back in a second.
    const fn refilled(mut self, permits: u32) -> Self {
        self.refill = Some((permits, SECOND_US));
        self
    }
}

/// Whether tasks declare it.
pub(crate) fn is_used_by_tasks(name: &str) -> bool {
    let mut uses = TASK_USES.iter().copied().flatten();
    uses.any(|(of_task, _)| *of_task == name)
}

/// What a task holds, by its place in [`TASK_USES`].
pub(crate) fn uses_of_task(place: usize) -> Vec<Use> {
    let uses = TASK_USES[place].iter();
    let uses = uses.map(|(name, permits)| Use {
        name: (*name).to_owned(),
        permits: *permits,
    });
    uses.collect()
}

/// The same as a message.
pub(super) fn of_task(place: usize) -> Vec<api::ResourceUse> {
    uses_of_task(place).iter().map(message).collect()
}

/// What a claim of a caller is about: mostly one resource.
pub(super) fn of_caller(rng: &mut Rng) -> Vec<Use> {
    let several = match rng.below(10) {
        0 => 3,
        1 => 2,
        _ => 1,
    };
    let mut uses: Vec<Use> = Vec::new();
    for _ in 0..several {
        let (name, most) = *rng.one_of(&CALLER_USES);
        if uses.iter().all(|one| one.name != name) {
            let permits = most.map(|most| 1 + rng.below(u64::from(most)) as u32);
            let name = name.to_owned();
            uses.push(Use { name, permits });
        }
    }
    uses
}

/// The longest hold of resources, in microseconds.
pub(super) fn max_hold(uses: &[Use]) -> Option<i64> {
    let of = |one: &Use| {
        let mut definitions = DEFINITIONS.iter();
        let (_, definition) = definitions.find(|(name, _)| *name == one.name)?;
        definition.max_hold
    };
    uses.iter().filter_map(of).min()
}

pub(super) fn message(one: &Use) -> api::ResourceUse {
    let mode = match one.permits {
        None => api::ResourceMode::Exclusive,
        Some(_) => api::ResourceMode::Shared,
    };
    api::ResourceUse {
        name: one.name.clone(),
        mode: mode.into(),
        permits: one.permits.unwrap_or_default() as i32,
    }
}

fn settings(definition: &Definition) -> api::ResourceSettings {
    let duration = |us: i64| prost_types::Duration {
        seconds: us / SECOND_US,
        nanos: (us % SECOND_US) as i32 * 1_000,
    };
    let refill = definition.refill.map(|(permits, period)| api::Refill {
        permits: permits as i32,
        period: Some(duration(period)),
    });
    api::ResourceSettings {
        capacity: definition.capacity as i32,
        lock_delay: Some(duration(definition.lock_delay)),
        max_hold: definition.max_hold.map(duration),
        refill,
        reader_preferred: definition.reader_preferred,
    }
}

/// Who makes the resources and changes them.
pub(super) struct Keeper {
    load: Arc<Load>,
    rng: Rng,
    server: usize,
}

impl Keeper {
    pub(super) fn new(load: Arc<Load>, seed: u64) -> Keeper {
        Keeper {
            load,
            rng: Rng::new(seed),
            server: 0,
        }
    }

    /// Makes all of them.
    pub(super) async fn create_all(&mut self) {
        for (name, definition) in DEFINITIONS {
            self.create(name, definition).await;
        }
    }

    /// Changes one now and then, until the callers stop.
    pub(super) async fn change_some(mut self) {
        let mut is_there = true;
        while !self.load.is_stopping() {
            sleep(CHANGE_INTERVAL).await;
            if self.rng.percent(50) {
                let capacity = 1 + self.rng.below(4) as u32;
                self.update(ELASTIC, permits(capacity)).await;
            } else if is_there {
                // Mostly it is in use.
                is_there = !self.delete(FLEETING).await;
            } else {
                self.create(FLEETING, permits(1)).await;
                is_there = true;
            }
        }
        if !is_there {
            self.create(FLEETING, permits(1)).await;
        }
    }

    async fn create(&mut self, name: &str, definition: Definition) {
        let request = api::CreateResourceRequest {
            name: name.to_owned(),
            settings: Some(settings(&definition)),
        };
        let change = Change::Create(request);
        self.repeat(name, Some(definition), change).await;
    }

    async fn update(&mut self, name: &str, definition: Definition) {
        let request = api::UpdateResourceRequest {
            name: name.to_owned(),
            settings: Some(settings(&definition)),
            update_mask: Some(FieldMask {
                paths: vec!["capacity".to_owned()],
            }),
        };
        let change = Change::Update(request);
        self.repeat(name, Some(definition), change).await;
    }

    /// Says whether it is gone.
    async fn delete(&mut self, name: &str) -> bool {
        let request = api::DeleteResourceRequest {
            name: name.to_owned(),
        };
        match self.repeat(name, None, Change::Delete(request)).await {
            Answer::Ok(()) => true,
            Answer::Refused(why) => why == "RESOURCE_NOT_FOUND",
            Answer::Unknown(_) => false,
        }
    }

    /// Makes a call until its outcome is known, and records each try.
    async fn repeat(
        &mut self,
        name: &str,
        definition: Option<Definition>,
        change: Change,
    ) -> Answer<()> {
        loop {
            let begun = now();
            let call = change.call(self.load.resources(self.server));
            let answer = self.load.once(call).await;
            self.load.history.write(&Entry::Resource {
                begun,
                ended: now(),
                name: name.to_owned(),
                definition,
                answer: answer.clone(),
            });
            if !matches!(answer, Answer::Unknown(_)) {
                return answer;
            }
            self.server += 1;
            sleep(RETRY_INTERVAL).await;
        }
    }
}

/// A call that changes a resource.
enum Change {
    Create(api::CreateResourceRequest),
    Update(api::UpdateResourceRequest),
    Delete(api::DeleteResourceRequest),
}

impl Change {
    async fn call(
        &self,
        mut client: ResourceServiceClient<Channel>,
    ) -> Result<Response<()>, Status> {
        match self {
            Change::Create(request) => {
                let created = client.create_resource(request.clone()).await;
                created.map(|created| created.map(drop))
            }
            Change::Update(request) => {
                let updated = client.update_resource(request.clone()).await;
                updated.map(|updated| updated.map(drop))
            }
            Change::Delete(request) => {
                let deleted = client.delete_resource(request.clone()).await;
                deleted.map(|deleted| deleted.map(drop))
            }
        }
    }
}
