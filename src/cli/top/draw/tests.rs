//! What is on the screen, cell by cell.

use super::*;
use crate::cli::top::{
    model::{Event, Fault},
    place::Place,
    seen::Seen,
};
use rallypoint_client::{
    Identity,
    api::{ListSchedulersResponse, Scheduler, SchedulerState},
};
use ratatui::{
    Terminal,
    backend::TestBackend,
    buffer::Buffer,
    crossterm::event::{KeyCode, KeyEvent},
    style::{Color, Modifier},
};

fn model(size: (u16, u16)) -> Model {
    let mut model = Model::new("http://127.0.0.1:50051", size, Place::Schedulers);
    let now = 1_772_366_400_000_000;
    model.apply(Event::Tick { now, elapsed: 0 });
    let one = |name: &str| Scheduler {
        handle: name.to_owned(),
        name: name.to_owned(),
        state: SchedulerState::Open.into(),
        submitted: 4,
        done: 1,
        running: 2,
        ..Scheduler::default()
    };
    let hostile = "evil\x1b]0;owned\x07\x1b[2J\u{202e}";
    let result = Ok(Seen::Schedulers(ListSchedulersResponse {
        schedulers: vec![one("nightly"), one(hostile)],
        next_page_token: String::new(),
    }));
    model.apply(Event::Read { turn: 1, result });
    model
}

fn identity(name: &str, role: &str) -> Identity {
    Identity {
        knows_callers: true,
        name: name.to_owned(),
        namespace: "shop".to_owned(),
        role: role.to_owned(),
        everywhere: String::new(),
    }
}

fn drawn(model: &Model, size: (u16, u16), theme: Theme) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).expect("a screen");
    let frame = terminal
        .draw(|frame| draw(frame, model, theme))
        .expect("drawn");
    frame.buffer.clone()
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let rows = buffer.content().chunks(usize::from(buffer.area.width));
    rows.map(|row| row.iter().map(|cell| cell.symbol()).collect())
        .collect()
}

fn press(model: &mut Model, text: &str) {
    for letter in text.chars() {
        model.apply(Event::Key(KeyEvent::from(KeyCode::Char(letter))));
    }
}

#[test]
fn a_list_is_drawn_with_its_head_its_rows_and_its_keys() {
    let mut model = model((80, 24));
    model.apply(Event::Identified(Ok(Some(identity("anna", "operator")))));
    let lines = lines(&drawn(&model, (80, 24), Theme::Coloured));
    assert!(lines[0].starts_with(" rallypoint 127.0.0.1:50051 · anna · shop operator"));
    assert!(
        lines[0].trim_end().ends_with("● live  12:00:00Z"),
        "{}",
        lines[0]
    );
    assert!(lines[1].starts_with("┌ schedulers[2] ─"), "{}", lines[1]);
    assert!(lines[2].contains("SCHEDULER") && lines[2].contains("WAIT"));
    assert!(lines[3].starts_with("│› nightly "), "{}", lines[3]);
    assert!(
        lines[22].starts_with(" <enter>open <p>Pause"),
        "{}",
        lines[22]
    );
}

#[test]
fn a_reader_sees_no_actions() {
    let mut model = model((120, 24));
    model.apply(Event::Identified(Ok(Some(identity("anna", "reader")))));
    let lines = lines(&drawn(&model, (120, 24), Theme::Coloured));
    let hints = " <enter>open </>filter <:>command <esc>back <?>help <q>end";
    assert_eq!(lines[22].trim_end(), hints);
}

#[test]
fn nothing_that_a_server_says_controls_the_terminal() {
    let model = model((80, 24));
    let buffer = drawn(&model, (80, 24), Theme::Coloured);
    for cell in buffer.content() {
        let symbol = cell.symbol();
        assert!(!symbol.chars().any(char::is_control), "{symbol:?}");
        assert!(!symbol.contains('\u{202e}'), "{symbol:?}");
    }
    assert!(lines(&buffer)[4].contains("evil"));
}

#[test]
fn without_colours_the_cursor_and_the_states_are_still_seen() {
    let model = model((80, 24));
    let buffer = drawn(&model, (80, 24), Theme::Plain);
    let coloured = buffer
        .content()
        .iter()
        .filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
    assert_eq!(coloured.count(), 0);
    assert!(buffer[(4, 3)].modifier.contains(Modifier::REVERSED));
    assert!(lines(&buffer)[3].contains("open"));
}

