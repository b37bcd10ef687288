//! Room in memory that the connections of a port share: for messages that arrive, and for answers
//! that have not been written yet.
//!
//! A connection may hold as much as stays free for the others, so one gets half of the room, two
//! get a third each, and a newcomer always finds some.

use crate::peer::ConnectionInfo;
use bytes::Bytes;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};
use tokio::sync::OwnedSemaphorePermit;

/// Room for the messages and answers of all connections.
const ROOM_BYTES: usize = 192 << 20;
/// A smaller message or answer takes no room: its stream takes as much.
pub(super) const SMALL_BYTES: usize = 1 << 10;

/// The room of a port. Clones are the same room.
#[derive(Clone, Default)]
pub(super) struct Room(Arc<AtomicUsize>);

/// The room as one connection has it.
#[derive(Clone)]
pub(super) struct Share {
    /// Held by all connections.
    used: Arc<AtomicUsize>,
    /// Held by this one.
    of_connection: Arc<AtomicUsize>,
}

/// What one message or answer holds. Dropped, it gives that back.
pub(super) struct Place {
    share: Share,
    held: AtomicUsize,
}

/// Bytes and their room.
struct Held {
    data: Bytes,
    _place: Place,
    _turn: Option<OwnedSemaphorePermit>,
}

impl Room {
    pub(super) fn share(&self, connection: Option<&ConnectionInfo>) -> Share {
        let of_connection = connection.map(|info| info.held_bytes.clone());
        Share {
            used: self.0.clone(),
            of_connection: of_connection.unwrap_or_default(),
        }
    }
}

impl Share {
    /// Holds nothing yet.
    pub(super) fn place(&self) -> Place {
        Place {
            share: self.clone(),
            held: AtomicUsize::new(0),
        }
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
        let used = self.share.used.fetch_add(bytes, Relaxed) + bytes;
        let mine = self.share.of_connection.fetch_add(bytes, Relaxed) + bytes;
        self.held.store(bytes, Relaxed);
        used + mine <= ROOM_BYTES
    }

    fn give_back(&self) {
        let held = self.held.swap(0, Relaxed);
        self.share.used.fetch_sub(held, Relaxed);
        self.share.of_connection.fetch_sub(held, Relaxed);
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
        self.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
