//! Callers by TLS: who gets through, who they are then, and what happens while certificates are
//! renewed.

use super::{Grant, Secured};
use crate::harness::authority::{Authority, for_callers};
use rallypoint::peer::CallerTls;
use rallypoint_client::{Client, Result, Tls, api};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};
use tempfile::TempDir;

const GRANTS: &[Grant] = &[Grant {
    name: "etl",
    namespaces: &["etl"],
    role: "submitter",
}];
/// A caller that a certificate names.
pub(super) const RULE: &str = "[[access]]\nidentities = [\"cert:spiffe://prod/etl/*\"]\n\
                    namespaces = [\"etl\"]\nrole = \"submitter\"\n";
const CALLER: &str = "spiffe://prod/etl/nightly";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Certificates of a server and of a caller, in a folder that is changed as a Secret is: all files
/// at once, by a link.
pub(super) struct Mounted {
    folder: TempDir,
    versions: usize,
}

impl Mounted {
    /// Signed by the first authority; both sides trust all of them.
    pub(super) fn new(authorities: &[&Authority]) -> Mounted {
        let mut mounted = Mounted {
            folder: TempDir::new().expect("a directory"),
            versions: 0,
        };
        mounted.renew(authorities);
        mounted
    }

    pub(super) fn renew(&mut self, authorities: &[&Authority]) {
        let by = authorities[0];
        self.versions += 1;
        let version = self.folder.path().join(format!("v{}", self.versions));
        fs::create_dir(&version).expect("a folder");
        by.write(&version);
        let (cert, key) = by.of_caller(CALLER);
        let trusted: Vec<&str> = authorities.iter().map(|one| one.pem.as_str()).collect();
        for (name, text) in [
            ("caller.crt", cert),
            ("caller.key", key),
            ("ca.crt", trusted.concat()),
        ] {
            fs::write(version.join(name), text).expect("written");
        }
        let next = self.folder.path().join("next");
        symlink(&version, &next).expect("a link");
        fs::rename(next, self.path()).expect("changed");
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("current")
    }

    /// As the server has it.
    pub(super) fn server(&self) -> CallerTls {
        let file = |name| self.path().join(name);
        let files = rallypoint::peer::TlsFiles {
            cert: file("tls.crt"),
            key: file("tls.key"),
            ca: file("ca.crt"),
        };
        CallerTls::read(&for_callers(files)).expect("certificates")
    }

    /// As a caller with a certificate has it.
    pub(super) fn caller(&self) -> Tls {
        self.trusting().with_identity(
            self.path().join("caller.crt"),
            self.path().join("caller.key"),
        )
    }

    /// As one without.
    pub(super) fn trusting(&self) -> Tls {
        Tls::new().with_ca(self.path().join("ca.crt"))
    }
}

pub(super) fn https(server: &Secured) -> String {
    server.server.url().replace("http://", "https://")
}

/// Lists schedulers on a connection of its own. What fails is not tried again.
async fn list(tls: &Tls, url: &str) -> Result<()> {
    let client = Client::connect_by(tls, url, CONNECT_TIMEOUT).await?;
    let client = client.with_retry_timeout(Duration::ZERO);
    client
        .schedulers(api::ListSchedulersRequest::default())
        .await
        .map(drop)
}

/// Waits until the server serves.
pub(super) async fn serving(server: &Secured, tls: &Tls) {
    let client = Client::connect_lazy_by(tls, &https(server)).expect("a URL");
    let listed = client
        .schedulers(api::ListSchedulersRequest::default())
        .await;
    listed.expect("it serves");
}

#[tokio::test]
async fn a_caller_is_known_by_its_certificate_or_by_its_token() {
    let (ours, others) = (Authority::new(), Authority::new());
    let (mounted, foreign) = (Mounted::new(&[&ours]), Mounted::new(&[&others, &ours]));
    let server = Secured::start(GRANTS, RULE, Some(mounted.server()));
    serving(&server, &mounted.caller()).await;
    let url = https(&server);
    assert!(list(&mounted.caller(), &url).await.is_ok());
    let nobody = list(&mounted.trusting(), &url).await.expect_err("nobody");
    assert!(nobody.is("IDENTITY_MISSING"), "{nobody}");
    let foreign = list(&foreign.caller(), &url).await.expect_err("a stranger");
    assert!(foreign.reason.is_none(), "{foreign}");
    let untrusted = list(&Tls::new(), &url)
        .await
        .expect_err("not of the public authorities");
    assert!(untrusted.transport, "{untrusted}");
    let plain = list(&mounted.caller(), &server.server.url()).await;
    assert!(plain.expect_err("no TLS").reason.is_none());
    let client = Client::connect_lazy_by(&mounted.trusting(), &url).expect("a URL");
    let token = super::token("etl").into();
    let client = client.with_token(&token).expect("a token");
    let listed = client
        .schedulers(api::ListSchedulersRequest::default())
        .await;
    listed.expect("a token is enough");
}

