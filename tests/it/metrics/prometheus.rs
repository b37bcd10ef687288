//! Debian's Prometheus scrapes a server and answers what was asked of it. Without the program
//! (`.ci/setup test` installs it) the test fails and says so.

use super::{monitoring::queries, scrape::get};
use crate::harness::{process::free_address, server::Server, work::noop};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rallypoint_client::api::SchedulerSettings;
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running Prometheus; it ends with the value.
struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(folder: &Path, config: &str, listen: &str) -> Prometheus {
    let file = folder.join("prometheus.yml");
    fs::write(&file, config).expect("written");
    let child = Command::new("prometheus")
        .arg(format!("--config.file={}", file.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            folder.join("data").display()
        ))
        .arg(format!("--web.listen-address={listen}"))
        .stderr(Stdio::null())
        .spawn()
        .expect("Debian's prometheus: .ci/setup test");
    Prometheus(child)
}

#[tokio::test]
async fn a_real_prometheus_reads_what_the_server_shows() {
    let server = Server::start().await;
    let one = server.open(SchedulerSettings::default()).await;
    one.submit((0..7).map(|_| noop())).await;
    one.all_done().await;
    let web = free_address();
    let config = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\n\
         scrape_configs:\n- job_name: rallypoint\n  static_configs:\n  - targets: ['{}']\n",
        server.admin
    );
    let folder = TempDir::new().expect("a directory");
    let mut prometheus = start(folder.path(), &config, &web.to_string());
    let query = "/api/v1/query?query=rallypoint_task_outcomes_total%7Boutcome%3D%22succeeded%22%7D";
    let begun = Instant::now();
    let mut answer = String::new();
    while !answer.contains(r#""7"]"#) {
        let ended = prometheus.0.try_wait().expect("its state");
        assert!(ended.is_none(), "it ended: {ended:?}");
        assert!(
            begun.elapsed() < START_TIMEOUT,
            "it does not say so: {answer}"
        );
        sleep(Duration::from_millis(200)).await;
        if tokio::net::TcpStream::connect(web).await.is_ok() {
            answer = get(web, query).await.1;
        }
    }
    for query in queries() {
        let encoded = utf8_percent_encode(&query, NON_ALPHANUMERIC);
        let (status, answer) = get(web, &format!("/api/v1/query?query={encoded}")).await;
        assert_eq!(status, 200, "{query}: {answer}");
    }
    let (_, targets) = get(web, "/api/v1/targets").await;
    assert!(targets.contains(r#""health":"up""#), "{targets}");
}
