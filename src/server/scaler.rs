//! Tells an autoscaler how many executors there should be: the interface by which KEDA asks
//! external scalers, on the port for operators.
//!
//! The figure is how many executors the tasks need that run or would start at once. What an order,
//! a time, a pause, a limit or a resource holds back needs none, however much of it waits: more
//! executors would be idle. While the owner of the shard does not answer there is no figure, and
//! the number of executors stays as it is.

mod messages;

use crate::{executor::Executor, rpc::Slots};
use axum::{Router, body::Body, extract::State, http::Request, routing::post};
use futures_util::{Stream, stream};
use messages::{
    GetMetricSpecResponse, GetMetricsRequest, GetMetricsResponse, IsActiveResponse, MetricSpec,
    MetricValue, ScaledObjectRef,
};
use rallypoint_client::api::{SlotStatus, slot_kind::Kind};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};
use tonic::{Response, Status, server::Grpc};
use tonic_prost::ProstCodec;
use tower::service_fn;

/// The only metric: executors. Each executor counts for one.
const METRIC: &str = "executors";
/// Which targets count, as names with spaces or commas between them; absent: all.
const TARGETS: &str = "targets";
/// How often a stream looks again.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How old a figure may be.
const MAX_AGE: Duration = Duration::from_secs(1);
const MAX_REQUEST_BYTES: usize = 64 << 10;

/// Where the figure comes from.
#[derive(Clone)]
pub(super) struct Scaler {
    pub slots: Slots,
    /// Its targets and their slots are those of every executor: all have the same configuration.
    pub executor: Executor,
    /// What was read last, and when: however many ask, the owner is asked once a second.
    pub latest: Arc<Mutex<Option<(Instant, Option<Vec<SlotStatus>>)>>>,
}

impl std::fmt::Debug for Scaler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scaler")
    }
}

impl Scaler {
    async fn read(&self) -> Option<Vec<SlotStatus>> {
        let mut latest = self.latest.lock().await;
        if let Some((at, slots)) = &*latest
            && at.elapsed() < MAX_AGE
        {
            return slots.clone();
        }
        let slots = self.slots.read().await;
        *latest = Some((Instant::now(), slots.clone()));
        slots
    }

    /// How many executors the work needs, of the target that needs most.
    async fn executors(&self, asked: &ScaledObjectRef) -> Result<f64, Status> {
        let own = self.executor.targets().into_iter();
        let own: BTreeMap<Arc<str>, u32> = own.map(|one| (one.name, one.slots)).collect();
        let counted = counted(asked, &own)?;
        let slots = self.read().await.ok_or_else(no_figure)?;
        let mut most = 0.0;
        for slots in &slots {
            let Some(Kind::SqlTarget(target)) =
                slots.kind.as_ref().and_then(|one| one.kind.as_ref())
            else {
                continue;
            };
            if let Some(of_executor) = own.get(&**target).filter(|_| counted.contains(&**target)) {
                most = f64::max(most, needed(slots)? as f64 / f64::from(*of_executor));
            }
        }
        Ok(most)
    }
}

/// How many slots the work of a target needs. An owner of an older version does not say: without a
/// figure the number of executors stays as it is, which 0 would not do.
fn needed(slots: &SlotStatus) -> Result<i64, Status> {
    let startable = slots.startable.ok_or_else(|| {
        Status::unavailable(
            "the owner of the shard has an older version, which does not count what would start: \
             there is no figure until a replica of this version owns it",
        )
    })?;
    Ok(i64::from(slots.busy) + startable)
}

/// The targets that a scaled object asks for.
fn counted(
    asked: &ScaledObjectRef,
    known: &BTreeMap<Arc<str>, u32>,
) -> Result<BTreeSet<String>, Status> {
    let Some(names) = asked.scaler_metadata.get(TARGETS) else {
        return Ok(known.keys().map(|name| name.to_string()).collect());
    };
    let names = names.split([' ', ',']).filter(|name| !name.is_empty());
    let names: BTreeSet<String> = names.map(str::to_owned).collect();
    let unknown = names.iter().find(|name| !known.contains_key(name.as_str()));
    match (unknown, names.is_empty()) {
        (Some(name), _) => Err(Status::invalid_argument(format!(
            "metadata.{TARGETS}: the service has no target {name:?}: name some of those that it has"
        ))),
        (None, true) => Err(Status::invalid_argument(format!(
            "metadata.{TARGETS} names no target: name some, or leave it out to count all"
        ))),
        (None, false) => Ok(names),
    }
}

fn no_figure() -> Status {
    Status::unavailable("the owner of the shard does not answer: there is no figure now")
}

