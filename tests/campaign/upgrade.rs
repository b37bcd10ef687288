//! Two versions of the program side by side: replicas are replaced one after the other, by a newer
//! version and back again, under the load of the campaign. The shard is made to change hands in
//! both directions, by servers that stop in order and by servers that are killed.
//!
//! `make upgrade FROM=commit` builds the programs. The older one is that of the commit; the newer
//! one is this checkout with `tests/upgrade/newer.patch`, which adds a column, a setting, a kind of
//! attempt and a kind of message between replicas; the breaking one has besides a migration that
//! no older program may live with.

mod breaking;
mod judge;

use crate::{
    fixture::Fixture,
    history::{Answer, Entry, now},
    load::{Load, newer_setting::Colored},
    rng::Rng,
};
use rallypoint_client::api::ListSchedulersRequest;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// One server runs the breaking program, one is started again, and one goes on.
pub(crate) const LEAST_REPLICAS: usize = 3;
/// Schedulers that are opened when only the newer version runs.
const COLORED: usize = 4;
/// Attempts at having the shard change hands in one direction.
const MAX_MOVES: u32 = 20;
/// A server answers within this time of its start.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Somebody owns the shard within this time.
const OWNER_TIMEOUT: Duration = Duration::from_secs(60);
/// After this time all servers know a new one: a few heartbeats.
const KNOWN_AFTER: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Where the programs are.
pub(crate) struct Programs {
    pub older: PathBuf,
    newer: PathBuf,
    breaking: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Older,
    Newer,
}

/// How a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// SIGTERM: it finishes what runs and hands over what it owns.
    Stop,
    /// SIGKILL.
    Kill,
}

pub(crate) struct Upgrade {
    fixture: Arc<Fixture>,
    programs: Programs,
    rng: Rng,
    /// What each server runs.
    versions: Vec<Version>,
    colored: Vec<Colored>,
    /// Of each scheduler with a color: its handle, its color, and the color that each server named
    /// in the end.
    answered: Vec<(String, String, Vec<Option<String>>)>,
    kills: u64,
    stops: u64,
    /// Changes that were acknowledged while only the older version ran.
    changes_by_older: u64,
    /// What did not go as it should.
    problems: Vec<String>,
}

impl Programs {
    /// As the environment names them.
    pub(crate) fn from_environment() -> Programs {
        let named = |name| match std::env::var_os(name) {
            Some(path) => PathBuf::from(path),
            None => panic!("{name} names no program: run `make upgrade FROM=commit`"),
        };
        Programs {
            older: named("OLDER"),
            newer: named("NEWER"),
            breaking: named("BREAKING"),
        }
    }

    fn of(&self, version: Version) -> &Path {
        match version {
            Version::Older => &self.older,
            Version::Newer => &self.newer,
        }
    }
}

impl Version {
    fn other(self) -> Version {
        match self {
            Version::Older => Version::Newer,
            Version::Newer => Version::Older,
        }
    }
}

impl Upgrade {
    /// All servers run the older version.
    pub(crate) fn new(fixture: Arc<Fixture>, programs: Programs, seed: u64) -> Upgrade {
        Upgrade {
            versions: vec![Version::Older; fixture.servers.len()],
            fixture,
            programs,
            rng: Rng::new(seed),
            colored: Vec::new(),
            answered: Vec::new(),
            kills: 0,
            stops: 0,
            changes_by_older: 0,
            problems: Vec::new(),
        }
    }

    /// Rolls to the newer version and back until the time is filled, and at last to the newer one.
    pub(crate) async fn back_and_forth(&mut self, load: &Arc<Load>, length: Duration) {
        let begun = Instant::now();
        loop {
            self.replace_all(load, Version::Newer).await;
            for _ in 0..COLORED {
                self.open(load).await;
            }
            self.work().await;
            self.replace_all(load, Version::Older).await;
            self.work().await;
            if begun.elapsed() >= length {
                break;
            }
        }
        self.replace_all(load, Version::Newer).await;
        self.work().await;
        self.ask_for_colors().await;
    }

    /// Replaces all servers, the owner of the shard last. While both versions run, the shard goes
    /// from each to the other.
    async fn replace_all(&mut self, load: &Arc<Load>, to: Version) {
        self.replace_next(load, to).await;
        for owner in [to, to.other(), to, to.other()] {
            self.give_to(load, owner).await;
            if owner == Version::Newer {
                self.open(load).await;
            }
            self.work().await;
        }
        while self.versions.contains(&to.other()) {
            self.replace_next(load, to).await;
            self.work().await;
        }
        println!("  all servers run the {to:?} version");
    }

    async fn replace_next(&mut self, load: &Load, to: Version) {
        let owner = self.fixture.owner().await;
        let is_left = |server: &usize| self.versions[*server] != to;
        let left: Vec<usize> = (0..self.versions.len()).filter(is_left).collect();
        let next = left.iter().find(|server| Some(**server) != owner);
        let end = self.next_end();
        self.replace(load, *next.unwrap_or(&left[0]), to, end).await;
    }

