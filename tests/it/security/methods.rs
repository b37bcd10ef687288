//! Every method for every kind of caller: the requests follow from the table of methods, and what
//! the table must say of some of them is written down here once more.

use super::{Grant, Secured, token};
use prost_reflect::{DescriptorPool, MethodDescriptor};
use rallypoint::identity::{Access, METHODS, Role, STREAMS, access};
use rallypoint_client::{
    Client,
    api::{DESCRIPTOR, ListSchedulersRequest},
};
use std::collections::BTreeSet;
use tonic::{
    Code, Request, Status, client::Grpc, codegen::http::uri::PathAndQuery, transport::Channel,
};
use tonic_prost::ProstCodec;
use tonic_types::StatusExt;

const GRANTS: &[Grant] = &[
    grant("reader", &["etl"], "reader"),
    grant("submitter", &["etl"], "submitter"),
    grant("operator", &["etl"], "operator"),
    grant("admin", &["etl"], "admin"),
    grant("reader-of-all", &["*"], "reader"),
    grant("submitter-of-all", &["*"], "submitter"),
    grant("operator-of-all", &["*"], "operator"),
    grant("admin-of-all", &["*"], "admin"),
    grant("elsewhere", &["sales"], "admin"),
];

const fn grant(
    name: &'static str,
    namespaces: &'static [&'static str],
    role: &'static str,
) -> Grant {
    Grant {
        name,
        namespaces,
        role,
    }
}

