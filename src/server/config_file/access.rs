//! `[identity]` and `[[access]]` of a configuration file: how callers are known, and what they may
//! do. What is wrong with it never holds a value.

use super::contents::{self, Place};
use crate::{
    core::Namespace,
    identity::{Algorithm, JwkSet, JwtSettings, KeySource, Namespaces, Rule, Sources, Tokens},
    toml_file::{Faults, Length, Table, read},
};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

const DEFAULT_LEEWAY: Duration = Duration::from_secs(30);
const MAX_LEEWAY: Duration = Duration::from_secs(60);
/// Stands for all namespaces.
const ALL: &str = "*";
const KINDS: [&str; 3] = ["token:", "jwt:", "cert:"];

/// Reads what a file says of callers; `None`: nothing, so nobody is known.
pub(super) fn sources(
    identity: Option<(usize, contents::Identity)>,
    access: Vec<(usize, contents::Access)>,
    from: &Origin<'_>,
    faults: &mut Faults,
) -> Option<Sources> {
    if identity.is_none() && access.is_empty() {
        return None;
    }
    let mut sources = Sources::default();
    if let Some((line, identity)) = identity {
        let mut at = Place::of(faults, line, "identity".to_owned());
        if let Some(file) = &identity.token_file {
            sources.tokens = tokens(&from.folder.join(file), &mut at);
        }
        sources.jwt = identity
            .jwt
            .and_then(|jwt| jwt_of(jwt, from.folder, &mut at));
    }
    for (line, one) in access {
        let mut at = Place::of(faults, line, "access".to_owned());
        sources
            .rules
            .extend(rule(one, &sources, from.certificates, &mut at));
    }
    if sources.rules.is_empty() {
        faults.add(
            None,
            "nobody may do anything: add [[access]] with identities, namespaces, role",
        );
    }
    Some(sources)
}

/// Where a file is, and what its server takes.
pub(super) struct Origin<'a> {
    pub folder: &'a Path,
    /// Callers may present certificates.
    pub certificates: bool,
}

/// Who has which token, from a file of its own.
fn tokens(path: &Path, at: &mut Place<'_>) -> Tokens {
    let mut tokens = Tokens::default();
    let text = match read(path) {
        Ok(text) => text,
        Err(error) => {
            let what = format!("{} cannot be read: {error}", path.display());
            at.fault("token_file", what);
            return tokens;
        }
    };
    let mut faults = Faults::of(path);
    let mut table = Table::of_file(&text, &mut faults);
    for name in table.keys() {
        let hashes = match table.take_any::<Hashes>(&name) {
            Some(Hashes::One(hash)) => vec![hash],
            Some(Hashes::Several(hashes)) => hashes,
            None => continue,
        };
        for hash in hashes {
            if let Err(what) = tokens.add(&name, &hash) {
                table.fault(&name, what);
            }
        }
    }
    table.finish();
    if let Err(faults) = faults.into_result(()) {
        at.fault("token_file", faults.to_string());
    }
    tokens
}

/// One token, or more while one takes the place of another.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Hashes {
    One(String),
    Several(Vec<String>),
}

fn jwt_of(
    jwt: contents::Jwt,
    folder: &Path,
    at: &mut Place<'_>,
) -> Option<(JwtSettings, KeySource, Option<JwkSet>)> {
    let named: Vec<Option<Algorithm>> = jwt.algorithms.iter().map(|name| public(name)).collect();
    if named.is_empty() || named.contains(&None) {
        let what =
            "name those that count, of RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 EdDSA";
        at.fault("jwt.algorithms", what);
    }
    for (key, value) in [("issuer", &jwt.issuer), ("audience", &jwt.audience)] {
        if value.is_empty() {
            at.fault(&format!("jwt.{key}"), "must not be empty");
        }
    }
    let leeway = jwt.leeway.map_or(DEFAULT_LEEWAY, |Length(leeway)| leeway);
    if leeway > MAX_LEEWAY {
        at.fault("jwt.leeway", "must be at most 60s");
    }
    let source = source(jwt.keys_file, jwt.keys_url, jwt.keys_ca_file, folder, at)?;
    let keys = match &source {
        KeySource::Url { .. } => None,
        KeySource::File(path) => match KeySource::read(path) {
            Ok(keys) => Some(keys),
            Err(error) => {
                let what = format!("{} cannot be used: {error:#}", path.display());
                at.fault("jwt.keys_file", what);
                None
            }
        },
    };
    let settings = JwtSettings {
        algorithms: named.into_iter().flatten().collect(),
        issuer: jwt.issuer,
        audience: jwt.audience,
        leeway,
        required_claims: jwt.required_claims.into_iter().collect(),
        name_claim: jwt.name_claim.unwrap_or_else(|| "sub".to_owned()),
    };
    Some((settings, source, keys))
}

