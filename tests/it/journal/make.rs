//! Records as the core makes them.

use rallypoint::core::{model::limits::REQUEST_MEMORY, *};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use uuid::Uuid;

pub(super) fn handle() -> Handle {
    Handle::from_uuid(Uuid::now_v7())
}

pub(super) fn sql() -> Arc<Spec> {
    Arc::new(Spec {
        work: Work::Sql {
            target: "app".into(),
        },
        options: TaskOptions::default(),
        trace: None,
    })
}

pub(super) fn noop() -> Arc<Spec> {
    let labels = BTreeMap::from([("team".to_owned(), "a \0 b".to_owned())]);
    Arc::new(Spec {
        work: Work::Noop,
        options: TaskOptions {
            labels,
            ..TaskOptions::default()
        },
        trace: None,
    })
}

pub(super) fn image(handle: Handle, at: Time) -> SchedulerImage {
    SchedulerImage {
        handle,
        name: Some("nightly".into()),
        namespace: Namespace("default".into()),
        caller: "alice \0 ü".into(),
        request: Some(Request {
            id: Uuid::from_u128(7),
            hash: -5,
        }),
        settings: Arc::new(Settings {
            display_name: "nul \0 too".into(),
            max_parallelism: Some(3),
            ..Settings::default()
        }),
        state: SchedulerState::Open,
        release_mode: None,
        paused: false,
        halt: None,
        cancel_rest: None,
        opened_at: at,
        released_at: None,
        checkpoint: Checkpoint::default(),
    }
}

/// The image as it is read again: rows are looked for three days further back, since a day may have
/// been missing.
pub(super) fn read_again(image: SchedulerImage) -> SchedulerImage {
    let first_day = Day(image.checkpoint.first_day.0 - 3);
    SchedulerImage {
        checkpoint: Checkpoint {
            first_day,
            ..image.checkpoint
        },
        ..image
    }
}

/// What an owner that begins at `now` remembers calls of.
pub(super) fn since(now: Time) -> Time {
    now - REQUEST_MEMORY
}

/// More calls than a test makes.
pub(super) const ENOUGH: usize = 1_000;

/// A run: count, order asked for, order in force, spec.
pub(super) type Tasks = (u32, Option<i64>, Option<i64>, Arc<Spec>);

/// A call: runs of tasks, with bodies `body 1`, `body 2`, … by task number.
pub(super) fn call(
    handle: Handle,
    first: i64,
    at: Time,
    request: Option<Request>,
    runs: &[Tasks],
) -> SubmissionRecord {
    let count: u32 = runs.iter().map(|run| run.0).sum();
    let bodies: Vec<String> = (0..count)
        .map(|i| format!("body {}", first + i64::from(i)))
        .collect();
    let run = |(count, order, _, spec): &Tasks| Run {
        count: *count,
        order: order.map(Order),
        spec: spec.clone(),
    };
    SubmissionRecord {
        handle,
        caller: "bob ü".into(),
        first_seq: Seq(first),
        submitted_at: at,
        done_no: DoneNo(first - 1),
        submit: Arc::new(Submit {
            request,
            runs: runs.iter().map(run).collect(),
            bodies: Packed::new(bodies.iter().map(String::as_bytes)),
            params: Packed::default(),
            retries: None,
        }),
        resolved: runs
            .iter()
            .map(|(_, _, effective, spec)| (effective.map(Order), spec.clone()))
            .collect(),
    }
}

/// A call of `count` SQL tasks of one order.
pub(super) fn plain(
    handle: Handle,
    first: i64,
    count: u32,
    order: Option<i64>,
    at: Time,
) -> SubmissionRecord {
    call(handle, first, at, None, &[(count, order, order, sql())])
}

pub(super) fn done(first: i64, count: u32, at: Time) -> Done {
    Done {
        first: Seq(first),
        count,
        order: None,
        retry_of: None,
        outcome: Outcome::Succeeded,
        attempt: Attempt(1),
        started: Some(at),
        ended: at,
        slot: 0,
        backend_pid: 0,
        diagnostics: Default::default(),
        error: None,
        result: None,
    }
}

