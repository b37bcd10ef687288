//! What keys and answers do, without a terminal and without a server.

mod guards;

use super::*;
use crate::cli::top::{seen::OneScheduler, subject::TaskName};
use rallypoint_client::api::{
    AsyncDone, ListSchedulersResponse, Outcome, Scheduler, SchedulerState, TaskId, TaskState,
    TaskView,
};
use ratatui::crossterm::event::{KeyCode, KeyModifiers};

/// A model, and the time that has passed for it.
struct Bench {
    model: Model,
    elapsed: u64,
}

impl Bench {
    /// At the first view, whose reading is under way.
    fn new() -> Bench {
        let mut bench = Bench {
            model: Model::new("http://here", (80, 24), Place::Overview),
            elapsed: 0,
        };
        bench.pass(0);
        bench
    }

    /// In a list of three schedulers, as an admin.
    fn in_schedulers() -> Bench {
        let mut bench = Bench::new();
        bench.press("2");
        bench.read(Ok(schedulers(&["a", "b", "c"])));
        bench.model.apply(Event::Identified(Ok(None)));
        bench
    }

    fn pass(&mut self, milliseconds: u64) -> Vec<Effect> {
        self.elapsed += milliseconds;
        let now = 1_772_366_400_000_000 + self.elapsed as i64 * 1000;
        let elapsed = self.elapsed;
        self.model.apply(Event::Tick { now, elapsed })
    }

    fn code(&mut self, code: KeyCode) -> Vec<Effect> {
        self.model.apply(Event::Key(KeyEvent::from(code)))
    }

    fn control(&mut self, letter: char) -> Vec<Effect> {
        let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        self.model.apply(Event::Key(key))
    }

    /// The keys of a text; returns the effects of the last one.
    fn press(&mut self, text: &str) -> Vec<Effect> {
        let keys = text.chars().map(|letter| self.code(KeyCode::Char(letter)));
        keys.last().unwrap_or_default()
    }

    /// The reading under way is answered.
    fn read(&mut self, result: Result<Seen, Fault>) -> Vec<Effect> {
        let turn = self.model.turn;
        self.model.apply(Event::Read { turn, result })
    }

    fn place(&self) -> &Place {
        &self.model.visit().place
    }

    fn said(&self) -> &str {
        self.model.flash.as_ref().map_or("", |flash| &flash.text)
    }
}

fn readings(effects: &[Effect]) -> usize {
    let reading = |effect: &&Effect| matches!(effect, Effect::Read { .. });
    effects.iter().filter(reading).count()
}

fn schedulers(names: &[&str]) -> Seen {
    let one = |name: &&str| Scheduler {
        handle: (*name).to_owned(),
        name: (*name).to_owned(),
        state: SchedulerState::Open.into(),
        ..Scheduler::default()
    };
    Seen::Schedulers(ListSchedulersResponse {
        schedulers: names.iter().map(one).collect(),
        next_page_token: String::new(),
    })
}

fn tasks(handle: &str) -> Seen {
    let task = |seq| TaskView {
        id: Some(TaskId {
            handle: handle.to_owned(),
            seq,
        }),
        state: TaskState::Done.into(),
        done: Some(AsyncDone {
            outcome: Outcome::Failed.into(),
            ..AsyncDone::default()
        }),
        ..TaskView::default()
    };
    let scheduler = Scheduler {
        handle: handle.to_owned(),
        state: SchedulerState::Open.into(),
        ..Scheduler::default()
    };
    Seen::Scheduler(Box::new(OneScheduler {
        scheduler,
        tasks: vec![task(2), task(1)],
        next_page_token: "older".to_owned(),
        ..OneScheduler::default()
    }))
}

fn away() -> Fault {
    Fault {
        text: "cannot read: refused".to_owned(),
        is_away: true,
    }
}

