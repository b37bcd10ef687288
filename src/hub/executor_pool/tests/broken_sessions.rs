//! What an executor has when it comes again after its session broke.

use super::*;

#[test]
fn the_core_hears_anew_what_runs_where_a_session_broke() {
    let mut pool = pool();
    let survivor = Survivor::join(&mut pool, 5, 2);
    pool.leave(survivor.member);
    // A stop has nobody to go to meanwhile.
    let Completion {
        handle,
        first,
        attempt,
        ..
    } = survivor.completion;
    pool.stop(handle, first, attempt);
    assert!(!survivor.is_stopped(&pool));
    let before = pool.effects.len();
    Survivor::join(&mut pool, 5, 2);
    let reported = pool.effects[before..]
        .iter()
        .find_map(|effect| match effect {
            Effect::Command(Command::Reported(running)) => running.first(),
            _ => None,
        });
    let reported = reported.map(|one| (one.handle, one.first, one.attempt));
    assert_eq!(reported, Some((handle, first, attempt)));
}
