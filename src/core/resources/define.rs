//! Operators define resources, change them and delete them. Nothing of this ends a hold: with a
//! lower capacity it drains.

use super::{Resources, definitions::prefix};
use crate::core::{
    Caller, Reject, ResourceField, ResourceImage, ResourceKey, ResourceReject, ResourceReply,
    ResourceSettings, Time, Turn,
    model::limits::{Limit, Limits},
};
use std::{collections::BTreeMap, ops::Bound, sync::Arc};

impl Resources {
    /// Defines a resource. The same definition once more changes nothing.
    pub(super) fn create(
        &mut self,
        turn: &mut Turn,
        limits: &Limits,
        caller: &Caller,
        name: &Arc<str>,
        settings: &ResourceSettings,
    ) -> Result<ResourceReply, Reject> {
        let key = key_of(caller, name);
        if let Some(known) = self.definitions.get(&key) {
            let is_same = known.image.settings == *settings;
            return match is_same {
                true => Ok(self.defined(&key, false)),
                false => Err(Reject::Resource(ResourceReject::ResourceExists)),
            };
        }
        if self.definitions.count(&key.namespace) >= limits.resources {
            return Err(Reject::LimitReached {
                limit: Limit::Resources,
                namespace: key.namespace,
                value: limits.resources as i64,
                wait: None,
            });
        }
        let image = ResourceImage {
            key,
            settings: *settings,
            unknown: None,
            created_at: turn.now,
            changed_at: turn.now,
            changed_by: caller.name.clone(),
            deleted: false,
        };
        Ok(self.define(turn, limits, image))
    }

    pub(super) fn update(
        &mut self,
        turn: &mut Turn,
        limits: &Limits,
        caller: &Caller,
        name: &Arc<str>,
        (settings, fields): (&ResourceSettings, &[ResourceField]),
    ) -> Result<ResourceReply, Reject> {
        let key = key_of(caller, name);
        let image = self.defined_as(&key)?;
        let settings = image.settings.with(settings, fields);
        if settings == image.settings {
            return Ok(self.defined(&key, false));
        }
        let image = ResourceImage {
            settings,
            changed_at: turn.now,
            changed_by: caller.name.clone(),
            ..image
        };
        Ok(self.define(turn, limits, image))
    }

    /// Deletes a resource, or a pattern, that nobody uses.
    pub(super) fn delete(
        &mut self,
        turn: &mut Turn,
        caller: &Caller,
        name: &Arc<str>,
    ) -> Result<ResourceReply, Reject> {
        let key = key_of(caller, name);
        let image = self.defined_as(&key)?;
        let is_own = |used: &ResourceKey| {
            let definition = self.definitions.of(used);
            definition.is_some_and(|definition| definition.image.key == key)
        };
        let is_used = (self.used_under(&key))
            .chain(self.watched_under(&key))
            .any(|used| is_own(&used));
        if is_used && let Some(view) = self.definition_view(&key) {
            return Err(Reject::Resource(ResourceReject::ResourceInUse {
                holds: view.holds,
                waiting: view.waiting,
            }));
        }
        let reply = self.defined(&key, true);
        self.definitions.remove(&key);
        self.note_definition(&key);
        let image = ResourceImage {
            changed_at: turn.now,
            changed_by: caller.name.clone(),
            deleted: true,
            ..image
        };
        turn.out.records.resources.definitions.insert(key, image);
        Ok(reply)
    }

    fn define(&mut self, turn: &mut Turn, limits: &Limits, image: ResourceImage) -> ResourceReply {
        let key = image.key.clone();
        self.definitions.put(image.clone());
        self.note_definition(&key);
        let records = &mut turn.out.records.resources;
        records.definitions.insert(key.clone(), image);
        // One walk covers what the walks before it have left.
        self.redefined.retain(|(other, _)| *other != key);
        self.redefined.push_back((key.clone(), first_under(&key)));
        self.apply_redefined(turn.now, limits);
        self.grant_next(turn, limits);
        self.defined(&key, true)
    }

