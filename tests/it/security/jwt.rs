//! Callers with JWTs, whose issuer publishes its keys at an address and changes them.

use super::{Grant, Secured};
use crate::harness::conversation::WAIT_TIMEOUT;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rallypoint_client::{Client, api};
use rcgen::{KeyPair, PublicKeyData};
use serde_json::json;
use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::{sleep, timeout},
};

const GRANTS: &[Grant] = &[Grant {
    name: "other",
    namespaces: &["etl"],
    role: "reader",
}];

/// Issues tokens, and publishes its keys.
pub(super) struct Issuer {
    url: String,
    document: Arc<Mutex<String>>,
}

/// A key and its name.
pub(super) struct Key(KeyPair, &'static str);

impl Key {
    pub(super) fn new(name: &'static str) -> Key {
        Key(KeyPair::generate().expect("a key"), name)
    }

    pub(super) fn token(&self, groups: &[&str]) -> String {
        let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
        let claims = json!({
            "iss": "https://issuer.example", "aud": "rallypoint", "sub": "ada",
            "exp": now.as_secs() + 600, "groups": groups,
        });
        let header = Header {
            kid: Some(self.1.to_owned()),
            ..Header::new(Algorithm::ES256)
        };
        let key = EncodingKey::from_ec_der(&self.0.serialize_der());
        encode(&header, &claims, &key).expect("signed")
    }

    /// The public parts of keys, as an issuer publishes them.
    pub(super) fn document(keys: &[&Key]) -> String {
        let jwk = |Key(pair, name): &&Key| {
            // A point of P-256, uncompressed.
            let point = pair.der_bytes();
            let [x, y] = [&point[1..33], &point[33..65]].map(|half| URL_SAFE_NO_PAD.encode(half));
            json!({"kty": "EC", "crv": "P-256", "kid": name, "x": x, "y": y})
        };
        let keys: Vec<_> = keys.iter().map(jwk).collect();
        json!({ "keys": keys }).to_string()
    }
}

impl Issuer {
    pub(super) async fn start() -> Issuer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let document = Arc::new(Mutex::new(String::new()));
        let published = document.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let body = published.lock().expect("a document").clone();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Issuer {
            url: format!("http://{address}/keys"),
            document,
        }
    }

    pub(super) fn publish(&self, keys: &[&Key]) {
        *self.document.lock().expect("a document") = Key::document(keys);
    }

    pub(super) fn rules(&self) -> String {
        format!(
            "[identity.jwt]\nissuer = \"https://issuer.example\"\naudience = \"rallypoint\"\n\
             algorithms = [\"ES256\"]\nkeys_url = \"{}\"\n\
             [[access]]\nidentities = [\"jwt:*\"]\nclaims = {{ groups = \"etl\" }}\n\
             namespaces = [\"etl\"]\nrole = \"submitter\"\n",
            self.url
        )
    }
}

async fn open(server: &Secured, token: String) -> rallypoint_client::Result<()> {
    let client = Client::connect_lazy(&server.server.url()).expect("a URL");
    let client = client.with_token(&token.into()).expect("a token");
    client
        .open(api::SchedulerSettings::default())
        .await
        .map(drop)
}

#[tokio::test]
async fn a_token_of_the_issuer_is_taken_also_when_its_key_is_new() {
    let (issuer, old, new) = (Issuer::start().await, Key::new("old"), Key::new("new"));
    issuer.publish(&[&old]);
    let server = Secured::start(GRANTS, &issuer.rules(), None);
    // While there are no keys the call is unavailable, which the client repeats.
    open(&server, old.token(&["dev", "etl"]))
        .await
        .expect("opened");
    let elsewhere = open(&server, old.token(&["dev"]))
        .await
        .expect_err("no role");
    assert!(elsewhere.is("NAMESPACE_NOT_ALLOWED"), "{elsewhere}");
    let unknown = open(&server, new.token(&["etl"]))
        .await
        .expect_err("unknown");
    assert!(unknown.is("IDENTITY_INVALID"), "{unknown}");
    issuer.publish(&[&old, &new]);
    let taken = async {
        while let Err(error) = open(&server, new.token(&["etl"])).await {
            assert!(error.is("IDENTITY_INVALID"), "{error}");
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(WAIT_TIMEOUT, taken)
        .await
        .expect("the keys are read again");
}