#[test]
fn no_colour_is_set_that_a_light_or_a_dark_background_would_swallow() {
    let model = model((80, 24));
    let buffer = drawn(&model, (80, 24), Theme::Coloured);
    for cell in buffer.content() {
        let is_swallowed = [Color::White, Color::Black, Color::Gray, Color::DarkGray];
        assert!(
            !is_swallowed.contains(&cell.fg) && cell.bg == Color::Reset,
            "{cell:?}"
        );
    }
}

#[test]
fn the_question_before_an_action_is_in_the_middle() {
    let mut model = model((80, 24));
    model.apply(Event::Identified(Ok(Some(identity("anna", "operator")))));
    press(&mut model, "p");
    let shown = lines(&drawn(&model, (80, 24), Theme::Coloured)).join("\n");
    assert!(
        shown.contains("Pause nightly (nightly)?") && shown.contains("[ Leave it ]  [ Pause ]"),
        "{shown}"
    );
    assert!(
        shown.contains("No more tasks start until it is resumed."),
        "{shown}"
    );
}

#[test]
fn a_question_that_cannot_be_read_whole_cannot_be_confirmed() {
    for size in [(80, 8), (40, 9)] {
        let mut model = model(size);
        model.apply(Event::Identified(Ok(Some(identity("anna", "operator")))));
        press(&mut model, "p");
        let shown = lines(&drawn(&model, size, Theme::Coloured)).join("\n");
        assert!(shown.contains("too small"), "{shown}");
        let effects = model.apply(Event::Key(KeyEvent::from(KeyCode::Char('y'))));
        assert!(effects.is_empty(), "{effects:?}");
        // With more room it is the same question.
        model.apply(Event::Resized(80, 24));
        let shown = lines(&drawn(&model, (80, 24), Theme::Coloured)).join("\n");
        assert!(shown.contains("Pause nightly (nightly)?"), "{shown}");
        let effects = model.apply(Event::Key(KeyEvent::from(KeyCode::Char('y'))));
        assert_eq!(effects.len(), 1, "{effects:?}");
    }
}

#[test]
fn a_name_that_is_too_long_for_the_title_is_shown_whole() {
    let name = format!("{}-end", "long".repeat(30));
    let call = super::super::call::Call::PauseScheduler("h".to_owned());
    let dialog = super::super::dialog::Dialog::new(call, format!("Pause {name}?"), "");
    let mut terminal = Terminal::new(TestBackend::new(80, 21)).expect("a screen");
    let frame = terminal
        .draw(|frame| dialog::draw(frame, &dialog, Theme::Plain, frame.area()))
        .expect("drawn");
    let shown = lines(frame.buffer).join("\n");
    assert!(shown.contains("-end?"), "{shown}");
}

#[test]
fn a_command_is_completed_as_it_is_written() {
    let mut model = model((80, 24));
    press(&mut model, ":sys");
    let lines = lines(&drawn(&model, (80, 24), Theme::Coloured));
    assert_eq!(lines[23].trim_end(), " :system");
}

#[test]
fn help_fits_and_can_be_read_to_its_end() {
    let mut model = model((80, 24));
    press(&mut model, "?");
    let first = lines(&drawn(&model, (80, 24), Theme::Coloured)).join("\n");
    assert!(
        first.contains("Where to") && first.contains("j for more"),
        "{first}"
    );
    press(&mut model, "jjjjjjjjjjjj");
    let last = lines(&drawn(&model, (80, 24), Theme::Coloured)).join("\n");
    assert!(last.contains("pauses or resumes all targets"), "{last}");
}

#[test]
fn a_server_that_is_away_is_said_to_be() {
    let mut model = model((80, 24));
    let now = 1_772_366_401_000_000;
    model.apply(Event::Tick { now, elapsed: 1000 });
    let text = "cannot read: connection refused".to_owned();
    let is_away = true;
    let result = Err(Fault { text, is_away });
    model.apply(Event::Read { turn: 2, result });
    let lines = lines(&drawn(&model, (80, 24), Theme::Coloured));
    assert!(lines[0].contains("● away, trying again"), "{}", lines[0]);
    assert!(lines[3].contains("nightly"), "{}", lines[3]);
    assert!(lines[23].contains("connection refused"), "{}", lines[23]);
}

#[test]
fn every_size_of_screen_is_drawn() {
    for size in [(1, 1), (20, 5), (40, 8), (79, 9), (80, 24), (250, 70)] {
        let mut model = model(size);
        for keys in ["", ":x", "", "?", "", "1", "5", "2R"] {
            press(&mut model, keys);
            drawn(&model, size, Theme::Plain);
            model.apply(Event::Key(KeyEvent::from(KeyCode::Esc)));
        }
    }
    let tiny = lines(&drawn(&model((20, 5)), (20, 5), Theme::Plain));
    assert!(tiny[0].contains("too small"), "{tiny:?}");
}
