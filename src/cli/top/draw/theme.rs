//! How tones look. Only the sixteen colours of the terminal, so that they suit its background,
//! light or dark, and never as the only sign of something: states are words.

use super::super::text::Tone;
use ratatui::style::{Color, Modifier, Style};

/// With colours, or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theme {
    Coloured,
    Plain,
}

impl Theme {
    pub(super) fn style(self, tone: Tone) -> Style {
        let colour = |colour: Color| match self {
            Theme::Coloured => Style::new().fg(colour),
            Theme::Plain => Style::new(),
        };
        match tone {
            Tone::Plain => Style::new(),
            Tone::Quiet => Style::new().add_modifier(Modifier::DIM),
            Tone::Strong => Style::new().add_modifier(Modifier::BOLD),
            Tone::Good => colour(Color::Green),
            Tone::Bad => colour(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Busy => colour(Color::Cyan),
            Tone::Waiting => colour(Color::Yellow),
        }
    }

    /// The row under the cursor.
    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}
