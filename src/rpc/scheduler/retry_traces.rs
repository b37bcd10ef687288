//! Copies of traced tasks are traced, too: each retry begins a trace of its own, and its tasks name
//! those they repeat. A trace that went on with them would never be complete.

use super::Schedulers;
use crate::{
    core::{Caller, Handle, Seq, SpanContext, Submit, Trace},
    rpc::traceparent,
    traces::{BegunCall, CalledMethod},
};
use std::{collections::HashMap, sync::Arc};

/// The traces that one call begins.
#[derive(Default)]
pub(super) struct RetryTraces(HashMap<SpanContext, (BegunCall, Trace)>);

impl Schedulers {
    /// Has the copies of traced tasks shown in traces of their own.
    pub(super) fn trace_retries(&self, method: CalledMethod, submit: &mut Submit) -> RetryTraces {
        let mut begun = RetryTraces::default();
        for run in &mut submit.runs {
            let Some(trace) = &run.spec.trace else {
                continue;
            };
            let of = trace.call;
            let known = begun.0.get(&of);
            let trace = known.map(|(_, trace)| trace.clone()).or_else(|| {
                let traces = self.coordinator.traces();
                let (call, trace) = traces.retry(method, of, traceparent::current())?;
                begun.0.insert(of, (call, trace.clone()));
                Some(trace)
            });
            Arc::make_mut(&mut run.spec).trace = trace.map(Box::new);
        }
        begun
    }

    /// The call that began them has submitted these tasks.
    pub(super) fn retries_traced(
        &self,
        begun: RetryTraces,
        caller: &Caller,
        handle: Handle,
        tasks: (Seq, u32),
    ) {
        for (mut call, _) in begun.0.into_values() {
            call.namespace = Some(caller.namespace.clone());
            (call.handle, call.tasks) = (Some(handle), Some(tasks));
            self.coordinator.traces().answered(call);
        }
    }
}