pub(super) fn completion(
    handle: Handle,
    first_done_no: i64,
    done: Vec<Done>,
) -> Arc<CompletionRecord> {
    Arc::new(CompletionRecord {
        handle,
        first_done_no: DoneNo(first_done_no),
        done,
    })
}

/// The outcomes of single tasks.
pub(super) fn singly(done: &[Done]) -> Vec<Done> {
    let each = |done: &Done| {
        let done = done.clone();
        (0..done.count).map(move |i| Done {
            first: done.first.plus(i),
            count: 1,
            ..done.clone()
        })
    };
    done.iter().flat_map(each).collect()
}

pub(super) fn records(
    submissions: Vec<SubmissionRecord>,
    completions: Vec<Arc<CompletionRecord>>,
) -> Records {
    Records {
        submissions,
        completions,
        ..Records::default()
    }
}

pub(super) fn images(
    images: impl IntoIterator<Item = SchedulerImage>,
) -> BTreeMap<Handle, SchedulerImage> {
    images
        .into_iter()
        .map(|image| (image.handle, image))
        .collect()
}

/// A resource is defined, and what a recovery needs of claims is written.
pub(super) fn definition(at: Time) -> ResourceRecords {
    let key = ResourceKey {
        namespace: Namespace("default".into()),
        name: "orders \u{fc}".into(),
    };
    let image = ResourceImage {
        key: key.clone(),
        settings: ResourceSettings {
            capacity: 2,
            lock_delay: Duration::from_millis(1_500),
            max_hold: None,
            refill: Some(Refill {
                permits: 3,
                period: Duration::from_millis(7),
            }),
            reader_preferred: true,
        },
        unknown: None,
        created_at: at,
        changed_at: at,
        changed_by: "operator \u{fc}".into(),
        deleted: false,
    };
    ResourceRecords {
        definitions: BTreeMap::from([(key, image)]),
        claims: Vec::new(),
        checkpoint: Some(ClaimsCheckpoint::default()),
    }
}

/// What a claim asks for.
pub(super) fn claim_spec() -> Arc<ClaimSpec> {
    let want = |name: &str, mode| Want {
        name: name.into(),
        mode,
    };
    Arc::new(ClaimSpec {
        namespace: Namespace("default".into()),
        wants: vec![want("a", Mode::Shared(3)), want("b", Mode::Exclusive)],
        owner: "anna \u{fc}".into(),
        caller: "alice".into(),
        reason: "why".into(),
        labels: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
        request: Some(Request {
            id: Uuid::from_u128(9),
            hash: i64::MIN,
        }),
        lease: Duration::from_micros(1_500_001),
        wait: Some(Duration::from_secs(60)),
        task: Some(TaskId {
            handle: Handle::new(ShardId(0), 1, [1; 10]),
            seq: Seq(5),
        }),
    })
}

/// Something happened to a claim.
pub(super) fn claim_record(no: i64, at: Time, what: ClaimEvent) -> ClaimRecord {
    let no = ClaimNo(no);
    ClaimRecord { no, at, what }
}

pub(super) fn requested(no: i64, at: Time) -> ClaimRecord {
    claim_record(no, at, ClaimEvent::Requested(claim_spec()))
}

pub(super) fn granted(no: i64, at: Time, token: i64, is_new: bool) -> ClaimRecord {
    let token = Token(token);
    let spec = is_new.then(claim_spec);
    let taken = vec![Taken {
        name: "rate".into(),
        missing: 1_500_000,
    }];
    claim_record(no, at, ClaimEvent::Granted { token, spec, taken })
}

pub(super) fn ended(no: i64, at: Time, how: ClaimEnd) -> ClaimRecord {
    let ending = ClaimEnding {
        how,
        free_at: at + Duration::from_secs(3),
        by: "operator".into(),
        reason: "why \u{fc}".into(),
    };
    claim_record(no, at, ClaimEvent::Ended(Arc::new(ending)))
}

/// The namespace of everything here.
pub(super) fn namespace() -> Namespace {
    Namespace("default".into())
}
