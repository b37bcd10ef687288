//! `doctor` finds what is wrong around a server, says what to do, and ends with 1 only when
//! something is bad.

use super::{code, run, text};
use crate::harness::{
    authority::Authority,
    postgres::{connect, durable, on_port},
    process::PROGRAM,
};
use rallypoint::{
    peer::{PeerConfig, Port},
    postgres::{COORDINATION, PrivatePostgres, SUPERUSER, TARGET},
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    thread,
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

/// What is found of a target as `Scene` makes it.
const UNPREPARED: &str = "good: app can log in; not prepared for EXACTLY_ONCE (prepare-target)";
const NOT_PREPARED: &str = "not prepared for EXACTLY_ONCE (prepare-target)";

/// The findings: what was found, by check, with the verdict before it.
fn examined(arguments: &[&str], exit_code: i32) -> BTreeMap<String, String> {
    let output = run(&[&["--json", "doctor"], arguments].concat());
    assert_eq!(code(&output), exit_code, "{output:?}");
    let document: Value = serde_json::from_str(&text(&output.stdout)).expect("a document");
    let checks = document["checks"].as_array().expect("findings").iter();
    let word = |finding: &Value, field: &str| finding[field].as_str().expect(field).to_owned();
    let shown = checks.map(|finding| {
        let verdict = word(finding, "verdict");
        assert_eq!(
            verdict == "good",
            word(finding, "remedy").is_empty(),
            "{finding}"
        );
        let found = word(finding, "found");
        (word(finding, "check"), format!("{verdict}: {found}"))
    });
    shown.collect()
}

/// A database, a folder for files, and an authority for certificates.
struct Scene {
    url: String,
    target: String,
    folder: TempDir,
    authority: Authority,
    postgres: PrivatePostgres,
}

impl Scene {
    fn new() -> Scene {
        let postgres = durable(Vec::new());
        Scene {
            url: postgres.url_for(COORDINATION, COORDINATION),
            target: postgres.url_for(TARGET, TARGET),
            folder: TempDir::new().expect("a directory"),
            authority: Authority::new(),
            postgres,
        }
    }

    /// Writes a file and returns its path.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.display().to_string()
    }

    fn config(&self, target: &str) -> String {
        let text = format!("[targets.app]\nurl = \"{target}\"\n");
        self.file("rallypoint.toml", &text)
    }
}

#[test]
fn what_is_well_is_said() {
    let scene = Scene::new();
    let config = scene.config(&scene.target);
    let good = scene.file("good.crt", &scene.authority.certificate("here").0);
    let database = ["--database", &scene.url];
    let files = ["--config", &config, "--certificate", &good];
    let well = examined(&[&database[..], &files].concat(), 0);
    for check in ["journal", "pooler", "settings", "schema", "rights", "clock"] {
        assert!(well[check].starts_with("good: "), "{check}: {well:?}");
    }
    assert_eq!(well["synchronous_commit"], "good: on");
    assert!(!well["commit"].starts_with("bad"), "{well:?}");
    assert_eq!(well["target app"], UNPREPARED);
    let valid = &well[&format!("certificate {good}")];
    assert!(valid.starts_with("good: valid for "), "{valid}");
    let people = run(&["doctor", "--database", &scene.url]);
    let said = text(&people.stdout);
    assert!(said.contains("good      settings: fsync"), "{said}");
}

#[test]
fn what_is_wrong_is_found() {
    let scene = Scene::new();
    let config = scene.config("postgres://app@127.0.0.1:1/app");
    let expired = scene.file("expired.crt", &scene.authority.certificate_for(-1));
    let soon = scene.file("soon.crt", &scene.authority.certificate_for(3));
    let database = ["--database", &scene.url, "--config", &config];
    let certificates = ["--certificate", &expired, "--certificate", &soon];
    let peer = ["--peer", "127.0.0.1:1"];
    let wrong = examined(&[&database[..], &certificates, &peer].concat(), 1);
    assert_eq!(
        wrong[&format!("certificate {expired}")],
        "bad: it has expired"
    );
    let ends = &wrong[&format!("certificate {soon}")];
    assert!(ends.starts_with("doubtful: valid for 2 days"), "{ends}");
    for check in ["target app", "peer 127.0.0.1:1"] {
        assert!(wrong[check].starts_with("bad: "), "{check}: {wrong:?}");
    }
    let early = scene.file("early.crt", &scene.authority.certificate_from(3));
    let found = examined(&[&database[..], &["--certificate", &early]].concat(), 1);
    let begins = &found[&format!("certificate {early}")];
    assert!(
        begins.starts_with("bad: it is valid in 2 days only"),
        "{begins}"
    );
    let away = examined(&["--database", "postgres://x@127.0.0.1:1/x"], 1);
    assert!(away["journal"].starts_with("bad: "), "{away:?}");
}

