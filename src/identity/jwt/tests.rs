//! Tokens that are right but for one thing.

use super::*;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{EncodingKey, Header, encode};
use rcgen::{KeyPair, PublicKeyData};
use serde_json::json;

/// Somebody who issues tokens.
struct Issuer(KeyPair);

impl Issuer {
    fn new() -> Issuer {
        Issuer(KeyPair::generate().expect("a key"))
    }

    /// Its public key under a name.
    fn jwk(&self, kid: &str) -> Value {
        // A point of P-256, uncompressed.
        let point = self.0.der_bytes();
        let [x, y] = [&point[1..33], &point[33..65]].map(|half| URL_SAFE_NO_PAD.encode(half));
        json!({"kty": "EC", "crv": "P-256", "kid": kid, "x": x, "y": y})
    }

    fn sign(&self, kid: Option<&str>, claims: &Value) -> String {
        let header = Header {
            kid: kid.map(str::to_owned),
            ..Header::new(Algorithm::ES256)
        };
        let key = EncodingKey::from_ec_der(&self.0.serialize_der());
        encode(&header, claims, &key).expect("signed")
    }
}

fn keys(keys: &[Value]) -> JwkSet {
    serde_json::from_value(json!({ "keys": keys })).expect("a JWKS document")
}

fn settings() -> JwtSettings {
    JwtSettings {
        algorithms: vec![Algorithm::ES256],
        issuer: "https://issuer.example".into(),
        audience: "rallypoint".into(),
        leeway: Duration::from_secs(30),
        required_claims: ["email".to_owned()].into(),
        name_claim: "sub".into(),
    }
}

/// Seconds since 1970, that many from now.
fn in_seconds(seconds: i64) -> i64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
    now.as_secs() as i64 + seconds
}

/// Right claims, with these in the place of their own; null takes one out.
fn claims(others: Value) -> Value {
    let mut claims = json!({
        "iss": "https://issuer.example", "aud": ["other", "rallypoint"], "sub": "ada",
        "email": "ada@example", "exp": in_seconds(300),
    });
    let all = claims.as_object_mut().expect("an object");
    for (claim, value) in others.as_object().expect("an object") {
        match value {
            Value::Null => drop(all.remove(claim)),
            value => drop(all.insert(claim.clone(), value.clone())),
        }
    }
    claims
}

#[test]
fn a_token_that_is_right_names_its_caller() {
    let issuer = Issuer::new();
    let keys = keys(&[Issuer::new().jwk("old"), issuer.jwk("new")]);
    let token = issuer.sign(Some("new"), &claims(json!({})));
    let said = verify(&token, &settings(), &keys).expect("believed");
    assert_eq!(said.name, "ada");
    assert!(said.expires_at > SystemTime::now());
}

#[test]
fn whatever_is_wrong_with_a_token_it_is_not_believed() {
    let issuer = Issuer::new();
    let keys = keys(&[issuer.jwk("one")]);
    for wrong in [
        json!({"iss": "https://other.example"}),
        json!({"iss": null}),
        json!({"aud": "other"}),
        json!({"aud": null}),
        json!({"exp": in_seconds(-31)}),
        json!({"exp": null}),
        json!({"nbf": in_seconds(60)}),
        json!({"email": null}),
        json!({"sub": null}),
        json!({"sub": 7}),
    ] {
        let token = issuer.sign(Some("one"), &claims(wrong.clone()));
        assert!(verify(&token, &settings(), &keys).is_err(), "{wrong}");
    }
    for right in [
        json!({"exp": in_seconds(-20)}),
        json!({"nbf": in_seconds(20)}),
    ] {
        let token = issuer.sign(None, &claims(right.clone()));
        assert!(verify(&token, &settings(), &keys).is_ok(), "{right}");
    }
}

#[test]
fn only_pinned_algorithms_and_known_keys_count() {
    let (issuer, other) = (Issuer::new(), Issuer::new());
    let known = keys(&[issuer.jwk("one")]);
    let fault =
        |token: &str, settings: &JwtSettings| verify(token, settings, &known).expect_err("refused");
    let forged = other.sign(Some("one"), &claims(json!({})));
    assert!(matches!(fault(&forged, &settings()), Fault::Refused(_)));
    let unknown = other.sign(Some("two"), &claims(json!({})));
    assert_eq!(fault(&unknown, &settings()), Fault::UnknownKey);
    let others = JwtSettings {
        algorithms: vec![Algorithm::RS256],
        ..settings()
    };
    let token = issuer.sign(Some("one"), &claims(json!({})));
    assert!(matches!(fault(&token, &others), Fault::Refused(_)));
    // The public key as the secret of a symmetric algorithm, and no signature at all.
    let header = Header {
        kid: Some("one".into()),
        ..Header::new(Algorithm::HS256)
    };
    let secret = EncodingKey::from_secret(issuer.0.der_bytes());
    let confused = encode(&header, &claims(json!({})), &secret).expect("signed");
    assert!(matches!(fault(&confused, &settings()), Fault::Refused(_)));
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#);
    let rest = token.split_once('.').expect("three parts").1;
    assert!(matches!(
        fault(&format!("{none}.{rest}"), &settings()),
        Fault::Refused(_)
    ));
}
