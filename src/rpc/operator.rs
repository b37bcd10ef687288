//! OperatorService: what an operator may decide in place of the service. Any replica takes a call,
//! because the word goes into the journal, where whoever waits finds it.

use super::{
    auth::Auth,
    errors::{
        self,
        reason::Reason,
        violations::{Path, Violations},
    },
};
use crate::journal::Reader;
use rallypoint_client::api::{self, operator_service_server::OperatorService};
use tonic::{Request, Response, Status};

/// Longest text of an operator.
const MAX_TEXT_BYTES: usize = 1_000;

#[derive(Clone)]
pub(super) struct Operators {
    pub auth: Auth,
    pub reader: Reader,
}

#[tonic::async_trait]
impl OperatorService for Operators {
    async fn declare_dead(
        &self,
        request: Request<api::DeclareDeadRequest>,
    ) -> Result<Response<api::DeclareDeadResponse>, Status> {
        let caller = self.auth.caller(&request)?;
        let api::DeclareDeadRequest {
            target,
            replica,
            reason,
        } = request.into_inner();
        let mut violations = Violations::default();
        check(&mut violations, "target", &target, 1);
        check(&mut violations, "replica", &replica, 0);
        check(&mut violations, "reason", &reason, 1);
        violations.into_result(())?;
        let declared = self
            .reader
            .declare_dead(&target, &replica, &caller.name, &reason);
        let sessions = declared.await.map_err(errors::journal)?;
        tracing::warn!(
            target,
            replica,
            reason,
            caller = %caller.name,
            sessions,
            "an operator declares sessions dead"
        );
        Ok(Response::new(api::DeclareDeadResponse {
            sessions: sessions as i64,
        }))
    }
}

fn check(violations: &mut Violations, field: &'static str, text: &str, least: usize) {
    if !(least..=MAX_TEXT_BYTES).contains(&text.len()) || text.contains('\0') {
        let message = format!("{least} to {MAX_TEXT_BYTES} bytes without NUL are needed");
        violations.add(Path::Root.field(field), Reason::TextOutOfRange, message);
    }
}
