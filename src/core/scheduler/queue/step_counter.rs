//! Counts the spans that the queue looks at or moves, so that tests can bound the work of a turn
//! without a clock. Outside tests it is nothing.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A span is looked at or moved.
#[inline]
pub(crate) fn step() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}

/// The steps that `work` takes.
#[cfg(test)]
pub(crate) fn steps_of(work: impl FnOnce()) -> u64 {
    let before = STEPS.get();
    work();
    STEPS.get() - before
}
