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

#[test]
fn a_page_is_not_turned_again_before_it_has_been_read() {
    let mut bench = Bench::in_schedulers();
    bench.code(KeyCode::Enter);
    bench.read(Ok(tasks("a")));
    bench.press(">>");
    assert_eq!(bench.model.visit().pages, ["older"]);
    assert!(bench.said().contains("being read"), "{}", bench.said());
    bench.read(Err(away()));
    bench.press(">");
    assert_eq!(bench.model.visit().pages, ["older"]);
    bench.pass(5000);
    bench.read(Ok(tasks("a")));
    bench.press(">");
    assert_eq!(bench.model.visit().pages, ["older", "older"]);
    // What is on the screen is not the page that one has turned back to.
    bench.press("<>");
    assert_eq!(bench.model.visit().pages, ["older"]);
}

#[test]
fn a_page_is_turned_while_it_is_only_read_again() {
    let mut bench = Bench::in_schedulers();
    bench.code(KeyCode::Enter);
    bench.read(Ok(tasks("a")));
    assert_eq!(readings(&bench.pass(1000)), 1);
    assert_eq!(readings(&bench.press(">")), 1);
    assert_eq!(bench.model.visit().pages, ["older"]);
}

#[test]
fn a_retry_leads_nowhere_when_one_has_gone_elsewhere_meanwhile() {
    let mut bench = Bench::in_schedulers();
    bench.code(KeyCode::Enter);
    bench.read(Ok(tasks("a")));
    bench.press("ry3");
    let done = Done {
        text: "task 2 is retried as task 3".to_owned(),
        place: Some(Place::Task("a".to_owned(), 3)),
    };
    bench.model.apply(Event::Acted(Ok(done)));
    assert_eq!(bench.place(), &Place::Jobs);
    assert!(bench.said().contains("task 3"), "{}", bench.said());
}

#[test]
fn an_action_under_way_is_not_forgotten_by_a_key_that_would_end() {
    let mut bench = Bench::in_schedulers();
    bench.press("pyq");
    bench.press("p");
    assert_eq!(asked(&bench), None);
    assert!(bench.said().contains("under way"), "{}", bench.said());
}

#[test]
fn what_a_key_asks_for_is_read_anew_and_polls_are_told_from_it() {
    let awaits = |effects: &[Effect]| match effects.first() {
        Some(Effect::Read { query, .. }) => query.is_awaited,
        _ => panic!("{effects:?}"),
    };
    let mut bench = Bench::in_schedulers();
    assert!(awaits(&bench.code(KeyCode::Enter)));
    bench.read(Ok(tasks("a")));
    assert!(!awaits(&bench.pass(1000)));
    bench.read(Ok(tasks("a")));
    bench.press("py");
    let done = Done {
        text: "it is paused".to_owned(),
        place: None,
    };
    assert!(awaits(&bench.model.apply(Event::Acted(Ok(done)))));
    // One that fails does not count as an answer.
    bench.read(Err(away()));
    assert!(awaits(&bench.pass(2000)));
}
