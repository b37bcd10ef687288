//! Draws a model on a terminal: the only place that knows colours and cells. It decides nothing.

mod dialog;
mod help;
mod theme;

pub(super) use theme::Theme;

use super::{
    command,
    content::Page,
    editor::Editor,
    model::{LEAST, Link, Mode, Model},
    offers::Hotkey,
    text::{Kind, Piece, Row, Tone},
    units::clock,
};
use crate::cli::terminal_text::cut;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Position, Rect},
    text::{Line, Span},
    widgets::{Block, Paragraph},
};
use unicode_width::UnicodeWidthStr;

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, theme: Theme) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!("too small: {}x{} at least", LEAST.0, LEAST.1);
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let rows = [
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(1),
        Constraint::Length(1),
    ];
    let [head, body, keys, prompt] = Layout::vertical(rows).areas(area);
    let page = model.page();
    draw_head(frame, model, theme, head);
    draw_body(frame, model, &page, theme, body);
    frame.render_widget(hints(model, &page, theme, keys.width), keys);
    draw_prompt(frame, model, theme, prompt);
    match &model.mode {
        Mode::Ask(dialog) => dialog::draw(frame, dialog, theme, body),
        Mode::Help(top) => help::draw(frame, *top, theme, body),
        _ => {}
    }
}

fn span(piece: &Piece, theme: Theme) -> Span<'_> {
    Span::styled(piece.text(), theme.style(piece.tone))
}

/// Where one is, as whom, and how the server is.
fn draw_head(frame: &mut Frame<'_>, model: &Model, theme: Theme, area: Rect) {
    let who = match &model.identity {
        Some(Some(identity)) if identity.knows_callers && identity.name.is_empty() => {
            " · not known to the server".to_owned()
        }
        Some(Some(identity)) if identity.knows_callers => {
            format!(
                " · {} · {} {}",
                identity.name, identity.namespace, identity.role
            )
        }
        _ => String::new(),
    };
    let (state, tone) = match (&model.link, model.silence()) {
        (Link::Away(_), _) => ("● away, trying again".to_owned(), Tone::Bad),
        (_, Some(silence)) => (
            format!("● no answer for {} s", silence / 1000),
            Tone::Waiting,
        ),
        (Link::Connecting, None) => ("● connecting".to_owned(), Tone::Waiting),
        (Link::Live, None) => ("● live".to_owned(), Tone::Good),
    };
    let end = Piece::new(format!("{state}  {} ", clock(model.now, model.now)), tone);
    let room = usize::from(area.width).saturating_sub(end.width() + 13);
    let server = model.server.trim_start_matches("http://");
    let start = cut(&format!("{server}{who}"), room);
    let (name, start) = (
        Piece::new(" rallypoint ", Tone::Strong),
        Piece::new(start, Tone::Plain),
    );
    let pad = usize::from(area.width).saturating_sub(name.width() + start.width() + end.width());
    let line = Line::from(vec![
        span(&name, theme),
        span(&start, theme),
        Span::raw(" ".repeat(pad)),
        span(&end, theme),
    ]);
    frame.render_widget(line, area);
}

fn draw_body(frame: &mut Frame<'_>, model: &Model, page: &Page, theme: Theme, area: Rect) {
    let visit = model.visit();
    let title = match page.title.as_str() {
        "" => visit.place.title(),
        title => title.to_owned(),
    };
    let count = page
        .count
        .map_or_else(String::new, |count| format!("[{count}]"));
    let mut spans = vec![Span::raw(format!(" {title}{count} "))];
    if !visit.filter.is_empty() {
        let filter = format!("</{}> ", visit.filter);
        spans.push(Span::styled(filter, theme.style(Tone::Waiting)));
    }
    if !visit.pages.is_empty() {
        spans.push(Span::raw(format!("page {} ", visit.pages.len() + 1)));
    }
    if visit
        .seen
        .as_ref()
        .is_some_and(|seen| !seen.next_page().is_empty())
    {
        spans.push(Span::styled("> for more ", theme.style(Tone::Quiet)));
    }
    let clean = spans.into_iter().map(|span| {
        let piece = Piece::new(&span.content, Tone::Plain);
        Span::styled(piece.text().to_owned(), span.style)
    });
    let trail = format!(" {} ", model.trail().join(" › "));
    let block = Block::bordered()
        .border_style(theme.style(Tone::Quiet))
        .title(Line::from(clean.collect::<Vec<_>>()).style(theme.style(Tone::Strong)))
        .title_bottom(Line::styled(
            Piece::new(trail, Tone::Quiet).text().to_owned(),
            theme.style(Tone::Quiet),
        ));
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let cursor = visit.cursor(page);
    let rows = page.rows.iter().enumerate().skip(visit.top);
    for ((index, row), y) in rows.zip(inside.y..inside.bottom()) {
        let place = Rect::new(inside.x, y, inside.width, 1);
        let line = line(row, cursor == Some(index), theme);
        frame.render_widget(line, place);
    }
    draw_more(frame, visit.top, page.rows.len(), theme, area);
}

