//! Submits three statements in two orders and prints each event: the two tasks of order 100 run in
//! parallel, the task of order 200 once both have ended. Run `rallypoint serve`, then this example
//! with the server's address as an optional argument.

use rallypoint_client::{Client, Result, api};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let address = std::env::args().nth(1);
    let address = address.as_deref().unwrap_or("http://127.0.0.1:50051");
    let client = Client::connect(address).await?.with_caller("orders")?;
    let scheduler = client.open(api::SchedulerSettings::default()).await?;
    let tasks = vec![
        task(100, "select pg_sleep(0.2)"),
        task(100, "select pg_sleep(0.1)"),
        task(200, "select 1"),
    ];
    scheduler.exec(tasks).await?;
    let mut events = scheduler.synchronize(0, None).await?;
    while let Some(done) = events.next().await? {
        for event in done {
            println!("task {} ended {:?}", event.seq, event.outcome());
        }
    }
    scheduler.release(api::ReleaseMode::Finish, true).await?;
    Ok(())
}

fn task(order: i64, statement: &str) -> api::Task {
    let sql = api::SqlTask {
        statement: statement.into(),
        ..Default::default()
    };
    api::Task {
        kind: Some(api::task::Kind::Sql(sql)),
        order: Some(order),
        options: None,
    }
}
