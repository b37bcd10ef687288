//! Finds out who calls, by what the caller presents: a token, a JWT, or the certificate of its
//! connection. Whoever presents a token is who the token says, whatever the certificate.

use super::{
    Access,
    jwt::{self, Fault, JwtSettings},
    keys::{JwkSet, KeySource, Keys},
    rules::{Identity, Rule},
    tokens::{TokenHash, Tokens, hash},
};
use crate::core::Namespace;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Map;
use std::{
    collections::HashMap,
    fmt,
    future::pending,
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};
use tokio::{sync::watch, time::sleep};

/// The longest name of a caller, with its prefix.
const NAME_BYTES: RangeInclusive<usize> = 1..=255;

/// Where identities come from, and what they may do.
#[derive(Clone, Default)]
pub struct Sources {
    /// Tokens that are known.
    pub tokens: Tokens,
    /// What JWTs must be like, where the keys are, and those that are known already.
    pub jwt: Option<(JwtSettings, KeySource, Option<JwkSet>)>,
    /// What each identity may do.
    pub rules: Vec<Rule>,
}

/// What counts now.
struct Current {
    sources: Sources,
    /// Who has which token, with what the rules give: found out once, and not with each call.
    of_tokens: HashMap<TokenHash, Result<Arc<Identity>, Refusal>>,
}

/// Knows callers. Clones share what counts now.
#[derive(Clone)]
pub struct Authenticator {
    latest: watch::Sender<Arc<Current>>,
    keys: Keys,
    changes: Arc<AtomicU64>,
}

/// What a caller presents.
#[derive(Clone, Copy, Default)]
pub struct Credentials<'a> {
    /// The value of `authorization`.
    pub authorization: Option<&'a str>,
    /// The name in the certificate of the connection, and until when that is valid.
    pub certificate: Option<(&'a str, SystemTime)>,
}

/// Why nobody knows the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It presents nothing.
    Missing,
    /// What it presents is not valid. The reason is for the log, and holds nothing of it.
    Invalid(String),
    /// It may be valid, and the keys that say so cannot be read at the moment.
    KeysUnavailable,
}

impl Authenticator {
    /// Knows callers by these sources.
    pub fn new(sources: Sources) -> Authenticator {
        let keys = Keys::default();
        keys.set(sources.jwt.as_ref().and_then(|(_, _, keys)| keys.clone()));
        Authenticator {
            latest: watch::Sender::new(Arc::new(Current::new(sources))),
            keys,
            changes: Arc::default(),
        }
    }

    /// From now on these sources count, for all who hold this.
    pub fn replace(&self, sources: Sources) {
        let source = |sources: &Sources| sources.jwt.as_ref().map(|(_, from, _)| from.clone());
        let new = sources.jwt.as_ref().and_then(|(_, _, keys)| keys.clone());
        if new.is_some() || source(&sources) != source(&self.latest().sources) {
            self.keys.set(new);
        }
        self.latest.send_replace(Arc::new(Current::new(sources)));
        self.changes.fetch_add(1, Ordering::Relaxed);
        self.keys.want();
    }

    /// How often its sources were replaced.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Keeps the keys of JWTs fresh, for ever.
    pub async fn keep_keys_fresh(self) {
        let latest = self.clone();
        let source = move || {
            let latest = latest.latest();
            let jwt = latest.sources.jwt.as_ref();
            jwt.map(|(_, from, _)| from.clone())
        };
        self.keys.keep_fresh(source).await;
    }

    /// Resolves when whoever presents this may not call what needs `needed` in a namespace any
    /// more: what it presents has expired, or other sources or keys say otherwise.
    pub async fn revoked(
        &self,
        authorization: Option<SecretString>,
        certificate: Option<(Arc<str>, SystemTime)>,
        needed: Access,
        namespace: &Namespace,
    ) {
        let (mut changes, mut keys) = (self.latest.subscribe(), self.keys.changes());
        loop {
            let identity = self.identify(Credentials {
                authorization: authorization.as_ref().map(|text| text.expose_secret()),
                certificate: certificate.as_ref().map(|(name, ends)| (&**name, *ends)),
            });
            let Some(identity) = identity.ok().filter(|one| one.may(needed, namespace)) else {
                return;
            };
            let expired = async {
                match identity.expires_at {
                    None => pending().await,
                    Some(at) => {
                        let left = at.duration_since(SystemTime::now());
                        sleep(left.unwrap_or_default()).await;
                    }
                }
            };
            tokio::select! {
                () = expired => return,
                changed = changes.changed() => if changed.is_err() {
                    return;
                },
                changed = keys.changed() => if changed.is_err() {
                    return;
                }
            }
        }
    }

    /// Who presents this.
    pub fn identify(&self, credentials: Credentials<'_>) -> Result<Arc<Identity>, Refusal> {
        let latest = self.latest();
        match (credentials.authorization, credentials.certificate) {
            (Some(authorization), _) => self.by_token(&latest, authorization),
            (None, Some((name, ends))) => {
                if ends <= SystemTime::now() {
                    return Err(Refusal::Invalid("its certificate has expired".into()));
                }
                let name = named("cert", name)?;
                let rules = &latest.sources.rules;
                Ok(Identity::new(name, &Map::new(), rules, Some(ends)).into())
            }
            (None, None) => Err(Refusal::Missing),
        }
    }

    fn by_token(&self, latest: &Current, authorization: &str) -> Result<Arc<Identity>, Refusal> {
        let (scheme, token) = authorization.split_once(' ').unwrap_or_default();
        let token = token.trim();
        if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
            return Err(Refusal::Invalid("it is not `Bearer` and a token".into()));
        }
        let sources = &latest.sources;
        let Some((settings, _, _)) = sources.jwt.as_ref().filter(|_| jwt::is_jwt(token)) else {
            let known = latest.of_tokens.get(&hash(token)).cloned();
            let unknown = || Err(Refusal::Invalid("it is no known token".into()));
            return known.unwrap_or_else(unknown);
        };
        let keys = self.keys.latest().ok_or(Refusal::KeysUnavailable)?;
        let claims = jwt::verify(token, settings, &keys).map_err(|fault| match fault {
            Fault::Refused(why) => Refusal::Invalid(why),
            Fault::UnknownKey => {
                self.keys.want();
                Refusal::Invalid("it is signed by a key that is not known".into())
            }
        })?;
        let name = named("jwt", &claims.name)?;
        let ends = Some(claims.expires_at);
        Ok(Identity::new(name, &claims.all, &sources.rules, ends).into())
    }

    fn latest(&self) -> Arc<Current> {
        self.latest.borrow().clone()
    }
}

impl Current {
    fn new(sources: Sources) -> Current {
        let of = |owner: &str| {
            let name = named("token", owner)?;
            let identity = Identity::new(name, &Map::new(), &sources.rules, None);
            Ok(Arc::new(identity))
        };
        let of_tokens = sources.tokens.owners();
        let of_tokens = of_tokens.map(|(hash, owner)| (hash, of(owner))).collect();
        Current { sources, of_tokens }
    }
}

/// A name as rules and the log have it.
fn named(kind: &str, name: &str) -> Result<Arc<str>, Refusal> {
    let name = format!("{kind}:{name}");
    let is_printable = name
        .bytes()
        .all(|byte| byte.is_ascii_graphic() || byte == b' ');
    match NAME_BYTES.contains(&name.len()) && is_printable {
        true => Ok(name.into()),
        false => Err(Refusal::Invalid(
            "its name is not 1 to 250 printable ASCII characters".into(),
        )),
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authenticator")
    }
}
