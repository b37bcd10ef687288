//! A resource that is followed. It survives lost connections, server restarts and takeovers: the
//! same call tells the present state.

use crate::{
    Client,
    api::{self, resource_service_client::ResourceServiceClient},
    backoff::StreamBackoff,
    error::{Error, Result},
    outage::Outage,
    servers::Pick,
};
use std::mem;
use tonic::{Status, Streaming};

/// A resource whenever it has changed, until it is deleted.
#[derive(Debug)]
pub struct ResourceStream {
    client: Client,
    name: String,
    stream: Option<(Pick, Streaming<api::WatchResourceResponse>)>,
    has_ended: bool,
    outage: Outage,
    backoff: StreamBackoff,
}

impl ResourceStream {
    pub(crate) async fn open(client: Client, name: String) -> Result<Self> {
        let mut stream = ResourceStream {
            backoff: StreamBackoff::new(client.retry_timeout()),
            client,
            name,
            stream: None,
            has_ended: false,
            outage: Outage::default(),
        };
        stream.connect(None).await?;
        Ok(stream)
    }

    /// The resource as it is, once it has changed; the first time at once. `None`: it was deleted,
    /// as the message before says. An error is final.
    pub async fn next(&mut self) -> Result<Option<api::WatchResourceResponse>> {
        if self.has_ended {
            return Ok(None);
        }
        loop {
            if self.stream.is_none() {
                // Whoever waited for it to be opened again has given that up.
                self.connect(None).await?;
            }
            match self.message().await {
                Ok(message) => {
                    self.backoff.received(false);
                    self.has_ended = message.deleted;
                    return Ok(Some(message));
                }
                Err(error) => self.connect(Some(error)).await?,
            }
        }
    }

    /// Whether it is without a server at present.
    pub fn outage(&self) -> Outage {
        self.outage.clone()
    }

    async fn message(&mut self) -> Result<api::WatchResourceResponse> {
        let Some((pick, stream)) = &mut self.stream else {
            return Err(Status::unavailable("not connected").into());
        };
        let broken = match stream.message().await {
            Ok(Some(message)) => return Ok(message),
            Ok(None) => Status::unavailable("the stream ended without a reason"),
            Err(status) => status,
        };
        Err(self.client.failed(*pick, broken))
    }

    /// Opens the stream, or opens it again after the error `broken`, until the retry timeout, which
    /// begins anew when the stream has come on.
    async fn connect(&mut self, broken: Option<Error>) -> Result<()> {
        self.stream = None;
        let mut broke = broken.is_some();
        if broke {
            self.backoff.broke();
        }
        let mut failed = broken;
        loop {
            if let Some(error) = failed.take() {
                // A server that answers is there, whatever it says.
                if mem::take(&mut broke) || error.transport {
                    self.outage.begin(&error);
                }
                self.backoff.wait(error).await?;
            }
            match self.open_once().await {
                Ok(stream) => {
                    self.stream = Some(stream);
                    self.backoff.opened();
                    self.outage.end();
                    return Ok(());
                }
                Err(error) => failed = Some(error),
            }
        }
    }

    async fn open_once(&self) -> Result<(Pick, Streaming<api::WatchResourceResponse>)> {
        let (pick, channel) = self.client.servers.pick();
        let mut client = ResourceServiceClient::new(channel);
        let name = self.name.clone();
        let request = self.client.request(api::WatchResourceRequest { name });
        let opened = async {
            let opened = client.watch_resource(request).await;
            opened.map_err(|status| -> Error { self.client.failed(pick, status) })
        };
        Ok((pick, self.client.in_time(opened).await?.into_inner()))
    }
}
