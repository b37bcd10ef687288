//! RetryTask and RetryFailed: copies of tasks that have ended.

mod halts;

use super::{
    resources::settings,
    world::{Task, World, free, order, plain, request, submission},
};
use crate::core::{
    DoneNo, Handle, Mode, Order, Outcome, Reject, ReleaseMode, Reply, Request, ResourceVerb,
    Retries, RetryOf, Seq, Settings, SettingsField, Update, Verb, Want, model::limits::Limits,
};
use std::sync::Arc;

impl World {
    /// Retries tasks: each is `task`, with the event of its failure. The number of the first copy.
    fn retry(&mut self, s: Handle, of: &[(i64, i64)], task: Task) -> Result<i64, Reject> {
        let searched = self.view(s).image.checkpoint.highest_seq;
        self.retry_as(s, None, searched, of, task)
    }

    fn retry_as(
        &mut self,
        s: Handle,
        request: Option<Request>,
        searched: Seq,
        of: &[(i64, i64)],
        task: Task,
    ) -> Result<i64, Reject> {
        let retry_of = |(seq, event): &(i64, i64)| RetryOf {
            seq: Seq(*seq),
            failure: (*event > 0).then_some(DoneNo(*event)),
        };
        let mut submit = submission(request, vec![task; of.len()]);
        submit.retries = Some(Retries {
            searched,
            of: of.iter().map(retry_of).collect(),
        });
        match self.call(s, Verb::Submit(Arc::new(submit))) {
            Reply::Submitted { first_seq, .. } => Ok(first_seq.0),
            Reply::Rejected(reject) => Err(reject),
            other => panic!("a retry was answered with {other:?}"),
        }
    }

    fn halted_by(&mut self, s: Handle) -> Option<(i64, Vec<i64>)> {
        let halt = self.view(s).image.halt?;
        let failed = halt.failed.iter().map(|seq| seq.0).collect();
        Some((halt.order.0, failed))
    }
}

fn retried(seq: i64, retry: i64) -> Reject {
    Reject::Retried {
        seq: Seq(seq),
        retry: Seq(retry),
    }
}

#[test]
fn a_retry_runs_in_its_order_while_that_has_not_passed_and_at_once_afterwards() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(s, [order(1), order(1), order(2), order(3)]);
    w.fail(s, 1);
    w.retry(s, &[(1, 1)], order(1)).expect("accepted");
    w.succeed(s, [2]);
    assert_eq!(
        w.running(s),
        [5],
        "the order is current: the next one waits"
    );
    w.fail(s, 5);
    assert_eq!(w.running(s), [3]);
    w.retry(s, &[(5, 3)], order(1)).expect("accepted");
    assert_eq!(w.running(s), [3, 6], "it has passed");
    w.succeed(s, [3]);
    assert_eq!(w.running(s), [4, 6], "nothing waits for it");
    w.fail(s, 4);
    w.fail(s, 6);
    w.retry(s, &[(6, 0)], order(1)).expect("accepted");
    w.submit(s, [order(2)]);
    assert_eq!(
        w.running(s),
        [7],
        "with no order current it is the next one"
    );
}

#[test]
fn a_retry_waits_for_a_resource_that_is_no_more_and_keeps_no_other_waiting() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.define("a", settings(1));
    let needs = || {
        let want = Want {
            name: "a".into(),
            mode: Mode::Exclusive,
        };
        free().with(|options| options.resources = [want].into())
    };
    w.submit(s, [needs(), free()]);
    [1, 2].into_iter().for_each(|seq| w.fail(s, seq));
    w.ask(ResourceVerb::Delete("a".into())).expect("idle");
    assert_eq!(w.retry(s, &[(1, 1)], needs()), Ok(3));
    assert_eq!(w.retry(s, &[(2, 2)], free()), Ok(4));
    assert_eq!(w.running(s), [4]);
    w.define("a", settings(1));
    assert_eq!(w.running(s), [3, 4]);
}

#[test]
fn a_retry_is_never_late() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(s, [order(1), order(2)]);
    w.fail(s, 1);
    let late = w.try_submit(s, None, [order(1)]);
    assert!(matches!(late, Err(Reject::OrderClosed { .. })));
    assert_eq!(w.retry(s, &[(1, 1)], order(1)), Ok(3));
    assert_eq!(w.running(s), [2, 3]);
}

