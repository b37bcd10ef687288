//! The question before an action.

use super::{
    super::{
        dialog::{Dialog, Focus, LEAVE, Shape, WIDEST},
        text::{Piece, Row, Tone, lines},
    },
    theme::Theme,
};
use ratatui::{
    Frame,
    layout::{Position, Rect},
    text::{Line, Span},
    widgets::{Block, Clear},
};
use unicode_width::UnicodeWidthStr;

const REASON: &str = "Why: ";

const TOO_SMALL: &str = "The screen is too small for this question. Make it larger, or press esc.";

pub(super) fn draw(frame: &mut Frame<'_>, dialog: &Dialog, theme: Theme, area: Rect) {
    match dialog.shape((area.width, area.height)) {
        Some(shape) => draw_whole(frame, dialog, &shape, theme, area),
        None => draw_too_small(frame, theme, area),
    }
}

/// A part of a question is not shown: nobody answers it by that.
fn draw_too_small(frame: &mut Frame<'_>, theme: Theme, area: Rect) {
    let width = WIDEST.min(area.width.saturating_sub(2));
    let text = lines(
        TOO_SMALL,
        usize::from(width.saturating_sub(4)),
        Tone::Waiting,
    );
    let height = u16::try_from(text.len() + 2).unwrap_or(u16::MAX);
    let inside = draw_box(frame, "", (width, height.min(area.height)), theme, area);
    let style = theme.style(Tone::Waiting);
    let shown = text.iter().map(|row| Line::styled(row.text(), style));
    draw_lines(frame, shown, inside);
}

/// An empty box in the middle; returns its inside.
fn draw_box(
    frame: &mut Frame<'_>,
    title: &str,
    (width, height): (u16, u16),
    theme: Theme,
    area: Rect,
) -> Rect {
    let x = area.x + (area.width - width) / 2;
    let y = area.y + (area.height - height) / 2;
    let place = Rect::new(x, y, width, height);
    let block = Block::bordered().title(Span::styled(title, theme.style(Tone::Strong)));
    let inside = block.inner(place);
    frame.render_widget(Clear, place);
    frame.render_widget(block, place);
    inside
}

fn draw_lines<'a>(frame: &mut Frame<'_>, shown: impl Iterator<Item = Line<'a>>, inside: Rect) {
    for (line, y) in shown.zip(inside.y..inside.bottom()) {
        let place = Rect::new(inside.x + 1, y, inside.width.saturating_sub(1), 1);
        frame.render_widget(line, place);
    }
}

fn draw_whole(frame: &mut Frame<'_>, dialog: &Dialog, shape: &Shape, theme: Theme, area: Rect) {
    let Shape { room, text, .. } = shape;
    let room = *room;
    let title = Piece::new(format!(" {} ", dialog.title), Tone::Strong);
    let size = (shape.width, shape.height);
    let inside = draw_box(frame, title.text(), size, theme, area);
    let mut shown: Vec<Line<'_>> = text.iter().map(|row| Line::from(row.text())).collect();
    shown.push(Line::default());
    let reason_at = shown.len();
    shown.extend(fields_of(dialog, theme, room));
    shown.push(Line::styled(dialog.fault, theme.style(Tone::Bad)));
    shown.push(buttons(dialog, theme));
    draw_lines(frame, shown.into_iter(), inside);
    if let (Focus::Reason, Some(reason)) = (dialog.focus, &dialog.reason) {
        let before = scrolled(reason.before(), room).width();
        let x = inside.x + 1 + u16::try_from(REASON.width() + before).unwrap_or(0);
        let y = inside.y + u16::try_from(reason_at).unwrap_or(0);
        frame.set_cursor_position(Position::new(x.min(inside.right()), y));
    }
}

fn fields_of(dialog: &Dialog, theme: Theme, room: usize) -> Vec<Line<'static>> {
    let mut shown = Vec::new();
    if let Some(reason) = &dialog.reason {
        let style = theme.style(if dialog.focus == Focus::Reason {
            Tone::Strong
        } else {
            Tone::Quiet
        });
        let text = scrolled(reason.text(), room).to_owned();
        shown.push(Line::from(vec![
            Span::styled(REASON, style),
            Span::raw(text),
        ]));
    }
    if let Some(choice) = &dialog.choice {
        shown.push(Line::styled(
            format!("{}:", choice.label),
            theme.style(Tone::Quiet),
        ));
        for (index, option) in choice.options.iter().enumerate() {
            let mark = if index == choice.chosen {
                "(•)"
            } else {
                "( )"
            };
            let has_focus = dialog.focus == Focus::Choice && index == choice.chosen;
            let text = format!("{mark} {option}");
            shown.push(match has_focus {
                true => Line::styled(text, theme.selected()),
                false => Line::raw(text),
            });
        }
    }
    shown
}

/// The end of what is written, where it is longer than its field.
fn scrolled(text: &str, room: usize) -> &str {
    let room = room.saturating_sub(REASON.len() + 1);
    let mut from = 0;
    while text[from..].width() > room {
        from += text[from..].chars().next().map_or(1, char::len_utf8);
    }
    &text[from..]
}

fn buttons(dialog: &Dialog, theme: Theme) -> Line<'static> {
    let button = |text: &str, focus| {
        let text = format!("[ {text} ]");
        match dialog.focus == focus {
            true => Span::styled(text, theme.selected()),
            false => Span::raw(text),
        }
    };
    let leave = button(LEAVE, Focus::Leave);
    let confirm = button(dialog.confirm, Focus::Confirm);
    let hint = Row::of("  tab, enter", Tone::Quiet).text();
    let hint = Span::styled(hint, theme.style(Tone::Quiet));
    Line::from(vec![leave, Span::raw("  "), confirm, hint])
}
