//! Asks before something is done. What needs a reason gets one, and nothing is done by a single
//! key: the way out has the focus first.

use super::{
    call::Call,
    editor::Editor,
    text::{Row, Tone, lines},
};
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use unicode_width::UnicodeWidthStr;

/// A question, and what the person has answered so far.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Dialog {
    pub(super) title: String,
    pub(super) text: String,
    /// What the button says that does it.
    pub(super) confirm: &'static str,
    pub(super) reason: Option<Editor>,
    pub(super) choice: Option<Choice>,
    pub(super) focus: Focus,
    /// What is wrong with the answers.
    pub(super) fault: &'static str,
    call: Call,
}

/// One of several ways to do it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    pub(super) label: &'static str,
    pub(super) options: [&'static str; 2],
    pub(super) chosen: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    Reason,
    Choice,
    Leave,
    Confirm,
}

/// What became of a key.
#[derive(Debug, PartialEq)]
pub(super) enum Asked {
    Still,
    Left,
    Confirmed(Call),
}

/// How a question is laid out.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) width: u16,
    pub(super) height: u16,
    /// Columns of a line.
    pub(super) room: usize,
    pub(super) text: Vec<Row>,
}

pub(super) const WIDEST: u16 = 64;
/// The way out, as the button says it.
pub(super) const LEAVE: &str = "Leave it";
/// Lines beside the text and the fields: the borders, a blank one, what is wrong, the buttons.
const BESIDE: usize = 5;

/// The service takes no longer reason.
const REASON_BYTES: usize = 1000;

impl Dialog {
    pub(super) fn new(call: Call, title: impl Into<String>, text: impl Into<String>) -> Dialog {
        Dialog {
            title: title.into(),
            text: text.into(),
            confirm: "Do it",
            reason: None,
            choice: None,
            focus: Focus::Leave,
            fault: "",
            call,
        }
    }

    pub(super) fn confirmed_by(self, confirm: &'static str) -> Dialog {
        Dialog { confirm, ..self }
    }

    pub(super) fn with_reason(self) -> Dialog {
        Dialog {
            reason: Some(Editor::default()),
            focus: Focus::Reason,
            ..self
        }
    }

