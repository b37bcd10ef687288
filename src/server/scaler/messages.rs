//! The messages of `externalscaler.ExternalScaler`, with the numbers of their fields as KEDA
//! documents them. Types only.

use prost::Message;
use std::collections::HashMap;

/// Which object is to be scaled.
#[derive(Clone, Message)]
pub(super) struct ScaledObjectRef {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub namespace: String,
    /// What stands in its trigger.
    #[prost(map = "string, string", tag = "3")]
    pub scaler_metadata: HashMap<String, String>,
}

/// Whether there is work at all.
#[derive(Clone, Message)]
pub(super) struct IsActiveResponse {
    #[prost(bool, tag = "1")]
    pub result: bool,
}

#[derive(Clone, Message)]
pub(super) struct GetMetricSpecResponse {
    #[prost(message, repeated, tag = "1")]
    pub metric_specs: Vec<MetricSpec>,
}

/// A metric, and how much of it one replica takes.
#[derive(Clone, Message)]
pub(super) struct MetricSpec {
    #[prost(string, tag = "1")]
    pub metric_name: String,
    /// For versions that do not know the next one.
    #[prost(int64, tag = "2")]
    pub target_size: i64,
    #[prost(double, tag = "3")]
    pub target_size_float: f64,
}

#[derive(Clone, Message)]
pub(super) struct GetMetricsRequest {
    #[prost(message, optional, tag = "1")]
    pub scaled_object_ref: Option<ScaledObjectRef>,
    #[prost(string, tag = "2")]
    pub metric_name: String,
}

#[derive(Clone, Message)]
pub(super) struct GetMetricsResponse {
    #[prost(message, repeated, tag = "1")]
    pub metric_values: Vec<MetricValue>,
}

#[derive(Clone, Message)]
pub(super) struct MetricValue {
    #[prost(string, tag = "1")]
    pub metric_name: String,
    /// For versions that do not know the next one.
    #[prost(int64, tag = "2")]
    pub metric_value: i64,
    #[prost(double, tag = "3")]
    pub metric_value_float: f64,
}
