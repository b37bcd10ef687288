//! What commands about jobs hold while they wait counts.

use super::*;
use crate::core::{Backfill, Packed, RunCause, Submit};

fn bytes(verb: JobVerb) -> usize {
    let caller = Caller {
        namespace: Namespace::default_namespace(),
        name: "test".into(),
    };
    Command::Job { caller, verb }.bytes()
}

#[test]
fn a_job_holds_its_texts_and_parameters_and_those_of_what_follows_a_failure() {
    let empty = of(settings(every(60)), []);
    let tasks = Arc::new(Submit {
        bodies: Packed::new([&[b'a'; 1_000][..]]),
        params: Packed::new([&[b'b'; 100][..]]),
        ..Submit::none()
    });
    let job = Arc::new(NewJob {
        steps: tasks.clone(),
        on_failure: tasks,
        ..(*empty).clone()
    });
    let name = || "a".into();
    let create = |job| JobVerb::Create { name: name(), job };
    assert!(bytes(create(empty)) < 1_000);
    assert!(bytes(create(job.clone())) >= 2_200);
    let update = JobVerb::Update {
        name: name(),
        job,
        version: None,
    };
    assert!(bytes(update) >= 2_200);
}

#[test]
fn a_backfill_holds_its_due_times_and_ranges() {
    let key = RunKey {
        job: JobNo(1),
        due: Time(1),
    };
    let asked = Backfill {
        job: JobNo(1),
        version: 1,
        due: vec![Time(1); 1_000],
        ranges: vec![RunImage::new(key, RunCause::Scheduled); 1_000],
        seen: Time(0),
    };
    let name = "a".into();
    assert!(bytes(JobVerb::Backfill { name, asked }) > 100_000);
}
