//! `SessionOptions`: what can be set at all, and which roles the operator allows.

use super::{Roles, scalar};
use crate::{
    core::{
        Isolation, NO_ROLE, SessionOptions,
        model::limits::{SCHEMAS, STATEMENT_TIMEOUT},
    },
    rpc::errors::{
        reason::Reason,
        violations::{Path, Violations},
    },
};
use rallypoint_client::api;
use std::time::Duration;

/// `roles`: those that the operator allows.
pub(super) fn session_options(
    v: &mut Violations,
    path: Path<'_>,
    options: &api::SessionOptions,
    roles: Roles<'_>,
) -> SessionOptions {
    search_path(v, path.field("search_path"), &options.search_path);
    let role = options.role.as_deref();
    let role = role.map(|name| if name.is_empty() { NO_ROLE } else { name });
    if let Some(role) = role.filter(|role| !roles.allow(role)) {
        let message = || roles.refusal(role);
        v.add_with(path.field("role"), Reason::RoleNotAllowed, message);
    }
    SessionOptions {
        read_only: options.read_only,
        isolation: isolation(v, path.field("isolation"), options.isolation),
        search_path: options.search_path.clone(),
        statement_timeout: statement_timeout(v, path, options),
        role: role.map(str::to_owned),
        due: None,
    }
}

fn statement_timeout(
    v: &mut Violations,
    path: Path<'_>,
    options: &api::SessionOptions,
) -> Option<Duration> {
    let path = path.field("statement_timeout");
    let limit = scalar::optional_duration(v, path, &options.statement_timeout, STATEMENT_TIMEOUT)?;
    if limit.subsec_nanos() % 1_000_000 != 0 {
        let message = "Postgres counts whole milliseconds";
        v.add(path, Reason::DurationOutOfRange, message);
    }
    Some(limit)
}

fn search_path(v: &mut Violations, path: Path<'_>, schemas: &[String]) {
    if schemas.len() > SCHEMAS {
        let message = format!("at most {SCHEMAS} schemas");
        return v.add(path, Reason::SearchPathInvalid, message);
    }
    for (index, schema) in schemas.iter().enumerate() {
        if !SessionOptions::is_schema(schema) {
            let message = || format!("a schema is {}", SessionOptions::SCHEMA_FORM);
            v.add_with(path.index(index), Reason::SearchPathInvalid, message);
        }
    }
}

fn isolation(v: &mut Violations, path: Path<'_>, number: i32) -> Option<Isolation> {
    match scalar::enumeration(v, path, number)? {
        api::Isolation::Unspecified => None,
        api::Isolation::ReadCommitted => Some(Isolation::ReadCommitted),
        api::Isolation::RepeatableRead => Some(Isolation::RepeatableRead),
        api::Isolation::Serializable => Some(Isolation::Serializable),
    }
}
