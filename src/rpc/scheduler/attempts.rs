//! ListAttempts: earlier attempts and the last one are in the journal; the core knows the one that
//! runs. A page ends when it is full, or large.

use super::{Schedulers, listing::MAX_PAGE_BYTES};
use crate::{
    core::Caller,
    rpc::{convert, errors, validate::ListAttempts},
};
use prost::Message;
use rallypoint_client::api;
use std::{slice, sync::Arc};
use tonic::Status;

/// Attempts of a page, however many are asked for: what targets said of as many is a few MiB.
const MAX_ATTEMPTS: usize = 128;

impl Schedulers {
    pub(super) async fn attempts(
        &self,
        caller: Caller,
        request: Arc<api::ListAttemptsRequest>,
    ) -> Result<api::ListAttemptsResponse, Status> {
        let query = ListAttempts::new(&request, &caller.namespace)?;
        let id = query.id;
        self.check_visible(&caller, id.handle).await?;
        let task = self.reader.tasks_of(id.handle, &[id.seq]).await;
        let Some(mut task) = task.map_err(errors::journal)?.pop() else {
            return Err(self.why_missing(caller, id).await?);
        };
        let states = self
            .states(&caller, id.handle, slice::from_mut(&mut task))
            .await?;
        if task.done.is_none() && !states.contains_key(&id.seq) {
            // Outcomes may go before the attempts: none of these runs.
            return Err(errors::past_retention());
        }
        let size = query.size.min(MAX_ATTEMPTS);
        // One more, to see whether there are more.
        let records = self
            .reader
            .attempts(id.handle, id.seq, query.after, size + 1)
            .await
            .map_err(errors::journal)?;
        let attempts = convert::attempts(&records, &task, states.get(&id.seq).copied());
        let after = attempts.range(query.after.0 + 1..);
        let mut list = api::ListAttemptsResponse::default();
        let mut bytes = 0;
        for (number, attempt) in after {
            if list.attempts.len() == size || bytes > MAX_PAGE_BYTES {
                list.next_page_token = query.token.after((*number - 1) as u128);
                break;
            }
            bytes += attempt.encoded_len();
            list.attempts.push(attempt.clone());
        }
        Ok(list)
    }
}
