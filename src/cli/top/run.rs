//! The loop: events go into the model, effects out of it, and what it shows onto the screen.

use super::{
    act, fault,
    model::{Effect, Event, Model},
    read,
    screen::{Screen, input},
};
use crate::cli::{error::CliError, exit::Exit, job_signals::JobSignals, signals::Signals};
use jiff::Timestamp;
use nix::{errno::Errno, sys::signal::Signal};
use rallypoint_client::Client;
use ratatui::crossterm::event::Event as Input;
use std::{
    io,
    time::{Duration, Instant},
};
use tokio::{
    select,
    task::{AbortHandle, JoinSet},
    time::{MissedTickBehavior, interval},
};

/// How often time passes for the model.
const TICK: Duration = Duration::from_millis(250);
/// The longest that a reading may take.
const READING: Duration = Duration::from_secs(10);

/// What the loop holds in its hands.
struct Loop {
    /// For actions, whose calls are repeated.
    client: Client,
    /// For readings, which are made anew anyway.
    reader: Client,
    model: Model,
    tasks: JoinSet<Event>,
    reading: Option<AbortHandle>,
    redraws: bool,
}

/// Runs until a key or a signal ends it. `limit`: how long a call may take.
pub(super) async fn run(
    client: Client,
    limit: Duration,
    model: Model,
    screen: &mut Screen,
) -> Result<Exit, CliError> {
    let reader = client.clone().with_retry_timeout(Duration::ZERO);
    let mut run = Loop {
        reader: reader.with_time_limit(Some(limit.min(READING))),
        client,
        model,
        tasks: JoinSet::new(),
        reading: None,
        redraws: false,
    };
    let (mut signals, mut job) = (Signals::new()?, JobSignals::new()?);
    let mut keys = input();
    let mut ticks = interval(TICK);
    // After a stop of hours it goes on once.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let begun = Instant::now();
    loop {
        let event = select! {
            exit = signals.next() => return Ok(exit),
            signal = job.next() => match signal {
                Signal::SIGHUP => return Ok(Exit::HungUp),
                Signal::SIGQUIT => return Ok(Exit::Quit),
                _ => {
                    screen.stop().map_err(not_drawn)?;
                    continue;
                }
            },
            input = keys.recv() => match input {
                Some(input) => typed(input),
                // The terminal is gone.
                None => return Ok(Exit::HungUp),
            },
            _ = ticks.tick() => Some(Event::Tick {
                now: Timestamp::now().as_microsecond(),
                elapsed: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            }),
            Some(ended) = run.tasks.join_next() => match ended {
                Ok(event) => Some(event),
                // A reading that was given up.
                Err(error) if error.is_cancelled() => None,
                Err(error) => return Err(CliError::new("a part of top has failed").why(error)),
            },
        };
        let Some(event) = event else { continue };
        if run.apply(event) {
            return Ok(Exit::Success);
        }
        match run.show(screen) {
            Err(error) if is_gone(&error) => return Ok(Exit::HungUp),
            shown => shown.map_err(not_drawn)?,
        }
    }
}

/// Whether the terminal is gone, of which a signal may tell later.
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::EIO as i32)
}

fn not_drawn(error: io::Error) -> CliError {
    CliError::new("cannot draw").why(error)
}

/// What the terminal says, for the model.
fn typed(input: Input) -> Option<Event> {
    match input {
        Input::Key(key) => Some(Event::Key(key)),
        Input::Paste(text) => Some(Event::Paste(text)),
        Input::Resize(width, height) => Some(Event::Resized(width, height)),
        _ => None,
    }
}

impl Loop {
    /// Returns whether that was the last one.
    fn apply(&mut self, event: Event) -> bool {
        let mut quits = false;
        for effect in self.model.apply(event) {
            match effect {
                Effect::Quit => quits = true,
                Effect::Redraw => self.redraws = true,
                Effect::Identify => self.identify(),
                Effect::Read { turn, query } => {
                    if let Some(earlier) = self.reading.take() {
                        earlier.abort();
                    }
                    let client = self.reader.clone();
                    let reading = async move {
                        let result = read::read(&client, query).await;
                        let result = result.map_err(|error| fault::of("cannot read", &error));
                        Event::Read { turn, result }
                    };
                    self.reading = Some(self.tasks.spawn(reading));
                }
                Effect::Act(call) => {
                    let client = self.client.clone();
                    self.tasks.spawn(async move {
                        let what = call.failure();
                        let done = act::act(&client, call).await;
                        Event::Acted(done.map_err(|error| fault::of(what, &error).text))
                    });
                }
            }
        }
        quits
    }

    fn identify(&mut self) {
        let client = self.reader.clone();
        self.tasks.spawn(async move {
            let identity = client.identity().await;
            Event::Identified(identity.map_err(|error| fault::of("cannot ask who calls", &error)))
        });
    }

    fn show(&mut self, screen: &mut Screen) -> io::Result<()> {
        if std::mem::take(&mut self.redraws) {
            screen.clear()?;
        }
        screen.draw(&self.model)
    }
}
