//! How many of the places for streams to the owner a caller has. A namespace leaves places to other
//! namespaces by itself (`Admission`); here each of its callers who is known leaves some to its
//! other callers, while no other namespace has as many as it may have alone: beside such a one a
//! namespace has none beyond those that a caller may have. Names that callers give themselves tell
//! nobody apart.

use crate::core::{Caller, Namespace, is_identity};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who has a place: callers of two namespaces are two.
type Known = (Namespace, Arc<str>);

/// What each known caller has. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct CallerPlaces(Arc<Mutex<FxHashMap<Known, usize>>>);

/// One of them, given back when this is dropped.
#[derive(Debug)]
pub(super) struct CallerPlace {
    places: CallerPlaces,
    /// `None`: a caller who is not known.
    of: Option<Known>,
}

impl CallerPlaces {
    /// A place, unless the caller has `most`.
    pub(super) fn take(&self, caller: &Caller, most: usize) -> Option<CallerPlace> {
        let known = is_identity(&caller.name);
        let of = known.then(|| (caller.namespace.clone(), caller.name.clone()));
        if let Some(known) = &of {
            let mut places = self.lock();
            let has = places.get(known).copied().unwrap_or_default();
            if has >= most {
                return None;
            }
            places.insert(known.clone(), has + 1);
        }
        let places = self.clone();
        Some(CallerPlace { places, of })
    }

    fn lock(&self) -> MutexGuard<'_, FxHashMap<Known, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CallerPlace {
    fn drop(&mut self) {
        let Some(known) = &self.of else {
            return;
        };
        let mut places = self.places.lock();
        match places.get_mut(known) {
            Some(has) if *has > 1 => *has -= 1,
            _ => drop(places.remove(known)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(namespace: &str, name: &str) -> Caller {
        Caller {
            namespace: Namespace(namespace.into()),
            name: name.into(),
        }
    }

    #[test]
    fn a_caller_who_is_known_leaves_places_to_others() {
        let places = CallerPlaces::default();
        let take = |namespace, name| places.take(&caller(namespace, name), 2);
        let mut of_ann = vec![take("a", "token:ann"), take("a", "token:ann")];
        assert!(of_ann.iter().all(Option::is_some));
        assert!(take("a", "token:ann").is_none());
        assert!(take("a", "token:ben").is_some() && take("b", "token:ann").is_some());
        let nobody: Vec<_> = (0..3).map(|_| take("a", "ann")).collect();
        assert!(nobody.iter().all(Option::is_some), "nobody knows who it is");
        of_ann.pop();
        of_ann.push(take("a", "token:ann"));
        assert!(of_ann.iter().all(Option::is_some), "one has ended");
        assert!(take("a", "token:ann").is_none());
        let further = places.take(&caller("a", "token:ann"), usize::MAX);
        assert!(further.is_some(), "it goes on");
        drop((of_ann, further));
        assert!(places.lock().is_empty());
    }
}
