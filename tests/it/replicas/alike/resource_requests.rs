//! Requests to calls of named resources.

use super::requests::{Requests, acquire};
use prost::Message;
use rallypoint_client::api;

impl Requests {
    pub(super) fn of_resources(&mut self, call: &str) -> Vec<u8> {
        match call.rsplit('/').next().unwrap_or_default() {
            "CreateResource" => api::CreateResourceRequest {
                name: self.resource(),
                settings: None,
            }
            .encode_to_vec(),
            "UpdateResource" => api::UpdateResourceRequest {
                name: self.resource(),
                settings: Some(api::ResourceSettings {
                    capacity: self.0.below(4) as i32 - 1,
                    ..Default::default()
                }),
                update_mask: Some(prost_types::FieldMask {
                    paths: vec![(*self.0.one_of(&["lock_delay", "nothing"])).into()],
                }),
            }
            .encode_to_vec(),
            // Nothing stands in the way: what there is has no permits.
            "TryAcquire" => api::TryAcquireRequest {
                resources: acquire(&self.resource()).resources,
                request_id: self.request_id(),
                ..Default::default()
            }
            .encode_to_vec(),
            "ListResources" => api::ListResourcesRequest {
                page_size: self.0.below(6) as i32 - 1,
                page_token: self.page_token(),
            }
            .encode_to_vec(),
            "DeleteResource" => api::DeleteResourceRequest {
                name: "nobody".into(),
            }
            .encode_to_vec(),
            "GetClaim" | "Renew" | "Release" => api::RenewRequest {
                claim: self.0.below(3) as i64 - 1,
                token: self.0.below(3) as i64 - 1,
            }
            .encode_to_vec(),
            "ForceRelease" => api::ForceReleaseRequest {
                claim: self.0.below(3) as i64 - 1,
                reason: (*self.0.one_of(&["", "why"])).into(),
            }
            .encode_to_vec(),
            // The name is the first field of the others.
            _ => api::DeleteResourceRequest {
                name: self.resource(),
            }
            .encode_to_vec(),
        }
    }

    fn resource(&mut self) -> String {
        (*self.0.one_of(&["alike", "alike/*", "nobody*", ""])).into()
    }
}