#[test]
fn what_keeps_a_login_out_is_answered_by_what_mends_that() {
    let scene = Scene::new();
    let said = |url: &str| {
        let target = format!("app={url}");
        let output = run(&["doctor", "--database", url, "--target", &target]);
        let said = text(&output.stdout);
        assert_eq!(code(&output), 1, "{said}");
        said
    };
    let twice = |said: &str, part: &str| assert_eq!(said.matches(part).count(), 2, "{said}");
    let refused = said("postgres://x@127.0.0.1:1/x");
    twice(&refused, "nothing listens there");
    let socket = said("postgres://x@/x?host=/nowhere&port=7");
    twice(&socket, "/nowhere/.s.PGSQL.7");
    let (_postgres, port) = on_port();
    let host = format!("postgres://app@127.0.0.1:{port}/app");
    let plain = said(&format!("{host}?sslmode=require"));
    twice(&plain, "the server takes no TLS");
    twice(&plain, "set TLS up on the server");
    assert!(!plain.contains("verify-full"), "{plain}");
    let missing = format!("app={host}?sslrootcert=/nowhere/ca.crt");
    let wrong = "b=postgres://u@h/d?sslmode=disabled";
    let targets = ["--target", &missing, "--target", wrong];
    let output = run(&[&["doctor", "--database", &scene.url], &targets[..]].concat());
    let said = text(&output.stdout);
    assert!(said.contains("cannot read /nowhere/ca.crt"), "{said}");
    let modes = "`sslmode` is disable, prefer, require";
    assert!(
        said.contains(modes) && !said.contains("NAME:SLOTS"),
        "{said}"
    );
    let second = "target 2 of --target or RALLYPOINT_TARGETS: the URL of target b cannot be used: ";
    assert!(said.contains(second), "{said}");
}

#[tokio::test]
async fn each_login_of_a_target_is_tried_with_what_it_has_to_do() {
    let scene = Scene::new();
    let admin = scene.postgres.url_for(TARGET, SUPERUSER);
    let prepared = run(&["prepare-target", "--url", &admin, "--login", TARGET]);
    assert_eq!(code(&prepared), 0, "{prepared:?}");
    let mut session = connect(&scene.postgres.options_for(TARGET, SUPERUSER)).await;
    let roles = "create role sales login; create role guard login; create role nobody;
                 create role \"re'porter\"; grant \"re'porter\" to app;
                 grant connect on database app to sales, guard";
    let made = sqlx::raw_sql(roles).execute(&mut session).await;
    made.expect("roles");
    let described = format!(
        "[targets.app]\nurl = \"{}\"\nroles = [\"re'porter\", \"nobody\", \"sales\"]\n\
         defaults.role = \"re'porter\"\n[targets.app.logins.sales]\nuser = \"sales\"\n\
         [targets.app.watchdog]\nuser = \"guard\"\n\
         [targets.own]\nurl = \"{}\"\n[targets.all]\nurl = \"{admin}\"\n",
        scene.target, scene.url
    );
    let config = scene.file("rallypoint.toml", &described);
    let database = ["--database", &scene.url, "--trusted-namespace-metadata"];
    let arguments = [&database[..], &["--config", &config]].concat();
    let found = examined(&arguments, 1);
    let is = |check: &str, said: &str| assert_eq!(found[check], said, "{found:?}");
    is(
        "target app",
        "good: app can log in; prepared for EXACTLY_ONCE",
    );
    let (unused, unmarked) = (
        "it may not use what prepare-target has made",
        "it may not look for markers of EXACTLY_ONCE",
    );
    let denied = "it may not become re'porter, the role of `defaults`";
    let sales = format!("bad: sales can log in; {denied}; {unused}");
    is("target app, namespace sales", &sales);
    is("target app, roles", "bad: no login may become nobody");
    let weak = "it may not see and end sessions of app, sales";
    let guard = format!("bad: guard can log in; {weak}; {unmarked}");
    is("target app, watchdog", &guard);
    let shared = "can log in; it is also the login of the coordination database";
    is(
        "target own",
        &format!("doubtful: {COORDINATION} {shared}; {NOT_PREPARED}"),
    );
    let mighty = "can log in; it is a superuser; prepared for EXACTLY_ONCE";
    is("target all", &format!("doubtful: {SUPERUSER} {mighty}"));
    // A watchdog that is a member of the logins may end their sessions, too.
    let grants = "grant \"re'porter\" to sales; grant nobody to sales; grant app, sales to guard";
    let granted = sqlx::raw_sql(grants).execute(&mut session).await;
    granted.expect("granted");
    let found = examined(&arguments, 0);
    let sales = format!("doubtful: sales can log in; {unused}");
    assert_eq!(found["target app, namespace sales"], sales);
    let guard = "good: guard can log in; it may end the sessions of tasks";
    assert_eq!(found["target app, watchdog"], guard);
    assert!(!found.contains_key("target app, roles"), "{found:?}");
}