#[test]
fn no_task_is_retried_twice_however_old_the_search() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(s, [free(), free()]);
    w.fail(s, 1);
    w.fail(s, 2);
    let searched = Seq(2);
    assert_eq!(w.retry_as(s, None, searched, &[(1, 1)], free()), Ok(3));
    let both = [(1, 1), (2, 2)];
    let again = w.retry_as(s, None, searched, &both, free());
    assert_eq!(again, Err(retried(1, 3)));
    w.succeed(s, [3]);
    w.crash();
    let again = w.retry_as(s, None, searched, &both, free());
    assert_eq!(again, Err(Reject::RetriesUnknown));
    let other = w.retry_as(s, None, Seq(3), &[(2, 2)], free());
    assert_eq!(other, Ok(4));
}

#[test]
fn retries_that_are_not_remembered_have_to_be_searched_for() {
    let limits = Limits {
        retries: 1,
        ..Limits::default()
    };
    let mut w = World::limited(100, limits);
    let s = w.open(plain);
    w.submit(s, [free(), free(), free()]);
    [1, 2, 3].into_iter().for_each(|seq| w.fail(s, seq));
    for (of, retry) in [(1, 4), (2, 5)] {
        let accepted = w.retry_as(s, None, Seq(3), &[(of, of)], free());
        assert_eq!(accepted, Ok(retry));
    }
    let unknown = |w: &mut World, searched| w.retry_as(s, None, Seq(searched), &[(3, 3)], free());
    assert_eq!(unknown(&mut w, 3), Err(Reject::RetriesUnknown));
    assert_eq!(unknown(&mut w, 4), Ok(6));
}

#[test]
fn a_repeated_retry_is_answered_as_before_also_when_it_asks_for_less() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(s, [free()]);
    w.fail(s, 1);
    let call = request(7, 1);
    assert_eq!(w.retry_as(s, call, Seq(1), &[(1, 1)], free()), Ok(2));
    w.crash();
    assert_eq!(w.retry_as(s, call, Seq(1), &[(1, 1)], free()), Ok(2));
    let asked = |w: &mut World, id, hash| {
        let request = request(id, hash).expect("a request");
        w.call(s, Verb::Submitted(request))
    };
    let reply = asked(&mut w, 7, 1);
    assert!(matches!(
        reply,
        Reply::Submitted {
            first_seq: Seq(2),
            count: 1,
            repeated: true,
            ..
        }
    ));
    let reused = Reject::RequestIdReused;
    assert!(matches!(asked(&mut w, 7, 2), Reply::Rejected(reject) if reject == reused));
    assert!(matches!(
        asked(&mut w, 8, 1),
        Reply::NotSubmitted { done_no: DoneNo(1) }
    ));
}

#[test]
fn copies_keep_the_options_of_their_tasks() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(s, [free().noop(), free().noop(), free().noop()]);
    let settings = Settings {
        default_options: crate::core::TaskOptions {
            result_rows: Some(7),
            ..Default::default()
        },
        ..Settings::default()
    };
    let fields = vec![SettingsField::DefaultOptions];
    w.call(s, Verb::Update(Arc::new(Update { settings, fields })));
    w.call(s, Verb::Pause);
    w.retry(s, &[(1, 0), (3, 0)], free()).expect("accepted");
    w.call(
        s,
        Verb::Resume {
            ignore_failures: false,
        },
    );
    assert_eq!(w.assignment(s, 4).spec.options.result_rows, None);
    w.submit(s, [free()]);
    assert_eq!(w.assignment(s, 6).spec.options.result_rows, Some(7));
}

#[test]
fn a_released_scheduler_takes_no_retries() {
    let mut w = World::new(100);
    let s = w.open(plain);
    w.submit(s, [order(1), order(1)]);
    w.fail(s, 1);
    w.release(s, ReleaseMode::Finish);
    assert_eq!(w.retry(s, &[(1, 1)], order(1)), Err(Reject::Released));
    assert_eq!(w.outcome(s, 1), Some(Outcome::Failed));
    let asked = request(7, 1).expect("a request");
    let reply = w.call(s, Verb::Submitted(asked));
    assert!(matches!(reply, Reply::Rejected(Reject::Released)));
}

#[test]
fn retries_count_for_the_limits_and_the_barrier() {
    let limits = Limits {
        queued_tasks: 2,
        ..Limits::default()
    };
    let mut w = World::limited(100, limits);
    let s = w.open(plain);
    w.submit(s, [order(1), order(2)]);
    w.fail(s, 1);
    assert_eq!(w.retry(s, &[(1, 1)], order(1)), Ok(3));
    w.fail(s, 3);
    w.submit(s, [free()]);
    let refused = w.retry(s, &[(3, 2)], order(1));
    assert!(matches!(refused, Err(Reject::LimitReached { .. })));
    let orders = w.view(s).current_order;
    assert_eq!(orders, Some(Order(2)));
}
