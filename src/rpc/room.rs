//! Room in memory that the callers of a port share: for messages that arrive, and for answers that
//! have not been written yet; and room of its own for events of streams that are not read.
//!
//! A caller may hold as much as stays free for the others, so one gets half of the room, two get a
//! third each, and a newcomer always finds some. That is by identity, whatever connections it has,
//! and by connection where it is not known who calls.

use super::{auth::Known, errors};
use crate::peer::ConnectionInfo;
use bytes::Bytes;
use rustc_hash::FxHashMap;
use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicUsize, Ordering::Relaxed},
};
use tokio::sync::OwnedSemaphorePermit;
use tonic::{Status, codegen::http::Extensions};

/// Room for the messages and answers of all callers, and as much for events of their streams.
const ROOM_BYTES: usize = 192 << 20;
/// A smaller message or answer takes no room: its stream takes as much.
pub(super) const SMALL_BYTES: usize = 1 << 10;

/// Callers that are remembered before those who hold nothing are forgotten.
const MANY: usize = 64;

/// The rooms of a port. Clones are the same rooms.
#[derive(Clone)]
pub(super) struct Rooms {
    calls: Room,
    events: Room,
}

/// The rooms as one call has them.
#[derive(Clone)]
pub(super) struct Shares {
    /// For messages and answers.
    pub calls: Share,
    /// For events of streams: who does not read them goes on making calls.
    pub events: Share,
}

/// One room. Clones are the same room.
#[derive(Clone)]
pub(super) struct Room {
    /// Held by all callers.
    used: Arc<AtomicUsize>,
    callers: Arc<Mutex<Callers>>,
    /// What is said to whoever finds none for an answer.
    no_room: fn() -> Status,
}

/// What each caller holds who is known.
#[derive(Default)]
struct Callers {
    held: FxHashMap<Arc<str>, Arc<AtomicUsize>>,
    /// When there are as many, those who hold nothing are forgotten.
    most: usize,
}

/// The room as one call has it.
#[derive(Clone)]
pub(super) struct Share {
    room: Room,
    /// Held by its connection for callers who are not known.
    of_connection: Arc<AtomicUsize>,
    /// Held by its caller; not set as long as nobody is known.
    of_caller: Arc<OnceLock<Arc<AtomicUsize>>>,
}

/// What one message or answer holds. Dropped, it gives that back.
pub(super) struct Place {
    share: Share,
    /// Where it counts, from when it takes room for the first time.
    mine: OnceLock<Arc<AtomicUsize>>,
    held: AtomicUsize,
}

/// Bytes and their room.
struct Held {
    data: Bytes,
    _place: Place,
    _turn: Option<OwnedSemaphorePermit>,
}

impl Default for Rooms {
    fn default() -> Rooms {
        Rooms {
            calls: Room::default(),
            events: Room::of_events(),
        }
    }
}

impl Rooms {
    /// Those of a connection, as long as it is not known who calls.
    pub(super) fn shares(&self, connection: Option<&ConnectionInfo>) -> Shares {
        let of_calls = connection.map(|info| info.held_bytes.clone());
        let of_events = connection.map(|info| info.held_event_bytes.clone());
        Shares {
            calls: self.calls.share(of_calls),
            events: self.events.share(of_events),
        }
    }

    /// Those of a call with these extensions. One that came over HTTP has shares already, with
    /// which its text is read: from here on these, too, are its caller's.
    pub(super) fn of_call(&self, extensions: &Extensions) -> Shares {
        let shares = match extensions.get::<Shares>() {
            Some(shares) => shares.clone(),
            None => self.shares(extensions.get()),
        };
        if let Some(known) = extensions.get::<Known>() {
            for share in [&shares.calls, &shares.events] {
                share.give_to(&known.caller.name);
            }
        }
        shares
    }
}

impl Default for Room {
    /// For messages and answers.
    fn default() -> Room {
        Room::new(errors::no_answer_room)
    }
}

impl Room {
    fn new(no_room: fn() -> Status) -> Room {
        Room {
            used: Arc::default(),
            callers: Arc::default(),
            no_room,
        }
    }

    /// For events of streams.
    pub(super) fn of_events() -> Room {
        Room::new(errors::no_event_room)
    }

    /// That of a connection that holds so much, as long as it is not known who calls.
    pub(super) fn share(&self, of_connection: Option<Arc<AtomicUsize>>) -> Share {
        Share {
            room: self.clone(),
            of_connection: of_connection.unwrap_or_default(),
            of_caller: Arc::default(),
        }
    }

    /// That of a caller with this name.
    pub(super) fn share_of(&self, caller: &Arc<str>) -> Share {
        let share = self.share(None);
        share.give_to(caller);
        share
    }

    fn held_by(&self, caller: &Arc<str>) -> Arc<AtomicUsize> {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = callers.held.get(caller) {
            return held.clone();
        }
        if callers.held.len() >= callers.most {
            // Whoever has a call holds the other references.
            callers.held.retain(|_, held| Arc::strong_count(held) > 1);
            callers.most = MANY.max(2 * callers.held.len());
        }
        callers.held.entry(caller.clone()).or_default().clone()
    }
}

impl Share {
    /// It is this caller's from now on, if it was nobody's.
    fn give_to(&self, caller: &Arc<str>) {
        self.of_caller.get_or_init(|| self.room.held_by(caller));
    }

    /// What is said when there is no room for an answer.
    pub(super) fn no_room(&self) -> Status {
        (self.room.no_room)()
    }

