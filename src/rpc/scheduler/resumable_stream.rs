//! A stream of events for a caller, served by this replica's coordinator or by the owner of the
//! shard. When the owner changes, the stream is reopened there from its cursor and with its
//! original goal, unnoticed by the caller. Every event is sent once, in order.

use super::Schedulers;
use crate::{
    coordinator::{EventStream, Permit},
    core::Caller,
    rpc::{
        convert::stream::{message, until},
        errors,
        forwarding::route::{self, Destination, OWNER_WAITS, OwnerAddress},
        validate::StreamQuery,
    },
};
use rallypoint_client::api::{self, scheduler_service_client::SchedulerServiceClient};
use std::time::Duration;
use tokio::time::Instant;
use tonic::{Status, Streaming};

/// How long a broken stream searches for a new owner: less than the silence callers must expect.
const REOPEN_TIMEOUT: Duration = Duration::from_secs(18);

/// An open stream.
pub(crate) struct ResumableStream {
    schedulers: Schedulers,
    caller: Caller,
    /// What to ask for when it is reopened: advanced with every message sent.
    query: StreamQuery,
    source: Source,
    /// Its place at the owner, kept when that changes.
    place: Option<Permit>,
    has_ended: bool,
}

enum Source {
    Local(EventStream),
    Remote(Box<Streaming<api::SynchronizationResponse>>, OwnerAddress),
}

impl ResumableStream {
    /// Opens a stream at the owner, waiting a moment while there is none.
    pub(super) async fn open(
        schedulers: Schedulers,
        caller: Caller,
        query: StreamQuery,
    ) -> Result<ResumableStream, Status> {
        let (mut waits, mut place) = (OWNER_WAITS.into_iter(), None);
        loop {
            let status = match open_source(&schedulers, &caller, &query, &mut place, false).await {
                Ok(source) => {
                    return Ok(ResumableStream {
                        schedulers,
                        caller,
                        query,
                        source,
                        place,
                        has_ended: false,
                    });
                }
                Err(status) => status,
            };
            match (waits.next(), &schedulers.route) {
                (Some(longest), Some(route)) if is_elsewhere(&status) => {
                    route.wait_for_owner(longest).await
                }
                _ => return Err(route::stream_error(status)),
            }
        }
    }

    /// The next message; `None`: that was the last one.
    pub(super) async fn next(&mut self) -> Option<Result<api::SynchronizationResponse, Status>> {
        if self.has_ended {
            return None;
        }
        let stopping = self.schedulers.stopping.clone();
        let message = tokio::select! {
            message = self.message() => message.map_err(route::stream_error),
            () = stopping.cancelled() => Err(errors::stopping()),
        };
        self.has_ended = message
            .as_ref()
            .map_or(true, |message| message.end.is_some());
        Some(message)
    }

    async fn message(&mut self) -> Result<api::SynchronizationResponse, Status> {
        loop {
            let received = match &mut self.source {
                Source::Local(events) => events
                    .next()
                    .await
                    .map(message)
                    .map_err(|error| errors::call(error, self.query.handle)),
                Source::Remote(stream, owner) => next_remote(stream, owner, &self.schedulers).await,
            };
            match received {
                Ok(message) => return self.advance(message),
                Err(status) if is_elsewhere(&status) => self.reopen(status).await?,
                Err(status) => return Err(status),
            }
        }
    }

    /// Advances the query past `message`, which gets its token.
    fn advance(
        &mut self,
        mut message: api::SynchronizationResponse,
    ) -> Result<api::SynchronizationResponse, Status> {
        match &self.source {
            Source::Local(events) => {
                self.query.last_seq = Some(events.last_seq);
                self.query.pass(&message);
                message.resume_token = self.query.resume_token();
            }
            // A token that makes no sense here is one of a version that must not run beside it.
            Source::Remote(..) => {
                self.query = StreamQuery::resumed(self.query.handle, &message.resume_token)
                    .ok_or_else(errors::not_owner)?;
            }
        }
        Ok(message)
    }

    /// Opens the stream again at the present owner.
    async fn reopen(&mut self, mut status: Status) -> Result<(), Status> {
        let Some(route) = self.schedulers.route.clone() else {
            return Err(status);
        };
        let started = Instant::now();
        let mut waits = OWNER_WAITS.into_iter();
        while is_elsewhere(&status) && started.elapsed() < REOPEN_TIMEOUT {
            let place = &mut self.place;
            match open_source(&self.schedulers, &self.caller, &self.query, place, true).await {
                Ok(source) => {
                    self.source = source;
                    return Ok(());
                }
                Err(error) => status = error,
            }
            route
                .wait_for_owner(waits.next().unwrap_or(OWNER_WAITS[OWNER_WAITS.len() - 1]))
                .await;
        }
        Err(status)
    }
}

/// Opens the cursor on whichever replica owns the shard. `goes_on`: it was open before.
async fn open_source(
    schedulers: &Schedulers,
    caller: &Caller,
    query: &StreamQuery,
    place: &mut Option<Permit>,
    goes_on: bool,
) -> Result<Source, Status> {
    let route = schedulers.route.as_ref();
    match route.map(|route| (route, route.destination())) {
        None | Some((_, Destination::Local)) => {
            let opened = schedulers
                .coordinator
                .watch(
                    caller.clone(),
                    query.handle,
                    query.after,
                    query.until,
                    query.last_seq,
                )
                .await;
            Ok(Source::Local(
                opened.map_err(|error| errors::call(error, query.handle))?,
            ))
        }
        Some((route, Destination::Remote(owner))) => {
            if place.is_none() {
                *place = Some(route.stream_place(caller, goes_on)?);
            }
            let mut client = SchedulerServiceClient::new(owner.streams.clone());
            let request = route::with_caller(request(query), caller)?;
            // The channel to an owner that is gone says so late.
            let opened = tokio::select! {
                opened = client.synchronization(request) => opened?,
                () = route.replaced(&owner) => return Err(errors::not_owner()),
            };
            Ok(Source::Remote(Box::new(opened.into_inner()), owner))
        }
        Some((_, Destination::Unknown)) => Err(errors::not_owner()),
    }
}

/// Its goal is fixed by the first message, and by the token from then on.
fn request(query: &StreamQuery) -> api::SynchronizationRequest {
    let resume_token = match query.last_seq {
        Some(_) => query.resume_token(),
        None => String::new(),
    };
    api::SynchronizationRequest {
        handle: query.handle.to_string(),
        after: query.after.0,
        until: Some(until(query.until)),
        resume_token,
    }
}

/// The next message of the owner's stream, or an error once another replica owns the shard.
async fn next_remote(
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

/// The stream can go on at another replica.
fn is_elsewhere(status: &Status) -> bool {
    route::is_not_owner(status) || route::is_unknown(status) || errors::is_stopping(status)
}