#[tokio::test]
async fn certificates_of_callers_are_renewed_under_load_without_a_failed_call() {
    let (before, after) = (Authority::new(), Authority::new());
    let mut mounted = Mounted::new(&[&before]);
    let tls = mounted.server();
    let server = Secured::start(GRANTS, RULE, Some(tls.clone()));
    serving(&server, &mounted.caller()).await;
    let (old, url) = (Mounted::new(&[&before, &after]), https(&server));
    let renewed = || {
        tls.read_again()
            .map_err(|(_, error)| error)
            .expect("renewed")
    };
    let made: [Arc<AtomicU32>; 4] = Default::default();
    let load = made.clone();
    let load = load.map(|made| tokio::spawn(calls(mounted.caller(), url.clone(), made)));
    let mut turns = 0;
    while turns < 5 || !load.iter().all(|task| task.is_finished()) {
        // First everybody trusts both, then both have certificates of the new authority, and at
        // last nobody trusts the old one; what is renewed meanwhile are the certificates.
        let authorities: [&[&Authority]; 5] = [
            &[&before],
            &[&before, &after],
            &[&after, &before],
            &[&after, &before],
            &[&after],
        ];
        mounted.renew(authorities[turns.min(4)]);
        renewed();
        turns += 1;
        // A call that began before, and one that began since, however long they take.
        let seen = made.each_ref().map(|made| made.load(Relaxed));
        let goes_on = |at: usize| !load[at].is_finished() && made[at].load(Relaxed) < seen[at] + 2;
        while (0..load.len()).any(goes_on) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    for task in load {
        task.await.expect("no call failed");
    }
    assert!(list(&mounted.caller(), &url).await.is_ok());
    assert!(
        list(&old.caller(), &url).await.is_err(),
        "of the old authority"
    );
}

/// Calls on new connections and on one that stays.
async fn calls(tls: Tls, url: String, made: Arc<AtomicU32>) {
    let stays = Client::connect_by(&tls, &url, CONNECT_TIMEOUT).await;
    let stays = stays.expect("connected").with_retry_timeout(Duration::ZERO);
    for call in 0..60 {
        let listed = list(&tls, &url).await;
        assert!(listed.is_ok(), "call {call}: {listed:?}");
        let listed = stays
            .schedulers(api::ListSchedulersRequest::default())
            .await;
        assert!(listed.is_ok(), "call {call}: {listed:?}");
        made.fetch_add(1, Relaxed);
    }
}

#[tokio::test]
async fn a_caller_with_the_key_of_another_certificate_is_told_so() {
    let mounted = Mounted::new(&[&Authority::new()]);
    let (cert, key) = (
        mounted.path().join("caller.crt"),
        mounted.path().join("tls.key"),
    );
    let tls = mounted.trusting().with_identity(&cert, &key);
    let refused = Client::connect_by(&tls, "https://localhost:1", CONNECT_TIMEOUT).await;
    let said = refused
        .expect_err("they do not belong together")
        .to_string();
    let expected = format!(
        "{} cannot be used: it is the key of another certificate than {}",
        key.display(),
        cert.display()
    );
    assert!(said.contains(&expected), "{said}");
}

#[tokio::test]
async fn files_that_cannot_be_used_leave_those_before_in_use() {
    let ours = Authority::new();
    let mounted = Mounted::new(&[&ours]);
    let tls = mounted.server();
    let server = Secured::start(GRANTS, RULE, Some(tls.clone()));
    serving(&server, &mounted.caller()).await;
    let key = mounted.path().join("tls.key");
    let caller = Mounted::new(&[&ours]);
    fs::copy(caller.path().join("tls.key"), &key).expect("another key");
    let (_, error) = tls.read_again().expect_err("they do not belong together");
    assert!(shows(&error, &key), "{error:#}");
    assert!(list(&caller.caller(), &https(&server)).await.is_ok());
}

fn shows(error: &anyhow::Error, path: &Path) -> bool {
    format!("{error:#}").contains(&path.display().to_string())
}
