//! Options of `serve` about traces. They follow the names that OpenTelemetry gives to variables of
//! the environment, so that a server is set up as the programs around it.

use crate::{cli::error::CliError, server::TraceConfig};
use clap::Args;
use std::path::PathBuf;

/// What is traced, and where that is sent.
#[derive(Args, Debug)]
#[command(next_help_heading = "Traces")]
pub(super) struct Traces {
    /// Collector that takes traces (OTLP over gRPC), as http://HOST:PORT or https://HOST:PORT
    /// [default: none, and nothing is traced]
    #[arg(
        long,
        env = "OTEL_EXPORTER_OTLP_ENDPOINT",
        hide_env_values = true,
        value_name = "URL"
    )]
    otlp_endpoint: Option<String>,
    /// Authorities of the collector's certificate (PEM) [default: the public ones]
    #[arg(
        long,
        env = "OTEL_EXPORTER_OTLP_CERTIFICATE",
        hide_env_values = true,
        value_name = "FILE"
    )]
    otlp_ca: Option<PathBuf>,
    /// Share of the calls without a traceparent that begin a trace of their own, from 0 to 1; a
    /// caller that sends one says itself whether it is traced
    #[arg(
        long,
        env = "RALLYPOINT_TRACE_RATIO",
        hide_env_values = true,
        default_value_t = 0.01,
        value_parser = share,
        value_name = "SHARE"
    )]
    trace_ratio: f64,
}

impl Traces {
    /// Where traces are sent, if they are.
    pub(super) fn config(self) -> Result<Option<TraceConfig>, CliError> {
        let endpoint = self.otlp_endpoint.unwrap_or_default();
        if endpoint.is_empty() {
            return Ok(None);
        }
        if !["http://", "https://"]
            .iter()
            .any(|scheme| endpoint.starts_with(scheme))
        {
            let what = "--otlp-endpoint is no address of a collector";
            return Err(CliError::usage(what)
                .why("it begins neither with http:// nor with https://")
                .next("write http:// before it, as in http://collector:4317"));
        }
        Ok(Some(TraceConfig {
            endpoint,
            ca: self.otlp_ca,
            share: self.trace_ratio,
        }))
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text
        .parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "write a number from 0 to 1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_scheme_is_answered_by_one() {
        let traces = Traces {
            otlp_endpoint: Some("collector:4317".to_owned()),
            otlp_ca: None,
            trace_ratio: 1.0,
        };
        let error = traces.config().map(drop).expect_err("refused");
        let next = error.next_step().expect("a next step");
        assert!(next.starts_with("write http:// before it"), "{next}");
    }
}
