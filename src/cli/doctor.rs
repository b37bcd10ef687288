//! `doctor`: looks at everything a server needs (its database, targets, certificates, the other
//! replicas) and says what is wrong and what to do. It needs no server, and changes nothing.

use super::{
    check_config::{self, ServerOptions},
    error::CliError,
    output,
    peer_files::PeerFiles,
    postgres_url,
    serve::{each_target, place_of_target},
    unreadable,
};
use crate::{
    database_url::options_of,
    journal::{Finding, Verdict, examine},
    peer::{Tls, TlsFiles},
    server::{Target, of_certificates, of_peer, of_peer_certificates, of_target},
};
use clap::Args;
use serde_json::json;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

/// Arguments of `doctor`.
#[derive(Args, Debug)]
pub(super) struct Doctor {
    /// URL of the coordination database, which no configuration file names
    #[arg(
        long,
        env = "RALLYPOINT_DATABASE",
        hide_env_values = true,
        value_name = "URL"
    )]
    database: Option<String>,
    /// Configuration file (rallypoint.toml), whose targets are tried
    #[arg(
        long = "config",
        env = "RALLYPOINT_CONFIG",
        hide_env_values = true,
        value_name = "FILE"
    )]
    config_file: Option<PathBuf>,
    /// A target as serve has it, NAME=URL or NAME:SLOTS=URL, which is tried; may be repeated
    #[arg(
        long = "target",
        env = "RALLYPOINT_TARGETS",
        hide_env_values = true,
        value_delimiter = ' ',
        value_name = "NAME=URL"
    )]
    targets: Vec<String>,
    /// Certificates to look at (PEM), like those of --listen-cert and --peer-cert; may be repeated
    #[arg(long = "certificate", value_name = "FILE")]
    certificates: Vec<PathBuf>,
    /// Address of another replica, as its --peer-advertise says; may be repeated
    #[arg(long = "peer", value_name = "HOST:PORT")]
    peers: Vec<String>,
    #[command(flatten)]
    peer_files: PeerFiles,
    #[command(flatten)]
    server: ServerOptions,
}

impl Doctor {
    /// Exits 0 unless something is bad.
    pub(super) async fn run(self) -> Result<ExitCode, CliError> {
        let Some(database) = &self.database else {
            return Err(unnamed());
        };
        let coordination = postgres_url::read(postgres_url::DATABASE, database, options_of)?;
        let mut findings = examine(&coordination).await;
        let (targets, faults) = self.targets();
        findings.extend(faults);
        for target in targets {
            findings.extend(of_target(&target, &coordination).await);
        }
        let (tls, of_files) = peer_certificates(self.peer_files.files());
        findings.extend(of_files);
        findings.extend(self.certificates.iter().map(|path| of_certificates(path)));
        for peer in &self.peers {
            findings.push(of_peer(peer, tls.as_ref()).await);
        }
        let worst = findings.iter().map(|one| one.verdict).max();
        let shown: Vec<_> = findings.iter().map(as_json).collect();
        let lines: Vec<String> = findings.iter().map(in_words).collect();
        output::document(json!({ "checks": shown }), lines.join("\n"));
        Ok(match worst {
            Some(Verdict::Bad) => ExitCode::FAILURE,
            _ => ExitCode::SUCCESS,
        })
    }
}

impl Doctor {
    /// The targets of the configuration file and those named beside it, and what is wrong with what
    /// describes them.
    fn targets(&self) -> (Vec<Target>, Vec<Finding>) {
        let (mut targets, mut faults) = (Vec::new(), Vec::new());
        for (number, target) in (1..).zip(each_target(&self.targets, 1)) {
            match target {
                Ok(target) => targets.push(target),
                Err(error) => {
                    let found = error.reasons().join(": ");
                    faults.push(of_options(&place_of_target(number), found, &error));
                }
            }
        }
        if let Some(path) = &self.config_file {
            let others = targets.iter().map(|target| target.name.clone()).collect();
            let (described, fault) = self.configured(path, others);
            targets.extend(described);
            faults.extend(fault);
        }
        (targets, faults)
    }

    /// The targets of a configuration file, and why a server would not start with it.
    fn configured(
        &self,
        path: &Path,
        others: BTreeSet<Arc<str>>,
    ) -> (Vec<Target>, Option<Finding>) {
        let check = format!("configuration {}", path.display());
        let file = self.server.file(path, others);
        let described = match file.read() {
            Ok(described) => described,
            Err(found) => {
                let correct = "correct it: a server does not start with it";
                let remedy = found.unread().map_or(correct, unreadable::remedy);
                let found = found.to_string();
                let fault = Finding::wrong(&check, Verdict::Bad, found, remedy);
                return (Vec::new(), Some(fault));
            }
        };
        let sources = described.sources.as_ref();
        let disagreed = check_config::agree(file.certificates, file.namespaces, sources).err();
        let fault = disagreed.map(|error| of_options(&check, error.in_words(), &error));
        (described.targets, fault)
    }
}

/// An error of the command line as a finding. `found`: what of it the check does not say already.
fn of_options(check: &str, found: String, error: &CliError) -> Finding {
    let remedy = error.next_step().unwrap_or("correct it");
    Finding::wrong(check, Verdict::Bad, found, remedy)
}

fn unnamed() -> CliError {
    CliError::usage("the coordination database is not named")
        .why("a configuration file names targets alone, and a private Postgres needs no doctor")
        .next("say --database URL as of `serve`, which may also be in RALLYPOINT_DATABASE")
}

/// How other replicas are called, and what is found about the files.
fn peer_certificates(files: Option<TlsFiles>) -> (Option<Tls>, Vec<Finding>) {
    let Some(files) = files else {
        return (None, Vec::new());
    };
    let mut findings = vec![of_certificates(&files.cert), of_certificates(&files.ca)];
    match of_peer_certificates(&files) {
        Ok(tls) => (Some(tls), findings),
        Err(fault) => {
            findings.push(fault);
            (None, findings)
        }
    }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "good",
        Verdict::Doubtful => "doubtful",
        Verdict::Bad => "bad",
    }
}

fn as_json(finding: &Finding) -> serde_json::Value {
    json!({
        "check": finding.check,
        "verdict": verdict(finding.verdict),
        "found": finding.found,
        "remedy": finding.remedy,
    })
}

fn in_words(finding: &Finding) -> String {
    let Finding {
        check,
        found,
        remedy,
        ..
    } = finding;
    let found = found.replace('\n', "\n          ");
    let line = format!("{:<9} {check}: {found}", verdict(finding.verdict));
    match remedy.is_empty() {
        true => line,
        false => format!("{line}\n          → {remedy}"),
    }
}
