//! No-op tasks end to end over gRPC, durable, one task a call, against bare unary gRPC calls in the same run.

use super::{
    bare, load,
    place::Place,
    report::{Report, median},
};
use anyhow::Result;

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
        bare_rates.push(bare::rate(total, CALLERS).await?);
    }
    let (figure, yardstick) = (median(&rates), median(&bare_rates));
    Ok(Report {
        name: "unary",
        figure,
        unit: "calls/s",
        runs: rates,
        yardstick: ("the same calls answered at once by a process that does nothing with them", yardstick),
        ratio: figure / yardstick,
        also: Vec::new(),
        ran: format!("{total} calls with one no-op task of 200 bytes each, {CALLERS} callers, one scheduler, durable"),
    })
}
