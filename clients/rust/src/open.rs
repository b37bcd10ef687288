//! Opening schedulers, and finding them by their names.

use crate::{Client, Scheduler, api, backoff::Backoff, error::Result};
use std::time::Duration;
use tokio::runtime::Handle;

impl Client {
    /// Opens a scheduler with these settings. Fails with `TOO_MANY_SCHEDULERS` over the limit of
    /// the namespace.
    ///
    /// If the call is dropped within a tokio runtime before it is answered, what it has opened is
    /// released in the background; not under a request id of the caller's.
    pub async fn open(&self, settings: api::SchedulerSettings) -> Result<Scheduler> {
        let (opened, _) = self.get("", false, settings).await?;
        Ok(self.scheduler(opened.handle))
    }

    /// As [`Client::open`], under a name by which [`Client::reuse`] finds it until its release.
    /// Fails with `NAME_TAKEN` while another one of the namespace is open under this name.
    ///
    /// What is released in the background lets the tasks finish of others who have found it.
    pub async fn open_named(
        &self,
        name: &str,
        settings: api::SchedulerSettings,
    ) -> Result<Scheduler> {
        let (opened, _) = self.get(name, false, settings).await?;
        Ok(self.scheduler(opened.handle))
    }

    /// The scheduler that is open under this name, or else a new one with these settings. Of any
    /// number of callers at the same time one opens it. Returns it with the settings in force, and
    /// whether it was open before. If the call is dropped, what it has opened stays open.
    pub async fn reuse(
        &self,
        name: &str,
        settings: api::SchedulerSettings,
    ) -> Result<(api::Scheduler, bool)> {
        self.get(name, true, settings).await
    }

    async fn get(
        &self,
        name: &str,
        reuse: bool,
        settings: api::SchedulerSettings,
    ) -> Result<(api::Scheduler, bool)> {
        let request_id = self.request_id();
        let request = api::GetSchedulerRequest {
            settings: Some(settings),
            request_id: request_id.clone(),
            name: name.to_owned(),
            reuse,
        };
        // One to reuse is to be found by others, and under an id of the caller's the caller may ask
        // for it again.
        let is_own = !reuse && self.request_id.is_none();
        let mut unanswered = Unanswered {
            client: self.clone(),
            request: is_own.then(|| request.clone()),
        };
        let opened = self.scheduler_call("GetScheduler", request).await;
        unanswered.request = None;
        let response: api::GetSchedulerResponse =
            opened.map_err(|error| error.under(request_id))?;
        Ok((response.scheduler.unwrap_or_default(), response.reused))
    }

    /// The scheduler that is open under this name, else the one opened last under it.
    pub async fn find(&self, name: &str) -> Result<Option<Scheduler>> {
        if name.is_empty() {
            return Ok(None);
        }
        let open = vec![api::SchedulerState::Open.into()];
        match self.newest(name, open).await? {
            // After a takeover, by a clock that is a moment behind, it can have a lower handle than
            // one released before.
            Some(open) => Ok(Some(open)),
            None => self.newest(name, Vec::new()).await,
        }
    }

    /// The scheduler with the highest handle of this name, in one of these states.
    async fn newest(&self, name: &str, states: Vec<i32>) -> Result<Option<Scheduler>> {
        let filter = api::SchedulerFilter {
            name: name.to_owned(),
            states,
            ..Default::default()
        };
        let mut request = api::ListSchedulersRequest {
            page_size: 1,
            filter: Some(filter),
            ..Default::default()
        };
        loop {
            let page = match self.schedulers(request.clone()).await {
                // No scheduler has what cannot be a name.
                Err(error) if error.is("NAME_INVALID") || error.is("NAME_TOO_LONG") => {
                    return Ok(None);
                }
                page => page?,
            };
            if let Some(found) = page.schedulers.into_iter().next() {
                return Ok(Some(self.scheduler(found.handle)));
            }
            if page.next_page_token.is_empty() {
                return Ok(None);
            }
            request.page_token = page.next_page_token;
        }
    }
}

/// A call that opens a scheduler. Dropped before it is answered, it may have opened one that nobody
/// knows of: the same call tells it, or opens it, and it is released.
struct Unanswered {
    client: Client,
    /// `None`: it is answered, or what it opens is not to be released.
    request: Option<api::GetSchedulerRequest>,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(request) = self.request.take()
            && let Ok(runtime) = Handle::try_current()
        {
            let client = self.client.clone();
            // Whatever becomes of it: the scheduler is released when it has been idle, too.
            runtime.spawn(async move {
                let answer = heard(&client, request).await?;
                let opened = answer.scheduler.unwrap_or_default();
                let scheduler = client.scheduler(opened.handle);
                let released = scheduler.release(api::ReleaseMode::Finish, false).await;
                released.map(drop)
            });
        }
    }
}

/// The answer that nobody waited for. Where there is no room for a scheduler the call has opened
/// none, and stands in nobody's line for a place.
async fn heard(
    client: &Client,
    request: api::GetSchedulerRequest,
) -> Result<api::GetSchedulerResponse> {
    let once = client.clone().with_retry_timeout(Duration::ZERO);
    let mut backoff = Backoff::new(client.retry_timeout());
    loop {
        match once.scheduler_call("GetScheduler", request.clone()).await {
            Err(error) if !error.is("TOO_MANY_SCHEDULERS") => backoff.wait(error).await?,
            answered => return answered,
        }
    }
}
