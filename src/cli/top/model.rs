//! What is on the screen and what keys mean, as a pure machine: an event comes in, effects come
//! out. It reads no clock and no terminal and makes no call.
//!
//! One reading is under way at a time, for the view that is shown, and the next one begins a while
//! after its answer: a slow server is asked less often, not more.

mod answers;
mod keys;

use super::{
    act::Done,
    call::Call,
    content::{self, Look, Page},
    dialog::Dialog,
    editor::Editor,
    offers::{self, Offer, Rights},
    place::Place,
    seen::{Query, Seen},
    text::{Kind, Row, Tone},
    visit::Visit,
};
use rallypoint_client::Identity;
use ratatui::crossterm::event::KeyEvent;
use std::sync::Arc;

/// Something that has happened.
#[derive(Debug)]
pub(super) enum Event {
    Key(KeyEvent),
    Paste(String),
    Resized(u16, u16),
    /// Time passes: the time of day in microseconds since 1970, and milliseconds since the start.
    Tick {
        now: i64,
        elapsed: u64,
    },
    /// A reading has ended; answers to an earlier one than the last are late.
    Read {
        turn: u64,
        result: Result<Seen, Fault>,
    },
    Acted(Result<Done, String>),
    Identified(Result<Option<Identity>, Fault>),
}

/// Why a call has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) text: String,
    /// The server cannot be reached, or does not answer.
    pub(super) is_away: bool,
}

/// Something to be done.
#[derive(Debug)]
pub(super) enum Effect {
    /// In place of the reading that is under way, if there is one.
    Read {
        turn: u64,
        query: Query,
    },
    Act(Call),
    Identify,
    /// Draw every cell anew.
    Redraw,
    Quit,
}

/// Who has the keys.
#[derive(Clone, Debug)]
pub(super) enum Mode {
    Browse,
    Command(Editor),
    Filter(Editor),
    Ask(Box<Dialog>),
    /// So many lines are scrolled away.
    Help(usize),
}

/// How the server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Connecting,
    Live,
    Away(String),
}

/// What is said for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flash {
    pub(super) text: String,
    pub(super) tone: Tone,
    until: u64,
}

/// An action under way.
#[derive(Clone, Debug)]
pub(super) struct Acting {
    pub(super) name: &'static str,
    /// Where it was begun.
    place: Place,
    /// A key has said to end; the next one does.
    quits: bool,
}

/// Everything there is to know.
pub(super) struct Model {
    pub(super) server: String,
    pub(super) mode: Mode,
    pub(super) link: Link,
    pub(super) flash: Option<Flash>,
    /// What is being done.
    pub(super) acting: Option<Acting>,
    /// The overview as it was read last: its rates go on where they were.
    overview: Option<Arc<Seen>>,
    /// `Some(None)`: the server does not say who calls.
    pub(super) identity: Option<Option<Identity>>,
    pub(super) now: i64,
    visits: Vec<Visit>,
    size: (u16, u16),
    elapsed: u64,
    turn: u64,
    /// Since when the reading is under way.
    asked: Option<u64>,
    read_at: u64,
    identify_at: u64,
    quits: bool,
}

/// Milliseconds from an answer to the next reading.
const INTERVAL: u64 = 1000;
/// After a failed one.
const INTERVAL_AWAY: u64 = 2000;
/// A server that has not answered for so long is said to be slow.
const SLOW: u64 = 2000;
/// How often it is asked who calls: roles may change.
const IDENTIFY: u64 = 60_000;
const IDENTIFY_AGAIN: u64 = 3000;
/// How long something is said.
const FLASH: u64 = 6000;
/// Lines beside the rows: the head, two borders, the keys, the prompt.
const FRAME: u16 = 5;
/// Columns beside them: two borders, the mark of the cursor, and a space.
const SIDES: u16 = 4;
/// Lines beside the place of a question: the head, the keys, the prompt.
const AROUND: u16 = 3;
/// Nothing is drawn on a smaller screen.
pub(super) const LEAST: (u16, u16) = (40, 8);

impl Model {
    pub(super) fn new(server: &str, size: (u16, u16), first: Place) -> Model {
        Model {
            server: server.to_owned(),
            mode: Mode::Browse,
            link: Link::Connecting,
            flash: None,
            acting: None,
            overview: None,
            identity: None,
            now: 0,
            visits: vec![Visit::new(first)],
            size,
            elapsed: 0,
            turn: 0,
            asked: None,
            read_at: 0,
            identify_at: 0,
            quits: false,
        }
    }

