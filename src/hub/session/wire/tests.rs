//! What survives the way between two replicas, of one version or of two.

use super::*;
use crate::core::{SessionOptions, ShardId, Spec, TaskOptions};

#[test]
fn what_a_later_version_says_besides_is_a_sign_of_life() {
    let heard = from_executor_of(peer::FromExecutor { message: None });
    assert!(matches!(heard, Ok(ToOwner::Heartbeat)), "{heard:?}");
    let heard = to_executor_of(peer::ToExecutor { message: None });
    assert!(matches!(heard, Ok(ToExecutor::Heartbeat)), "{heard:?}");
}

#[test]
fn slots_for_work_of_a_later_version_keep_nobody_from_a_session() {
    let slots = |work: &str| peer::Slots {
        work: work.into(),
        total: 3,
    };
    let hello = hello_of(peer::Hello {
        replica: Uuid::nil().to_string(),
        slots: vec![slots("later/kind"), slots("noop")],
        ..Default::default()
    });
    assert_eq!(hello.unwrap().snapshot.slots, [(Work::Noop, 3)]);
    let message = Some(from_executor::Message::Slots(slots("later/kind")));
    let heard = from_executor_of(peer::FromExecutor { message });
    assert!(matches!(heard, Ok(ToOwner::Heartbeat)), "{heard:?}");
}

#[test]
fn a_task_arrives_with_its_namespace_its_options_and_its_limits() {
    let options = TaskOptions {
        session: SessionOptions {
            read_only: Some(true),
            search_path: vec!["a".into()],
            role: Some("reader".into()),
            ..SessionOptions::default()
        },
        ..TaskOptions::default()
    };
    let work = Work::Sql {
        target: "app".into(),
    };
    let spec = Arc::new(Spec {
        work,
        options,
        trace: None,
    });
    let sent = Dispatch {
        token: Token {
            epoch: Epoch(1),
            serial: 2,
        },
        assignment: Assignment {
            handle: Handle::new(ShardId(0), 1_800_000_000_000, [7; 10]),
            first: Seq(1),
            count: 1,
            attempt: Attempt(1),
            order: None,
            spec: Arc::clone(&spec),
            namespace: Namespace("sales".into()),
            caller: "alice".into(),
            time_limit: Some(TimeLimit::Timeout(Duration::from_secs(5))),
            deadline: Some(Time(7)),
            leaves_free: Some(3),
            resource_token: Some(crate::core::Token(12)),
            session_reset: SessionReset::Task,
        },
        leaves_free: Some(3),
        body: Body::default(),
    };
    let sent = dispatched(sent);
    let of_older = peer::Assignment {
        limit: Some(Limit::Deadline(8)),
        total_deadline: None,
        ..sent.clone()
    };
    let arrived = dispatched_of(sent).expect("it makes sense").assignment;
    assert_eq!(&*arrived.namespace.0, "sales");
    assert_eq!(arrived.spec, spec);
    let timeout = TimeLimit::Timeout(Duration::from_secs(5));
    assert_eq!(arrived.time_limit, Some(timeout));
    assert_eq!(arrived.deadline, Some(Time(7)));
    let arrived = dispatched_of(of_older).expect("it makes sense").assignment;
    assert_eq!(arrived.deadline, Some(Time(8)));
}
