//! What is taken from `[identity]` and `[[access]]`, and what is said of them when they are wrong.

use crate::{
    core::Namespace,
    identity::{Access, Authenticator, Credentials, Identity, Refusal, Role},
    server::{ConfigFile, Described},
    toml_file::Faults,
};
use std::{
    collections::BTreeSet,
    fs,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tempfile::TempDir;

/// Tokens `secret` of etl, and `secret2` and `secret3` of dba.
const TOKENS: &str = r#"
etl = "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
dba = [
    "sha256:35224d0d3465d74e855f8d69a136e79c744ea35a675d3393360a327cbf6359a2",
    "sha256:9a7e6e7d8a9a4a3f8e1fbd1a2e2cf5a2f7a1d0a1a2f7a1d0a1a2f7a1d0a1a2f7",
]
"#;

fn read(text: &str, certificates: bool) -> Result<Described, Faults> {
    let folder = TempDir::new().expect("a directory");
    let path = folder.path().join("rallypoint.toml");
    fs::write(folder.path().join("tokens.toml"), TOKENS).expect("written");
    fs::write(folder.path().join("bad.toml"), "etl = \"hunter2\"\n").expect("written");
    fs::write(&path, text).expect("written");
    let file = ConfigFile {
        path,
        slots: 8,
        session_idle: Duration::from_secs(300),
        others: BTreeSet::new(),
        namespaces: false,
        certificates,
    };
    file.read()
}

#[test]
fn a_file_says_who_may_do_what() {
    let text = r#"
        [identity]
        token_file = "tokens.toml"

        [[access]]
        identities = ["token:etl", "cert:spiffe://prod/etl/*"]
        namespaces = ["etl", "sales"]
        role = "submitter"

        [[access]]
        identities = ["token:dba"]
        namespaces = ["*"]
        role = "admin"
    "#;
    let sources = read(text, true).expect("it makes sense").sources;
    let known = Authenticator::new(sources.expect("callers are known"));
    let later = SystemTime::now() + Duration::from_secs(3_600);
    let of = |authorization, certificate| -> Result<Arc<Identity>, Refusal> {
        known.identify(Credentials {
            authorization,
            certificate: Option::<&str>::map(certificate, |name| (name, later)),
        })
    };
    let etl = Namespace("etl".into());
    let caller = of(Some("Bearer secret"), None).expect("known");
    assert_eq!(
        (&*caller.name, caller.role_in(&etl)),
        ("token:etl", Some(Role::Submitter))
    );
    assert_eq!(caller.role_everywhere(), None);
    let again = of(Some("Bearer secret"), None).expect("known");
    assert!(Arc::ptr_eq(&caller, &again), "found out once");
    let caller = of(None, Some("spiffe://prod/etl/7")).expect("known");
    assert_eq!(caller.role_in(&etl), Some(Role::Submitter));
    let caller = of(None, Some("spiffe://prod/other")).expect("certified");
    assert!(caller.may_nothing());
    let caller = of(Some("bearer secret2"), Some("spiffe://prod/etl/7")).expect("known");
    assert_eq!(
        caller.role_everywhere(),
        Some(Role::Admin),
        "the token counts"
    );
    assert_eq!(of(None, None).expect_err("unknown"), Refusal::Missing);
    for wrong in [
        "Bearer Secret",
        "Bearer ",
        "Basic secret",
        "secret",
        "Bearer a.b.c",
    ] {
        let refused = of(Some(wrong), Some("spiffe://prod/etl/7"));
        assert!(matches!(refused, Err(Refusal::Invalid(_))), "{wrong}");
    }
}

#[tokio::test]
async fn what_a_certificate_allows_ends_with_it() {
    let text =
        "[[access]]\nidentities = [\"cert:etl\"]\nnamespaces = [\"etl\"]\nrole = \"reader\"\n";
    let sources = read(text, true).expect("it makes sense").sources;
    let known = Authenticator::new(sources.expect("callers are known"));
    let until = |ends| {
        known.identify(Credentials {
            authorization: None,
            certificate: Some(("etl", ends)),
        })
    };
    let now = SystemTime::now();
    assert!(matches!(until(now), Err(Refusal::Invalid(_))));
    let soon = now + Duration::from_millis(50);
    let identity = until(now + Duration::from_secs(60)).expect("valid");
    assert!(identity.expires_at.is_some());
    let (needed, etl) = (Access::In(Role::Reader), Namespace("etl".into()));
    let ended = known.revoked(None, Some(("etl".into(), soon)), needed, &etl);
    tokio::time::timeout(Duration::from_secs(60), ended)
        .await
        .expect("it ends");
    assert!(SystemTime::now() >= soon);
}

/// A rule, where tokens are, and what JWTs must be like: right by themselves.
const ACCESS: &str =
    "[[access]]\nidentities = [\"token:etl\"]\nnamespaces = [\"a\"]\nrole = \"reader\"\n";
const IDENTITY: &str = "[identity]\ntoken_file = \"tokens.toml\"\n";
const JWT: &str = "[identity.jwt]\nissuer = \"i\"\naudience = \"a\"\nalgorithms = [\"ES256\"]\n";

/// Fails unless each text is refused with these words.
fn refused(cases: &[(String, &str)]) {
    for (text, why) in cases {
        let said = read(text, false).err().map(|faults| faults.to_string());
        let said = said.unwrap_or_else(|| panic!("it is taken:\n{text}"));
        assert!(said.contains(why), "{why}: {said}\n{text}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn whatever_is_wrong_is_said_with_its_key_and_shows_no_value() {
    let cases = [
        (IDENTITY.to_owned(), "nobody may do anything"),
        (ACCESS.to_owned(), "name a `token_file`"),
        (
            IDENTITY.to_owned() + &ACCESS.replace("etl", "nobody"),
            "nobody of this name",
        ),
        (
            IDENTITY.to_owned() + &ACCESS.replace("token:", ""),
            "begins with `token:`",
        ),
        (
            IDENTITY.to_owned() + &ACCESS.replace("\"a\"", "\"A b\""),
            "access[1].namespaces",
        ),
        (
            IDENTITY.to_owned() + &ACCESS.replace("[\"a\"]", "[]"),
            "access[1].namespaces",
        ),
        (
            IDENTITY.to_owned() + &ACCESS.replace("reader", "hunter2"),
            "expected one of",
        ),
        (
            IDENTITY.to_owned() + &ACCESS.replace("token:etl", "cert:x"),
            "--listen-client-ca",
        ),
        (
            IDENTITY.to_owned() + &ACCESS.replace("token:etl", "jwt:x"),
            "[identity.jwt]",
        ),
        (
            IDENTITY.replace("tokens", "bad") + ACCESS,
            "64 hexadecimal digits",
        ),
        (
            IDENTITY.replace("tokens", "none") + ACCESS,
            "cannot be read",
        ),
    ];
    refused(&cases);
}

#[test]
fn a_slip_of_a_name_or_a_role_is_quoted_with_what_was_meant() {
    let said = |access: String| {
        let read = read(&(IDENTITY.to_owned() + &access), false);
        read.map(drop).expect_err("a slip").to_string()
    };
    let name = said(ACCESS.replace("token:etl", "token:etll"));
    let expected = "`token:etll`: the file of tokens has nobody of this name: did you mean \
                    `token:etl`?";
    assert!(name.contains(expected), "{name}");
    let role = said(ACCESS.replace("reader", "readr"));
    assert!(role.contains("`readr` is none of `reader`"), "{role}");
    let token = "5".repeat(64);
    let long = said(ACCESS.replace("token:etl", &format!("token:{token}")));
    assert!(!long.contains(&token), "{long}");
    let large = ACCESS.replace("reader", "READER");
    assert!(read(&(IDENTITY.to_owned() + &large), false).is_ok());
}

#[test]
fn what_is_asked_of_a_jwt_must_be_safe() {
    let cases = [
        (JWT.to_owned() + ACCESS, "give `keys_file` or `keys_url`"),
        (
            JWT.replace("ES256", "HS256") + ACCESS,
            "identity.jwt.algorithms",
        ),
        (
            JWT.to_owned() + "keys_url = \"http://issuer.example/keys\"\n" + ACCESS,
            "must be https://",
        ),
        (
            JWT.to_owned() + "keys_url = \"https://i/k\"\nleeway = \"2m\"\n" + ACCESS,
            "at most 60s",
        ),
        (
            JWT.to_owned() + "keys_file = \"tokens.toml\"\n" + ACCESS,
            "no JWKS document",
        ),
    ];
    refused(&cases);
}
