//! An autoscaler asks as KEDA does, and is told how many executors the work needs: what runs and
//! what would start, and nothing that more executors could not start.

use crate::harness::{
    conversation::WAIT_TIMEOUT,
    server::{Server, Setup},
    work::noop,
};
use prost::Message;
use rallypoint_client::api::{
    CreateResourceRequest, PauseMode, PauseTargetRequest, ResourceSettings, ResourceUse,
    SchedulerSettings, TaskOptions, pause_target_request::Scope,
};
use std::{collections::HashMap, net::SocketAddr, time::Duration};
use tokio::time::{sleep, timeout};
use tonic::{
    Code, Request, Status, client::Grpc, codegen::http::uri::PathAndQuery, transport::Channel,
};
use tonic_prost::ProstCodec;

// The messages once more, from KEDA's documentation.

#[derive(Clone, Message)]
struct ObjectRef {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    namespace: String,
    #[prost(map = "string, string", tag = "3")]
    metadata: HashMap<String, String>,
}

#[derive(Clone, Message)]
struct MetricsRequest {
    #[prost(message, optional, tag = "1")]
    object: Option<ObjectRef>,
    #[prost(string, tag = "2")]
    metric: String,
}

#[derive(Clone, Message)]
struct Active {
    #[prost(bool, tag = "1")]
    result: bool,
}

/// Both GetMetricSpecResponse and GetMetricsResponse.
#[derive(Clone, Message)]
struct Metrics {
    #[prost(message, repeated, tag = "1")]
    metrics: Vec<Metric>,
}

#[derive(Clone, Message)]
struct Metric {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int64, tag = "2")]
    whole: i64,
    #[prost(double, tag = "3")]
    exact: f64,
}

/// KEDA.
struct Autoscaler(Channel);

impl Autoscaler {
    fn of(admin: SocketAddr) -> Autoscaler {
        let channel = Channel::from_shared(format!("http://{admin}")).expect("a URL");
        Autoscaler(channel.connect_lazy())
    }

