//! Connections on which nobody has made a call yet that is known to come from somebody. An address
//! has some of them at a time, and each of them some time: strangers take no place of callers.

use rustc_hash::FxHashMap;
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// How long the first call of somebody who is known may take to come.
pub(super) const FIRST_CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections of strangers from one address. Many callers may come from one, behind a proxy, and
/// each is a stranger for a moment.
const MAX_PER_ADDRESS: u32 = 1_000;
/// `64:ff9b::/96`, in which translators put addresses of IPv4.
const NAT64: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);

/// How many strangers come from where. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Strangers(Arc<Mutex<FxHashMap<IpAddr, u32>>>);

/// A connection, which is a stranger's until a call on it is known to come from somebody.
#[derive(Debug)]
pub struct Stranger {
    is_known: AtomicBool,
    place: Mutex<Option<Place>>,
}

/// Counts as a stranger's until it is dropped.
#[derive(Debug)]
struct Place {
    strangers: Strangers,
    address: IpAddr,
}

impl Strangers {
    /// Counts a connection; `None`: there are too many from its address.
    pub(super) fn admit(&self, address: IpAddr) -> Option<Arc<Stranger>> {
        let address = network(address);
        let mut counts = self.counts();
        let count = counts.entry(address).or_default();
        if *count >= MAX_PER_ADDRESS {
            return None;
        }
        *count += 1;
        drop(counts);
        let place = Place {
            strangers: self.clone(),
            address,
        };
        Some(Arc::new(Stranger {
            is_known: AtomicBool::new(false),
            place: Mutex::new(Some(place)),
        }))
    }

    fn counts(&self) -> MutexGuard<'_, FxHashMap<IpAddr, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stranger {
    /// A call has come from somebody.
    pub fn is_somebody(&self) {
        if !self.is_known.load(Ordering::Relaxed) {
            self.is_known.store(true, Ordering::Relaxed);
            let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
            *place = None;
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.strangers.counts();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// What one host can choose its addresses from.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        // NAT64: a host with an address of IPv4, and not one of a network with all of them.
        IpAddr::V6(address) if address.to_bits() >> 32 == NAT64.to_bits() >> 32 => {
            Ipv4Addr::from_bits(address.to_bits() as u32).into()
        }
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_address_has_so_many_strangers_and_any_number_of_callers() {
        let strangers = Strangers::default();
        let one = address("192.0.2.7");
        let admitted = || strangers.admit(one);
        let mut all: Vec<_> = (0..MAX_PER_ADDRESS).filter_map(|_| admitted()).collect();
        assert_eq!(all.len(), MAX_PER_ADDRESS as usize);
        assert!(admitted().is_none());
        assert!(strangers.admit(address("192.0.2.8")).is_some());
        all[0].is_somebody();
        all[0].is_somebody();
        let next = admitted().expect("a place is free");
        assert!(admitted().is_none());
        all.clear();
        drop(next);
        assert!(strangers.counts().is_empty());
    }

    #[test]
    fn a_host_with_many_addresses_of_ipv6_is_one() {
        let same = network(address("2001:db8:1:2:3::4"));
        assert_eq!(network(address("2001:db8:1:2:ffff::1")), same);
        assert_ne!(network(address("2001:db8:1:3::4")), same);
        let mapped = network(address("::ffff:192.0.2.7"));
        assert_eq!(mapped, address("192.0.2.7"));
    }

    #[test]
    fn hosts_behind_a_translator_are_told_apart() {
        let translated = network(address("64:ff9b::192.0.2.7"));
        assert_eq!(translated, address("192.0.2.7"));
        let local_use = network(address("64:ff9b:1::192.0.2.7"));
        assert_eq!(local_use, address("64:ff9b:1::"));
    }
}
