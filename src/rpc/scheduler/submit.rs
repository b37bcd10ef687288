//! ExecAsync: tasks are submitted, all of a call or none.

use super::{Schedulers, validate};
use crate::{
    core::{Caller, Reply, SpanContext, Submit, Trace, Verb},
    rpc::{errors, traceparent},
    traces::{BegunCall, CalledMethod},
};
use rallypoint_client::api;
use std::sync::Arc;
use tonic::Status;

impl Schedulers {
    pub(super) async fn submit(
        &self,
        caller: Caller,
        request: Arc<api::ExecAsyncRequest>,
    ) -> Result<api::ExecAsyncResponse, Status> {
        let traces = self.coordinator.traces();
        let call = traces.call(CalledMethod::ExecAsync, traceparent::current());
        let Some(mut call) = call else {
            return self.submitted(caller, request, None).await;
        };
        call.namespace = Some(caller.namespace.clone());
        let answered = self.submitted(caller, request, Some(&mut call)).await;
        if let Err(refused) = &answered {
            call.error = Some(format!("{:?}", refused.code()));
        }
        traces.answered(call);
        answered
    }

    async fn submitted(
        &self,
        caller: Caller,
        request: Arc<api::ExecAsyncRequest>,
        traced: Option<&mut BegunCall>,
    ) -> Result<api::ExecAsyncResponse, Status> {
        let targets = self.targets.of(&caller.namespace);
        let (handle, mut submit) = validate::exec_async(&request, &targets)?;
        // Unless it may have to be forwarded later, the request is gone before the call waits.
        drop(request);
        if let Some(call) = &traced {
            trace(&mut submit, call.span);
        }
        match self.ask(caller, handle, Verb::Submit(submit)).await? {
            Reply::Submitted {
                first_seq,
                count,
                done_no,
                ..
            } => {
                if let Some(call) = traced {
                    (call.handle, call.tasks) = (Some(handle), Some((first_seq, count)));
                }
                Ok(api::ExecAsyncResponse {
                    first_seq: first_seq.0,
                    count: count as i32,
                    done_no: done_no.0,
                })
            }
            other => Err(errors::mismatched_reply(&other)),
        }
    }
}

/// Has the tasks shown below the span of their call.
fn trace(submit: &mut Arc<Submit>, call: SpanContext) {
    for run in &mut Arc::make_mut(submit).runs {
        let retried = None;
        Arc::make_mut(&mut run.spec).trace = Some(Box::new(Trace { call, retried }));
    }
}
