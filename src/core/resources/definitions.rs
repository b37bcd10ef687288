//! Definitions of resources: a name stands for itself, or `tenant/*` for every name below it.

use crate::core::{Namespace, ResourceImage, ResourceKey};
use std::{collections::BTreeMap, ops::Bound, sync::Arc, time::Duration};

/// How much of the usual length of a hold the last one makes out.
const LAST_HOLD: f64 = 0.2;

/// All definitions.
#[derive(Debug, Default)]
pub(crate) struct Definitions(BTreeMap<Namespace, BTreeMap<Arc<str>, Definition>>);

/// What is said of a resource, and what is known.
#[derive(Debug)]
pub(crate) struct Definition {
    pub image: ResourceImage,
    /// How long holds last, of late.
    pub usual_hold: Option<Duration>,
}

impl Definition {
    /// A hold was given back after this time.
    pub(crate) fn held_for(&mut self, time: Duration) {
        let usual = match self.usual_hold {
            Some(usual) => usual.mul_f64(1.0 - LAST_HOLD) + time.mul_f64(LAST_HOLD),
            None => time,
        };
        self.usual_hold = Some(usual);
    }
}

impl Definitions {
    pub(crate) fn get(&self, key: &ResourceKey) -> Option<&Definition> {
        self.0.get(&key.namespace)?.get(&key.name)
    }

    /// How many a namespace has.
    pub(crate) fn count(&self, namespace: &Namespace) -> usize {
        self.0.get(namespace).map_or(0, BTreeMap::len)
    }

    /// Those of a namespace after a name.
    pub(crate) fn after<'a>(
        &'a self,
        namespace: &Namespace,
        name: &'a str,
    ) -> impl Iterator<Item = &'a Definition> + use<'a> {
        let own = self.0.get(namespace).into_iter();
        let later = (Bound::Excluded(name), Bound::Unbounded);
        let later = own.flat_map(move |own| own.range::<str, _>(later));
        later.map(|(_, definition)| definition)
    }

    /// The definition of a name: its own, or that of the longest pattern that stands for it.
    pub(crate) fn of(&self, key: &ResourceKey) -> Option<&Definition> {
        let own = self.0.get(&key.namespace)?;
        own.get(name_in(own, &key.name)?)
    }

    pub(crate) fn of_mut(&mut self, key: &ResourceKey) -> Option<&mut Definition> {
        let own = self.0.get_mut(&key.namespace)?;
        let name: Arc<str> = own.get_key_value(name_in(own, &key.name)?)?.0.clone();
        own.get_mut(&name)
    }

    /// Puts a definition in place of the one of its name.
    pub(crate) fn put(&mut self, image: ResourceImage) {
        let own = self.0.entry(image.key.namespace.clone()).or_default();
        let name = image.key.name.clone();
        let usual_hold = own.get(&name).and_then(|known| known.usual_hold);
        own.insert(name, Definition { image, usual_hold });
    }

    pub(crate) fn remove(&mut self, key: &ResourceKey) {
        if let Some(own) = self.0.get_mut(&key.namespace) {
            own.remove(&key.name);
            if own.is_empty() {
                self.0.remove(&key.namespace);
            }
        }
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Definition> {
        self.0.values().flat_map(BTreeMap::values)
    }
}

/// The beginning of the names that a pattern stands for; `None`: it is no pattern.
pub(crate) fn prefix(name: &str) -> Option<&str> {
    name.strip_suffix('*').filter(|rest| rest.ends_with('/'))
}

/// The name of the definition that holds for `name`.
fn name_in<'a>(own: &'a BTreeMap<Arc<str>, Definition>, name: &str) -> Option<&'a str> {
    if prefix(name).is_some() {
        return None;
    }
    if let Some((exact, _)) = own.get_key_value(name) {
        return Some(exact);
    }
    let mut slashes: Vec<usize> = name.match_indices('/').map(|(at, _)| at).collect();
    // A name must go on behind the slash.
    slashes.retain(|at| at + 1 < name.len());
    slashes.into_iter().rev().find_map(|at| {
        let pattern = format!("{}*", &name[..=at]);
        own.get_key_value(pattern.as_str()).map(|(name, _)| &**name)
    })
}
