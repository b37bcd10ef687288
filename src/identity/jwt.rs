//! JSON Web Tokens: what is asked of one before anything in it is believed.
//!
//! Invariants: only algorithms that the operator has named count, and only ones with public keys;
//! issuer, audience and end are always asked for.

use jsonwebtoken::{
    DecodingKey, Validation, decode, decode_header, errors::ErrorKind, jwk::JwkSet,
};
use serde_json::{Map, Value};
use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime},
};

pub use jsonwebtoken::Algorithm;

/// What a token must be like.
#[derive(Clone, Debug)]
pub struct JwtSettings {
    /// Algorithms that count.
    pub algorithms: Vec<Algorithm>,
    /// Who must have issued it.
    pub issuer: String,
    /// For whom it must be meant.
    pub audience: String,
    /// How far the clocks of issuer and server may differ.
    pub leeway: Duration,
    /// Claims that it must have besides `iss`, `aud` and `exp`.
    pub required_claims: BTreeSet<String>,
    /// The claim that names the caller.
    pub name_claim: String,
}

/// What a token says that can be believed.
#[derive(Debug)]
pub(super) struct Claims {
    pub name: String,
    pub all: Map<String, Value>,
    pub expires_at: SystemTime,
}

/// Why a token is not believed. Nothing of the token is in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is signed by a key that is not known, perhaps not yet.
    UnknownKey,
    Refused(String),
}

/// A text of this form may be a JWT.
pub(super) fn is_jwt(token: &str) -> bool {
    token.split('.').count() == 3
}

/// What a token says.
pub(super) fn verify(token: &str, settings: &JwtSettings, keys: &JwkSet) -> Result<Claims, Fault> {
    let refused = |error: jsonwebtoken::errors::Error| Fault::Refused(why(error.kind()).to_owned());
    let header = decode_header(token).map_err(refused)?;
    if !settings.algorithms.contains(&header.alg) {
        return Err(Fault::Refused(
            "its algorithm is not among those that count".into(),
        ));
    }
    let key = match (&header.kid, &*keys.keys) {
        (Some(kid), _) => keys.find(kid),
        (None, [only]) => Some(only),
        (None, _) => None,
    };
    let key = key.ok_or(Fault::UnknownKey)?;
    let key = DecodingKey::from_jwk(key).map_err(refused)?;
    let mut validation = Validation::new(header.alg);
    validation.leeway = settings.leeway.as_secs();
    validation.validate_nbf = true;
    validation.set_issuer(&[&settings.issuer]);
    validation.set_audience(&[&settings.audience]);
    validation.set_required_spec_claims(&["exp", "iss", "aud"]);
    let token = decode::<Map<String, Value>>(token, &key, &validation).map_err(refused)?;
    let all = token.claims;
    if let Some(missing) = settings
        .required_claims
        .iter()
        .find(|claim| all.get(*claim).is_none_or(Value::is_null))
    {
        return Err(Fault::Refused(format!("it has no claim {missing}")));
    }
    let name = all.get(&settings.name_claim).and_then(Value::as_str);
    let Some(name) = name else {
        let claim = &settings.name_claim;
        return Err(Fault::Refused(format!("its claim {claim} is no text")));
    };
    let ends = all
        .get("exp")
        .and_then(Value::as_f64)
        .unwrap_or(0.0)
        .max(0.0);
    let ends = Duration::try_from_secs_f64(ends).unwrap_or_default() + settings.leeway;
    let expires_at = SystemTime::UNIX_EPOCH.checked_add(ends);
    Ok(Claims {
        name: name.to_owned(),
        all,
        expires_at: expires_at.unwrap_or(SystemTime::UNIX_EPOCH),
    })
}

/// Why it is refused, in words of which none are the caller's.
fn why(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidSignature => "its signature is wrong",
        ErrorKind::ExpiredSignature => "it has expired",
        ErrorKind::ImmatureSignature => "it is not valid yet",
        ErrorKind::InvalidIssuer => "somebody else has issued it",
        ErrorKind::InvalidAudience => "it is meant for somebody else",
        ErrorKind::MissingRequiredClaim(_) => "it lacks exp, iss or aud",
        ErrorKind::InvalidClaimFormat(_) => "one of its claims has another form",
        ErrorKind::InvalidAlgorithm
        | ErrorKind::InvalidAlgorithmName
        | ErrorKind::UnsupportedAlgorithm => "its algorithm is not that of its key",
        ErrorKind::InvalidKeyFormat
        | ErrorKind::InvalidEcdsaKey
        | ErrorKind::InvalidEddsaKey
        | ErrorKind::InvalidRsaKey(_) => "its key cannot be used",
        _ => "it makes no sense",
    }
}

#[cfg(test)]
mod tests;