    /// Ends a server and starts it again, perhaps as another version, under the same name.
    async fn replace(&mut self, load: &Load, number: usize, to: Version, end: End) {
        let begun = now();
        self.end(number, end).await;
        let server = self.fixture.server(number);
        server.install(self.programs.of(to));
        self.versions[number] = to;
        server.release();
        self.until_it_answers(load, number).await;
        self.note(number, end, begun, &format!("is {to:?} now"));
    }

    async fn end(&mut self, number: usize, end: End) {
        let server = self.fixture.server(number);
        match end {
            End::Kill => {
                self.kills += 1;
                server.kill();
            }
            End::Stop => {
                self.stops += 1;
                if !server.terminate().await {
                    let problem = format!("server {number} did not stop in time and well");
                    self.problems.push(problem);
                }
            }
        }
    }

    fn note(&self, number: usize, end: End, begun: i64, what: &str) {
        let what = format!("{end:?} of server {number}, which {what}");
        println!("  {what}");
        self.fixture.history.write(&Entry::Fault {
            kind: format!("{end:?}"),
            begun,
            ended: now(),
            bites: 1,
            hurt: vec![number],
            what,
        });
    }

    /// Has a server of this version own the shard.
    async fn give_to(&mut self, load: &Load, version: Version) {
        for _ in 0..MAX_MOVES {
            let owner = self.owner_other_than(None).await;
            if self.versions[owner] == version {
                return;
            }
            match self.next_end() {
                End::Stop => self.hand_over(load, owner, version).await,
                End::Kill => self.kill_until_taken_over(load, owner).await,
            }
        }
        let problem = format!("no server of the {version:?} version came to own the shard");
        self.problems.push(problem);
    }

    /// Stops the owner in order: the shard goes to the youngest server, which is made one of this
    /// version.
    async fn hand_over(&mut self, load: &Load, owner: usize, version: Version) {
        let heir = self.versions.iter().position(|one| *one == version);
        let (heir, end) = (heir.expect("both versions run"), self.next_end());
        self.replace(load, heir, version, end).await;
        sleep(KNOWN_AFTER).await;
        let own = self.versions[owner];
        self.replace(load, owner, own, End::Stop).await;
    }

    /// Kills the owner, which stays down until another server owns the shard, whichever.
    async fn kill_until_taken_over(&mut self, load: &Load, owner: usize) {
        let begun = now();
        self.end(owner, End::Kill).await;
        self.owner_other_than(Some(owner)).await;
        self.fixture.server(owner).release();
        self.until_it_answers(load, owner).await;
        self.note(owner, End::Kill, begun, "came back when it owned nothing");
    }

    /// Waits until a server owns the shard, and not this one.
    async fn owner_other_than(&self, former: Option<usize>) -> usize {
        let begun = Instant::now();
        while begun.elapsed() < OWNER_TIMEOUT {
            let owner = self.fixture.owner().await;
            if let Some(owner) = owner.filter(|owner| Some(*owner) != former) {
                return owner;
            }
            sleep(POLL_INTERVAL).await;
        }
        panic!("nobody owns the shard, since server {former:?} does not");
    }

    async fn until_it_answers(&mut self, load: &Load, number: usize) {
        let begun = Instant::now();
        while begun.elapsed() < START_TIMEOUT {
            let request = ListSchedulersRequest {
                page_size: 1,
                ..Default::default()
            };
            let mut client = load.client(number);
            if let Answer::Ok(_) = load.once(client.list_schedulers(request)).await {
                return;
            }
            sleep(POLL_INTERVAL).await;
        }
        let problem = format!("server {number} answers nothing after its start");
        self.problems.push(problem);
    }

    /// As many servers are killed as are stopped.
    fn next_end(&self) -> End {
        match self.kills <= self.stops {
            true => End::Kill,
            false => End::Stop,
        }
    }

    /// Opens a scheduler with a color, if the newer version owns the shard.
    async fn open(&mut self, load: &Arc<Load>) {
        let newer = self.versions.iter().position(|one| *one == Version::Newer);
        let Some(newer) = newer else { return };
        let opened = Colored::open(load, newer, self.rng.next()).await;
        self.colored.extend(opened);
    }

    /// Has the schedulers with a color changed and filled, at any server.
    async fn work(&mut self) {
        for colored in &mut self.colored {
            let server = self.rng.place(self.versions.len());
            if !colored.work(server).await {
                let handle = colored.handle();
                let problem = format!("{handle} could not be changed at server {server}");
                self.problems.push(problem);
            } else if !self.versions.contains(&Version::Newer) {
                self.changes_by_older += 1;
            }
        }
    }

    /// Asks every server for every color, and releases the schedulers.
    async fn ask_for_colors(&mut self) {
        for colored in std::mem::take(&mut self.colored) {
            let mut answered = Vec::new();
            for server in 0..self.versions.len() {
                answered.push(colored.color_at(server).await);
            }
            let (handle, color) = (colored.handle().to_owned(), colored.color.clone());
            self.answered.push((handle, color, answered));
            colored.release().await;
        }
    }
}
