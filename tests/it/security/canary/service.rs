//! Two replicas as in production (passwords, TLS, tokens, traces) that log all there is to log.

use super::words::Canaries;
use crate::harness::{
    authority::Authority,
    collector::Collector,
    conversation::WAIT_TIMEOUT,
    postgres::{connect, durable},
    process::{Process, free_address},
};
use nix::sys::signal::Signal;
use rallypoint::postgres::{COORDINATION, PrivatePostgres, SUPERUSER, TARGET};
use rallypoint_client::{Client, Tls};
use sha2::{Digest, Sha256};
use sqlx::AssertSqlSafe;
use std::{
    fs::{self, File},
    path::PathBuf,
    process::Command,
    time::Duration,
};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

/// Who calls, of which namespace, and as what.
const CALLERS: [(&str, &str, &str); 3] = [
    ("etl", "etl", "operator"),
    ("sales", "sales", "operator"),
    ("root", "*", "admin"),
];

pub(super) struct Service {
    pub(super) canaries: Canaries,
    pub(super) collector: Collector,
    folder: TempDir,
    postgres: PrivatePostgres,
    port: u16,
    /// In the order of `CALLERS`.
    tokens: Vec<String>,
    replicas: Vec<Replica>,
}

struct Replica {
    process: Process,
    url: String,
    admin: String,
}

