//! What the admin address says where there is no owner, and that it answers probes whatever others
//! do to it.

use super::scrape::{Scrape, get};
use crate::harness::{
    conversation::WAIT_TIMEOUT,
    in_process::{InProcess, config},
    postgres::{POSTGRES, connect},
    server::Server,
};
use rallypoint::{
    postgres::COORDINATION,
    server::{AdminPort, Config},
};
use rallypoint_client::api::SchedulerSettings;
use sqlx::Executor;
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::{sleep, timeout},
};

#[tokio::test]
async fn probes_answer_also_while_the_database_is_waited_for() {
    let port = AdminPort::bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let admin = port.address().expect("an address");
    let nowhere = "postgres://rallypoint@127.0.0.1:1/rallypoint".to_owned();
    let _waits = InProcess::start(Config {
        admin: Some(port),
        ..config(nowhere, Vec::new())
    });
    assert_eq!(get(admin, "/livez").await, (200, "ok\n".into()));
    assert_eq!(get(admin, "/readyz").await.0, 503);
    assert_eq!(Scrape::read(admin).await.value("rallypoint_ready"), 0.0);
    assert_eq!(get(admin, "/other").await.0, 404);
    let server = Server::start().await;
    assert_eq!(get(server.admin, "/livez").await.0, 200);
    // The server says that it is ready within a tenth of a second.
    ready(server.admin).await;
    assert_eq!(get(server.admin, "/readyz").await, (200, "ok\n".into()));
}

/// Waits until callers are served.
async fn ready(admin: SocketAddr) {
    let ready = async {
        while get(admin, "/readyz").await.0 != 200 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT_TIMEOUT, ready).await.expect("it is ready");
}

/// Scrapes until a sample has this value.
async fn shows(admin: SocketAddr, sample: &str, value: f64) -> Scrape {
    let shown = async {
        loop {
            let scrape = Scrape::read(admin).await;
            if scrape.has(sample) && scrape.value(sample) == value {
                return scrape;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT_TIMEOUT, shown).await.expect(sample)
}

#[tokio::test]
async fn what_only_the_owner_knows_is_absent_elsewhere() {
    const AGENT: &str = "rallypoint_job_agent_started{}";
    const MAINTENANCE: &str = "rallypoint_maintenance_age_seconds{}";
    let server = Server::start().await;
    let owner = shows(server.admin, "rallypoint_owner", 1.0).await;
    assert_eq!(owner.value(AGENT), 1.0);
    assert!(owner.value(MAINTENANCE) > 0.0, "since it became the owner");
    let port = AdminPort::bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let admin = port.address().expect("an address");
    let journal = server.journal.get_database().expect("a database");
    let _standby = InProcess::start(Config {
        admin: Some(port),
        replica_name: "standby".into(),
        ..config(POSTGRES.url_for(journal, COORDINATION), Vec::new())
    });
    let answered = "rallypoint_scrape_complete{part=\"coordinator\"}";
    let standby = shows(admin, answered, 1.0).await;
    standby.shows(&[("rallypoint_owner", 0.0)]);
    assert!(!standby.has(AGENT) && !standby.has(MAINTENANCE));
}

#[tokio::test]
async fn what_the_database_has_lost_is_counted_also_where_another_replica_owns_the_shard() {
    const LOST: &str = "rallypoint_lost_batches_total";
    let server = Server::start().await;
    server.open(SchedulerSettings::default()).await;
    shows(server.admin, LOST, 0.0).await;
    let mut journal = connect(&server.journal).await;
    // A standby that lacked the last batch has given its number, and the next one, to another
    // owner.
    let failed_over = "begin;
        delete from batch where batch_no = (select max(batch_no) from batch);
        update shard set epoch = epoch + 1;
        insert into batch (shard, batch_no, epoch, at)
        select s.shard, last.no + n, s.epoch, now()
        from shard s
        cross join (
            select max(batch_no) as no
            from batch
        ) as last
        cross join generate_series(1, 2) as n;
        update lease
        set owner = 'other', owner_id = gen_random_uuid(), lease_until = now() + interval '1 hour';
        commit";
    journal.execute(failed_over).await.expect("failed over");
    // No claim is granted any more: the next one would find out as well.
    let lock = "begin; select from lease for update";
    journal.execute(lock).await.expect("locked");
    let deposed = shows(server.admin, LOST, 1.0).await;
    deposed.shows(&[("rallypoint_owner", 0.0)]);
}

#[tokio::test]
async fn a_replica_that_stops_says_so_while_its_tasks_have_their_grace() {
    let server = Server::start().await;
    let (admin, mut gate) = (server.admin, server.gate().await);
    let scheduler = server.open(SchedulerSettings::default()).await;
    scheduler.submit([gate.task()]).await;
    gate.reached_by(1).await;
    let serves = shows(admin, "rallypoint_ready", 1.0).await;
    serves.shows(&[("rallypoint_stopping", 0.0)]);
    drop(server);
    let stops = shows(admin, "rallypoint_ready", 0.0).await;
    stops.shows(&[("rallypoint_stopping", 1.0)]);
    gate.open().await;
}

/// A connection from another address of this machine.
async fn connect_from(host: [u8; 4], admin: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind((host, 0).into()).expect("an own address");
    socket.connect(admin).await.expect("it listens")
}

/// Asks on a connection that stays; whether it is answered.
async fn asks(stream: &mut TcpStream) -> bool {
    let request = b"GET /livez HTTP/1.1\r\nHost: admin\r\n\r\n";
    let (mut seen, mut buffer) = (Vec::new(), [0; 1_024]);
    if stream.write_all(request).await.is_err() {
        return false;
    }
    while !seen.ends_with(b"ok\n") {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return false,
            Ok(bytes) => seen.extend(&buffer[..bytes]),
        }
    }
    true
}

#[tokio::test]
async fn probes_get_through_whatever_one_address_holds_open() {
    let server = Server::start().await;
    let mut greedy = Vec::new();
    for _ in 0..100 {
        greedy.push(connect_from([127, 0, 0, 8], server.admin).await);
    }
    // They ask again and again, so that no limit of time closes them.
    let admin = server.admin;
    let greedy = tokio::spawn(async move {
        loop {
            for stream in &mut greedy {
                let _ = timeout(Duration::from_millis(50), asks(stream)).await;
            }
            sleep(Duration::from_millis(100)).await;
        }
    });
    for host in [7, 8, 9] {
        let answered = async {
            let mut another = connect_from([127, 0, 0, host], admin).await;
            asks(&mut another).await
        };
        let answered = timeout(WAIT_TIMEOUT, answered).await;
        assert!(answered.expect("in time"), "from 127.0.0.{host}");
    }
    greedy.abort();
}
