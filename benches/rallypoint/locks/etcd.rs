//! etcd, for comparison: a server of its own in a temporary folder, and of its API (package
//! `etcdserverpb` and `v3lockpb` of etcd 3, Apache 2.0) the few messages that its lock needs, with
//! the numbers of their fields.

use anyhow::{Context, Result};
use std::{net::TcpListener, process::Stdio, time::Duration};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tonic::{
    Request,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

/// So long that nobody has to renew it while the bench runs.
const LEASE_SECONDS: i64 = 3_600;

#[derive(Clone, PartialEq, prost::Message)]
struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    ttl: i64,
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LockRequest {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(int64, tag = "2")]
    lease: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LockResponse {
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct UnlockRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct UnlockResponse {}

/// A server, killed when dropped.
pub(super) struct Etcd {
    _process: Child,
    _folder: TempDir,
    pub address: String,
}

impl Etcd {
    /// Starts the `etcd` of the path; `None`: there is none.
    pub(super) async fn start() -> Result<Option<Etcd>> {
        let folder = tempfile::tempdir()?;
        let [client, peer] = [free_port()?, free_port()?];
        let [address, peer] = [client, peer].map(|port| format!("http://127.0.0.1:{port}"));
        let process = Command::new("etcd")
            .arg("--data-dir")
            .arg(folder.path())
            .args(["--listen-client-urls", &address])
            .args(["--advertise-client-urls", &address])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        let Ok(process) = process else {
            return Ok(None);
        };
        let etcd = Etcd {
            _process: process,
            _folder: folder,
            address,
        };
        for _ in 0..100 {
            if EtcdLocks::open(&etcd.channel()?).await.is_ok() {
                return Ok(Some(etcd));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::bail!("etcd does not answer")
    }

    /// Connects when it is used.
    pub(super) fn channel(&self) -> Result<Channel> {
        Ok(Endpoint::new(self.address.clone())?.connect_lazy())
    }
}

/// A caller with a lease of its own.
pub(super) struct EtcdLocks {
    grpc: Grpc<Channel>,
    lease: i64,
}

impl EtcdLocks {
    pub(super) async fn open(channel: &Channel) -> Result<Self> {
        let mut locks = EtcdLocks {
            grpc: Grpc::new(channel.clone()),
            lease: 0,
        };
        let request = LeaseGrantRequest {
            ttl: LEASE_SECONDS,
            id: 0,
        };
        let lease: LeaseGrantResponse = locks
            .call("/etcdserverpb.Lease/LeaseGrant", request)
            .await?;
        locks.lease = lease.id;
        Ok(locks)
    }

    /// Waits for the lock; returns what gives it back.
    pub(super) async fn lock(&mut self, name: &str) -> Result<Vec<u8>> {
        let request = LockRequest {
            name: name.as_bytes().to_vec(),
            lease: self.lease,
        };
        let locked: LockResponse = self.call("/v3lockpb.Lock/Lock", request).await?;
        Ok(locked.key)
    }

    pub(super) async fn unlock(&mut self, key: Vec<u8>) -> Result<()> {
        let _: UnlockResponse = self
            .call("/v3lockpb.Lock/Unlock", UnlockRequest { key })
            .await?;
        Ok(())
    }

    async fn call<Q, R>(&mut self, path: &'static str, request: Q) -> Result<R>
    where
        Q: prost::Message + Send + Sync + 'static,
        R: prost::Message + Default + Send + Sync + 'static,
    {
        self.grpc.ready().await.context("etcd is not there")?;
        let path = PathAndQuery::from_static(path);
        let codec = ProstCodec::<Q, R>::default();
        Ok(self
            .grpc
            .unary(Request::new(request), path, codec)
            .await?
            .into_inner())
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
