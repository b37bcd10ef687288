//! Handles, request ids and task numbers.

use super::{
    super::{ListTasks, exec_async, get_scheduler, handle, release, synchronization, task_id},
    fixtures::{faults, good_handle, noop, one, targets},
};
use crate::{core::Namespace, rpc::errors::reason::Reason};
use rallypoint_client::api;

/// Of a call without settings.
const HASH_BEFORE_THERE_WERE_NAMES: i64 = 5883154880613696888;

#[test]
fn a_malformed_handle_is_refused_everywhere() {
    let good = good_handle();
    let bad = [
        String::new(),
        "00000000-0000-0000-0000-000000000000".into(),
        good[1..].into(),
        format!("{good}0"),
        format!("{{{good}}}"),
        format!("urn:uuid:{good}"),
        good.replace('-', ""),
        good.to_uppercase(),
        good.replace('0', "g"),
        "f47ac10b-58cc-4372-a567-0e02b2c3d479".into(),
        "x".repeat(10_000_000),
    ];
    for text in &bad {
        let expected = one("handle", Reason::IdMalformed);
        assert_eq!(faults(handle(text)), expected);
        let exec = api::ExecAsyncRequest {
            handle: text.clone(),
            tasks: vec![noop(b"")],
            ..Default::default()
        };
        assert_eq!(faults(exec_async(&exec, &targets())), expected);
        let watch = api::SynchronizationRequest {
            handle: text.clone(),
            ..Default::default()
        };
        assert_eq!(faults(synchronization(&watch)), expected);
        let release_request = api::ReleaseSchedulerRequest {
            handle: text.clone(),
            ..Default::default()
        };
        assert_eq!(faults(release(&release_request)), expected);
        let list = api::ListTasksRequest {
            handle: text.clone(),
            ..Default::default()
        };
        assert_eq!(
            faults(ListTasks::new(&list, &Namespace::default_namespace())),
            expected
        );
        let id = api::TaskId {
            handle: text.clone(),
            seq: 1,
        };
        assert_eq!(
            faults(task_id(Some(&id))),
            one("id.handle", Reason::IdMalformed)
        );
    }
}

#[test]
fn a_handle_that_is_missing_is_called_so() {
    for (text, expected) in [("", "handle: missing: "), ("x", "handle: not a handle: ")] {
        let said = handle(text).expect_err("refused").in_words();
        assert!(said.starts_with(expected), "{said}");
    }
}

#[test]
fn only_a_nil_request_id_is_called_nil() {
    for (text, expected) in [
        ("1", "expected a UUID of your choice, like 018f"),
        (
            "00000000-0000-0000-0000-000000000000",
            "expected a UUID of your choice, and this is the nil UUID",
        ),
    ] {
        let request = api::GetSchedulerRequest {
            request_id: text.into(),
            ..Default::default()
        };
        let refused = get_scheduler(&request, &targets()).map(drop);
        let said = refused.expect_err(text).in_words();
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn malformed_request_ids_are_refused() {
    for text in [
        "x",
        "00000000-0000-0000-0000-000000000000",
        "f47ac10b-58cc-4372-a567-0e02b2c3d47",
    ] {
        let request = api::GetSchedulerRequest {
            request_id: text.into(),
            ..Default::default()
        };
        assert_eq!(
            faults(get_scheduler(&request, &targets())),
            one("request_id", Reason::RequestIdMalformed),
            "{text}"
        );
        let request = api::ExecAsyncRequest {
            handle: good_handle(),
            request_id: text.into(),
            tasks: vec![noop(b"")],
        };
        assert_eq!(
            faults(exec_async(&request, &targets())),
            one("request_id", Reason::RequestIdMalformed),
            "{text}"
        );
    }
}

#[test]
fn a_request_id_is_the_same_however_its_uuid_is_written() {
    let id = |text: &str| {
        let request = api::GetSchedulerRequest {
            request_id: text.into(),
            ..Default::default()
        };
        let open = get_scheduler(&request, &targets()).expect("a UUID");
        open.request.expect("it has an id")
    };
    let usual = id("f47ac10b-58cc-4372-a567-0e02b2c3d479");
    for text in [
        "F47AC10B-58CC-4372-A567-0E02B2C3D479",
        "{F47ac10b-58cc-4372-a567-0e02b2c3d479}",
        "f47ac10b58cc4372a5670e02b2c3d479",
    ] {
        assert_eq!(id(text), usual, "{text}");
    }
}

fn named(name: &str, reuse: bool) -> api::GetSchedulerRequest {
    api::GetSchedulerRequest {
        request_id: "f47ac10b-58cc-4372-a567-0e02b2c3d479".into(),
        name: name.into(),
        reuse,
        ..Default::default()
    }
}

#[test]
fn a_name_is_printable_ascii_and_no_handle() {
    let longest = "x".repeat(255);
    for good in ["nightly", "etl.2026-11-23#1", &longest] {
        let open = get_scheduler(&named(good, true), &targets()).expect("a name");
        let naming = open.naming.expect("it has a name");
        assert_eq!((&*naming.name, naming.reuse), (good, true));
    }
    let handle = good_handle();
    let long = longest + "x";
    for (wrong, reason) in [
        (&*long, Reason::NameTooLong),
        ("two words", Reason::NameInvalid),
        ("nächtlich", Reason::NameInvalid),
        ("line\n", Reason::NameInvalid),
        ("etl/2026", Reason::NameInvalid),
        (&handle, Reason::NameInvalid),
    ] {
        let refused = get_scheduler(&named(wrong, false), &targets());
        assert_eq!(faults(refused), one("name", reason), "{wrong}");
    }
    let nameless = get_scheduler(&named("", true), &targets());
    assert_eq!(faults(nameless), one("name", Reason::TextOutOfRange));
    let nobody = get_scheduler(&named("", false), &targets()).expect("no name is needed");
    assert_eq!(nobody.naming, None);
}

#[test]
fn name_and_reuse_are_part_of_the_payload_and_none_leaves_it_as_it_was() {
    let hash = |request: api::GetSchedulerRequest| {
        let open = get_scheduler(&request, &targets()).expect("right");
        open.request.expect("it has an id").hash
    };
    let all = [
        hash(named("", false)),
        hash(named("a", false)),
        hash(named("a", true)),
        hash(named("b", true)),
    ];
    assert!((1..4).all(|at| !all[..at].contains(&all[at])), "{all:?}");
    assert_eq!(all[0], HASH_BEFORE_THERE_WERE_NAMES);
}

#[test]
fn task_numbers_start_at_one() {
    assert_eq!(faults(task_id(None)), one("id", Reason::IdMalformed));
    for seq in [0, -1, i64::MIN] {
        let id = api::TaskId {
            handle: good_handle(),
            seq,
        };
        assert_eq!(
            faults(task_id(Some(&id))),
            one("id.seq", Reason::SeqOutOfRange)
        );
    }
}