    /// Has the resources that are held or waited for follow the definitions that have changed: some
    /// of them, as a pattern may stand for a million.
    pub(super) fn apply_redefined(&mut self, now: Time, limits: &Limits) {
        let mut left = limits.slice as usize;
        while left > 0
            && let Some((key, from)) = self.redefined.pop_front()
        {
            let names = self.names_from(&key, &from, left);
            let is_whole = names.len() < left || prefix(&key.name).is_none();
            left -= names.len();
            let last = names.last().cloned();
            for name in names {
                self.follow_definition(now, name);
            }
            if let Some(last) = last.filter(|_| !is_whole) {
                self.redefined.push_front((key, last));
                return;
            }
        }
    }

    /// The first `most` of them, from a name on.
    fn names_from(&self, key: &ResourceKey, from: &ResourceKey, most: usize) -> Vec<ResourceKey> {
        let used = self.used_from(key, from).take(most);
        let waited = keys_from(&self.tasks.watched, key, from).take(most);
        let mut names: Vec<ResourceKey> = used.chain(waited).collect();
        names.sort_unstable();
        names.dedup();
        names.truncate(most);
        names
    }

    fn follow_definition(&mut self, now: Time, name: ResourceKey) {
        let definition = self.definitions.of(&name);
        let settings = definition.map(|definition| definition.image.settings);
        if let Some((settings, in_use)) = settings.zip(self.in_use.get_mut(&name)) {
            in_use.settings = settings;
            if settings.max_hold.is_some() {
                // It may be shorter than before.
                let held: Vec<_> = in_use.held.keys().copied().collect();
                held.into_iter().for_each(|no| self.set_timer(now, no));
            }
        }
        self.changed.insert(name);
    }

    /// The resources in use whose name fits a definition, though a longer pattern may count.
    pub(super) fn used_under<'a>(
        &'a self,
        key: &ResourceKey,
    ) -> impl Iterator<Item = ResourceKey> + use<'a> {
        self.used_from(key, &first_under(key))
    }

    fn used_from<'a>(
        &'a self,
        key: &ResourceKey,
        from: &ResourceKey,
    ) -> impl Iterator<Item = ResourceKey> + use<'a> {
        keys_from(&self.in_use, key, from)
    }

    /// The same of the resources that tasks wait for.
    pub(super) fn watched_under<'a>(
        &'a self,
        key: &ResourceKey,
    ) -> impl Iterator<Item = ResourceKey> + use<'a> {
        keys_from(&self.tasks.watched, key, &first_under(key))
    }

    fn defined_as(&self, key: &ResourceKey) -> Result<ResourceImage, Reject> {
        if let Some(own) = self.definitions.get(key) {
            return Ok(own.image.clone());
        }
        let pattern = self.definitions.of(key).ok_or_else(|| unknown(key))?;
        Err(Reject::Resource(ResourceReject::OfPattern {
            name: key.name.clone(),
            pattern: pattern.image.key.name.clone(),
        }))
    }

    fn defined(&self, key: &ResourceKey, changed: bool) -> ResourceReply {
        let view = self.definition_view(key).expect("it is defined");
        ResourceReply::Resource(view, changed)
    }
}

/// The names from `from` on that fit a definition.
pub(super) fn keys_from<'a, T>(
    all: &'a BTreeMap<ResourceKey, T>,
    key: &ResourceKey,
    from: &ResourceKey,
) -> impl Iterator<Item = ResourceKey> + use<'a, T> {
    let (namespace, pattern) = (key.namespace.clone(), key.name.clone());
    let bounds = match prefix(&key.name) {
        Some(_) => (Bound::Excluded(from), Bound::Unbounded),
        None => (Bound::Included(from), Bound::Included(key)),
    };
    let is_meant = move |used: &&ResourceKey| {
        let below = prefix(&pattern).is_none_or(|prefix| used.name.starts_with(prefix));
        used.namespace == namespace && below
    };
    let names = all.range(bounds).map(|(key, _)| key);
    names.take_while(is_meant).cloned()
}

/// Before every name that a definition may stand for; of one name the name itself.
pub(super) fn first_under(key: &ResourceKey) -> ResourceKey {
    ResourceKey {
        namespace: key.namespace.clone(),
        name: prefix(&key.name).unwrap_or(&key.name).into(),
    }
}

pub(super) fn key_of(caller: &Caller, name: &Arc<str>) -> ResourceKey {
    ResourceKey {
        namespace: caller.namespace.clone(),
        name: name.clone(),
    }
}

pub(super) fn unknown(key: &ResourceKey) -> Reject {
    Reject::Resource(ResourceReject::UnknownResource(key.name.clone()))
}
