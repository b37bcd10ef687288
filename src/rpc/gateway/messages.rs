//! The messages and methods of what the port serves, by their names: for a gateway that knows none
//! of them by type.

use crate::likeness::closest;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor, SerializeOptions};
use rallypoint_client::api::DESCRIPTOR;
use serde_json::Serializer;
use std::{collections::HashSet, sync::LazyLock};

static MESSAGES: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let mut pool = DescriptorPool::decode(DESCRIPTOR).expect("descriptors of our own making");
    for more in [
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        // Errors and their details.
        tonic_types::pb::FILE_DESCRIPTOR_SET,
    ] {
        pool.decode_file_descriptor_set(more)
            .expect("descriptors of a library");
    }
    pool
});

pub(super) fn pool() -> &'static DescriptorPool {
    &MESSAGES
}

/// The method at `/package.Service/Method`.
pub(super) fn method(path: &str) -> Option<MethodDescriptor> {
    let (service, method) = path.strip_prefix('/')?.split_once('/')?;
    let service = MESSAGES.get_service_by_name(service)?;
    service.methods().find(|found| found.name() == method)
}

/// The paths of the methods that take a stream of messages, those of reflection included.
pub(in crate::rpc) fn paths_of_streams() -> HashSet<String> {
    let reflection = ["v1", "v1alpha"]
        .map(|version| format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"));
    let methods = MESSAGES.services().flat_map(|service| {
        let methods = service.methods().filter(|one| one.is_client_streaming());
        methods
            .map(|one| format!("/{}/{}", service.full_name(), one.name()))
            .collect::<Vec<_>>()
    });
    methods.chain(reflection).collect()
}

/// The path of the method that is called most like the end of a wrong path.
pub(super) fn meant(path: &str) -> Option<String> {
    let wrong = path.rsplit('/').next()?;
    let methods = MESSAGES
        .services()
        .flat_map(|service| service.methods().collect::<Vec<_>>());
    let methods: Vec<MethodDescriptor> = methods.filter(|one| !one.is_client_streaming()).collect();
    let names: Vec<&str> = methods.iter().map(MethodDescriptor::name).collect();
    let name = closest(wrong, &names)?;
    let found = methods.iter().find(|one| one.name() == name)?;
    Some(format!("/{}/{name}", found.parent_service().full_name()))
}

/// The JSON of a message: the one form that it has everywhere, names as in the proto files and
/// numbers as numbers (`docs/decisions/0130`).
pub(super) fn json(message: &DynamicMessage) -> Option<String> {
    let options = SerializeOptions::new()
        .use_proto_field_name(true)
        .stringify_64_bit_integers(false)
        .skip_default_fields(false);
    let mut json = Serializer::new(Vec::new());
    message.serialize_with_options(&mut json, &options).ok()?;
    String::from_utf8(json.into_inner()).ok()
}

#[cfg(test)]
mod tests {
    use super::meant;

    #[test]
    fn a_mistyped_method_is_answered_by_its_path() {
        for (wrong, path) in [
            (
                "/rallypoint.v1.SchedulerService/GetSchedulr",
                "/rallypoint.v1.SchedulerService/GetScheduler",
            ),
            ("/getstatus", "/rallypoint.v1.StatusService/GetStatus"),
        ] {
            assert_eq!(meant(wrong).as_deref(), Some(path));
        }
        assert_eq!(meant("/x"), None);
        // It takes a stream of messages, which HTTP has not.
        assert_ne!(
            meant("/ManageClaims").as_deref(),
            Some("/rallypoint.v1.ResourceService/ManageClaims")
        );
    }
}