/// Who calls, and in which of these ways it may fail.
#[derive(Clone, Copy, Debug)]
enum Caller {
    Anonymous,
    BadToken,
    WrongNamespace,
    /// Has this role in the namespace of the call.
    In(&'static str, Role),
    /// Has it in all namespaces.
    Everywhere(&'static str, Role),
}

const CALLERS: [Caller; 11] = [
    Caller::Anonymous,
    Caller::BadToken,
    Caller::WrongNamespace,
    Caller::In("reader", Role::Reader),
    Caller::In("submitter", Role::Submitter),
    Caller::In("operator", Role::Operator),
    Caller::In("admin", Role::Admin),
    Caller::Everywhere("reader-of-all", Role::Reader),
    Caller::Everywhere("submitter-of-all", Role::Submitter),
    Caller::Everywhere("operator-of-all", Role::Operator),
    Caller::Everywhere("admin-of-all", Role::Admin),
];

impl Caller {
    fn token(self) -> Option<String> {
        match self {
            Caller::Anonymous => None,
            Caller::BadToken => Some("nobody-has-this".to_owned()),
            Caller::WrongNamespace => Some(token("elsewhere")),
            Caller::In(name, _) | Caller::Everywhere(name, _) => Some(token(name)),
        }
    }

    /// Why it may not make a call that needs this; `None`: it may.
    fn refusal(self, needed: Access) -> Option<(Code, &'static str)> {
        let missing = Some((Code::PermissionDenied, "ROLE_MISSING"));
        match (needed, self) {
            (Access::Anybody, _) => None,
            (_, Caller::Anonymous) => Some((Code::Unauthenticated, "IDENTITY_MISSING")),
            (_, Caller::BadToken) => Some((Code::Unauthenticated, "IDENTITY_INVALID")),
            (Access::Known, _) => None,
            (_, Caller::WrongNamespace) => Some((Code::PermissionDenied, "NAMESPACE_NOT_ALLOWED")),
            (Access::In(role), Caller::In(_, has) | Caller::Everywhere(_, has)) => {
                missing.filter(|_| has < role)
            }
            (Access::Everywhere(_), Caller::In(..)) => missing,
            (Access::Everywhere(role), Caller::Everywhere(_, has)) => {
                missing.filter(|_| has < role)
            }
        }
    }
}

/// What a method answers to an empty request. The first message of a stream is not waited for.
async fn call(channel: &Channel, path: &str, caller: Caller) -> Result<(), Status> {
    let mut request = Request::new(());
    let metadata = request.metadata_mut();
    metadata.insert("rallypoint-namespace", "etl".parse().expect("a name"));
    if let Some(token) = caller.token() {
        let bearer = format!("Bearer {token}").parse().expect("a token");
        metadata.insert("authorization", bearer);
    }
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.expect("connected");
    let path = PathAndQuery::try_from(path.to_owned()).expect("a path");
    let codec = ProstCodec::<(), ()>::default();
    grpc.server_streaming(request, path, codec).await.map(drop)
}

fn reason(status: &Status) -> String {
    let details = status.get_error_details();
    let info = details.error_info();
    info.map(|info| info.reason.clone()).unwrap_or_default()
}

async fn serving() -> (Secured, Channel) {
    let server = Secured::start(GRANTS, "", None);
    let client = server.client("admin");
    let listed = client.schedulers(ListSchedulersRequest::default()).await;
    listed.expect("it serves");
    let channel = Client::connect_lazy(&server.server.url())
        .expect("a URL")
        .channel();
    (server, channel)
}

#[tokio::test]
async fn every_method_answers_every_caller_as_the_table_says() {
    let (_server, channel) = serving().await;
    let doors = [
        "IDENTITY",
        "NAMESPACE_NOT",
        "NAMESPACE_MISSING",
        "ROLE_MISSING",
    ];
    for (service, methods) in METHODS {
        for (method, needed) in *methods {
            let path = format!("/{service}/{method}");
            for caller in CALLERS {
                let answered = call(&channel, &path, caller).await;
                let found = answered
                    .as_ref()
                    .err()
                    .map(|error| (error.code(), reason(error)));
                match caller.refusal(*needed) {
                    Some((code, why)) => {
                        assert_eq!(found, Some((code, why.to_owned())), "{path} {caller:?}");
                    }
                    None => {
                        let (code, why) = found.unwrap_or((Code::Ok, String::new()));
                        let is_stopped = doors.iter().any(|door| why.starts_with(door));
                        assert!(!is_stopped, "{path} {caller:?}: {why}");
                        assert_ne!(code, Code::Unimplemented, "{path} does not exist");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn a_method_that_does_not_exist_tells_strangers_nothing() {
    let (_server, channel) = serving().await;
    let path = "/rallypoint.v1.SchedulerService/Nothing";
    let code = async |caller| {
        call(&channel, path, caller)
            .await
            .expect_err("refused")
            .code()
    };
    assert_eq!(code(Caller::Anonymous).await, Code::Unauthenticated);
    let admin = Caller::Everywhere("admin-of-all", Role::Admin);
    assert_eq!(code(admin).await, Code::Unimplemented);
}

/// What the table has to say, whatever it says.
#[test]
fn whoever_looks_changes_nothing_and_one_namespace_decides_for_no_other() {
    let needed = |method: &str| {
        let services = METHODS
            .iter()
            .map(|(service, _)| format!("/{service}/{method}"));
        services.filter_map(|path| access(&path)).next()
    };
    for (method, expected) in [
        ("ExecAsync", Access::In(Role::Submitter)),
        ("CancelTasks", Access::In(Role::Submitter)),
        ("GetTask", Access::In(Role::Reader)),
        ("Synchronization", Access::In(Role::Reader)),
        ("ForceRelease", Access::In(Role::Operator)),
        ("CreateJob", Access::In(Role::Operator)),
        ("PauseTarget", Access::Everywhere(Role::Operator)),
        ("StopAgent", Access::Everywhere(Role::Operator)),
        ("DeclareDead", Access::Everywhere(Role::Admin)),
        ("Check", Access::Anybody),
    ] {
        assert_eq!(needed(method), Some(expected), "{method}");
    }
    for (service, methods) in METHODS {
        for (method, needed) in *methods {
            let looks = [
                "Get", "List", "Describe", "Explain", "Forecast", "Watch", "Preview", "Synchron",
            ];
            let is_look = looks.iter().any(|verb| method.starts_with(verb));
            let is_look = is_look && *method != "GetScheduler";
            let is_ours = service.starts_with("rallypoint");
            let is_for_readers = *needed == Access::In(Role::Reader);
            assert!(
                !is_ours || is_look == is_for_readers,
                "{service}/{method}: {needed:?}"
            );
        }
    }
}

#[test]
fn every_method_has_a_row_and_every_row_a_method() {
    let mut pool = DescriptorPool::decode(DESCRIPTOR).expect("descriptors");
    for more in [
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ] {
        pool.decode_file_descriptor_set(more).expect("descriptors");
    }
    let mut streams = BTreeSet::new();
    for service in pool
        .services()
        .filter(|one| one.full_name().starts_with("rallypoint"))
    {
        for method in service
            .methods()
            .filter(MethodDescriptor::is_server_streaming)
        {
            streams.insert(format!("/{}/{}", service.full_name(), method.name()));
        }
    }
    let known = STREAMS.iter().map(|path| (*path).to_owned());
    assert_eq!(streams, known.collect(), "see src/identity/methods.rs");
    let methods = pool.services().flat_map(|service| {
        let name = service.full_name().to_owned();
        let path = move |method: MethodDescriptor| format!("/{name}/{}", method.name());
        service.methods().map(path).collect::<Vec<_>>()
    });
    let rows = METHODS.iter().flat_map(|(service, methods)| {
        let path = move |(method, _): &(&str, Access)| format!("/{service}/{method}");
        methods.iter().map(path)
    });
    let (methods, rows): (BTreeSet<_>, BTreeSet<_>) = (methods.collect(), rows.collect());
    assert_eq!(methods, rows, "see src/identity/methods.rs");
}