/// An algorithm whose keys may be known to everybody.
fn public(name: &str) -> Option<Algorithm> {
    let named: Algorithm = name.parse().ok()?;
    let is_symmetric = [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512].contains(&named);
    (!is_symmetric).then_some(named)
}

fn source(
    file: Option<PathBuf>,
    url: Option<String>,
    ca: Option<PathBuf>,
    folder: &Path,
    at: &mut Place<'_>,
) -> Option<KeySource> {
    if ca.is_some() && url.is_none() {
        at.fault("jwt.keys_ca_file", "is for `keys_url`, which is not there");
    }
    match (file, url) {
        (Some(file), None) => Some(KeySource::File(folder.join(file))),
        (None, Some(url)) => {
            let parsed: Option<http::Uri> = url.parse().ok();
            let is_safe = |url: &http::Uri| match url.scheme_str() {
                Some("https") => url.host().is_some(),
                Some("http") => matches!(url.host(), Some("127.0.0.1" | "localhost" | "[::1]")),
                _ => false,
            };
            let Some(url) = parsed.filter(is_safe) else {
                let what =
                    "must be https://HOST/…: who reads on the way could give keys of its own";
                at.fault("jwt.keys_url", what);
                return None;
            };
            let ca = ca.map(|ca| folder.join(ca));
            Some(KeySource::Url { url, ca })
        }
        (Some(_), Some(_)) => {
            at.fault("jwt.keys_url", "`keys_file` says it too: keep one of them");
            None
        }
        (None, None) => {
            at.fault(
                "jwt",
                "the keys are missing: give `keys_file` or `keys_url`",
            );
            None
        }
    }
}

fn rule(
    access: contents::Access,
    sources: &Sources,
    certificates: bool,
    at: &mut Place<'_>,
) -> Option<Rule> {
    if access.identities.is_empty() {
        at.fault(
            "identities",
            "name some, like \"token:nightly\" or \"jwt:*\"",
        );
    }
    for identity in &access.identities {
        if let Some(what) = wrong_identity(identity, sources, certificates) {
            at.fault("identities", what);
        }
    }
    let is_jwt = |identity: &String| identity.starts_with("jwt:");
    if !access.claims.is_empty() && !access.identities.iter().all(is_jwt) {
        at.fault("claims", "only identities `jwt:…` have claims");
    }
    let named = access.namespaces.iter();
    let namespaces = match &*access.namespaces {
        [all] if all == ALL => Namespaces::All,
        [] => {
            at.fault("namespaces", "name some, or [\"*\"] for all");
            return None;
        }
        _ => {
            let named: Option<_> = named.map(|name| Namespace::named(name)).collect();
            let Some(these) = named else {
                let what = format!("each is {}, or [\"*\"] stands for all", Namespace::FORM);
                at.fault("namespaces", what);
                return None;
            };
            Namespaces::These(these)
        }
    };
    Some(Rule {
        identities: access.identities,
        claims: access.claims,
        namespaces,
        role: access.role,
    })
}

/// Why nobody can ever be this.
fn wrong_identity(identity: &str, sources: &Sources, certificates: bool) -> Option<&'static str> {
    let kind = KINDS.iter().find(|kind| identity.starts_with(**kind));
    let Some(kind) = kind else {
        return Some("an identity begins with `token:`, `jwt:` or `cert:`");
    };
    let name = &identity[kind.len()..];
    let inner = name.strip_suffix('*').unwrap_or(name);
    if name.is_empty() || inner.contains('*') {
        return Some("a name follows, and `*` stands at its end only");
    }
    let is_pattern = name.ends_with('*');
    match *kind {
        "token:" if sources.tokens.is_empty() => {
            Some("there are no tokens: name a `token_file` in [identity]")
        }
        "token:" if !is_pattern && !sources.tokens.has(name) => {
            Some("the file of tokens has nobody of this name")
        }
        "jwt:" if sources.jwt.is_none() => Some("no issuer is named: add [identity.jwt]"),
        "cert:" if !certificates => {
            Some("callers present no certificates: start the server with --listen-client-ca")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