    /// Holds nothing yet.
    pub(super) fn place(&self) -> Place {
        Place {
            share: self.clone(),
            mine: OnceLock::new(),
            held: AtomicUsize::new(0),
        }
    }

    fn mine(&self) -> Arc<AtomicUsize> {
        let of_caller = self.of_caller.get();
        of_caller.unwrap_or(&self.of_connection).clone()
    }

    /// The same bytes, which keep their room and this turn until the last reference to them is
    /// dropped; `None`: there is no room.
    pub(super) fn hold(&self, data: Bytes, turn: Option<OwnedSemaphorePermit>) -> Option<Bytes> {
        if data.len() <= SMALL_BYTES && turn.is_none() {
            return Some(data);
        }
        let place = self.place();
        let has_room = place.take(data.len());
        has_room.then(|| {
            Bytes::from_owner(Held {
                data,
                _place: place,
                _turn: turn,
            })
        })
    }
}

impl Place {
    /// Gives back what it held and takes `bytes`, if they are there.
    pub(super) fn take(&self, bytes: usize) -> bool {
        self.give_back();
        if bytes <= SMALL_BYTES {
            return true;
        }
        let used = self.share.room.used.fetch_add(bytes, Relaxed) + bytes;
        let mine = self.mine.get_or_init(|| self.share.mine());
        let mine = mine.fetch_add(bytes, Relaxed) + bytes;
        self.held.store(bytes, Relaxed);
        used + mine <= ROOM_BYTES
    }

    fn give_back(&self) {
        let held = self.held.swap(0, Relaxed);
        self.share.room.used.fetch_sub(held, Relaxed);
        if let Some(mine) = self.mine.get() {
            mine.fetch_sub(held, Relaxed);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

#[cfg(test)]
impl Room {
    pub(super) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Caller, Namespace};

    /// Those of a call of somebody who is known, on a connection of its own.
    fn of(rooms: &Rooms, name: &str, came: Option<&Shares>) -> Shares {
        let mut extensions = Extensions::new();
        let caller = Caller {
            namespace: Namespace::default_namespace(),
            name: name.into(),
        };
        extensions.insert(Known {
            caller,
            sees_all: false,
        });
        if let Some(shares) = came {
            extensions.insert(shares.clone());
        }
        rooms.of_call(&extensions)
    }

    #[test]
    fn a_caller_gets_half_of_the_room_whatever_connections_it_has() {
        let rooms = Rooms::default();
        let share_of: [fn(Shares) -> Share; 2] = [|of| of.calls, |of| of.events];
        for (room, share) in [&rooms.calls, &rooms.events].into_iter().zip(share_of) {
            let mut places = Vec::new();
            loop {
                // Every other call comes over HTTP, and its text takes the room.
                let text = (places.len() % 2 == 1).then(|| rooms.shares(None));
                let call = of(&rooms, "token:ann", text.as_ref());
                let next = share(text.unwrap_or(call)).place();
                if !next.take(5 << 20) {
                    break;
                }
                places.push(next);
            }
            assert!((ROOM_BYTES / 2).abs_diff(room.used()) < 5 << 20);
            let others = share(of(&rooms, "token:ben", None));
            assert!(others.place().take(5 << 20));
            drop(places);
            assert_eq!(room.used(), 0);
            let again = share(of(&rooms, "token:ann", None));
            assert!(again.place().take(5 << 20));
        }
    }

    #[test]
    fn callers_who_hold_nothing_are_forgotten() {
        let rooms = Rooms::default();
        let held = of(&rooms, "token:ann", None).calls.place();
        assert!(held.take(ROOM_BYTES / 2));
        for number in 0..10 * MANY {
            of(&rooms, &number.to_string(), None);
        }
        let again = of(&rooms, "token:ann", None).calls;
        assert!(!again.place().take(5 << 20));
        let callers = rooms.calls.callers.lock().expect("kept");
        assert!(callers.held.len() <= MANY + 1);
    }

    #[test]
    fn a_connection_gets_half_of_the_room_and_a_newcomer_finds_some() {
        let room = Room::default();
        let (greedy, newcomer) = (room.share(None), room.share(None));
        let mut places = Vec::new();
        loop {
            let next = greedy.place();
            if !next.take(5 << 20) {
                break;
            }
            places.push(next);
        }
        assert_eq!(room.used(), places.len() * (5 << 20));
        assert!((ROOM_BYTES / 2).abs_diff(room.used()) < 5 << 20);
        assert!(newcomer.place().take(5 << 20));
        drop(places);
        assert_eq!(room.used(), 0);
    }

    #[test]
    fn bytes_keep_their_room_until_the_last_reference_is_dropped() {
        let room = Room::default();
        let share = room.share(None);
        let mut held = share.hold(vec![7; 5_000].into(), None).expect("room");
        assert_eq!((held.len(), held[4_999], room.used()), (5_000, 7, 5_000));
        let part = held.split_to(1);
        drop(held);
        assert_eq!(room.used(), 5_000);
        drop(part);
        assert_eq!(room.used(), 0);
        let all = share.place();
        assert!(all.take(ROOM_BYTES / 2));
        assert!(share.hold(vec![7; 5_000].into(), None).is_none());
        assert_eq!(room.used(), ROOM_BYTES / 2, "what got no room holds none");
        assert!(share.hold(vec![7; SMALL_BYTES].into(), None).is_some());
    }
}