#[test]
fn one_reading_is_under_way_and_the_next_begins_after_its_answer() {
    let mut bench = Bench::new();
    let during: usize = (0..40).map(|_| readings(&bench.pass(250))).sum();
    assert_eq!(during, 0, "it has not been answered");
    assert!(bench.model.silence().is_some());
    bench.read(Ok(schedulers(&[])));
    let after: usize = (0..40).map(|_| readings(&bench.pass(250))).sum();
    assert_eq!(after, 1);
}

#[test]
fn a_late_answer_of_a_view_that_was_left_is_not_shown() {
    let mut bench = Bench::new();
    let turn = bench.model.turn;
    assert_eq!(readings(&bench.press("2")), 1);
    let result = Ok(tasks("h"));
    bench.model.apply(Event::Read { turn, result });
    assert!(bench.model.visit().seen.is_none());
}

#[test]
fn enter_leads_on_and_escape_back_to_the_same_row() {
    let mut bench = Bench::in_schedulers();
    bench.press("j");
    bench.code(KeyCode::Enter);
    assert_eq!(bench.place(), &Place::Scheduler("b".to_owned()));
    bench.read(Ok(tasks("b")));
    bench.code(KeyCode::Enter);
    assert_eq!(bench.place(), &Place::Task("b".to_owned(), 2));
    bench.code(KeyCode::Esc);
    bench.code(KeyCode::Esc);
    assert_eq!(bench.place(), &Place::Schedulers);
    let page = bench.model.page();
    let row = bench.model.visit().row(&page).expect("a row");
    assert_eq!(row.key, "b");
    bench.code(KeyCode::Esc);
    assert_eq!(bench.place(), &Place::Overview);
    bench.code(KeyCode::Esc);
    assert!(bench.said().contains("q ends"), "{}", bench.said());
}

#[test]
fn commands_and_digits_lead_to_views() {
    let mut bench = Bench::in_schedulers();
    bench.press(":jo");
    bench.code(KeyCode::Tab);
    bench.code(KeyCode::Enter);
    assert_eq!(bench.place(), &Place::Jobs);
    bench.press(":task h/7");
    bench.code(KeyCode::Enter);
    assert_eq!(bench.place(), &Place::Task("h".to_owned(), 7));
    bench.press(":nothing");
    bench.code(KeyCode::Enter);
    assert!(bench.said().contains("no command"), "{}", bench.said());
    bench.press("5");
    assert_eq!(bench.place(), &Place::System);
    bench.press(":q");
    let effects = bench.code(KeyCode::Enter);
    assert!(matches!(effects.last(), Some(Effect::Quit)));
}

#[test]
fn a_filter_is_part_of_the_next_reading_and_escape_clears_it() {
    let mut bench = Bench::in_schedulers();
    bench.press("/open b");
    assert_eq!(bench.model.page().count, Some(1));
    let effects = bench.code(KeyCode::Enter);
    let Some(Effect::Read { query, .. }) = effects.first() else {
        panic!("{effects:?}");
    };
    assert_eq!(query.filter, "open b");
    bench.code(KeyCode::Esc);
    assert_eq!(bench.model.page().count, Some(3));
    assert_eq!(bench.place(), &Place::Schedulers);
    // Letters of a filter are not keys.
    bench.press("/q");
    assert!(!bench.model.quits);
}

#[test]
fn an_action_is_done_only_after_it_was_confirmed() {
    let mut bench = Bench::in_schedulers();
    bench.press("2j");
    bench.code(KeyCode::Enter);
    bench.read(Ok(tasks("b")));
    assert!(bench.press("r").is_empty());
    let Mode::Ask(dialog) = &bench.model.mode else {
        panic!("it does not ask");
    };
    assert_eq!(dialog.title, "Retry task 2 of b?");
    assert!(
        bench.code(KeyCode::Enter).is_empty(),
        "the way out has the focus"
    );
    bench.press("r");
    bench.code(KeyCode::Tab);
    let effects = bench.code(KeyCode::Enter);
    let task = TaskName {
        handle: "b".to_owned(),
        seq: 2,
    };
    let [Effect::Act(call)] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(call, &Call::RetryTask(task));
    // One at a time.
    bench.press("r");
    assert!(bench.said().contains("under way"), "{}", bench.said());
    let done = Done {
        text: "task 2 is retried as task 3".to_owned(),
        place: Some(Place::Task("b".to_owned(), 3)),
    };
    let effects = bench.model.apply(Event::Acted(Ok(done)));
    assert_eq!(readings(&effects), 1);
    assert_eq!(bench.place(), &Place::Task("b".to_owned(), 3));
}

