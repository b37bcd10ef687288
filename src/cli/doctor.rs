//! `doctor`: looks at everything a server needs (its database, targets, certificates, the other
//! replicas) and says what is wrong and what to do. It needs no server, and changes nothing.

use super::{check_config, error::CliError, output, postgres_url};
use crate::{
    journal::{Finding, Verdict, examine},
    server::{ConfigFile, DEFAULT_SESSION_IDLE, of_certificates, of_peer, of_target},
};
use clap::Args;
use serde_json::json;
use std::{collections::BTreeSet, path::PathBuf, process::ExitCode};

/// Arguments of `doctor`.
#[derive(Args, Debug)]
pub(super) struct Doctor {
    /// URL of the coordination database
    #[arg(
        long,
        env = "RALLYPOINT_DATABASE",
        hide_env_values = true,
        value_name = "URL"
    )]
    database: String,
    /// Configuration file (rallypoint.toml), whose targets are tried
    #[arg(
        long = "config",
        env = "RALLYPOINT_CONFIG",
        hide_env_values = true,
        value_name = "FILE"
    )]
    config_file: Option<PathBuf>,
    /// Certificates to look at (PEM), like those of --listen-cert and --peer-cert; may be repeated
    #[arg(long = "certificate", value_name = "FILE")]
    certificates: Vec<PathBuf>,
    /// Address of another replica, as its --peer-advertise says; may be repeated
    #[arg(long = "peer", value_name = "HOST:PORT")]
    peers: Vec<String>,
}

impl Doctor {
    /// Exits 0 unless something is bad.
    pub(super) async fn run(self) -> Result<ExitCode, CliError> {
        postgres_url::check("--database", &self.database)?;
        let malformed = |error| {
            CliError::new("--database is malformed")
                .why(error)
                .next("write it like postgres://user@host/database")
        };
        let mut findings = examine(&self.database.parse().map_err(malformed)?).await;
        if let Some(path) = self.config_file {
            let file = ConfigFile {
                path,
                slots: 1,
                session_idle: DEFAULT_SESSION_IDLE,
                others: BTreeSet::new(),
                namespaces: true,
                certificates: true,
            };
            for target in check_config::read(&file)?.targets {
                findings.push(of_target(&target).await);
            }
        }
        findings.extend(self.certificates.iter().map(|path| of_certificates(path)));
        for peer in &self.peers {
            findings.push(of_peer(peer).await);
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
    let line = format!("{:<9} {check}: {found}", verdict(finding.verdict));
    match remedy.is_empty() {
        true => line,
        false => format!("{line}\n          → {remedy}"),
    }
}