/// Where the figure comes from, once the database has been reached.
pub(super) type Source = Arc<OnceLock<Scaler>>;

/// What an autoscaler calls.
pub(super) fn routes(scaler: Source) -> Router {
    let path = |method: &str| format!("/externalscaler.ExternalScaler/{method}");
    Router::new()
        .route(&path("IsActive"), post(is_active))
        .route(&path("StreamIsActive"), post(stream_is_active))
        .route(&path("GetMetricSpec"), post(get_metric_spec))
        .route(&path("GetMetrics"), post(get_metrics))
        .with_state(scaler)
}

type GrpcResponse = axum::http::Response<tonic::body::Body>;

fn grpc<Q, A>() -> Grpc<ProstCodec<A, Q>>
where
    Q: prost::Message + Default + 'static,
    A: prost::Message + Default + 'static,
{
    let codec = ProstCodec::<A, Q>::default();
    Grpc::new(codec).apply_max_message_size_config(Some(MAX_REQUEST_BYTES), None)
}

async fn is_active(State(source): State<Source>, request: Request<Body>) -> GrpcResponse {
    let answer = |asked: tonic::Request<ScaledObjectRef>| {
        let scaler = source.get().cloned();
        async move {
            let scaler = scaler.ok_or_else(no_figure)?;
            let result = scaler.executors(asked.get_ref()).await? > 0.0;
            Ok(Response::new(IsActiveResponse { result }))
        }
    };
    grpc().unary(service_fn(answer), request).await
}

async fn stream_is_active(State(source): State<Source>, request: Request<Body>) -> GrpcResponse {
    let answer = |asked: tonic::Request<ScaledObjectRef>| {
        let scaler = source.get().cloned();
        async move {
            let scaler = scaler.ok_or_else(no_figure)?;
            let first = scaler.executors(asked.get_ref()).await? > 0.0;
            Ok(Response::new(changes(scaler, asked.into_inner(), first)))
        }
    };
    grpc().server_streaming(service_fn(answer), request).await
}

/// Whether there is work: now, and whenever that changes.
fn changes(
    scaler: Scaler,
    asked: ScaledObjectRef,
    first: bool,
) -> impl Stream<Item = Result<IsActiveResponse, Status>> {
    stream::unfold(None, move |last: Option<bool>| {
        let (scaler, asked) = (scaler.clone(), asked.clone());
        async move {
            let Some(last) = last else {
                return Some((Ok(IsActiveResponse { result: first }), Some(first)));
            };
            loop {
                sleep(POLL_INTERVAL).await;
                // Without a figure nothing has changed.
                let now = scaler.executors(&asked).await.map(|count| count > 0.0);
                if now.as_ref().is_ok_and(|now| *now != last) {
                    return Some((Ok(IsActiveResponse { result: !last }), Some(!last)));
                }
            }
        }
    })
}

async fn get_metric_spec(request: Request<Body>) -> GrpcResponse {
    let answer = |_: tonic::Request<ScaledObjectRef>| async {
        let executors = MetricSpec {
            metric_name: METRIC.into(),
            target_size: 1,
            target_size_float: 1.0,
        };
        Ok(Response::new(GetMetricSpecResponse {
            metric_specs: vec![executors],
        }))
    };
    grpc().unary(service_fn(answer), request).await
}

async fn get_metrics(State(source): State<Source>, request: Request<Body>) -> GrpcResponse {
    let answer = |asked: tonic::Request<GetMetricsRequest>| {
        let scaler = source.get().cloned();
        async move {
            let asked = asked.into_inner();
            if asked.metric_name != METRIC {
                let what = format!("metricName: there is no metric but {METRIC:?}");
                return Err(Status::invalid_argument(what));
            }
            let object = asked.scaled_object_ref.unwrap_or_default();
            let scaler = scaler.ok_or_else(no_figure)?;
            let executors = scaler.executors(&object).await?;
            let value = MetricValue {
                metric_name: METRIC.into(),
                metric_value: executors.ceil() as i64,
                metric_value_float: executors,
            };
            Ok(Response::new(GetMetricsResponse {
                metric_values: vec![value],
            }))
        }
    };
    grpc().unary(service_fn(answer), request).await
}

#[test]
fn an_owner_that_does_not_count_what_would_start_leaves_the_number_as_it_is() {
    let mut slots = SlotStatus {
        busy: 3,
        startable: Some(0),
        ..SlotStatus::default()
    };
    assert_eq!(needed(&slots).expect("a figure"), 3);
    slots.startable = None;
    let refused = needed(&slots).expect_err("no figure");
    assert_eq!(refused.code(), tonic::Code::Unavailable);
}