#[test]
fn keys_of_the_row_come_before_those_of_the_view() {
    let mut bench = Bench::in_schedulers();
    bench.code(KeyCode::Enter);
    bench.read(Ok(tasks("a")));
    let offers = bench.model.offers(&bench.model.page());
    let names: Vec<&str> = offers.iter().map(|offer| offer.name).collect();
    assert_eq!(
        names,
        [
            "Retry task",
            "Pause",
            "Retry failed",
            "Cancel waiting",
            "Release"
        ]
    );
}

#[test]
fn nothing_is_offered_before_it_is_known_who_looks_and_nothing_to_a_reader() {
    let mut bench = Bench::in_schedulers();
    bench.model.identity = None;
    assert_eq!(bench.model.offers(&bench.model.page()), []);
    let reader = Identity {
        knows_callers: true,
        name: "anna".to_owned(),
        role: "reader".to_owned(),
        ..Identity::default()
    };
    bench.model.apply(Event::Identified(Ok(Some(reader))));
    assert_eq!(bench.model.offers(&bench.model.page()), []);
    bench.control('d');
    assert!(matches!(bench.model.mode, Mode::Browse));
}

#[test]
fn a_server_that_is_away_is_asked_again_and_what_was_read_stays() {
    let mut bench = Bench::in_schedulers();
    bench.pass(1000);
    bench.read(Err(away()));
    assert_eq!(bench.model.link, Link::Away(away().text));
    assert_eq!(bench.model.page().count, Some(3));
    let asked: usize = (0..12).map(|_| readings(&bench.pass(250))).sum();
    assert_eq!(asked, 1);
    let effects = bench.read(Ok(schedulers(&["a"])));
    assert_eq!(bench.model.link, Link::Live);
    assert!(bench.said().contains("back"), "{}", bench.said());
    // Its callers may be others now.
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Identify))
    );
}

#[test]
fn what_is_not_there_is_said_in_its_place_and_read_again() {
    let mut bench = Bench::new();
    bench.press(":job x");
    bench.code(KeyCode::Enter);
    let text = "cannot read: NOT_FOUND JOB_NOT_FOUND".to_owned();
    let is_away = false;
    bench.read(Err(Fault { text, is_away }));
    assert!(bench.model.page().rows[0].text().contains("JOB_NOT_FOUND"));
    assert_eq!(bench.model.link, Link::Live);
    let asked: usize = (0..9).map(|_| readings(&bench.pass(250))).sum();
    assert_eq!(asked, 1);
}

#[test]
fn pages_are_turned_and_turned_back() {
    let mut bench = Bench::in_schedulers();
    bench.code(KeyCode::Enter);
    bench.read(Ok(tasks("a")));
    let effects = bench.press(">");
    let Some(Effect::Read { query, .. }) = effects.first() else {
        panic!("{effects:?}");
    };
    assert_eq!(query.page_token, "older");
    bench.press("<");
    assert!(bench.model.visit().pages.is_empty());
}

#[test]
fn an_action_under_way_is_not_left_by_one_key() {
    let mut bench = Bench::in_schedulers();
    bench.press("py");
    assert!(bench.press("q").is_empty(), "it is under way");
    assert!(matches!(bench.press("q").last(), Some(Effect::Quit)));
    let mut bench = Bench::new();
    assert!(matches!(bench.control('c').last(), Some(Effect::Quit)));
}
