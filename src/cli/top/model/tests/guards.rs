//! What keeps a key from doing something else, or more, than the person has seen.

use super::*;

fn asked(bench: &Bench) -> Option<&str> {
    match &bench.model.mode {
        Mode::Ask(dialog) => Some(&dialog.title),
        _ => None,
    }
}

#[test]
fn a_key_for_a_row_that_is_gone_is_not_taken_for_its_neighbour() {
    let mut bench = Bench::in_schedulers();
    bench.press("j");
    bench.pass(1000);
    bench.read(Ok(schedulers(&["a", "c"])));
    bench.press("p");
    assert_eq!(asked(&bench), None);
    assert!(bench.said().contains("gone"), "{}", bench.said());
    bench.press("p");
    assert!(asked(&bench).is_some_and(|title| title.starts_with("Pause c ")));
}
