//! OperatorService: what an operator may decide in place of the service, or for all who use it. Any
//! replica takes a call: a pause is the owner's to decide, and word of a dead session goes into the
//! journal, where whoever waits finds it.

use super::{
    audit::Subject,
    auth::Auth,
    convert::{paused_target, task_id},
    errors::{
        self,
        reason::Reason,
        violations::{Path, Violations},
    },
    forwarding::{
        route::Route,
        unary::{Endpoint, Unary},
    },
    validate::Targets,
};
use crate::{
    coordinator::Coordinator,
    core::{Caller, CoreStatus, PauseAnswer, PauseChange, PauseMode, PauseView},
    journal::Reader,
};
use rallypoint_client::api::{
    self, declare_dead_request::Scope as DeadScope, operator_service_client::OperatorServiceClient,
    operator_service_server::OperatorService, pause_target_request::Scope as PauseScope,
    resume_target_request::Scope as ResumeScope,
};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, transport::Channel};

/// Longest text of an operator.
const MAX_TEXT_BYTES: usize = 1_000;

#[derive(Clone)]
pub(super) struct Operators {
    pub coordinator: Coordinator,
    pub auth: Auth,
    pub reader: Reader,
    /// Targets of this replica.
    pub targets: Targets,
    /// Cancelled when the server shuts down.
    pub stopping: CancellationToken,
    /// Route to the owner; `None`: this replica answers itself, as the owner does another one.
    pub route: Option<Route>,
}

/// A target, or all of them.
enum Scope {
    Target(String),
    All,
    Missing,
}

#[tonic::async_trait]
impl OperatorService for Operators {
    async fn declare_dead(
        &self,
        request: Request<api::DeclareDeadRequest>,
    ) -> Result<Response<api::DeclareDeadResponse>, Status> {
        let caller = self.auth.caller(&request)?;
        if let Some(subject) = request.extensions().get::<Arc<Subject>>() {
            let asked = request.get_ref();
            let dead = match &asked.scope {
                Some(DeadScope::Replica(name)) => format!(", replica {name}"),
                Some(DeadScope::AllReplicas(())) => ", all replicas".to_owned(),
                None => String::new(),
            };
            let object = format!("target {}{dead}", asked.target);
            let about = (object, asked.reason.clone());
            subject.note(&caller, about);
        }
        let api::DeclareDeadRequest {
            target,
            scope,
            reason,
        } = request.into_inner();
        let mut violations = Violations::default();
        check(&mut violations, "target", &target);
        check(&mut violations, "reason", &reason);
        let replica = match scope {
            Some(DeadScope::Replica(name)) => {
                check(&mut violations, "replica", &name);
                Some(name)
            }
            Some(DeadScope::AllReplicas(())) => None,
            None => {
                missing(
                    &mut violations,
                    "replica",
                    "name a replica, or set `all_replicas`",
                );
                None
            }
        };
        violations.into_result(())?;
        let replica = replica.as_deref();
        let declared = self
            .reader
            .declare_dead(&target, replica, &caller.name, &reason);
        let sessions = declared.await.map_err(errors::journal)?;
        tracing::warn!(
            target,
            replica = replica.unwrap_or("(all)"),
            reason,
            caller = %caller.name,
            sessions,
            "an operator declares sessions dead"
        );
        Ok(Response::new(api::DeclareDeadResponse {
            sessions: sessions as i64,
        }))
    }

    async fn pause_target(
        &self,
        request: Request<api::PauseTargetRequest>,
    ) -> Result<Response<api::PauseTargetResponse>, Status> {
        self.endpoint().answer(request).await
    }

    async fn resume_target(
        &self,
        request: Request<api::ResumeTargetRequest>,
    ) -> Result<Response<api::ResumeTargetResponse>, Status> {
        self.endpoint().answer(request).await
    }
}

impl Operators {
    fn endpoint(&self) -> Endpoint<'_, Operators> {
        Endpoint {
            here: self,
            auth: &self.auth,
            route: self.route.as_ref(),
            stopping: &self.stopping,
        }
    }

    /// Has the owner's core decide, and logs what has changed.
    async fn change_pause(&self, change: PauseChange) -> Result<PauseAnswer, Status> {
        if let Some(target) = &change.target {
            self.check_known(target).await?;
        }
        let changed = self.coordinator.change_pause(change.clone()).await;
        let answer = changed.map_err(errors::of_operator)?;
        if answer.changed {
            let PauseChange {
                target,
                mode,
                by,
                reason,
            } = change;
            let target = target.as_deref().unwrap_or("(all)");
            match mode {
                Some(mode) => tracing::warn!(target, ?mode, %by, %reason, "a target is paused"),
                None => tracing::warn!(target, %by, %reason, "a target is resumed"),
            }
        }
        Ok(answer)
    }

    /// A target that is misspelt would be paused in vain: it is known when it is configured here,
    /// some executor has it, or tasks wait for it, or it was paused before.
    async fn check_known(&self, target: &str) -> Result<(), Status> {
        if self.targets.has(target) {
            return Ok(());
        }
        let status = self.coordinator.status().await;
        let CoreStatus { slots, pauses, .. } = status.map_err(errors::of_operator)?;
        let is_wanted = slots.iter().any(|(work, ..)| work.is_of(Some(target)));
        let is_paused = |view: &PauseView| view.pause.target.as_deref() == Some(target);
        if is_wanted || pauses.iter().any(is_paused) {
            return Ok(());
        }
        let mut violations = Violations::default();
        violations.add(
            Path::Root.field("target"),
            Reason::TargetUnknown,
            "no server has this target, and no task waits for it: GetStatus lists all targets",
        );
        Ok(violations.into_result(())?)
    }
}

