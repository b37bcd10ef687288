//! What keys mean, as in k9s where that has them.

use super::{
    super::{
        call::Call,
        command::{self, Command, Names},
        content::Page,
        dialog::Asked,
        editor::Editor,
        offers::Hotkey,
        place::{Place, VIEWS},
        seen::Seen,
        text::Tone,
    },
    Acting, Effect, Mode, Model,
};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

impl Model {
    pub(super) fn key(&mut self, key: KeyEvent, effects: &mut Vec<Effect>) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            self.quits = true;
            return;
        }
        if control && key.code == KeyCode::Char('l') {
            effects.push(Effect::Redraw);
            return;
        }
        match std::mem::replace(&mut self.mode, Mode::Browse) {
            Mode::Browse => self.browse(key, control),
            Mode::Command(editor) => self.command(editor, key),
            Mode::Filter(editor) => self.filter(editor, key),
            Mode::Help(top) => self.help(top, key.code),
            // What cannot be read whole is not confirmed.
            Mode::Ask(dialog) if key.code != KeyCode::Esc && !self.shows(&dialog) => {
                self.mode = Mode::Ask(dialog);
            }
            Mode::Ask(mut dialog) => match dialog.key(key) {
                Asked::Still => self.mode = Mode::Ask(dialog),
                Asked::Left => self.say("nothing was done", Tone::Quiet),
                Asked::Confirmed(call) => self.act(call, dialog.confirm, effects),
            },
        }
    }

    pub(super) fn paste(&mut self, text: &str) {
        match &mut self.mode {
            Mode::Command(editor) => editor.paste(text),
            Mode::Ask(dialog) => dialog.paste(text),
            Mode::Filter(editor) => {
                editor.paste(text);
                let filter = editor.text().to_owned();
                self.set_filter(filter);
            }
            Mode::Browse | Mode::Help(_) => {}
        }
    }

    pub(super) fn is_browsing(&self) -> bool {
        matches!(self.mode, Mode::Browse)
    }

    fn act(&mut self, call: Call, name: &'static str, effects: &mut Vec<Effect>) {
        let place = self.visit().place.clone();
        self.acting = Some(Acting {
            name,
            place,
            quits: false,
        });
        effects.push(Effect::Act(call));
    }

    fn browse(&mut self, key: KeyEvent, control: bool) {
        let page = self.page();
        let half = (self.height() / 2).max(1) as isize;
        let screen = self.height() as isize;
        match key.code {
            KeyCode::Char('f') if control => self.walk(&page, screen),
            KeyCode::Char('b') if control => self.walk(&page, -screen),
            KeyCode::Char('u') if control => self.walk(&page, -half),
            KeyCode::Char('r') if control => self.read_now(),
            KeyCode::Char(letter) if control => self.offered(&page, Hotkey::Control(letter)),
            KeyCode::Down | KeyCode::Char('j') => self.walk(&page, 1),
            KeyCode::Up | KeyCode::Char('k') => self.walk(&page, -1),
            KeyCode::PageDown => self.walk(&page, screen),
            KeyCode::PageUp => self.walk(&page, -screen),
            KeyCode::Home | KeyCode::Char('g') => self.walk(&page, isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.walk(&page, isize::MAX),
            KeyCode::Enter => self.enter(&page),
            KeyCode::Esc => self.back(),
            KeyCode::Char('q') => self.quit(),
            KeyCode::Char(':') => self.mode = Mode::Command(Editor::default()),
            KeyCode::Char('/') => self.begin_filter(),
            KeyCode::Char('?') => self.mode = Mode::Help(0),
            KeyCode::Char('>') => self.older(),
            KeyCode::Char('<') => self.newer(),
            KeyCode::Char('t') if matches!(self.visit().place, Place::Scheduler(_)) => {
                let visit = self.visit_mut();
                visit.bars = !visit.bars;
            }
            KeyCode::Char(digit @ '1'..='5') => {
                let at = digit as usize - '1' as usize;
                self.start_at(VIEWS[at].1.clone());
            }
            KeyCode::Char(letter) => self.offered(&page, Hotkey::Letter(letter)),
            _ => {}
        }
    }

    fn walk(&mut self, page: &Page, by: isize) {
        self.visit_mut().walk(page, by);
    }

    /// Asks before the action that a key stands for.
    fn offered(&mut self, page: &Page, hotkey: Hotkey) {
        let offer = self
            .offers(page)
            .into_iter()
            .find(|offer| offer.hotkey == hotkey);
        match (offer, &self.acting) {
            (None, _) => {}
            (Some(_), _) if self.visit().has_lost_its_row(page) => {
                self.visit_mut().settle(page);
                self.say("the row is gone: look where the cursor is", Tone::Waiting);
            }
            (Some(_), Some(acting)) => {
                let text = format!("{} is under way", acting.name);
                self.say(text, Tone::Waiting);
            }
            (Some(offer), None) => self.mode = Mode::Ask(Box::new(offer.dialog)),
        }
    }

    fn enter(&mut self, page: &Page) {
        if let Some(place) = self.visit().row(page).and_then(|row| row.link.clone()) {
            self.go(place);
        }
    }

    fn back(&mut self) {
        if !self.visit().filter.is_empty() {
            self.set_filter(String::new());
            self.read_now();
        } else if self.visits.len() > 1 {
            self.visits.pop();
            self.read_now();
        } else if self.visit().place != Place::Overview {
            self.start_at(Place::Overview);
        } else {
            self.say("this is the first view: q ends", Tone::Quiet);
        }
    }

    fn quit(&mut self) {
        match &mut self.acting {
            Some(acting) if !acting.quits => {
                acting.quits = true;
                let text = format!("{} is under way: q once more ends", acting.name);
                self.say(text, Tone::Waiting);
            }
            _ => self.quits = true,
        }
    }

    fn begin_filter(&mut self) {
        match self.visit().place.is_list() {
            true => self.mode = Mode::Filter(Editor::of(&self.visit().filter)),
            false => self.say("there is no list to filter here", Tone::Quiet),
        }
    }

    fn set_filter(&mut self, filter: String) {
        let visit = self.visit_mut();
        visit.filter = filter;
        visit.pages.clear();
        visit.rewind();
    }

    fn filter(&mut self, mut editor: Editor, key: KeyEvent) {
        match key.code {
            KeyCode::Enter => self.read_now(),
            KeyCode::Esc => {
                self.set_filter(String::new());
                self.read_now();
            }
            _ => {
                if editor.key(key) {
                    self.set_filter(editor.text().to_owned());
                }
                self.mode = Mode::Filter(editor);
            }
        }
    }

    fn command(&mut self, mut editor: Editor, key: KeyEvent) {
        match key.code {
            KeyCode::Esc => {}
            KeyCode::Backspace if editor.text().is_empty() => {}
            KeyCode::Enter => match command::parse(editor.text()) {
                Ok(Command::Go(place)) if VIEWS.iter().any(|(_, view)| *view == place) => {
                    self.start_at(place);
                }
                Ok(Command::Go(place)) => self.go(place),
                Ok(Command::Help) => self.mode = Mode::Help(0),
                Ok(Command::Quit) => self.quit(),
                Err(text) => self.say(text, Tone::Bad),
            },
            KeyCode::Tab => {
                let rest = command::completion(editor.text(), &self.names());
                editor.paste(&rest.unwrap_or_default());
                self.mode = Mode::Command(editor);
            }
            _ => {
                editor.key(key);
                self.mode = Mode::Command(editor);
            }
        }
    }

    fn help(&mut self, top: usize, code: KeyCode) {
        self.mode = match code {
            KeyCode::Down | KeyCode::Char('j') => Mode::Help(top + 1),
            KeyCode::Up | KeyCode::Char('k') => Mode::Help(top.saturating_sub(1)),
            KeyCode::PageDown => Mode::Help(top + self.height()),
            KeyCode::PageUp => Mode::Help(top.saturating_sub(self.height())),
            _ => Mode::Browse,
        };
    }

    fn older(&mut self) {
        let visit = self.visit_mut();
        if visit.is_awaited && visit.place.has_pages() {
            // Of another page than the one shown it is not known yet where the next one begins.
            self.say("this page is being read", Tone::Waiting);
            return;
        }
        let next = visit
            .seen
            .as_ref()
            .map_or("", |seen| seen.next_page())
            .to_owned();
        match next.is_empty() {
            true if visit.place.has_pages() => self.say("this is the last page", Tone::Quiet),
            true => {}
            false => {
                visit.pages.push(next);
                visit.rewind();
                self.read_now();
            }
        }
    }

    fn newer(&mut self) {
        if self.visit_mut().pages.pop().is_some() {
            self.visit_mut().rewind();
            self.read_now();
        }
    }

    /// What commands are completed from.
    pub(crate) fn names(&self) -> Names {
        let mut names = Names::default();
        for seen in self.known() {
            match &**seen {
                Seen::Overview(seen) => {
                    names
                        .schedulers
                        .extend(seen.schedulers.iter().map(|one| one.name.clone()));
                    names
                        .jobs
                        .extend(seen.jobs.iter().map(|job| job.name.clone()));
                    names
                        .resources
                        .extend(seen.resources.iter().map(|one| one.name.clone()));
                }
                Seen::Schedulers(list) => {
                    names
                        .schedulers
                        .extend(list.schedulers.iter().map(|one| one.name.clone()));
                }
                Seen::Jobs(seen) => names
                    .jobs
                    .extend(seen.jobs.iter().map(|job| job.name.clone())),
                Seen::Resources(list) => {
                    names
                        .resources
                        .extend(list.resources.iter().map(|one| one.name.clone()));
                }
                _ => {}
            }
        }
        names
    }
}
