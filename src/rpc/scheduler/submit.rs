//! ExecAsync: tasks are submitted, all of a call or none.

use super::{Schedulers, validate};
use crate::{
    core::{Caller, Reply, Verb},
    rpc::errors,
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
        let targets = self.targets.of(&caller.namespace);
        let (handle, submit) = validate::exec_async(&request, &targets)?;
        // Unless it may have to be forwarded later, the request is gone before the call waits.
        drop(request);
        match self.ask(caller, handle, Verb::Submit(submit)).await? {
            Reply::Submitted {
                first_seq,
                count,
                done_no,
                ..
            } => Ok(api::ExecAsyncResponse {
                first_seq: first_seq.0,
                count: count as i32,
                done_no: done_no.0,
            }),
            other => Err(errors::mismatched_reply(&other)),
        }
    }
}
