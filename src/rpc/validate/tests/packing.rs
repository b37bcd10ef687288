//! How a good call becomes runs, packed bodies and a payload hash.

use super::{
    super::exec_async,
    fixtures::{exec, good_handle, label, labels, noop, seconds, sql, targets, value, with},
};
use crate::core::{Delivery, Work};
use rallypoint_client::api::{self, sql_value::Kind};

#[test]
fn tasks_that_differ_in_their_bodies_only_share_one_spec() {
    let options = api::TaskOptions {
        timeout: seconds(1),
        delivery: 2,
        labels: label("k", "v"),
        ..Default::default()
    };
    let at = |order, body: &[u8]| api::Task {
        order: Some(order),
        options: Some(options.clone()),
        ..noop(body)
    };
    let (_, submit) = exec(vec![
        at(1, b"a"),
        at(1, b"bc"),
        at(2, b""),
        sql("select 1"),
        sql("select 2"),
    ])
    .expect("good");
    let runs: Vec<_> = submit
        .runs
        .iter()
        .map(|run| (run.count, run.order.map(|order| order.0)))
        .collect();
    assert_eq!(runs, [(2, Some(1)), (1, Some(2)), (2, None)]);
    assert_eq!(
        submit.runs[0].spec.options.delivery,
        Some(Delivery::AtMostOnce)
    );
    assert_eq!(
        submit.runs[2].spec.work,
        Work::Sql {
            target: "app".into()
        }
    );
    assert_eq!(
        (submit.bodies.get(1), submit.bodies.get(4)),
        ("bc".into(), "select 2".into())
    );
    assert!(submit.params.is_empty() && submit.request.is_none());
}

#[test]
fn parameters_are_packed_as_json_arrays_of_text_or_null() {
    let params = vec![
        value("a\"b"),
        api::SqlValue {
            kind: Some(Kind::Null(0)),
        },
    ];
    let with = api::SqlTask {
        statement: "select $1, $2".into(),
        params,
        ..Default::default()
    };
    let with = api::Task {
        kind: Some(api::task::Kind::Sql(with)),
        ..Default::default()
    };
    let (_, submit) = exec(vec![sql("select 1"), with]).expect("good");
    assert_eq!(
        (submit.params.get(0), submit.params.get(1)),
        ("".into(), r#"["a\"b",null]"#.into())
    );
}

#[test]
fn the_same_payload_has_the_same_hash_and_another_one_another() {
    let hash = |tasks: Vec<api::Task>| {
        let request_id = "f47ac10b-58cc-4372-a567-0e02b2c3d479".into();
        let request = api::ExecAsyncRequest {
            handle: good_handle(),
            request_id,
            tasks,
        };
        exec_async(&request, &targets())
            .expect("good")
            .1
            .request
            .expect("has an id")
            .hash
    };
    let labelled = || {
        with(api::TaskOptions {
            labels: labels(20),
            ..Default::default()
        })
    };
    assert_eq!(
        hash(vec![labelled(), sql("select 1")]),
        hash(vec![labelled(), sql("select 1")])
    );
    let distinct = [
        hash(vec![noop(b"ab"), noop(b"c")]),
        hash(vec![noop(b"a"), noop(b"bc")]),
        hash(vec![noop(b"abc")]),
        hash(vec![sql("abc")]),
        hash(vec![api::Task {
            order: Some(0),
            ..noop(b"abc")
        }]),
        hash(vec![with(api::TaskOptions {
            timeout: seconds(1),
            ..Default::default()
        })]),
        hash(vec![with(api::TaskOptions {
            timeout: seconds(2),
            ..Default::default()
        })]),
    ];
    for (index, one) in distinct.iter().enumerate() {
        assert!(!distinct[..index].contains(one), "{index}");
    }
}
