//! Tasks of answers, which wake themselves while they are polled.
//!
//! hyper's do so with each message: it asks for room in the windows of the connection and wakes
//! whoever waits for some, which is itself. A runtime puts a task that is woken while it runs
//! behind all others and wakes another thread to take it. What it asks for is to be polled again,
//! so that is done here, at once (decision 0225).

use futures_util::task::AtomicWaker;
use hyper::rt::Executor;
use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// In a row: a task that wakes itself for ever leaves its thread to others.
const POLLS: usize = 4;

/// Runs tasks of the server on the runtime.
#[derive(Clone, Copy)]
pub(super) struct PolledAgain;

impl<F> Executor<F> for PolledAgain
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        tokio::spawn(polled_again(future));
    }
}

async fn polled_again<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    poll_fn(|context| wakes.poll(future.as_mut(), &waker, context)).await
}

/// What has become of the wakes of a task.
#[derive(Default)]
struct Wakes {
    task: AtomicWaker,
    state: AtomicU8,
}

/// The task is to be woken.
const IDLE: u8 = 0;
const POLLED: u8 = 1;
/// It is polled, and again after that.
const WOKEN: u8 = 2;

impl Wakes {
    fn poll<F: Future>(
        &self,
        mut future: Pin<&mut F>,
        waker: &Waker,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        self.task.register(context.waker());
        for _ in 0..POLLS {
            self.state.store(POLLED, Ordering::Release);
            let polled = future.as_mut().poll(&mut Context::from_waker(waker));
            if polled.is_ready() || self.state.swap(IDLE, Ordering::AcqRel) == POLLED {
                return polled;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Written anew also if it stands there already: what happened before is seen by the poll.
        let woken = |state| (state != IDLE).then_some(WOKEN);
        let noted = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, woken);
        if noted.is_err() {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Runtime {
        wakes: AtomicUsize,
    }

    impl Wake for Runtime {
        fn wake(self: Arc<Self>) {
            self.wakes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Polls once, and says how often the runtime was asked to do so again.
    fn poll(task: Pin<&mut impl Future<Output = ()>>) -> (Poll<()>, usize) {
        let runtime = Arc::new(Runtime::default());
        let waker = Waker::from(runtime.clone());
        let polled = task.poll(&mut Context::from_waker(&waker));
        (polled, runtime.wakes.load(Ordering::Relaxed))
    }

    /// Wakes itself so often before it is ready.
    fn waking_itself(times: usize) -> impl Future<Output = ()> {
        let mut left = times;
        poll_fn(move |context| match left {
            0 => Poll::Ready(()),
            _ => {
                left -= 1;
                context.waker().wake_by_ref();
                Poll::Pending
            }
        })
    }

    #[test]
    fn what_wakes_itself_is_polled_at_once_and_not_for_ever() {
        let task = pin!(polled_again(waking_itself(POLLS - 1)));
        assert_eq!(poll(task), (Poll::Ready(()), 0));
        let mut task = pin!(polled_again(waking_itself(POLLS)));
        assert_eq!(poll(task.as_mut()), (Poll::Pending, 1));
        assert_eq!(poll(task), (Poll::Ready(()), 0));
    }

    #[test]
    fn what_others_wake_is_polled_by_the_runtime() {
        let (send, mut receive) = tokio::sync::mpsc::channel(1);
        let mut task = pin!(polled_again(async move {
            receive.recv().await;
        }));
        let runtime = Arc::new(Runtime::default());
        let waker = Waker::from(runtime.clone());
        let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        send.try_send(()).expect("room");
        assert_eq!(runtime.wakes.load(Ordering::Relaxed), 1);
        assert_eq!(poll(task), (Poll::Ready(()), 0));
    }
}
