//! The roles that tasks may name, as the operator allows them for each target.

use super::{Allowed, ByName, Targets, listed};
use crate::core::{NO_ROLE, Work, model::limits::NAME_BYTES};
use std::collections::BTreeSet;

/// The roles that are allowed on a target or, where none is known, on any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Roles<'a> {
    targets: &'a Targets,
    target: Option<&'a str>,
}

impl<'a> Roles<'a> {
    /// Those for tasks of this kind.
    pub(crate) fn of(targets: &'a Targets, work: &'a Work) -> Self {
        let target = match work {
            Work::Sql { target } => Some(&**target),
            Work::Noop => None,
        };
        Roles { targets, target }
    }

    /// Those of all targets.
    pub(super) fn anywhere(targets: &'a Targets) -> Self {
        Roles {
            targets,
            target: None,
        }
    }

    /// Whether a task may name the role.
    pub(crate) fn allow(self, role: &str) -> bool {
        let targets = self.targets.by_name();
        role == NO_ROLE || on(self.target, &targets).any(|one| one.roles.contains(role))
    }

    /// What to say of a role that no task may name.
    pub(crate) fn refusal(self, role: &str) -> String {
        let targets = self.targets.by_name();
        let allowed: BTreeSet<&String> = on(self.target, &targets)
            .flat_map(|one| &one.roles)
            .collect();
        let role = match NAME_BYTES.contains(&role.len()) {
            true => format!("the role {role:?}"),
            // What is longer would only make the answer long.
            false => "this role".to_owned(),
        };
        let place = match self.target {
            Some(target) => format!("the target {target}"),
            None => "any target".to_owned(),
        };
        let allowed = match allowed.is_empty() {
            true => "none".to_owned(),
            false => listed(allowed.into_iter().map(String::as_str)),
        };
        format!(
            "{role} is not allowed on {place}; allowed are: {allowed} (`roles` of the target in \
             the server's configuration file)"
        )
    }
}

/// What is allowed on the target or, without one, on each.
fn on<'t>(target: Option<&'t str>, targets: &'t ByName) -> impl Iterator<Item = &'t Allowed> {
    let is_meant = move |name: &str| target.is_none_or(|target| target == name);
    let meant = targets.iter().filter(move |(name, _)| is_meant(name));
    meant.map(|(_, allowed)| allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_role_the_target_and_the_roles_that_are_allowed() {
        let reports = Allowed {
            roles: ["reader", "writer"].map(str::to_owned).into(),
            ..Allowed::default()
        };
        let targets = Targets::new([("app", Allowed::default()), ("reports", reports)]);
        let sql = |target: &str| Work::Sql {
            target: target.into(),
        };
        let (app, reports) = (sql("app"), sql("reports"));
        for (roles, expected) in [
            (
                Roles::of(&targets, &app),
                "on the target app; allowed are: none (",
            ),
            (
                Roles::of(&targets, &reports),
                "on the target reports; allowed are: reader, writer (",
            ),
            (
                Roles::anywhere(&targets),
                "on any target; allowed are: reader, writer (",
            ),
        ] {
            assert!(!roles.allow("boss") && roles.allow(NO_ROLE));
            let said = roles.refusal("boss");
            let expected = format!("the role \"boss\" is not allowed {expected}");
            assert!(said.starts_with(&expected), "{said}");
            assert!(!roles.refusal(&"x".repeat(64)).contains("xx"));
        }
        assert!(Roles::of(&targets, &reports).allow("reader"));
        assert!(!Roles::of(&targets, &app).allow("reader"));
    }
}
