//! Names the caller of a request: as `authorization` knows it, else, on a server without a source
//! of identities, as it calls itself. There everybody is in the namespace `default`, unless the
//! operator has declared the metadata trustworthy because a gateway that authenticates stands in
//! front.

use super::errors::{self, reason::Reason};
use crate::core::{Caller, Namespace};
use std::{net::SocketAddr, sync::Arc};
use tonic::{
    Status,
    metadata::{Ascii, MetadataMap, MetadataValue},
};

/// Metadata key of the name a caller gives itself.
pub(super) const CALLER: &str = "rallypoint-caller";
/// Metadata key of the namespace, read only when metadata is trusted.
pub(super) const NAMESPACE: &str = "rallypoint-namespace";
const MAX_CALLER_BYTES: usize = 255;

/// Who makes a call, as the door of the server knows it: among the extensions of the request.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub caller: Caller,
    /// The caller has a role in all namespaces.
    pub sees_all: bool,
}

/// Of which namespaces a caller may see what it does not ask for by name; `None`: of all.
pub(super) fn visible<T>(request: &tonic::Request<T>) -> Option<Namespace> {
    let known = request.extensions().get::<Known>()?;
    (!known.sees_all).then(|| known.caller.namespace.clone())
}

/// Finds out who sent a request.
#[derive(Clone, Debug)]
pub(crate) struct Auth {
    default: Namespace,
    trusted_namespace_metadata: bool,
}

impl Auth {
    /// With `trusted_namespace_metadata`, requests may name their namespace.
    pub(crate) fn new(trusted_namespace_metadata: bool) -> Self {
        Auth {
            default: Namespace::default_namespace(),
            trusted_namespace_metadata,
        }
    }

    /// The sender of `request`: who it is known to be, else the name it gives itself, else its
    /// address.
    pub(crate) fn caller<T>(&self, request: &tonic::Request<T>) -> Result<Caller, Status> {
        if let Some(known) = request.extensions().get::<Known>() {
            return Ok(known.caller.clone());
        }
        self.identify(request.metadata(), request.remote_addr())
    }

    fn identify(&self, metadata: &MetadataMap, peer: Option<SocketAddr>) -> Result<Caller, Status> {
        let name = match single(metadata, CALLER)? {
            Some(value) => caller_name(value)?,
            None => peer.map_or_else(|| "unknown".into(), |peer| peer.to_string().into()),
        };
        let namespace = match single(metadata, NAMESPACE)? {
            Some(value) => self.namespace(value)?,
            None => self.default.clone(),
        };
        Ok(Caller { namespace, name })
    }

    fn namespace(&self, value: &MetadataValue<Ascii>) -> Result<Namespace, Status> {
        let named = value.to_str().ok().and_then(Namespace::named);
        // The default one everybody has here. Who is told so says it again: the command of a
        // claimed run has it in its environment.
        let is_own = named == Some(Namespace::default_namespace());
        if !self.trusted_namespace_metadata && !is_own {
            return Err(errors::namespace_not_trusted(NAMESPACE));
        }
        let wrong = || errors::metadata(NAMESPACE, Reason::MetadataInvalid, Namespace::FORM);
        named.ok_or_else(wrong)
    }
}

fn caller_name(value: &MetadataValue<Ascii>) -> Result<Arc<str>, Status> {
    let text = value
        .to_str()
        .ok()
        .filter(|text| (1..=MAX_CALLER_BYTES).contains(&text.len()));
    match text.filter(|text| text.bytes().all(|b| b.is_ascii_graphic() || b == b' ')) {
        Some(text) => Ok(text.into()),
        None => Err(errors::metadata(
            CALLER,
            Reason::MetadataInvalid,
            "1 to 255 printable ASCII characters",
        )),
    }
}

/// The only value of a key. Two are refused, since a gateway could read the other one.
fn single<'a>(
    metadata: &'a MetadataMap,
    key: &'static str,
) -> Result<Option<&'a MetadataValue<Ascii>>, Status> {
    let mut values = metadata.get_all(key).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        _ => Err(errors::metadata(
            key,
            Reason::MetadataInvalid,
            "given more than once",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    fn caller(trusted: bool, entries: &[(&'static str, &str)]) -> Result<(String, String), Code> {
        let mut metadata = MetadataMap::new();
        for (key, value) in entries {
            metadata.append(
                *key,
                MetadataValue::try_from(value.as_bytes()).expect("bytes of a header"),
            );
        }
        let caller = Auth::new(trusted)
            .identify(&metadata, Some(([10, 0, 0, 1], 7).into()))
            .map_err(|s| s.code())?;
        Ok((caller.namespace.0.to_string(), caller.name.to_string()))
    }

    #[test]
    fn without_metadata_the_caller_is_its_address_in_the_default_namespace() {
        for trusted in [false, true] {
            assert_eq!(
                caller(trusted, &[]),
                Ok(("default".into(), "10.0.0.1:7".into()))
            );
        }
    }

    #[test]
    fn a_namespace_is_taken_only_from_trusted_metadata() {
        assert_eq!(
            caller(true, &[(NAMESPACE, "team-7"), (CALLER, "etl")]),
            Ok(("team-7".into(), "etl".into()))
        );
        assert_eq!(
            caller(false, &[(NAMESPACE, "team-7")]),
            Err(Code::PermissionDenied)
        );
    }

    #[test]
    fn malformed_metadata_is_refused() {
        let long = "x".repeat(256);
        for entries in [
            vec![(CALLER, long.as_str())],
            vec![(CALLER, "")],
            vec![(CALLER, "é")],
            vec![(CALLER, "a"), (CALLER, "b")],
            vec![(NAMESPACE, "Team")],
            vec![(NAMESPACE, "a/b")],
            vec![(NAMESPACE, &long[..64])],
            vec![(NAMESPACE, "a"), (NAMESPACE, "b")],
        ] {
            assert_eq!(
                caller(true, &entries),
                Err(Code::InvalidArgument),
                "{entries:?}"
            );
        }
    }
}
