//! A scheduler with a setting that only the newer of two versions knows. It stays open while they
//! come and go; meanwhile tasks are submitted and other settings are changed through any server.
//!
//! What the newer version knows is declared here as a caller of that version would have it
//! generated: `tests/upgrade/newer.patch` adds it to the program, not to this checkout.

use super::{Load, RETRY_TIMEOUT, conversation::Conversation};
use crate::history::{Answer, Entry};
use rallypoint_client::api::{self, end::Reason, until::Kind};
use std::{sync::Arc, time::Duration};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use tonic::{
    Request, Response, Status, client::Grpc, codegen::http::uri::PathAndQuery, transport::Channel,
};
use tonic_prost::ProstCodec;
use uuid::Uuid;

const OPEN: &str = "/rallypoint.v1.SchedulerService/GetScheduler";
const DESCRIBE: &str = "/rallypoint.v1.SchedulerService/DescribeScheduler";
/// How long its stream is resumed: for longer than any run.
const LISTEN_LIMIT: Duration = Duration::from_secs(24 * 3600);
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// A scheduler that was acknowledged with its color.
pub(crate) struct Colored {
    load: Arc<Load>,
    conversation: Conversation,
    listening: JoinHandle<Option<Reason>>,
    pub color: String,
}

/// `SchedulerSettings` of the newer version, in part.
#[derive(Clone, PartialEq, prost::Message)]
struct NewerSettings {
    #[prost(string, tag = "1000")]
    color: String,
}

/// `GetSchedulerRequest` of the newer version.
#[derive(Clone, PartialEq, prost::Message)]
struct NewerRequest {
    #[prost(message, optional, tag = "1")]
    settings: Option<NewerSettings>,
    #[prost(string, tag = "2")]
    request_id: String,
}

/// `Scheduler` of the newer version, in part.
#[derive(Clone, PartialEq, prost::Message)]
struct NewerScheduler {
    #[prost(string, tag = "1")]
    handle: String,
    #[prost(message, optional, tag = "4")]
    settings: Option<NewerSettings>,
}

/// What both GetScheduler and DescribeScheduler answer.
#[derive(Clone, PartialEq, prost::Message)]
struct NewerResponse {
    #[prost(message, optional, tag = "1")]
    scheduler: Option<NewerScheduler>,
}

impl Colored {
    /// Opens a scheduler at a server of the newer version. `None`: the answer came from an older
    /// owner, which has not taken the color.
    pub(crate) async fn open(load: &Arc<Load>, server: usize, seed: u64) -> Option<Colored> {
        let color = format!("color {seed}");
        let scheduler = open(load, server, &color).await?;
        let handle = scheduler.handle;
        load.history.write(&Entry::Opened {
            handle: handle.clone(),
            limit: None,
            repaired: false,
        });
        let mut conversation = Conversation::new(load.clone(), seed);
        conversation.handle = handle;
        if scheduler.settings?.color != color {
            conversation.release(false).await;
            return None;
        }
        let mut listener = conversation.listener(0, Kind::Forever(()));
        listener.limit = LISTEN_LIMIT;
        Some(Colored {
            load: load.clone(),
            conversation,
            listening: tokio::spawn(listener.listen()),
            color,
        })
    }

    pub(crate) fn handle(&self) -> &str {
        &self.conversation.handle
    }

    /// Changes another setting, first at this server, and submits tasks, some of them long. Says
    /// whether all of it was acknowledged.
    pub(crate) async fn work(&mut self, server: usize) -> bool {
        self.rename(server).await
            && self.conversation.submit().await
            && self.conversation.submit_long().await
    }

    async fn rename(&self, server: usize) -> bool {
        let settings = api::SchedulerSettings {
            display_name: Uuid::now_v7().to_string(),
            ..Default::default()
        };
        let request = api::UpdateSchedulerRequest {
            handle: self.handle().to_owned(),
            settings: Some(settings),
            update_mask: Some(prost_types::FieldMask {
                paths: vec!["display_name".into()],
            }),
        };
        let (begun, mut server) = (Instant::now(), server);
        while begun.elapsed() < RETRY_TIMEOUT {
            let mut client = self.load.client(server);
            match self
                .load
                .once(client.update_scheduler(request.clone()))
                .await
            {
                Answer::Ok(_) => return true,
                Answer::Refused(_) => return false,
                Answer::Unknown(_) => server += 1,
            }
            sleep(RETRY_INTERVAL).await;
        }
        false
    }

    /// Its color as this server tells it.
    pub(crate) async fn color_at(&self, server: usize) -> Option<String> {
        let request = api::DescribeSchedulerRequest {
            handle: self.handle().to_owned(),
            ..Default::default()
        };
        let described = call(self.load.channels[server].clone(), DESCRIBE, request);
        let scheduler = self.load.once(described).await.ok()?.scheduler?;
        Some(scheduler.settings.unwrap_or_default().color)
    }

    /// Releases it and waits for the end of its stream.
    pub(crate) async fn release(mut self) {
        self.conversation.release(false).await;
        let _ = self.listening.await;
    }
}

async fn open(load: &Load, server: usize, color: &str) -> Option<NewerScheduler> {
    let begun = Instant::now();
    let request = NewerRequest {
        settings: Some(NewerSettings {
            color: color.to_owned(),
        }),
        request_id: Uuid::now_v7().to_string(),
    };
    while begun.elapsed() < RETRY_TIMEOUT {
        let opened = call(load.channels[server].clone(), OPEN, request.clone());
        match load.once(opened).await {
            Answer::Ok(answer) => return answer.scheduler,
            Answer::Refused(_) => return None,
            Answer::Unknown(_) => {}
        }
        sleep(RETRY_INTERVAL).await;
    }
    None
}

async fn call<Q>(
    channel: Channel,
    path: &'static str,
    request: Q,
) -> Result<Response<NewerResponse>, Status>
where
    Q: prost::Message + 'static,
{
    let mut grpc = Grpc::new(channel);
    let ready = grpc.ready().await;
    ready.map_err(|error| Status::unavailable(error.to_string()))?;
    let codec = ProstCodec::<Q, NewerResponse>::default();
    let path = PathAndQuery::from_static(path);
    grpc.unary(Request::new(request), path, codec).await
}
