//! No-op tasks end to end over gRPC, durable, one task a call, against bare unary gRPC calls in the same run.

use super::{
    load,
    place::Place,
    report::{Report, median},
};
use anyhow::Result;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

const CALLERS: u64 = 64;

pub async fn run(total: u64, runs: usize) -> Result<Report> {
    let place = Place::new().await?;
    let (mut rates, mut bare_rates) = (Vec::new(), Vec::new());
    let database = place.database("bench").await?;
    let server = place.server(&database).await?;
    load::drive(&server.address, total / 20, 1, CALLERS).await?;
    for _ in 0..runs {
        let took = load::drive(&server.address, total, 1, CALLERS).await?;
        rates.push(total as f64 / took.as_secs_f64());
        bare_rates.push(bare(&server.address, total).await?);
    }
    let (figure, yardstick) = (median(&rates), median(&bare_rates));
    Ok(Report {
        name: "unary",
        figure,
        unit: "calls/s",
        runs: rates,
        yardstick: ("bare unary gRPC calls (health checks) by as many callers", yardstick),
        ratio: figure / yardstick,
        also: Vec::new(),
        ran: format!("{total} calls with one no-op task of 200 bytes each, {CALLERS} callers, one scheduler, durable"),
    })
}

/// Bare unary calls per second.
async fn bare(address: &str, total: u64) -> Result<f64> {
    let channel = channel(address).await?;
    let next = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (mut client, next) = (HealthClient::new(channel.clone()), next.clone());
        callers.spawn(async move {
            while next.fetch_add(1, Ordering::Relaxed) < total {
                client.check(HealthCheckRequest { service: String::new() }).await?;
            }
            Ok::<_, tonic::Status>(())
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    Ok(total as f64 / start.elapsed().as_secs_f64())
}

/// A connection like the client's.
pub async fn channel(address: &str) -> Result<Channel> {
    Ok(Endpoint::from_shared(address.to_owned())?.tcp_nodelay(true).connect().await?)
}