    /// Takes an event in.
    pub(super) fn apply(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Key(key) => self.key(key, &mut effects),
            Event::Paste(text) => self.paste(&text),
            Event::Resized(width, height) => self.size = (width, height),
            Event::Tick { now, elapsed } => (self.now, self.elapsed) = (now, elapsed),
            Event::Read { turn, result } => self.answered(turn, result),
            Event::Acted(result) => self.acted(result),
            Event::Identified(result) => self.identified(result),
        }
        if self
            .flash
            .as_ref()
            .is_some_and(|flash| flash.until <= self.elapsed)
        {
            self.flash = None;
        }
        self.ask(&mut effects);
        let (page, height) = (self.page(), self.height());
        self.visit_mut().scroll(&page, height);
        if self.quits {
            effects.push(Effect::Quit);
        }
        effects
    }

    /// Begins what is due.
    fn ask(&mut self, effects: &mut Vec<Effect>) {
        if self.now > 0 && self.asked.is_none() && self.read_at <= self.elapsed {
            self.turn += 1;
            self.asked = Some(self.elapsed);
            let (turn, query) = (self.turn, self.query());
            effects.push(Effect::Read { turn, query });
        }
        if self.now > 0 && self.identify_at <= self.elapsed {
            self.identify_at = self.elapsed + IDENTIFY;
            effects.push(Effect::Identify);
        }
    }

    fn query(&self) -> Query {
        let visit = self.visit();
        let rows = self.page().rows;
        let shown = rows.iter().skip(visit.top).take(self.height());
        let shown = shown.filter(|row| row.kind == Kind::Line && !row.key.is_empty());
        Query {
            place: visit.place.clone(),
            filter: visit.filter.clone(),
            page_token: visit.pages.last().cloned().unwrap_or_default(),
            before: visit.seen.clone(),
            visible: shown.map(|row| row.key.clone()).collect(),
            is_awaited: visit.is_awaited,
            now: self.now,
        }
    }

    /// Has the view read at once. What is under way is not waited for.
    fn read_now(&mut self) {
        self.asked = None;
        self.read_at = self.elapsed;
        self.visit_mut().is_awaited = true;
    }

    /// Goes to a place, from which Esc leads back.
    fn go(&mut self, place: Place) {
        self.mode = Mode::Browse;
        if self.visit().place != place {
            const DEEPEST: usize = 50;
            if self.visits.len() >= DEEPEST {
                self.visits.remove(0);
            }
            self.visits.push(Visit::new(place));
        }
        self.read_now();
    }

    /// Goes to a view, which is the first one from then on.
    fn start_at(&mut self, place: Place) {
        let is_here = self.visit().place == place;
        self.visits
            .drain(..self.visits.len() - usize::from(is_here));
        if !is_here {
            let overview = self.overview.clone().filter(|_| place == Place::Overview);
            let mut visit = Visit::new(place);
            visit.seen = overview;
            self.visits.push(visit);
        }
        self.mode = Mode::Browse;
        self.read_now();
    }

    fn say(&mut self, text: impl Into<String>, tone: Tone) {
        let longer = if tone == Tone::Bad { 2 } else { 1 };
        self.flash = Some(Flash {
            text: text.into(),
            tone,
            until: self.elapsed + longer * FLASH,
        });
    }

    pub(super) fn visit(&self) -> &Visit {
        // There is always one: only those behind the first are left.
        &self.visits[self.visits.len() - 1]
    }

    fn visit_mut(&mut self) -> &mut Visit {
        let last = self.visits.len() - 1;
        &mut self.visits[last]
    }

    /// The way to the view that is shown.
    pub(super) fn trail(&self) -> Vec<String> {
        self.visits
            .iter()
            .map(|visit| visit.place.title())
            .collect()
    }

    /// Rows that fit on the screen.
    pub(super) fn height(&self) -> usize {
        usize::from(self.size.1.saturating_sub(FRAME)).max(1)
    }

    /// Whether all of a question is on the screen.
    fn shows(&self, dialog: &Dialog) -> bool {
        let (width, height) = self.size;
        let is_drawn = width >= LEAST.0 && height >= LEAST.1;
        is_drawn && dialog.shape((width, height - AROUND)).is_some()
    }

    /// For how long, in milliseconds, the server has not answered, if that is long.
    pub(super) fn silence(&self) -> Option<u64> {
        let silence = self.elapsed - self.asked?;
        (silence >= SLOW).then_some(silence)
    }

    /// What is shown.
    pub(super) fn page(&self) -> Page {
        let visit = self.visit();
        let look = Look {
            now: self.now,
            width: usize::from(self.size.0.saturating_sub(SIDES)),
            filter: &visit.filter,
            bars: visit.bars,
        };
        match (&visit.fault, &visit.seen) {
            (Some(fault), _) => fault_page(fault, &look),
            (None, Some(seen)) => content::page(seen, &look),
            (None, None) => Page {
                rows: vec![Row::of("Reading …", Tone::Quiet)],
                ..Page::default()
            },
        }
    }

    /// The actions for the row under the cursor and for the view; of two under one key the first
    /// counts.
    pub(super) fn offers(&self, page: &Page) -> Vec<Offer> {
        let Some(identity) = &self.identity else {
            return Vec::new();
        };
        let rights = Rights::of(identity.as_ref());
        let row = self.visit().row(page).and_then(|row| row.subject.as_ref());
        let of_row = row
            .into_iter()
            .flat_map(|subject| offers::of(subject, false, rights));
        let of_view = page
            .subjects
            .iter()
            .flat_map(|subject| offers::of(subject, true, rights));
        let mut offers: Vec<Offer> = Vec::new();
        for offer in of_row.chain(of_view) {
            if offers.iter().all(|before| before.hotkey != offer.hotkey) {
                offers.push(offer);
            }
        }
        offers
    }

    /// Names of what was read, for completions.
    pub(super) fn known(&self) -> impl Iterator<Item = &Arc<Seen>> {
        self.visits
            .iter()
            .rev()
            .filter_map(|visit| visit.seen.as_ref())
    }
}

/// Why there is nothing to be seen.
fn fault_page(fault: &str, look: &Look) -> Page {
    let mut rows = super::text::lines(fault, look.width, Tone::Bad);
    rows.push(Row::blank());
    rows.push(Row::of("Esc leads back.", Tone::Quiet));
    Page {
        rows,
        ..Page::default()
    }
}

#[cfg(test)]
mod tests;