/// Marks on the border that there is more above or below.
fn draw_more(frame: &mut Frame<'_>, top: usize, rows: usize, theme: Theme, area: Rect) {
    let x = area.right().saturating_sub(4);
    let mut mark = |sign: &'static str, y: u16| {
        let place = Rect::new(x, y, 2, 1);
        frame.render_widget(Span::styled(sign, theme.style(Tone::Strong)), place);
    };
    if top > 0 {
        mark("▲ ", area.y);
    }
    if rows > top + usize::from(area.height.saturating_sub(2)) {
        mark("▼ ", area.bottom().saturating_sub(1));
    }
}

fn line<'a>(row: &'a Row, is_selected: bool, theme: Theme) -> Line<'a> {
    let mark = if is_selected { "› " } else { "  " };
    let pieces = row.pieces.iter().map(|piece| span(piece, theme));
    let line = Line::from_iter([Span::raw(mark)].into_iter().chain(pieces));
    match (is_selected, row.kind) {
        (true, Kind::Line) => line.style(theme.selected()),
        _ => line,
    }
}

/// The keys that mean something now.
fn hints(model: &Model, page: &Page, theme: Theme, width: u16) -> Line<'static> {
    let visit = model.visit();
    let mut hints: Vec<(String, &str)> = Vec::new();
    if visit.row(page).is_some_and(|row| row.link.is_some()) {
        hints.push(("enter".to_owned(), "open"));
    }
    for offer in model.offers(page) {
        let key = match offer.hotkey {
            Hotkey::Letter(letter) => letter.to_string(),
            Hotkey::Control(letter) => format!("ctrl-{letter}"),
        };
        hints.push((key, offer.name));
    }
    if matches!(visit.place, super::place::Place::Scheduler(_)) {
        hints.push((
            "t".to_owned(),
            if visit.bars {
                "statements"
            } else {
                "time line"
            },
        ));
    }
    if visit.place.is_list() {
        hints.push(("/".to_owned(), "filter"));
    }
    hints.extend([(":".to_owned(), "command"), ("esc".to_owned(), "back")]);
    // These are always there: they say how to go on, and how to end.
    let always = [("?".to_owned(), "help"), ("q".to_owned(), "end")];
    let wide = |(key, name): &(String, &str)| key.width() + name.width() + 3;
    let mut room = usize::from(width).saturating_sub(1 + always.iter().map(wide).sum::<usize>());
    let mut fits = |hint: &(String, &str)| {
        let left = room.checked_sub(wide(hint));
        room = left.unwrap_or(0);
        left.is_some()
    };
    let shown = hints
        .into_iter()
        .take_while(|hint| fits(hint))
        .chain(always);
    let spans = shown.flat_map(|(key, name)| {
        let key = Span::styled(format!("<{key}>"), theme.style(Tone::Busy));
        [key, Span::raw(format!("{name} "))]
    });
    Line::from_iter([Span::raw(" ")].into_iter().chain(spans))
}

/// What is written, or said.
fn draw_prompt(frame: &mut Frame<'_>, model: &Model, theme: Theme, area: Rect) {
    let (sign, editor) = match &model.mode {
        Mode::Command(editor) => (":", editor),
        Mode::Filter(editor) => ("/", editor),
        _ => {
            let said = said(model);
            let text = cut(said.text(), usize::from(area.width));
            frame.render_widget(Span::styled(text, theme.style(said.tone)), area);
            return;
        }
    };
    let rest = match sign {
        ":" => command::completion(editor.text(), &model.names()).unwrap_or_default(),
        _ if editor.text().is_empty() => model.visit().place.filter_words().to_owned(),
        _ => String::new(),
    };
    let rest = Piece::new(rest, Tone::Quiet);
    let line = Line::from(vec![
        Span::styled(format!(" {sign}"), theme.style(Tone::Strong)),
        Span::raw(editor.text().to_owned()),
        Span::styled(rest.text().to_owned(), theme.style(Tone::Quiet)),
    ]);
    frame.render_widget(line, area);
    put_cursor(frame, editor, area.x + 2, area);
}

/// The line below: what is said, what is done, or why nothing is new.
fn said(model: &Model) -> Piece {
    match (&model.flash, &model.acting, &model.link) {
        (Some(flash), _, _) => Piece::new(format!(" {}", flash.text), flash.tone),
        (None, Some(acting), _) => Piece::new(format!(" {} …", acting.name), Tone::Waiting),
        (None, None, Link::Away(text)) => Piece::new(format!(" {text}"), Tone::Bad),
        _ => Piece::new("", Tone::Plain),
    }
}

/// Shows where one writes.
fn put_cursor(frame: &mut Frame<'_>, editor: &Editor, from: u16, area: Rect) {
    let before = u16::try_from(editor.before().width()).unwrap_or(u16::MAX);
    let x = from
        .saturating_add(before)
        .min(area.right().saturating_sub(1));
    frame.set_cursor_position(Position::new(x, area.y));
}

#[cfg(test)]
mod tests;
