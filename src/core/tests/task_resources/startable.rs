//! How many tasks more executors would be good for, where tasks want resources.

use super::{PERMIT, WRITER, a_writer, needs, world};
use crate::core::tests::world::{World, free, plain};

/// What would start, of all kinds.
fn startable(w: &mut World) -> i64 {
    w.status().startable.iter().map(|(_, count)| count).sum()
}

#[test]
fn a_free_permit_counts_once_however_many_schedulers_wait_for_it() {
    let (mut w, first) = world(0);
    let permit = || needs(free(), &[("pool", PERMIT)]);
    w.submit(first, [permit(), permit(), free()]);
    for _ in 0..5 {
        let s = w.open(plain);
        w.submit(s, [permit(), a_writer()]);
    }
    assert_eq!(
        startable(&mut w),
        4,
        "one that is free, two permits, a writer"
    );
    w.set_slots(2);
    assert_eq!(startable(&mut w), 2);
    w.set_slots(100);
    assert_eq!(startable(&mut w), 0, "nothing is left that they want");
}

#[test]
fn what_a_task_wants_is_counted_as_a_whole() {
    let (mut w, _) = world(0);
    for other in ["a", "b"] {
        for _ in 0..3 {
            let s = w.open(plain);
            w.submit(s, [needs(free(), &[(other, WRITER), ("pool", PERMIT)])]);
        }
    }
    assert_eq!(startable(&mut w), 2, "one that has a, one that has b");
    let s = w.open(plain);
    w.submit(s, [needs(free(), &[("pool", WRITER)])]);
    assert_eq!(startable(&mut w), 2, "none has all of the pool besides");
}

#[test]
fn who_cannot_start_hides_nobody_who_can() {
    let (mut w, _) = world(0);
    let limited = w.open(|settings| settings.max_parallelism = Some(1));
    w.submit(limited, [free(), a_writer()]);
    assert_eq!(startable(&mut w), 1);
    let other = w.open(plain);
    w.submit(other, [a_writer()]);
    assert_eq!(startable(&mut w), 2);
}
