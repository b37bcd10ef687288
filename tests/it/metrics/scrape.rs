//! What a scrape says, as numbers by name and labels.

use std::{collections::BTreeMap, net::SocketAddr};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The samples of a scrape, as `name{label="value",…}`.
pub(crate) struct Scrape(BTreeMap<String, f64>);

impl Scrape {
    /// Reads what the admin address of a server shows, and that it is OpenMetrics.
    pub(crate) async fn read(admin: SocketAddr) -> Scrape {
        let (status, text) = get(admin, "/metrics").await;
        assert_eq!(status, 200, "{text}");
        assert!(text.ends_with("# EOF\n"), "it is whole");
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let samples = samples.map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            (name.to_owned(), value.parse().expect("a number"))
        });
        Scrape(samples.collect())
    }

    /// The value of a sample. It must be there.
    pub(crate) fn value(&self, sample: &str) -> f64 {
        let value = self.0.get(sample).copied();
        value.unwrap_or_else(|| panic!("{sample} is none of {:#?}", self.0))
    }

    /// Each of these samples has this value.
    pub(crate) fn shows(&self, samples: &[(&str, f64)]) {
        for (sample, value) in samples {
            assert_eq!(self.value(sample), *value, "{sample}");
        }
    }

    pub(crate) fn has(&self, sample: &str) -> bool {
        self.0.contains_key(sample)
    }
}

/// The status and the body of an answer of the admin address.
pub(crate) async fn get(admin: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(admin).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answered");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    (status.expect("a status"), body.to_owned())
}