    async fn call<Q, A>(&self, method: &str, request: Q) -> Result<A, Status>
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = Grpc::new(self.0.clone());
        grpc.ready().await.expect("connected");
        let path = format!("/externalscaler.ExternalScaler/{method}");
        let path = PathAndQuery::try_from(path).expect("a path");
        let codec = ProstCodec::<Q, A>::default();
        let answered = grpc.unary(Request::new(request), path, codec).await?;
        Ok(answered.into_inner())
    }

    async fn executors_for(&self, metadata: &[(&str, &str)]) -> Result<Metric, Status> {
        let metadata = metadata.iter();
        let metadata = metadata.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let object = ObjectRef {
            name: "rallypoint".into(),
            namespace: "rallypoint".into(),
            metadata: metadata.collect(),
        };
        let request = MetricsRequest {
            object: Some(object),
            metric: "executors".into(),
        };
        let answer: Metrics = self.call("GetMetrics", request).await?;
        Ok(answer.metrics.into_iter().next().expect("a metric"))
    }

    async fn executors(&self) -> f64 {
        self.executors_for(&[]).await.expect("a figure").exact
    }

    async fn is_active(&self) -> bool {
        let active: Active = self
            .call("IsActive", ObjectRef::default())
            .await
            .expect("told");
        active.result
    }

    /// Waits until so many executors are needed.
    async fn until(&self, executors: f64) {
        let mut last = f64::NAN;
        let wait = async {
            while last != executors {
                last = self.executors().await;
                sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = timeout(WAIT_TIMEOUT, wait).await;
        assert!(waited.is_ok(), "{last} instead of {executors}");
    }
}

/// A server with four slots for each target.
async fn serving() -> (Server, Autoscaler) {
    let server = Server::with(Setup {
        slots: 4,
        others: &["reports"],
        ..Setup::default()
    })
    .await;
    let autoscaler = Autoscaler::of(server.admin);
    (server, autoscaler)
}

#[tokio::test]
async fn so_many_executors_are_wanted_as_what_could_run_needs() {
    let (server, autoscaler) = serving().await;
    let spec: Metrics = autoscaler
        .call("GetMetricSpec", ObjectRef::default())
        .await
        .expect("told");
    let Metric { name, whole, exact } = &spec.metrics[0];
    assert_eq!((&name[..], *whole, *exact), ("executors", 1, 1.0));
    assert!(!autoscaler.is_active().await);
    assert_eq!(autoscaler.executors().await, 0.0);

    let gate = server.gate().await;
    let one = server.open(SchedulerSettings::default()).await;
    one.submit(gate.task().times(10)).await;
    // No-op tasks need no executor, nor do those of an order that is to come.
    one.submit([noop(), gate.task().order(1)]).await;
    one.submit(gate.task().order(2).times(50)).await;
    autoscaler.until(11.0 / 4.0).await;
    assert!(autoscaler.is_active().await);
    let shown = autoscaler
        .executors_for(&[("targets", "app reports")])
        .await;
    assert_eq!(shown.expect("a figure").whole, 3);
    let of_another = autoscaler.executors_for(&[("targets", "reports")]).await;
    assert_eq!(of_another.expect("a figure").exact, 0.0);
    gate.open().await;
    one.all_done().await;
    autoscaler.until(0.0).await;
}

#[tokio::test]
async fn what_limits_resources_and_pauses_hold_back_wants_no_executor() {
    let (server, autoscaler) = serving().await;
    let gate = server.gate().await;
    let limited = server
        .open(SchedulerSettings {
            max_parallelism: Some(2),
            ..Default::default()
        })
        .await;
    limited.submit(gate.task().times(100)).await;
    autoscaler.until(2.0 / 4.0).await;
    for name in ["disk", "tape"] {
        let one = CreateResourceRequest {
            name: name.into(),
            settings: Some(ResourceSettings {
                capacity: 1,
                ..Default::default()
            }),
        };
        server.client.create_resource(one).await.expect("created");
    }
    let wants = |name: &'static str| {
        move |options: &mut TaskOptions| {
            options.resources.push(ResourceUse {
                name: name.into(),
                ..Default::default()
            });
        }
    };
    let claiming = server.open(SchedulerSettings::default()).await;
    let claims = gate.task().with(wants("disk"));
    claiming.submit(claims.times(100)).await;
    // One holds it, the others wait for it.
    autoscaler.until(3.0 / 4.0).await;
    let filling = server.open(SchedulerSettings::default()).await;
    filling.submit([gate.task()]).await;
    autoscaler.until(4.0 / 4.0).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let one = server.open(SchedulerSettings::default()).await;
        one.submit([gate.task().with(wants("tape"))]).await;
        waiting.push(one);
    }
    // With another slot one of them would have it.
    autoscaler.until(5.0 / 4.0).await;
    let pause = PauseTargetRequest {
        scope: Some(Scope::Target("app".into())),
        mode: PauseMode::Drain.into(),
        reason: "new disk".into(),
    };
    server.client.pause_target(pause).await.expect("paused");
    let free = server.open(SchedulerSettings::default()).await;
    free.submit(gate.task().times(100)).await;
    autoscaler.until(4.0 / 4.0).await;
    for one in waiting.iter().chain([&limited, &claiming, &filling, &free]) {
        one.cancel_everything().await;
    }
    autoscaler.until(0.0).await;
}

#[tokio::test]
async fn a_scaled_object_that_is_wrong_is_told_so() {
    let (_server, autoscaler) = serving().await;
    for (targets, says) in [("app,nowhere", "nowhere"), (" ", "names no target")] {
        let refused = autoscaler.executors_for(&[("targets", targets)]).await;
        let refused = refused.expect_err("wrong");
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains(says), "{refused}");
    }
    let other = MetricsRequest {
        object: None,
        metric: "queue".into(),
    };
    let refused = autoscaler.call::<_, Metrics>("GetMetrics", other).await;
    assert_eq!(refused.expect_err("no such").code(), Code::InvalidArgument);
    let later = autoscaler
        .call::<_, Metrics>("StreamMetricSpec", ObjectRef::default())
        .await;
    assert_eq!(later.expect_err("none").code(), Code::Unimplemented);
}
