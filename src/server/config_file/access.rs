//! `[identity]` and `[[access]]` of a configuration file: how callers are known, and what they may
//! do. What is wrong with it never holds a value.

use super::contents::{self, Place};
use crate::{
    core::Namespace,
    identity::{Algorithm, JwkSet, JwtSettings, KeySource, Namespaces, Rule, Sources, Tokens},
    likeness::closest,
    toml_file::{Faults, Length, Lines, Table, read},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

const DEFAULT_LEEWAY: Duration = Duration::from_secs(30);
const MAX_LEEWAY: Duration = Duration::from_secs(60);
/// Stands for all namespaces.
const ALL: &str = "*";
/// Bytes of a name that is shown. A longer one may be a token in the wrong place.
const SHOWN_NAME: usize = 32;
const KINDS: [&str; 3] = ["token:", "jwt:", "cert:"];

/// Reads what a file says of callers; `None`: nothing, so nobody is known.
pub(super) fn sources(
    identity: Option<(Lines, contents::Identity)>,
    access: Vec<(Lines, contents::Access)>,
    from: &Origin<'_>,
    faults: &mut Faults,
) -> Option<Sources> {
    if identity.is_none() && access.is_empty() {
        return None;
    }
    let mut sources = Sources::default();
    let before = faults.count();
    let has_rules = !access.is_empty();
    let mut are_known = true;
    if let Some((lines, identity)) = identity {
        are_known = identity.is_sound;
        let mut at = Place::of(faults, &lines, "identity".to_owned());
        if let Some(file) = &identity.token_file {
            sources.tokens = tokens(&from.folder.join(file), &mut at);
        }
        sources.jwt = identity
            .jwt
            .and_then(|jwt| jwt_of(jwt, from.folder, &mut at));
    }
    // What is wrong with the sources is not said of those who come from them.
    are_known &= faults.count() == before;
    for (index, (lines, one)) in access.into_iter().enumerate() {
        let mut at = Place::of(faults, &lines, format!("access[{}]", index + 1));
        let known = are_known.then_some(&sources);
        let rule = rule(one, known, from.certificates, &mut at);
        sources.rules.extend(rule);
    }
    if !has_rules {
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
            at.unread("token_file", path, &error);
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
        faults
            .lines()
            .for_each(|fault| at.fault("token_file", fault));
    }
    tokens
}

/// One token, or more while one takes the place of another.
#[derive(serde::Deserialize)]
#[serde(
    untagged,
    expecting = "expected a hash in quotes, or a list of them in brackets"
)]
enum Hashes {
    One(String),
    Several(Vec<String>),
}

fn jwt_of(
    jwt: contents::Jwt,
    folder: &Path,
    at: &mut Place<'_>,
) -> Option<(JwtSettings, KeySource, Option<JwkSet>)> {
    let named = jwt.algorithms.as_ref();
    let named =
        named.map(|names| -> Vec<Option<Algorithm>> { names.iter().map(|n| public(n)).collect() });
    if named
        .as_ref()
        .is_some_and(|named| named.is_empty() || named.contains(&None))
    {
        let what =
            "name those that count, of RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 EdDSA";
        at.fault("jwt.algorithms", what);
    }
    for (key, value) in [("issuer", &jwt.issuer), ("audience", &jwt.audience)] {
        if value.as_deref() == Some("") {
            at.fault(&format!("jwt.{key}"), "must not be empty");
        }
    }
    let leeway = jwt.leeway.map_or(DEFAULT_LEEWAY, |Length(leeway)| leeway);
    if leeway > MAX_LEEWAY {
        at.fault("jwt.leeway", "must be at most 60s");
    }
    if !jwt.has_keys {
        let what = "the keys are missing: give `keys_file` or `keys_url`";
        at.fault("jwt", what);
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
        algorithms: named.into_iter().flatten().flatten().collect(),
        issuer: jwt.issuer.unwrap_or_default(),
        audience: jwt.audience.unwrap_or_default(),
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
        (None, None) => None,
    }
}

/// `sources`: `None` if something is wrong with them.
fn rule(
    access: contents::Access,
    sources: Option<&Sources>,
    certificates: bool,
    at: &mut Place<'_>,
) -> Option<Rule> {
    if let Some(identities) = &access.identities {
        check_identities(identities, &access.claims, sources, certificates, at);
    }
    let namespaces = namespaces(&access.namespaces?, at)?;
    Some(Rule {
        identities: access.identities?,
        claims: access.claims,
        namespaces,
        role: access.role?,
    })
}

fn check_identities(
    identities: &[String],
    claims: &BTreeMap<String, String>,
    sources: Option<&Sources>,
    certificates: bool,
    at: &mut Place<'_>,
) {
    if identities.is_empty() {
        at.fault(
            "identities",
            "name some, like \"token:nightly\" or \"jwt:*\"",
        );
    }
    for identity in identities {
        if let Some(what) = wrong_identity(identity, sources, certificates) {
            at.fault("identities", what);
        }
    }
    let is_jwt = |identity: &String| identity.starts_with("jwt:");
    if !claims.is_empty() && !identities.iter().all(is_jwt) {
        at.fault("claims", "only identities `jwt:…` have claims");
    }
}

fn namespaces(named: &[String], at: &mut Place<'_>) -> Option<Namespaces> {
    match named {
        [all] if all == ALL => return Some(Namespaces::All),
        [] => {
            at.fault("namespaces", "name some, or [\"*\"] for all");
            return None;
        }
        _ => {}
    }
    let named: Option<_> = named.iter().map(|name| Namespace::named(name)).collect();
    if named.is_none() {
        let what = format!("each is {}, or [\"*\"] stands for all", Namespace::FORM);
        at.fault("namespaces", what);
    }
    named.map(Namespaces::These)
}

/// Why nobody has a token of this name, with the name that was probably meant.
fn nobody(name: &str, tokens: &Tokens) -> String {
    let known: Vec<&str> = tokens.names().collect();
    let what = "the file of tokens has nobody of this name";
    let what = match closest(name, &known) {
        Some(meant) => format!("{what}: did you mean `token:{meant}`?"),
        None => what.to_owned(),
    };
    match name.len() <= SHOWN_NAME {
        true => format!("`token:{name}`: {what}"),
        false => what,
    }
}

/// Why nobody can ever be this.
fn wrong_identity(identity: &str, sources: Option<&Sources>, certificates: bool) -> Option<String> {
    let what = |what: &str| Some(what.to_owned());
    let kind = KINDS.iter().find(|kind| identity.starts_with(**kind));
    let Some(kind) = kind else {
        return what("an identity begins with `token:`, `jwt:` or `cert:`");
    };
    let name = &identity[kind.len()..];
    let inner = name.strip_suffix('*').unwrap_or(name);
    if name.is_empty() || inner.contains('*') {
        return what("a name follows, and `*` stands at its end only");
    }
    let is_pattern = name.ends_with('*');
    if *kind == "cert:" && !certificates {
        return what("callers present no certificates: start the server with --listen-client-ca");
    }
    let sources = sources?;
    match *kind {
        "token:" if sources.tokens.is_empty() => {
            what("there are no tokens: name a `token_file` in [identity]")
        }
        "token:" if !is_pattern && !sources.tokens.has(name) => Some(nobody(name, &sources.tokens)),
        "jwt:" if sources.jwt.is_none() => what("no issuer is named: add [identity.jwt]"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