#[test]
fn who_installs_for_nobody_is_told_what_to_do() {
    let scene = Scene::new();
    let admin = scene.postgres.url_for(TARGET, SUPERUSER);
    for verb in [
        &["prepare-target"][..],
        &["jobs", "install"],
        &["guard", "install"],
    ] {
        let install = run(&[verb, &["--url", &admin, "--login", "nobody"]].concat());
        let said = text(&install.stderr);
        assert!(said.contains("next: correct --login"), "{said}");
        let said = text(&run(&[verb, &["--login", TARGET]].concat()).stderr);
        assert!(said.contains("also be in RALLYPOINT_ADMIN_URL"), "{said}");
        let said = text(&run(verb).stderr);
        assert!(!said.contains("RALLYPOINT_TARGETS"), "{said}");
        let nowhere = ["--url", "postgres://x@127.0.0.1:1/x", "--login", TARGET];
        let said = text(&run(&[verb, &nowhere].concat()).stderr);
        assert!(said.contains("nothing listens there"), "{said}");
    }
    let config = format!("[targets.app]\nurl = \"{admin}\"\nroles = [\"nobody\"]\n");
    let config = scene.file("rallypoint.toml", &config);
    let install = ["guard", "install", "--target", "app", "--config", &config];
    let said = text(&run(&install).stderr);
    assert!(said.contains("next: correct [targets.app] in /"), "{said}");
}

/// Asks whoever connects for a password, and hangs up.
fn ask_for_password(mut client: TcpStream) -> io::Result<()> {
    let mut length = [0; 4];
    client.read_exact(&mut length)?;
    let mut startup = vec![0; u32::from_be_bytes(length) as usize - length.len()];
    client.read_exact(&mut startup)?;
    client.write_all(b"R\0\0\0\x08\0\0\0\x03")
}

#[test]
fn the_environment_has_no_password_for_who_installs() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let url = format!("postgres://u@127.0.0.1:{port}/d?sslmode=disable");
    let answered = thread::spawn(move || {
        for client in listener.incoming().take(3) {
            ask_for_password(client.expect("a client")).expect("a startup message");
        }
    });
    for verb in [
        &["prepare-target"][..],
        &["jobs", "install"],
        &["guard", "install"],
    ] {
        let mut install = Command::new(PROGRAM);
        install.args(verb).args(["--url", &url, "--login", TARGET]);
        let install = install.env("PGPASSWORD", "secret").output();
        let said = text(&install.expect("the program runs").stderr);
        assert!(said.contains("write the password in the URL"), "{said}");
    }
    answered.join().expect("all were asked");
}

