//! A stream for its caller, wherever its events come from: the own coordinator, or the owner of the shard. When the shard
//! changes hands it goes on at the new owner from its cursor, with the goal it was opened with, and the caller notices
//! nothing. Every event is told once, in order.

use super::Schedulers;
use crate::rpc::{
    convert::stream::{message, until},
    errors,
    forwarding::route::{self, Destination, LOOKS, OwnerAddress},
};
use crate::{
    coordinator::EventStream,
    core::{Caller, DoneNo, Seq, Until},
    rpc::validate::Watch,
};
use rallypoint_client::api::{self, scheduler_service_client::SchedulerServiceClient};
use std::time::Duration;
use tokio::time::Instant;
use tonic::{Status, Streaming};

/// How long a stream that has begun looks for a new owner: less than the silence that callers are promised not to hear.
const PATIENCE: Duration = Duration::from_secs(18);

/// The messages of a stream.
pub(crate) struct Follow {
    schedulers: Schedulers,
    caller: Caller,
    /// How to go on: moved on with every message told.
    watch: Watch,
    source: Source,
    goal_told: bool,
    over: bool,
}

enum Source {
    Here(EventStream),
    There(Box<Streaming<api::SynchronizationResponse>>, OwnerAddress),
}

impl Follow {
    /// Opens it at the owner.
    pub(super) async fn open(
        schedulers: Schedulers,
        caller: Caller,
        watch: Watch,
    ) -> Result<Follow, Status> {
        let mut looks = LOOKS.into_iter();
        loop {
            let status = match source(&schedulers, &caller, &watch).await {
                Ok(source) => {
                    return Ok(Follow {
                        schedulers,
                        caller,
                        watch,
                        source,
                        goal_told: false,
                        over: false,
                    });
                }
                Err(status) => status,
            };
            match (looks.next(), &schedulers.route) {
                (Some(longest), Some(route)) if is_elsewhere(&status) => {
                    route.look_again(longest).await
                }
                _ => return Err(status),
            }
        }
    }

    /// The next message; `None`: that was the last one.
    pub(super) async fn next(&mut self) -> Option<Result<api::SynchronizationResponse, Status>> {
        if self.over {
            return None;
        }
        let stopping = self.schedulers.stopping.clone();
        let message = tokio::select! {
            message = self.message() => message,
            () = stopping.cancelled() => Err(errors::stopping()),
        };
        self.over = message
            .as_ref()
            .map_or(true, |message| message.end.is_some());
        Some(message)
    }

    async fn message(&mut self) -> Result<api::SynchronizationResponse, Status> {
        loop {
            let heard = match &mut self.source {
                Source::Here(events) => events
                    .next()
                    .await
                    .map(message)
                    .map_err(|error| errors::call(error, self.watch.handle)),
                Source::There(stream, owner) => there(stream, owner, &self.schedulers).await,
            };
            match heard {
                Ok(message) => return Ok(self.told(message)),
                Err(status) if is_elsewhere(&status) => self.go_on(status).await?,
                Err(status) => return Err(status),
            }
        }
    }

    /// Notes how far the caller is.
    fn told(&mut self, mut message: api::SynchronizationResponse) -> api::SynchronizationResponse {
        if let Some(goal) = &message.goal {
            self.watch.last_seq = Some(Seq(goal.last_seq));
        }
        if let Some(last) = message.done.last() {
            self.watch.after = DoneNo(last.done_no);
        }
        if !std::mem::replace(&mut self.goal_told, true) {
            if let Source::Here(events) = &self.source {
                self.watch.last_seq = Some(events.last_seq);
                message.goal = Some(api::Goal {
                    until: Some(until(self.watch.until)),
                    last_seq: events.last_seq.0,
                });
            }
        } else {
            message.goal = None;
        }
        if let Until::Count(left) = &mut self.watch.until {
            *left = left.saturating_sub(message.done.len() as u64);
        }
        message
    }

    /// Opens the stream again, where the shard is now.
    async fn go_on(&mut self, mut status: Status) -> Result<(), Status> {
        let Some(route) = self.schedulers.route.clone() else {
            return Err(status);
        };
        let begun = Instant::now();
        let mut looks = LOOKS.into_iter();
        while is_elsewhere(&status) && begun.elapsed() < PATIENCE {
            match source(&self.schedulers, &self.caller, &self.watch).await {
                Ok(source) => {
                    self.source = source;
                    return Ok(());
                }
                Err(error) => status = error,
            }
            route
                .look_again(looks.next().unwrap_or(LOOKS[LOOKS.len() - 1]))
                .await;
        }
        Err(status)
    }
}

/// The cursor at the owner.
async fn source(schedulers: &Schedulers, caller: &Caller, watch: &Watch) -> Result<Source, Status> {
    match schedulers.route.as_ref().map(|route| route.way()) {
        None | Some(Destination::Here) => {
            let opened = schedulers
                .coordinator
                .watch(
                    caller.clone(),
                    watch.handle,
                    watch.after,
                    watch.until,
                    watch.last_seq,
                )
                .await;
            Ok(Source::Here(
                opened.map_err(|error| errors::call(error, watch.handle))?,
            ))
        }
        Some(Destination::There(owner)) => {
            let mut client = SchedulerServiceClient::new(owner.channel.clone());
            let request = route::envelope(request(watch), caller)?;
            Ok(Source::There(
                Box::new(client.synchronization(request).await?.into_inner()),
                owner,
            ))
        }
        Some(Destination::Nowhere) => Err(errors::not_owner()),
    }
}

fn request(watch: &Watch) -> api::SynchronizationRequest {
    let until = Some(until(watch.until));
    let resume = watch.last_seq.map(|last_seq| api::Goal {
        until,
        last_seq: last_seq.0,
    });
    api::SynchronizationRequest {
        handle: watch.handle.to_string(),
        after: watch.after.0,
        until,
        resume,
    }
}

async fn there(
    stream: &mut Streaming<api::SynchronizationResponse>,
    owner: &OwnerAddress,
    schedulers: &Schedulers,
) -> Result<api::SynchronizationResponse, Status> {
    let replaced = async {
        match &schedulers.route {
            Some(route) => route.replaced(owner).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        message = stream.message() => message?.ok_or_else(errors::not_owner),
        () = replaced => Err(errors::not_owner()),
    }
}

fn is_elsewhere(status: &Status) -> bool {
    route::is_not_owner(status) || route::is_unknown(status) || errors::is_stopping(status)
}
