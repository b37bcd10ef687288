//! A row of the audit that the database does not take stops no row behind it, and is counted.

use super::scrape::Scrape;
use crate::harness::{
    postgres::{connect, value},
    server::Server,
};
use rallypoint_client::{
    Result,
    api::{CreateResourceRequest, ResourceSettings},
};
use sqlx::Executor;
use std::time::Duration;

const LEFT_OUT: &str = "rallypoint_audit_rows_left_out_total";

async fn create(server: &Server, name: &str) -> Result<()> {
    let request = CreateResourceRequest {
        name: name.into(),
        settings: Some(ResourceSettings {
            capacity: 1,
            ..ResourceSettings::default()
        }),
    };
    let once = server.client.clone().with_retry_timeout(Duration::ZERO);
    once.create_resource(request).await.map(drop)
}

#[tokio::test]
async fn a_row_that_the_database_refuses_is_left_out() {
    let server = Server::start().await;
    let mut psql = connect(&server.journal).await;
    psql.execute("alter table audit add constraint odd check (object not like '%odd%'::bytea)")
        .await
        .expect("a rule of the operator's own");
    assert_eq!(Scrape::read(server.admin).await.value(LEFT_OUT), 0.0);
    // Two calls may be in one group; each is answered for itself.
    let (odd, even) = tokio::join!(create(&server, "odd"), create(&server, "even"));
    let odd = odd.expect_err("it is not on record");
    assert!(odd.is("TEMPORARILY_UNAVAILABLE"), "{odd:?}");
    even.expect("its row is durable");
    create(&server, "last")
        .await
        .expect("nor is the queue stopped");
    assert_eq!(Scrape::read(server.admin).await.value(LEFT_OUT), 1.0);
    let rows = "select string_agg(object, ',' order by object) || ' ' || sum(left_out)
                from rallypoint_log.audit";
    assert_eq!(
        value(&mut psql, rows).await,
        "resource even,resource last 1"
    );
}
