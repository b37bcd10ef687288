//! A call that submits tasks, as a span.

use crate::core::{Handle, Namespace, Seq, SpanContext, Time};

/// A method that submits tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CalledMethod {
    ExecAsync,
    RetryTask,
    RetryFailed,
}

/// A call that is under way, and traced.
#[derive(Debug)]
pub struct BegunCall {
    /// Its span.
    pub span: SpanContext,
    /// Whose tasks it submits.
    pub namespace: Option<Namespace>,
    /// To which scheduler.
    pub handle: Option<Handle>,
    /// The tasks: the first one, and how many. `None`: it was refused.
    pub tasks: Option<(Seq, u32)>,
    /// The caller's span.
    pub(super) parent: Option<SpanContext>,
    /// The caller's span, where that belongs to another trace.
    pub(super) link: Option<SpanContext>,
    pub(super) method: CalledMethod,
    pub(super) begun: Time,
    /// The code of gRPC with which it was refused, as a word.
    pub error: Option<String>,
}

impl BegunCall {
    pub(super) fn new(
        method: CalledMethod,
        span: SpanContext,
        parent: Option<SpanContext>,
        begun: Time,
    ) -> Self {
        BegunCall {
            span,
            namespace: None,
            handle: None,
            tasks: None,
            parent,
            link: None,
            method,
            begun,
            error: None,
        }
    }
}

impl CalledMethod {
    /// As gRPC names it.
    pub(super) fn path(self) -> &'static str {
        match self {
            CalledMethod::ExecAsync => "rallypoint.v1.SchedulerService/ExecAsync",
            CalledMethod::RetryTask => "rallypoint.v1.SchedulerService/RetryTask",
            CalledMethod::RetryFailed => "rallypoint.v1.SchedulerService/RetryFailed",
        }
    }
}