impl Service {
    pub(super) async fn start() -> Service {
        let port = free_address().port();
        let settings = [
            ("listen_addresses", "127.0.0.1".into()),
            ("port", port.to_string()),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value));
        let canaries = Canaries::default();
        let tokens = CALLERS.map(|(name, ..)| canaries.plant(name)).to_vec();
        let mut service = Service {
            collector: Collector::start().await,
            folder: TempDir::new().expect("a directory"),
            postgres: durable(settings.to_vec()),
            port,
            tokens,
            canaries,
            replicas: Vec::new(),
        };
        let database = service.logins().await;
        service.write_files();
        for name in ["a", "b"] {
            let replica = service.replica(name, &database);
            service.replicas.push(replica);
        }
        for index in [0, 1] {
            let client = service.client(index, "root");
            client.status().await.expect("it serves");
        }
        service
    }

    /// Has the databases ask for passwords. Returns the URL of the coordination database.
    async fn logins(&self) -> String {
        let [journal, app] = ["the journal's password", "a target's password"]
            .map(|place| self.canaries.plant(place));
        let rules = "copy (select unnest(array['local all all trust', \
             'host all all 127.0.0.1/32 scram-sha-256'])) to program 'cat > pg_hba.conf'";
        self.psql(TARGET, rules).await;
        for (role, password) in [(COORDINATION, &journal), (TARGET, &app)] {
            let statement = format!("alter role {role} password '{password}'");
            self.psql(TARGET, &statement).await;
        }
        self.psql(TARGET, "select pg_reload_conf()").await;
        fs::write(self.file("app.password"), app).expect("written");
        self.url(COORDINATION, &journal)
    }

    fn url(&self, role: &str, password: &str) -> String {
        format!(
            "postgres://{role}:{password}@127.0.0.1:{}/{role}",
            self.port
        )
    }

    /// Runs a statement as an administrator of the databases does.
    pub(super) async fn psql(&self, database: &str, statement: &str) {
        let options = self.postgres.options_for(database, SUPERUSER);
        let options = options.port(self.port);
        let mut session = connect(&options).await;
        let done = sqlx::raw_sql(AssertSqlSafe(statement.to_owned()));
        done.execute(&mut session)
            .await
            .expect("as an administrator");
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the server is told by files.
    fn write_files(&self) {
        let wrong = self.canaries.plant("a wrong password of a target");
        fs::write(self.file("wrong.url"), self.url(TARGET, &wrong)).expect("written");
        fs::write(self.file("keys.json"), super::jwt_keys(&self.canaries)).expect("written");
        let tls = Authority::new().write(self.folder.path());
        let key = fs::read_to_string(&tls.key).expect("a key");
        let lines: Vec<&str> = key.lines().collect();
        self.canaries.watch("a private key", lines[lines.len() - 2]);
        let (mut tokens, mut rules) = (String::new(), String::new());
        for ((name, namespace, role), token) in CALLERS.iter().zip(&self.tokens) {
            let hash = Sha256::digest(token);
            let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            tokens += &format!("{name} = \"sha256:{hash}\"\n");
            rules += &format!(
                "[[access]]\nidentities = [\"token:{name}\"]\nnamespaces = [\"{namespace}\"]\n\
                 role = \"{role}\"\n"
            );
        }
        let port = self.port;
        let config = format!(
            "[identity]\ntoken_file = \"tokens.toml\"\n[identity.jwt]\nissuer = \"issuer\"\n\
             audience = \"rallypoint\"\nalgorithms = [\"ES256\"]\nkeys_file = \"keys.json\"\n\
             {rules}[targets.app]\nurl = \"postgres://{TARGET}@127.0.0.1:{port}/{TARGET}\"\n\
             password_file = \"app.password\"\n[targets.wrong]\nurl_file = \"wrong.url\"\n"
        );
        fs::write(self.file("tokens.toml"), tokens).expect("written");
        fs::write(self.file("rallypoint.toml"), config).expect("written");
    }

    fn replica(&self, name: &str, database: &str) -> Replica {
        let [listen, peers, admin] = [(); 3].map(|()| free_address().to_string());
        let file = |name: &str| self.file(name).display().to_string();
        let (config, collector) = (file("rallypoint.toml"), self.collector.url());
        let (cert, key, ca) = (file("tls.crt"), file("tls.key"), file("ca.crt"));
        let options = [
            ("--replica-name", name),
            ("--config", &config),
            ("--listen", &listen),
            ("--listen-cert", &cert),
            ("--listen-key", &key),
            ("--peer-listen", &peers),
            ("--peer-cert", &cert),
            ("--peer-key", &key),
            ("--peer-ca", &ca),
            ("--admin-listen", &admin),
            ("--otlp-endpoint", &collector),
            ("--trace-ratio", "1"),
            ("--lease", "4"),
        ];
        let mut process = Process::serve(options.into_iter().flat_map(|(one, two)| [one, two]));
        let password = self.canaries.plant("a password in the environment");
        let headers = self.canaries.plant("a token for the collector");
        let log = File::create(self.file(&format!("{name}.log"))).expect("a log");
        let command = process.command();
        command.env("RUST_LOG", "trace").stderr(log);
        command.env("RALLYPOINT_DATABASE", database);
        command.env(
            "RALLYPOINT_TARGETS",
            format!("env={}", self.url(TARGET, &password)),
        );
        command.env(
            "OTEL_EXPORTER_OTLP_HEADERS",
            format!("authorization=Bearer {headers}"),
        );
        process.start();
        Replica {
            process,
            url: format!("https://{listen}"),
            admin,
        }
    }

    /// The address of a replica.
    pub(super) fn address(&self, index: usize) -> &str {
        &self.replicas[index].url
    }

    pub(super) fn token(&self, name: &str) -> &str {
        let index = CALLERS.iter().position(|(caller, ..)| *caller == name);
        &self.tokens[index.expect("a caller")]
    }

    /// A caller of a replica.
    pub(super) fn client(&self, index: usize, name: &str) -> Client {
        let client = self.stranger(index, self.token(name));
        client.with_retry_timeout(WAIT_TIMEOUT)
    }

    /// Whoever sends this token, whose calls are made once.
    pub(super) fn stranger(&self, index: usize, token: &str) -> Client {
        let tls = Tls::new().with_ca(self.file("ca.crt"));
        let client = Client::connect_lazy_by(&tls, self.address(index)).expect("a URL");
        let client = client.with_retry_timeout(Duration::ZERO);
        client
            .with_token(&token.to_owned().into())
            .expect("a token")
    }

    /// What a replica answers to a caller over HTTP, with the status.
    pub(super) fn curl(&self, index: usize, path: &str, arguments: &[&str]) -> String {
        let output = Command::new("curl")
            .args(["-sS", "-i", "-k", "--max-time", "60"])
            .args([
                "-H",
                "rallypoint-page: 1",
                "-H",
                "content-type: application/json",
            ])
            .args(arguments)
            .arg(format!("{}{path}", self.address(index)))
            .output()
            .expect("curl runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Everything that a replica shows on its admin address.
    pub(super) fn metrics(&self, index: usize) -> String {
        let url = format!("http://{}/metrics", self.replicas[index].admin);
        let output = Command::new("curl").args(["-sS", &url]).output();
        String::from_utf8(output.expect("curl runs").stdout).expect("text")
    }

    /// Kills a replica, and returns what it has logged.
    pub(super) fn kill(&mut self, index: usize) -> String {
        self.replicas[index].process.kill();
        self.log(index)
    }

    /// Tells a replica to stop, and returns what it has logged.
    pub(super) async fn stop(&mut self, index: usize) -> String {
        let process = &mut self.replicas[index].process;
        process.signal(Signal::SIGTERM);
        let ended = async {
            while process.exited().is_none() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(WAIT_TIMEOUT, ended).await.expect("it stops");
        self.log(index)
    }

    fn log(&self, index: usize) -> String {
        let log = fs::read(self.file(["a.log", "b.log"][index])).expect("a log");
        String::from_utf8_lossy(&log).into_owned()
    }
}
