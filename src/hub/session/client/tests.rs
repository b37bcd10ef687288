//! Sessions that the owner of the shard refuses.

use super::*;
use crate::{
    executor::{CANCEL_GRACE, ExecutorConfig},
    journal::{Member, Replica},
};
use futures_util::stream;
use rallypoint_client::api::peer::executor_service_server::{
    ExecutorService, ExecutorServiceServer,
};
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tonic::{
    Request, Response,
    transport::{Server, server::TcpIncoming},
};

const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// An owner that admits nobody yet; says from where it was asked.
struct Busy(mpsc::Sender<Option<SocketAddr>>);

#[tonic::async_trait]
impl ExecutorService for Busy {
    type SessionStream = stream::Empty<Result<ToExecutor, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<FromExecutor>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let from = request.remote_addr();
        request.into_inner().message().await?;
        let _ = self.0.try_send(from);
        Err(Status::unavailable("not yet"))
    }
}

/// What a replica knows when one at this address owns the shard.
fn owned_at(address: &str) -> Membership {
    let owner = Member {
        id: Uuid::nil(),
        name: "owner".into(),
        address: Some(address.into()),
        stopping: false,
    };
    Membership {
        epoch: Epoch(1),
        owner: Some(owner.id),
        members: vec![owner],
    }
}

/// An executor without targets.
fn remote(membership: watch::Receiver<Membership>) -> Remote {
    let (me, name, clock) = (Uuid::max(), Arc::<str>::from("me"), Clock::new());
    let executor = Executor::start(ExecutorConfig {
        targets: Vec::new(),
        replica: name.clone(),
        clock: clock.clone(),
        sessions: None,
        cancel_grace: CANCEL_GRACE,
    });
    let replica = Replica {
        id: me,
        name: name.clone(),
        address: None,
    };
    Remote {
        executor,
        clock,
        sessions: Sessions::without_database(replica),
        membership,
        gone_owners: mpsc::channel(1).0,
        me,
        name,
        peers: Peers::new(None),
    }
}

#[tokio::test]
async fn an_owner_that_admits_nobody_yet_is_asked_again_on_the_same_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (say, mut asked) = mpsc::channel(3);
    let owner = Server::builder().add_service(ExecutorServiceServer::new(Busy(say)));
    tokio::spawn(owner.serve_with_incoming(TcpIncoming::from(listener)));
    let (_known, membership) = watch::channel(owned_at(&address));
    tokio::spawn(remote(membership).keep());
    let mut from = Vec::new();
    for _ in 0..3 {
        let next = time::timeout(WAIT_TIMEOUT, asked.recv()).await;
        from.push(next.expect("asked in time").expect("an owner"));
    }
    assert!(from[0].is_some());
    assert!(from.iter().all(|one| *one == from[0]), "{from:?}");
}
