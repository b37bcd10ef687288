//! How a target is logged in to: with and without TLS, with every kind of password, and what is
//! said when it does not work.

use super::fixture::{Fixture, Task, json, sql, token};
use crate::harness::postgres::{connect, on_port};
use rallypoint::{
    core::{Report, Seq},
    executor::{SESSION_IDLE, TargetConfig},
    postgres::{PrivatePostgres, SUPERUSER, TARGET},
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use sqlx::AssertSqlSafe;
use std::{fs, time::Duration};
use tempfile::TempDir;

/// A server that speaks TLS, and asks for passwords.
struct Guarded {
    postgres: PrivatePostgres,
    port: u16,
    /// Holds `ca.pem`, which has signed the server's certificate for `localhost`, and `other.pem`.
    files: TempDir,
}

const PASSWORD: &str = "p:ss w/rd'ö";
/// As it stands in a URL.
const SECRET: &str = "p%3Ass%20w%2Frd%27%C3%B6";

impl Guarded {
    async fn start() -> Self {
        let (postgres, port) = on_port();
        let files = tempfile::tempdir().expect("a directory");
        let (ca, other) = (authority(), authority());
        fs::write(files.path().join("ca.pem"), ca.pem()).expect("written");
        fs::write(files.path().join("other.pem"), other.pem()).expect("written");
        let key = KeyPair::generate().expect("a key");
        let names = CertificateParams::new(vec!["localhost".into()]).expect("a name");
        let cert = names.signed_by(&key, &ca).expect("signed");
        let guarded = Guarded {
            postgres,
            port,
            files,
        };
        guarded.write("server.crt", &cert.pem()).await;
        guarded.write("server.key", &key.serialize_pem()).await;
        guarded
            .write(
                "pg_hba.conf",
                "local all all trust\n\
                 host all scram 127.0.0.1/32 scram-sha-256\n\
                 host all md5 127.0.0.1/32 md5\n\
                 host all clear 127.0.0.1/32 password\n\
                 hostssl all app 127.0.0.1/32 trust\n",
            )
            .await;
        guarded
            .superuser(format!(
                "alter system set ssl = on;
                set password_encryption = 'md5';
                create role md5 login password {p};
                set password_encryption = 'scram-sha-256';
                create role scram login password {p};
                create role clear login password {p};
                grant connect on database app to md5, scram, clear;
                select pg_reload_conf()",
                p = literal(PASSWORD)
            ))
            .await;
        guarded
    }

    /// Writes a file of the server's own.
    async fn write(&self, name: &str, text: &str) {
        let statements = format!(
            "copy (select unnest(string_to_array({text}, e'\\n')))
            to program 'umask 077 && cat > {name}.new && mv {name}.new {name}'",
            text = literal(text)
        );
        self.superuser(statements).await;
    }

    async fn superuser(&self, statements: String) {
        let options = self.postgres.options_for(TARGET, SUPERUSER).port(self.port);
        let mut session = connect(&options).await;
        for statement in statements.split_inclusive(";\n") {
            let done = sqlx::raw_sql(AssertSqlSafe(statement.to_owned()));
            done.execute(&mut session).await.expect("as a superuser");
        }
    }

    /// An executor with this login, whose URL has `{port}` and `{files}` in it.
    async fn executor(&self, url: &str) -> Fixture {
        let url = url
            .replace("{port}", &self.port.to_string())
            .replace("{files}", &self.files.path().to_string_lossy());
        let login = url.parse().expect("a login");
        let options = self.postgres.options_for(TARGET, TARGET).port(self.port);
        let mut fixture = Fixture::with(login, options, 1, SESSION_IDLE);
        assert_eq!(fixture.slots().await, 1);
        fixture
    }

    /// Whether a task runs with this login, and through TLS.
    async fn logs_in(&self, url: &str) -> Result<bool, String> {
        let mut fixture = self.executor(url).await;
        let seq = fixture.start(Task {
            rows: 1,
            ..sql("select ssl from pg_stat_ssl where pid = pg_backend_pid()")
        });
        let report = fixture.ended(seq).await.report;
        match report {
            Report::Succeeded(Some(result)) => Ok(json(&result) == r#"[{"ssl":true}]"#),
            _ => {
                let target = fixture.executor.targets().remove(0);
                Err(target.unavailable.expect("it says why").why)
            }
        }
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[tokio::test]
async fn passwords_are_given_in_the_way_the_server_asks_for() {
    let server = Guarded::start().await;
    for user in ["scram", "md5", "clear"] {
        let url = format!("postgres://{user}:{SECRET}@127.0.0.1:{{port}}/app");
        for (tls, mode) in [(true, "prefer"), (false, "disable")] {
            let logged_in = server.logs_in(&format!("{url}?sslmode={mode}")).await;
            assert_eq!(logged_in, Ok(tls), "{user} {mode}");
        }
        let wrong = format!("postgres://{user}:{SECRET}x@127.0.0.1:{{port}}/app");
        let why = server.logs_in(&wrong).await.expect_err("a wrong password");
        assert!(why.contains("28P01"), "{why}");
        let none = format!("postgres://{user}@127.0.0.1:{{port}}/app");
        let why = server.logs_in(&none).await.expect_err("no password");
        let explained = "neither the URL nor a `password_file` has one";
        assert!(why.contains(explained), "{why}");
    }
}

/// A task that sleeps, while the password of the login of its target is changed.
struct Changing {
    fixture: Fixture,
    running: Seq,
    server: Guarded,
}

impl Changing {
    async fn start() -> Self {
        let server = Guarded::start().await;
        let mut fixture = server.executor(&as_scram(SECRET, server.port)).await;
        // Others may not see what it waits for.
        fixture.options = fixture.options.username(SUPERUSER);
        let running = fixture.start(sql("select pg_sleep(3600)"));
        fixture.asleep().await;
        Changing {
            fixture,
            running,
            server,
        }
    }

    /// On the server.
    async fn set_password(&self, secret: &str) {
        let alter = format!("alter role scram password {}", literal(secret));
        self.server.superuser(alter).await;
    }

    /// In the configuration.
    fn log_in_with(&self, secret: &str) {
        let login = as_scram(secret, self.server.port).parse();
        let changed = TargetConfig::new("app", login.expect("a login"), 1);
        self.fixture.executor.reconfigure(&[changed]);
    }

    /// Asserts that the task can be stopped.
    async fn stop(mut self) {
        self.fixture.executor.stop(token(self.running));
        let report = self.fixture.ended(self.running).await.report;
        assert!(matches!(report, Report::Stopped), "{report:?}");
    }
}

fn as_scram(secret: &str, port: u16) -> String {
    format!("postgres://scram:{secret}@127.0.0.1:{port}/app?sslmode=disable")
}

#[tokio::test]
async fn what_runs_can_be_stopped_though_the_new_password_is_a_wrong_one() {
    let changing = Changing::start().await;
    changing.log_in_with("wrong");
    changing.stop().await;
}

#[tokio::test]
async fn what_runs_can_be_stopped_by_a_login_that_nobody_has_used_yet() {
    let changing = Changing::start().await;
    changing.set_password("next").await;
    changing.log_in_with("next");
    changing.log_in_with("wrong");
    changing.stop().await;
}

#[tokio::test]
async fn what_runs_can_be_stopped_by_a_login_that_has_only_been_tried() {
    let mut changing = Changing::start().await;
    changing.log_in_with("wrong");
    while changing.fixture.slots().await != 0 {}
    changing.set_password("next").await;
    changing.log_in_with("next");
    while changing.fixture.slots().await != 1 {}
    for wrong in ["wrong", "wrong_again"] {
        changing.log_in_with(wrong);
    }
    changing.stop().await;
}

#[tokio::test]
async fn certificates_are_looked_at_as_closely_as_the_url_says() {
    let server = Guarded::start().await;
    let (by_name, by_address) = ("localhost", "127.0.0.1");
    let ca = "sslrootcert={files}/ca.pem";
    let other = "sslrootcert={files}/other.pem";
    for (host, ssl, works) in [
        (by_address, "sslmode=prefer".to_owned(), true),
        (by_address, "sslmode=require".to_owned(), true),
        (by_address, format!("sslmode=require&{ca}"), true),
        (by_address, format!("sslmode=require&{other}"), false),
        (by_address, "sslmode=verify-ca".to_owned(), false),
        (by_address, format!("sslmode=verify-ca&{ca}"), true),
        (by_address, format!("sslmode=verify-ca&{other}"), false),
        (by_address, format!("sslmode=verify-full&{ca}"), false),
        (by_name, format!("sslmode=verify-full&{ca}"), true),
        (by_name, format!("sslmode=verify-full&{other}"), false),
        (by_address, "sslmode=disable".to_owned(), false),
    ] {
        let url = format!("postgres://app@{host}:{{port}}/app?{ssl}");
        let logged_in = server.logs_in(&url).await;
        assert_eq!(logged_in.is_ok(), works, "{host} {ssl}: {logged_in:?}");
        assert!(logged_in != Ok(false), "{host} {ssl}: not through TLS");
    }
    let missing = "postgres://app@localhost:{port}/app?sslmode=verify-full&sslrootcert=/nowhere";
    let why = server.logs_in(missing).await.expect_err("no such file");
    assert!(
        why.contains("sslrootcert") && why.contains("/nowhere"),
        "{why}"
    );
}

#[tokio::test]
async fn rows_are_bounded_above_tls_and_keep_their_types() {
    let server = Guarded::start().await;
    let mut fixture = server
        .executor("postgres://app@127.0.0.1:{port}/app?sslmode=require")
        .await;
    let text = "select repeat('x', 100000000) as a, 1 as i; select 1 as i, true as b, 'x' as t";
    let seq = fixture.start(Task {
        rows: 1,
        ..sql(text)
    });
    let ended = tokio::time::timeout(Duration::from_secs(60), fixture.ended(seq)).await;
    let result = super::fixture::succeeded(ended.expect("in time").report);
    assert_eq!(json(&result), r#"[{"i":1,"b":true,"t":"x"}]"#);
}