impl Unary<Operators> for api::PauseTargetRequest {
    type Response = api::PauseTargetResponse;

    fn about(&self) -> (String, String) {
        let target = match &self.scope {
            Some(PauseScope::Target(target)) => target,
            Some(PauseScope::All(())) => "(all)",
            None => "",
        };
        (format!("target {target}"), self.reason.clone())
    }

    async fn run(
        self: Arc<Self>,
        here: &Operators,
        caller: Caller,
    ) -> Result<Self::Response, Status> {
        let mut violations = Violations::default();
        let mode = match api::PauseMode::try_from(self.mode) {
            Ok(api::PauseMode::Unspecified | api::PauseMode::Drain) => PauseMode::Drain,
            Ok(api::PauseMode::CancelRunning) => PauseMode::CancelRunning,
            Err(_) => {
                let (field, known) = (Path::Root.field("mode"), "DRAIN or CANCEL_RUNNING");
                violations.add(field, Reason::EnumUnknown, known);
                PauseMode::Drain
            }
        };
        let scope = match &self.scope {
            Some(PauseScope::Target(target)) => Scope::Target(target.clone()),
            Some(PauseScope::All(())) => Scope::All,
            None => Scope::Missing,
        };
        let asked = (scope, Some(mode), self.reason.as_str());
        let answer = here
            .change_pause(change(violations, asked, &caller)?)
            .await?;
        Ok(api::PauseTargetResponse {
            already_paused: !answer.changed,
            paused: answer.own.as_ref().map(paused_target),
            running: answer.tasks.into_iter().map(task_id).collect(),
        })
    }

    async fn send(
        owner: Channel,
        request: Request<Self>,
    ) -> Result<Response<Self::Response>, Status> {
        OperatorServiceClient::new(owner)
            .pause_target(request)
            .await
    }
}

impl Unary<Operators> for api::ResumeTargetRequest {
    type Response = api::ResumeTargetResponse;

    fn about(&self) -> (String, String) {
        let target = match &self.scope {
            Some(ResumeScope::Target(target)) => target,
            Some(ResumeScope::All(())) => "(all)",
            None => "",
        };
        (format!("target {target}"), self.reason.clone())
    }

    async fn run(
        self: Arc<Self>,
        here: &Operators,
        caller: Caller,
    ) -> Result<Self::Response, Status> {
        let scope = match &self.scope {
            Some(ResumeScope::Target(target)) => Scope::Target(target.clone()),
            Some(ResumeScope::All(())) => Scope::All,
            None => Scope::Missing,
        };
        let asked = (scope, None, self.reason.as_str());
        let change = change(Violations::default(), asked, &caller)?;
        let answer = here.change_pause(change).await?;
        Ok(api::ResumeTargetResponse {
            already_resumed: !answer.changed,
            still_paused: answer.others.iter().map(paused_target).collect(),
        })
    }

    async fn send(
        owner: Channel,
        request: Request<Self>,
    ) -> Result<Response<Self::Response>, Status> {
        OperatorServiceClient::new(owner)
            .resume_target(request)
            .await
    }
}

/// What is asked for, unless something is wrong with it.
fn change(
    mut violations: Violations,
    (scope, mode, reason): (Scope, Option<PauseMode>, &str),
    caller: &Caller,
) -> Result<PauseChange, Status> {
    let target = match scope {
        Scope::All => None,
        Scope::Target(target) => {
            check(&mut violations, "target", &target);
            Some(target.into())
        }
        Scope::Missing => {
            missing(&mut violations, "target", "name a target, or set `all`");
            None
        }
    };
    check(&mut violations, "reason", reason);
    violations.into_result(())?;
    Ok(PauseChange {
        target,
        mode,
        by: caller.name.clone(),
        reason: reason.into(),
    })
}

fn missing(violations: &mut Violations, field: &'static str, message: &'static str) {
    violations.add(Path::Root.field(field), Reason::ScopeMissing, message);
}

fn check(violations: &mut Violations, field: &'static str, text: &str) {
    if !(1..=MAX_TEXT_BYTES).contains(&text.len()) || text.contains('\0') {
        let message = format!("1 to {MAX_TEXT_BYTES} bytes without NUL are needed");
        violations.add(Path::Root.field(field), Reason::TextOutOfRange, message);
    }
}
