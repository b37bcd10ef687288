//! What becomes of assignments when nobody has slots for them any more.

use super::*;

#[test]
fn what_waits_for_a_slot_is_given_back_when_there_are_none_any_more() {
    let mut pool = pool_of(&[8]);
    for seq in [1, 2] {
        pool.hand_out(assignment(seq), Body::default());
    }
    assert_eq!(pool.waiting.len(), 1, "there is one slot");
    pool.effects.clear();
    let none = Event::Slots {
        work: WORK,
        total: 0,
    };
    pool.report(ExecutorReport::of(ExecutorId(1), vec![none]));
    pool.hand_out(assignment(3), Body::default());
    let given_back = |effect: &Effect| match effect {
        Effect::Command(Command::Completed(all)) => {
            all.iter().all(|one| one.report == Report::NotStarted)
        }
        _ => false,
    };
    assert!(pool.waiting.is_empty());
    // The core learns first that there are no slots, so it hands nothing out again.
    let slots = |effect: &Effect| matches!(effect, Effect::Command(Command::Slots { .. }));
    let effects = pool.effects.iter();
    let given_back: Vec<bool> = effects
        .filter(|one| slots(one) || given_back(one))
        .map(given_back)
        .collect();
    assert_eq!(given_back, [false, true, true]);
}