    pub(super) fn with_choice(self, label: &'static str, options: [&'static str; 2]) -> Dialog {
        Dialog {
            choice: Some(Choice {
                label,
                options,
                chosen: 0,
            }),
            ..self
        }
    }

    /// What it asks about.
    pub(super) fn call(&self) -> &Call {
        &self.call
    }

    /// How it is laid out on so many columns and lines; nothing where a part would be cut off.
    pub(super) fn shape(&self, (columns, rows): (u16, u16)) -> Option<Shape> {
        let width = WIDEST.min(columns.saturating_sub(2));
        let room = usize::from(width.saturating_sub(4));
        let mut text = lines(&self.text, room, Tone::Plain);
        // What it is about is read whole, also where its name is too long for the border.
        if self.title.width() > room {
            text.splice(0..0, lines(&self.title, room, Tone::Plain));
        }
        let fields = usize::from(self.reason.is_some()) + 3 * usize::from(self.choice.is_some());
        let least = u16::try_from(text.len() + fields + BESIDE).ok()?;
        let fits = least <= rows && self.widest() <= room;
        fits.then(|| Shape {
            width,
            // One line more where there is one.
            height: rows.min(least + 1),
            room,
            text,
        })
    }

    /// Columns of the widest line that is not broken: the buttons, or an option.
    fn widest(&self) -> usize {
        let buttons = format!("[ {LEAVE} ]  [ {} ]", self.confirm).width();
        let options = self.choice.iter().flat_map(|choice| choice.options);
        let options = options.map(|option| "(•) ".width() + option.width());
        options.max().unwrap_or(0).max(buttons)
    }

    /// Takes a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Asked {
        self.fault = "";
        match (key.code, self.focus) {
            (KeyCode::Esc, _) => return Asked::Left,
            (KeyCode::Tab | KeyCode::Down, _) => self.move_focus(1),
            (KeyCode::BackTab | KeyCode::Up, _) => self.move_focus(-1),
            (KeyCode::Enter, Focus::Leave) => return Asked::Left,
            (KeyCode::Enter, Focus::Confirm) => return self.confirm(),
            (KeyCode::Enter, _) => self.move_focus(1),
            (_, Focus::Reason) => {
                if let Some(reason) = &mut self.reason {
                    reason.key(key);
                }
            }
            (KeyCode::Left | KeyCode::Right | KeyCode::Char(' '), Focus::Choice) => self.choose(),
            (KeyCode::Left, _) => self.move_focus(-1),
            (KeyCode::Right, _) => self.move_focus(1),
            (KeyCode::Char('y'), _) => return self.confirm(),
            (KeyCode::Char('n' | 'q'), _) => return Asked::Left,
            _ => {}
        }
        Asked::Still
    }

    /// Text from the clipboard.
    pub(super) fn paste(&mut self, text: &str) {
        if let (Focus::Reason, Some(reason)) = (self.focus, &mut self.reason) {
            reason.paste(text);
        }
    }

    fn choose(&mut self) {
        if let Some(choice) = &mut self.choice {
            choice.chosen = 1 - choice.chosen;
        }
    }

    fn confirm(&mut self) -> Asked {
        let said = self
            .reason
            .as_ref()
            .map_or("", |reason| reason.text().trim());
        let needs = self.reason.is_some();
        self.fault = match said.len() {
            0 if needs => "a reason is needed: it is kept with your name",
            length if length > REASON_BYTES => "the reason is too long: at most 1000 bytes",
            _ => "",
        };
        if !self.fault.is_empty() {
            self.focus = Focus::Reason;
            return Asked::Still;
        }
        let choice = self.choice.as_ref().map_or(0, |choice| choice.chosen);
        Asked::Confirmed(self.call.clone().answered(said, choice))
    }

    fn move_focus(&mut self, by: i8) {
        let mut stops = vec![Focus::Leave, Focus::Confirm];
        if self.choice.is_some() {
            stops.insert(0, Focus::Choice);
        }
        if self.reason.is_some() {
            stops.insert(0, Focus::Reason);
        }
        let at = stops.iter().position(|stop| *stop == self.focus);
        let next = (at.unwrap_or(0) as i8 + by).rem_euclid(stops.len() as i8);
        self.focus = stops[next as usize];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rallypoint_client::api::StopMode;

    fn press(dialog: &mut Dialog, codes: &[KeyCode]) -> Asked {
        let mut asked = Asked::Still;
        for code in codes {
            asked = dialog.key(KeyEvent::from(*code));
        }
        asked
    }

    #[test]
    fn enter_alone_does_nothing() {
        let mut dialog = Dialog::new(Call::StartAgent, "Start?", "");
        assert_eq!(press(&mut dialog, &[KeyCode::Enter]), Asked::Left);
        let confirmed = press(&mut dialog, &[KeyCode::Tab, KeyCode::Enter]);
        assert_eq!(confirmed, Asked::Confirmed(Call::StartAgent));
        let confirmed = press(&mut dialog, &[KeyCode::Char('y')]);
        assert_eq!(confirmed, Asked::Confirmed(Call::StartAgent));
    }

    #[test]
    fn what_needs_a_reason_is_not_done_without_one() {
        let call = Call::StopAgent {
            reason: String::new(),
            mode: StopMode::Drain,
        };
        let mut dialog = Dialog::new(call, "Stop?", "");
        dialog = dialog.with_reason().with_choice("Runs", ["go on", "end"]);
        use KeyCode::{Char, Enter, Tab};
        let asked = press(&mut dialog, &[Tab, Tab, Tab, Enter]);
        assert_eq!((asked, dialog.focus), (Asked::Still, Focus::Reason));
        assert!(dialog.fault.contains("reason"), "{}", dialog.fault);
        let asked = press(&mut dialog, &[Char('y'), Tab, Char(' '), Tab, Tab, Enter]);
        let mode = StopMode::CancelRunning;
        let reason = "y".to_owned();
        assert_eq!(asked, Asked::Confirmed(Call::StopAgent { reason, mode }));
    }
}
