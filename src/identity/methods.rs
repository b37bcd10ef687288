//! The one table of what each method needs. A method without a row cannot be called, and
//! `tests/it/security` holds the table to the descriptors of the API.

use super::Role::{self, Admin, Operator, Reader, Submitter};
use Access::{Anybody, Everywhere, In, Known};

/// Who may call a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Whoever reaches the port: probes.
    Anybody,
    /// Whoever has an identity.
    Known,
    /// Who has this role in the namespace of the call.
    In(Role),
    /// Who has this role in all namespaces: the method is about all of them.
    Everywhere(Role),
}

/// Services, and what their methods need.
pub const METHODS: &[(&str, &[(&str, Access)])] = &[
    (
        "rallypoint.v1.SchedulerService",
        &[
            ("GetScheduler", In(Submitter)),
            ("ExecAsync", In(Submitter)),
            ("Synchronization", In(Reader)),
            ("ReleaseScheduler", In(Submitter)),
            ("DescribeScheduler", In(Reader)),
            ("ListSchedulers", In(Reader)),
            ("UpdateScheduler", In(Submitter)),
            ("PauseScheduler", In(Submitter)),
            ("ResumeScheduler", In(Submitter)),
            ("CancelTask", In(Submitter)),
            ("CancelTasks", In(Submitter)),
            ("RetryTask", In(Submitter)),
            ("RetryFailed", In(Submitter)),
            ("GetTask", In(Reader)),
            ("ExplainTask", In(Reader)),
            ("ForecastScheduler", In(Reader)),
            ("ListTasks", In(Reader)),
            ("ListAttempts", In(Reader)),
        ],
    ),
    (
        "rallypoint.v1.StatusService",
        &[
            ("GetStatus", In(Reader)),
            ("ListExecutions", In(Reader)),
            ("WatchExecutions", In(Reader)),
        ],
    ),
    (
        "rallypoint.v1.ResourceService",
        &[
            ("CreateResource", In(Operator)),
            ("UpdateResource", In(Operator)),
            ("GetResource", In(Reader)),
            ("WatchResource", In(Reader)),
            ("ListResources", In(Reader)),
            ("DeleteResource", In(Operator)),
            ("Acquire", In(Submitter)),
            ("TryAcquire", In(Submitter)),
            ("GetClaim", In(Reader)),
            ("Renew", In(Submitter)),
            ("Release", In(Submitter)),
            ("ManageClaims", In(Submitter)),
            ("ForceRelease", In(Operator)),
        ],
    ),
    (
        "rallypoint.v1.JobService",
        &[
            ("CreateJob", In(Operator)),
            ("UpdateJob", In(Operator)),
            ("DeleteJob", In(Operator)),
            ("GetJob", In(Reader)),
            ("ListJobs", In(Reader)),
            ("RunJob", In(Submitter)),
            ("PauseJob", In(Operator)),
            ("ResumeJob", In(Operator)),
            ("PreviewSchedule", In(Reader)),
            ("ListRuns", In(Reader)),
            ("GetRun", In(Reader)),
            ("CancelRun", In(Submitter)),
            ("BackfillJob", In(Submitter)),
            ("ClaimRun", In(Submitter)),
            ("RenewRun", In(Submitter)),
            ("FinishRun", In(Submitter)),
            ("StartAgent", Everywhere(Operator)),
            ("StopAgent", Everywhere(Operator)),
        ],
    ),
    (
        "rallypoint.v1.OperatorService",
        &[
            ("PauseTarget", Everywhere(Operator)),
            ("ResumeTarget", Everywhere(Operator)),
            ("DeclareDead", Everywhere(Admin)),
        ],
    ),
    (
        "grpc.health.v1.Health",
        &[("Check", Anybody), ("Watch", Anybody)],
    ),
    (
        "grpc.reflection.v1.ServerReflection",
        &[("ServerReflectionInfo", Known)],
    ),
    (
        "grpc.reflection.v1alpha.ServerReflection",
        &[("ServerReflectionInfo", Known)],
    ),
];

/// Methods whose callers have to be allowed to make them for as long as they go on.
pub const STREAMS: &[&str] = &[
    "/rallypoint.v1.SchedulerService/Synchronization",
    "/rallypoint.v1.StatusService/WatchExecutions",
    "/rallypoint.v1.ResourceService/WatchResource",
    "/rallypoint.v1.ResourceService/Acquire",
    "/rallypoint.v1.ResourceService/ManageClaims",
];

/// Methods whose calls may wait for tasks, for any time.
pub const WAITING: &[&str] = &["/rallypoint.v1.SchedulerService/ReleaseScheduler"];

/// How calls of a method are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audited {
    /// Before they are answered: what operators do.
    BeforeTheAnswer,
    /// A moment later: what callers do to what is their own.
    Later,
    /// Only those that are refused: the row of what was made says who made it.
    IfRefused,
}

/// Methods that callers make all the time, and that the log or the rows of claims tell of.
const FREQUENT: &[&str] = &[
    "ExecAsync",
    "Acquire",
    "TryAcquire",
    "Renew",
    "Release",
    "ManageClaims",
    "ClaimRun",
    "RenewRun",
    "FinishRun",
];

/// Service and method of a path, and how its calls are written down; `None`: they are not.
pub fn audited(path: &str) -> Option<(&'static str, &'static str, Audited)> {
    let (service, method) = path.strip_prefix('/')?.split_once('/')?;
    let (service, methods) = METHODS.iter().find(|(name, _)| *name == service)?;
    let (method, access) = methods.iter().find(|(name, _)| *name == method)?;
    let rule = match access {
        Anybody | Known | In(Reader) | Everywhere(Reader) => return None,
        In(Operator | Admin) | Everywhere(_) => Audited::BeforeTheAnswer,
        In(Submitter) if FREQUENT.contains(method) => return None,
        In(Submitter) if *method == "GetScheduler" => Audited::IfRefused,
        In(Submitter) => Audited::Later,
    };
    let service = service.rsplit('.').next().unwrap_or(service);
    Some((service, method, rule))
}

/// What the method at a path (`/package.Service/Method`) needs; `None`: there is no such method.
pub fn access(path: &str) -> Option<Access> {
    let (service, method) = path.strip_prefix('/')?.split_once('/')?;
    let (_, methods) = METHODS.iter().find(|(name, _)| *name == service)?;
    let (_, access) = methods.iter().find(|(name, _)| *name == method)?;
    Some(*access)
}
