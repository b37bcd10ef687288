//! Rules give identities roles in namespaces. A caller has every role that some rule gives it; in
//! each namespace the highest of them counts.

use super::{Access, Role};
use crate::core::Namespace;
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::SystemTime,
};

/// Gives those it matches a role.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Names like `token:etl`; a `*` at the end stands for anything. One of them has to match.
    pub identities: Vec<String>,
    /// Claims that a JWT must have, all of them: the value, or a list that holds it.
    pub claims: BTreeMap<String, String>,
    /// Where.
    pub namespaces: Namespaces,
    /// Which role.
    pub role: Role,
}

/// Some namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// All there are and will be.
    All,
    /// These.
    These(BTreeSet<Namespace>),
}

/// Who calls.
#[derive(Clone, Debug)]
pub struct Identity {
    /// `token:NAME`, `jwt:SUBJECT` or `cert:NAME`.
    pub name: Arc<str>,
    /// From then on it has to show anew who it is.
    pub expires_at: Option<SystemTime>,
    grants: Vec<(Namespaces, Role)>,
    /// The namespace of a call that names none.
    usual: Option<Namespace>,
}

impl Identity {
    /// The identity of this name, and what rules give it.
    pub(super) fn new(
        name: Arc<str>,
        claims: &Map<String, Value>,
        rules: &[Rule],
        expires_at: Option<SystemTime>,
    ) -> Identity {
        let own = rules.iter().filter(|rule| rule.matches(&name, claims));
        let grants = own.map(|rule| (rule.namespaces.clone(), rule.role));
        let mut identity = Identity {
            grants: grants.collect(),
            name,
            expires_at,
            usual: None,
        };
        identity.usual = identity.find_usual_namespace();
        identity
    }

    /// Its highest role in a namespace.
    pub fn role_in(&self, namespace: &Namespace) -> Option<Role> {
        let there = |(namespaces, _): &&(Namespaces, Role)| match namespaces {
            Namespaces::All => true,
            Namespaces::These(these) => these.contains(namespace),
        };
        self.grants
            .iter()
            .filter(there)
            .map(|(_, role)| *role)
            .max()
    }

    /// Its highest role in all namespaces.
    pub fn role_everywhere(&self) -> Option<Role> {
        let all = self
            .grants
            .iter()
            .filter(|(in_, _)| *in_ == Namespaces::All);
        all.map(|(_, role)| *role).max()
    }

    /// Whether it may call what needs this, in a namespace.
    pub fn may(&self, needed: Access, namespace: &Namespace) -> bool {
        match needed {
            Access::Anybody | Access::Known => true,
            Access::In(role) => self.role_in(namespace) >= Some(role),
            Access::Everywhere(role) => self.role_everywhere() >= Some(role),
        }
    }

    /// The namespace of a call that names none: the only one in which it has a role, or `default`
    /// if it has one there.
    pub fn usual_namespace(&self) -> Option<Namespace> {
        self.usual.clone()
    }

    fn find_usual_namespace(&self) -> Option<Namespace> {
        let default = Namespace::default_namespace();
        if self.role_in(&default).is_some() {
            return Some(default);
        }
        let named = self.grants.iter().filter_map(|(in_, _)| match in_ {
            Namespaces::All => None,
            Namespaces::These(these) => Some(these),
        });
        let named: BTreeSet<&Namespace> = named.flatten().collect();
        match named.len() {
            1 => named.first().map(|only| (*only).clone()),
            _ => None,
        }
    }

    /// No rule gives it anything.
    pub fn may_nothing(&self) -> bool {
        self.grants.is_empty()
    }
}

impl Rule {
    fn matches(&self, name: &str, claims: &Map<String, Value>) -> bool {
        let is_named = self
            .identities
            .iter()
            .any(|pattern| match pattern.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == pattern,
            });
        is_named
            && self
                .claims
                .iter()
                .all(|(claim, wanted)| claims.get(claim).is_some_and(|value| holds(value, wanted)))
    }
}

/// A claim has this value, or is a list that has it.
fn holds(value: &Value, wanted: &str) -> bool {
    match value {
        Value::String(text) => text == wanted,
        Value::Array(values) => values.iter().any(|value| value.as_str() == Some(wanted)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn named(names: &[&str]) -> Namespaces {
        let namespace = |name: &&str| Namespace((*name).into());
        Namespaces::These(names.iter().map(namespace).collect())
    }

    fn rule(identity: &str, namespaces: Namespaces, role: Role) -> Rule {
        Rule {
            identities: vec![identity.to_owned()],
            claims: BTreeMap::new(),
            namespaces,
            role,
        }
    }

    fn identity(name: &str, claims: Value, rules: &[Rule]) -> Identity {
        let claims = claims.as_object().cloned().unwrap_or_default();
        Identity::new(name.into(), &claims, rules, None)
    }

    #[test]
    fn the_highest_role_of_all_rules_that_match_counts() {
        let rules = [
            rule("token:*", named(&["a", "b"]), Role::Reader),
            rule("token:etl", named(&["b"]), Role::Operator),
            rule("token:root", Namespaces::All, Role::Admin),
        ];
        let role = |name, namespace: &str| {
            identity(name, json!({}), &rules).role_in(&Namespace(namespace.into()))
        };
        assert_eq!(role("token:etl", "a"), Some(Role::Reader));
        assert_eq!(role("token:etl", "b"), Some(Role::Operator));
        assert_eq!(role("token:etl", "c"), None);
        assert_eq!(role("token:root", "c"), Some(Role::Admin));
        assert_eq!(role("cert:etl", "a"), None);
        let everywhere = |name| identity(name, json!({}), &rules).role_everywhere();
        assert_eq!(everywhere("token:root"), Some(Role::Admin));
        assert_eq!(everywhere("token:etl"), None);
    }

    #[test]
    fn claims_are_values_or_lists_and_all_of_them_must_be_there() {
        let mut rule = rule("jwt:*", named(&["a"]), Role::Reader);
        rule.claims = [("groups", "etl"), ("site", "x")]
            .map(|(claim, value)| (claim.to_owned(), value.to_owned()))
            .into();
        let rules = [rule];
        let may = |claims| !identity("jwt:me", claims, &rules).may_nothing();
        assert!(may(json!({"groups": ["dev", "etl"], "site": "x"})));
        assert!(may(json!({"groups": "etl", "site": "x"})));
        for wrong in [
            json!({}),
            json!({"groups": "etl"}),
            json!({"groups": ["etl2"], "site": "x"}),
            json!({"groups": {"etl": true}, "site": "x"}),
        ] {
            assert!(!may(wrong.clone()), "{wrong}");
        }
    }

    #[test]
    fn a_call_that_names_no_namespace_is_in_the_only_one_or_in_the_default() {
        let usual = |namespaces| {
            let rules = [rule("token:me", namespaces, Role::Reader)];
            let usual = identity("token:me", json!({}), &rules).usual_namespace();
            usual.map(|namespace| namespace.0.to_string())
        };
        assert_eq!(usual(named(&["a"])), Some("a".to_owned()));
        assert_eq!(usual(named(&["a", "b"])), None);
        assert_eq!(usual(named(&["a", "default"])), Some("default".to_owned()));
        assert_eq!(usual(Namespaces::All), Some("default".to_owned()));
    }
}
