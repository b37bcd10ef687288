//! One line of text that a person writes: a filter, a command, a reason.

use crate::cli::terminal_text::clean;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The line, and where the cursor is: before this character.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Editor {
    text: String,
    at: usize,
}

/// No longer line is taken.
const LONGEST: usize = 2000;

impl Editor {
    pub(super) fn of(text: &str) -> Editor {
        Editor {
            text: text.to_owned(),
            at: text.chars().count(),
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// What stands before the cursor.
    pub(super) fn before(&self) -> &str {
        &self.text[..self.byte()]
    }

    /// Takes a key; returns whether the text is another one now.
    pub(super) fn key(&mut self, key: KeyEvent) -> bool {
        let before = self.text.clone();
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('u') if control => *self = Editor::default(),
            KeyCode::Char('w') if control => self.delete_word(),
            KeyCode::Char('a') if control => self.at = 0,
            KeyCode::Char('e') if control => self.at = self.text.chars().count(),
            KeyCode::Char(_) if control || key.modifiers.contains(KeyModifiers::ALT) => {}
            KeyCode::Char(character) => self.paste(&character.to_string()),
            KeyCode::Left => self.at = self.at.saturating_sub(1),
            KeyCode::Right => self.at = (self.at + 1).min(self.text.chars().count()),
            KeyCode::Home => self.at = 0,
            KeyCode::End => self.at = self.text.chars().count(),
            KeyCode::Backspace if self.at > 0 => {
                self.at -= 1;
                self.text.remove(self.byte());
            }
            KeyCode::Delete if self.byte() < self.text.len() => {
                self.text.remove(self.byte());
            }
            _ => {}
        }
        self.text != before
    }

    /// Puts text where the cursor is; line ends become spaces.
    pub(super) fn paste(&mut self, text: &str) {
        let text = clean(text);
        if self.text.len() + text.len() <= LONGEST {
            self.text.insert_str(self.byte(), &text);
            self.at += text.chars().count();
        }
    }

    fn delete_word(&mut self) {
        let kept = self.before().trim_end();
        let from = kept.rfind(' ').map_or(0, |at| at + 1);
        self.text.replace_range(from..self.byte(), "");
        self.at = self.text[..from].chars().count();
    }

    fn byte(&self) -> usize {
        let mut places = self.text.char_indices();
        places.nth(self.at).map_or(self.text.len(), |(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_edited_as_in_a_shell() {
        let mut editor = Editor::of("größe ab");
        let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        editor.key(KeyCode::Backspace.into());
        assert_eq!(editor.text(), "größe a");
        editor.key(control('w'));
        editor.key(KeyCode::Left.into());
        editor.key(KeyCode::Left.into());
        editor.paste("n\n\x1b");
        assert_eq!((editor.text(), editor.before()), ("größn  e ", "größn  "));
        assert!(!editor.key(control('a')) && editor.before().is_empty());
        assert!(editor.key(control('u')) && editor.text().is_empty());
    }
}