#[tokio::test]
async fn a_login_that_can_make_no_schema_is_bad_where_one_is_needed() {
    let scene = Scene::new();
    let mut session = connect(&scene.postgres.options_for(COORDINATION, SUPERUSER)).await;
    // Until Postgres 14, everybody may create tables in the schema public.
    let poor = "revoke all on schema public from public;
        create role poor login; grant connect on database rallypoint to poor";
    let made = sqlx::raw_sql(poor).execute(&mut session).await;
    made.expect("a role");
    let database = scene.postgres.url_for(COORDINATION, "poor");
    let found = examined(&["--database", &database], 1);
    let rights = &found["rights"];
    assert!(
        rights.starts_with("bad: it may create nothing, and"),
        "{rights}"
    );
    let output = run(&["serve", "--listen", "127.0.0.1:0", "--database", &database]);
    let said = text(&output.stderr);
    assert!(
        said.contains("next: `rallypoint doctor --database URL`"),
        "{said}"
    );
    assert!(!said.contains(" at line "), "{said}");
    let half = "grant create on database rallypoint to poor";
    let granted = sqlx::raw_sql(half).execute(&mut session).await;
    granted.expect("rights");
    let found = examined(&["--database", &database], 1);
    let rights = &found["rights"];
    assert!(
        rights.starts_with("bad: it may create no table in the schema public, and"),
        "{rights}"
    );
    let apart = "create schema apart; alter role poor set search_path = apart, public";
    let made = sqlx::raw_sql(apart).execute(&mut session).await;
    made.expect("a schema");
    let found = examined(&["--database", &database], 1);
    let rights = "bad: it may create no table in the schema apart, and";
    assert!(found["rights"].starts_with(rights), "{found:?}");
}

#[test]
fn a_bad_file_hides_nothing_else() {
    let scene = Scene::new();
    let config = scene.file("rallypoint.toml", "[targets.app]\nslots = 0\n");
    let good = scene.file("good.crt", &scene.authority.certificate("here").0);
    let (app, other) = (
        format!("app={}", scene.target),
        "other=postgres://x@127.0.0.1:1/x",
    );
    let database = ["--database", &scene.url, "--config", &config];
    let targets = ["--target", &app, "--target", other, "--target", "nonsense"];
    let twice = ["--target", &*app];
    let files = ["--certificate", &good];
    let found = examined(&[&database[..], &targets, &twice, &files].concat(), 1);
    let fault = &found[&format!("configuration {config}")];
    assert!(
        fault.starts_with("bad: ") && fault.contains("url"),
        "{fault}"
    );
    assert_eq!(
        found["schema"],
        "good: the next start makes it, or brings it up to date"
    );
    assert_eq!(found["target app"], UNPREPARED);
    assert!(found["target other"].starts_with("bad: "), "{found:?}");
    let wrong = &found["target 3 of --target or RALLYPOINT_TARGETS"];
    assert_eq!(wrong, "bad: there is no `=`");
    let wrong = &found["target 4 of --target or RALLYPOINT_TARGETS"];
    assert_eq!(wrong, "bad: `app` is named twice");
    assert!(found[&format!("certificate {good}")].starts_with("good: "));
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_are_called_as_replicas_call_them() {
    let (scene, others) = (Scene::new(), Authority::new());
    let ours = &scene.authority;
    let port = Port::bind(PeerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        advertise: None,
        tls: Some(ours.replica(ours)),
        names: Vec::new(),
    });
    let port = port.await.expect("a port");
    let address = port.address().to_owned();
    let (_, health) = tonic_health::server::health_reporter();
    tokio::spawn(port.serve(Routes::new(health), CancellationToken::new()));
    let files = |name: &str, authority: &Authority| {
        let (cert, key) = authority.certificate("127.0.0.1");
        let file = |end: &str, text: &str| scene.file(&format!("{name}.{end}"), text);
        [file("crt", &cert), file("key", &key), file("ca", &ours.pem)]
    };
    let (own, foreign) = (files("own", ours), files("foreign", &others));
    let called = |files: Option<&[String; 3]>, exit_code| {
        let mut arguments = vec!["--database", &scene.url, "--peer", &address];
        for (option, file) in ["--peer-cert", "--peer-key", "--peer-ca"]
            .into_iter()
            .zip(files.into_iter().flatten())
        {
            arguments.extend([option, file]);
        }
        examined(&arguments, exit_code)[&format!("peer {address}")].clone()
    };
    // Other threads serve the replica meanwhile.
    let found = called(Some(&own), 0);
    assert_eq!(found, "good: it answers, and takes the certificate");
    for files in [Some(&foreign), None] {
        let found = called(files, 1);
        assert!(found.starts_with("bad: "), "{found}");
    }
}
