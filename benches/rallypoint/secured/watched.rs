//! A server with TLS that knows its callers by tokens, sends traces, and is scraped: everything
//! that an operator turns on.

use super::START_TIMEOUT;
use crate::environment::{Environment, Server};
use anyhow::{Context, Result};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
    trace_service_server::{TraceService, TraceServiceServer},
};
use rallypoint_client::{Client, Tls};
use rcgen::{CertificateParams, KeyPair};
use sha2::{Digest, Sha256};
use std::{
    fs,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::interval,
};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

const TOKEN: &str = "bench-token-of-no-use-elsewhere";
/// The usual one.
const TRACED: &str = "0.01";

pub(super) struct Watched {
    server: Server,
    files: TempDir,
    counts: Counts,
}

/// What came of traces and metrics.
pub(super) struct Seen {
    pub(super) spans: f64,
    pub(super) scrapes: f64,
}

#[derive(Clone, Default)]
struct Counts {
    spans: Arc<AtomicU64>,
    scrapes: Arc<AtomicU64>,
}

#[tonic::async_trait]
impl TraceService for Counts {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let spans = request.get_ref().resource_spans.iter();
        let spans = spans.flat_map(|one| &one.scope_spans);
        let spans: usize = spans.map(|scope| scope.spans.len()).sum();
        self.spans.fetch_add(spans as u64, Ordering::Relaxed);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Watched {
    pub(super) async fn start(environment: &Environment, database: &str) -> Result<Watched> {
        let (files, counts) = (tempfile::tempdir()?, Counts::default());
        write_files(&files)?;
        let collector = TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = format!("http://{}", collector.local_addr()?);
        let service = TraceServiceServer::new(counts.clone());
        let serving = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(serving.serve_with_incoming(TcpListenerStream::new(collector)));
        // Bound and let go: nobody else takes a port that was free a moment ago, as a rule.
        let admin = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
        let path = |name: &str| files.path().join(name).display().to_string();
        let (cert, key, config) = (path("tls.crt"), path("tls.key"), path("rallypoint.toml"));
        let options = [
            ["--listen-cert", &cert],
            ["--listen-key", &key],
            ["--config", &config],
            ["--admin-listen", &admin.to_string()],
            ["--otlp-endpoint", &endpoint],
            ["--trace-ratio", TRACED],
        ];
        let server = environment
            .secured_server(database, options.as_flattened())
            .await?;
        tokio::spawn(scrape(admin, counts.clone()));
        Ok(Watched {
            server,
            files,
            counts,
        })
    }

    /// A caller by TLS and token.
    pub(super) async fn client(&self) -> Result<Client> {
        let tls = Tls::new().with_ca(self.files.path().join("tls.crt"));
        let client = Client::connect_by(&tls, &self.server.address, START_TIMEOUT).await?;
        let client = client.with_token(&TOKEN.to_owned().into())?;
        let ready = client.clone().with_retry_timeout(START_TIMEOUT);
        ready.status().await?;
        Ok(client)
    }

    /// What has come so far. Fails when nothing has: then something was measured without them.
    pub(super) async fn seen(&self) -> Result<Seen> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let (spans, scrapes) = (count(&self.counts.spans), count(&self.counts.scrapes));
        anyhow::ensure!(scrapes > 0.0, "nothing was scraped");
        Ok(Seen { spans, scrapes })
    }
}

/// A certificate, its key, and who has the token.
fn write_files(files: &TempDir) -> Result<()> {
    let file = |name: &str| files.path().join(name);
    let key = KeyPair::generate()?;
    let names = ["127.0.0.1".to_owned()];
    let cert = CertificateParams::new(names)?.self_signed(&key)?;
    fs::write(file("tls.crt"), cert.pem())?;
    fs::write(file("tls.key"), key.serialize_pem())?;
    let hash = Sha256::digest(TOKEN);
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(file("tokens.toml"), format!("bench = \"sha256:{hash}\"\n"))?;
    let rules = "[identity]\ntoken_file = \"tokens.toml\"\n[[access]]\nidentities = [\"token:bench\"]\n\
         namespaces = [\"*\"]\nrole = \"admin\"\n";
    fs::write(file("rallypoint.toml"), rules).context("cannot write the configuration")
}

/// Reads the metrics every second, as a collector does.
async fn scrape(admin: SocketAddr, counts: Counts) {
    let mut ticks = interval(Duration::from_secs(1));
    loop {
        ticks.tick().await;
        if read(admin).await.is_ok_and(|text| text.contains("# EOF")) {
            counts.scrapes.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn read(admin: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(admin).await?;
    let request = "GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}
