//! What the keys do.

use super::{super::text::Tone, theme::Theme};
use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Span},
    widgets::{Block, Clear, Paragraph},
};

/// Keys and what they do; an empty key begins a part.
const KEYS: &[(&str, &str)] = &[
    ("", "Where to"),
    ("1 … 5", "overview, schedulers, jobs, resources, system"),
    (
        ":",
        "command: :schedulers :jobs :resources :system :overview",
    ),
    (
        "",
        ":scheduler NAME  :task HANDLE SEQ  :job NAME  :resource NAME",
    ),
    ("tab", "completes a command"),
    ("enter", "opens what the cursor is on"),
    ("esc", "leads back; clears a filter"),
    ("q, ctrl-c", "end"),
    ("", "In a view"),
    ("j k ↑ ↓", "a row down, up"),
    (
        "ctrl-f ctrl-b",
        "a screen down, up (or page down, page up); ctrl-u: half",
    ),
    ("g G", "to the first row, the last"),
    ("/", "filter: words of the row, and what the server knows:"),
    (
        "",
        "open halted name:NAME · failed waiting order:N code:SQLSTATE",
    ),
    ("", "key=value for a label"),
    ("> <", "the next page of a list, and back"),
    ("t", "in a scheduler: tasks as bars over time"),
    ("ctrl-r ctrl-l", "read now; draw anew"),
    (
        "",
        "Actions: each asks first, and is there for those who may",
    ),
    (
        "ctrl-d",
        "cancels a task or a run, releases a scheduler or a claim",
    ),
    ("r", "retries a task; runs a job now"),
    ("p", "pauses or resumes a scheduler, a job, a target"),
    (
        "f i w R",
        "scheduler: retry failed, ignore failures, cancel waiting,",
    ),
    ("", "release"),
    ("s", "in jobs: stops or starts the agent"),
    ("a", "in system: pauses or resumes all targets"),
];

/// `top`: lines that are scrolled away.
pub(super) fn draw(frame: &mut Frame<'_>, top: usize, theme: Theme, area: Rect) {
    let lines: Vec<Line<'_>> = KEYS
        .iter()
        .map(|(key, text)| line(key, text, theme))
        .collect();
    let height = usize::from(area.height.saturating_sub(2));
    let top = top.min(lines.len().saturating_sub(height));
    let shown: Vec<Line<'_>> = lines.into_iter().skip(top).collect();
    let more = if KEYS.len() > top + height {
        " j for more, any other key closes "
    } else {
        " any key closes "
    };
    let block = Block::bordered().title(" Keys ").title_bottom(more);
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(shown).block(block), area);
}

fn line(key: &'static str, text: &'static str, theme: Theme) -> Line<'static> {
    let is_title = key.is_empty() && text.chars().next().is_some_and(char::is_uppercase);
    match is_title {
        true => Line::styled(format!(" {text}"), theme.style(Tone::Strong)),
        false => Line::from(vec![
            Span::styled(format!(" {key:>13}  "), theme.style(Tone::Busy)),
            Span::raw(text),
        ]),
    }
}
