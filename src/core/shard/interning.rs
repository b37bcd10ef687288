//! Names and settings that are equal share their memory.

use crate::core::{Namespace, SchedulerImage, Settings};
use std::{collections::VecDeque, sync::Arc};

/// Values remembered: enough for callers who open their schedulers alike.
const RECENT: usize = 32;

/// The latest names and settings.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    names: Recent<str>,
    settings: Recent<Settings>,
}

#[derive(Debug)]
struct Recent<T: ?Sized>(VecDeque<Arc<T>>);

impl Interner {
    /// The same image, on shared memory where something equal is known.
    pub(crate) fn share(&mut self, image: SchedulerImage) -> SchedulerImage {
        SchedulerImage {
            namespace: Namespace(self.names.share(image.namespace.0)),
            caller: self.names.share(image.caller),
            settings: self.settings.share(image.settings),
            ..image
        }
    }
}

impl<T: PartialEq + ?Sized> Recent<T> {
    fn share(&mut self, value: Arc<T>) -> Arc<T> {
        if let Some(known) = self
            .0
            .iter()
            .find(|known| Arc::ptr_eq(known, &value) || **known == value)
        {
            return known.clone();
        }
        self.0.truncate(RECENT - 1);
        self.0.push_front(value.clone());
        value
    }
}

impl<T: ?Sized> Default for Recent<T> {
    fn default() -> Self {
        Recent(VecDeque::new())
    }
}
