//! `lock run NAME -- command…`: a command runs while this program holds a resource.
//!
//! The command runs in a process group of its own. Once the hold is lost, the group is killed: what
//! it does may be in the way of others by then. The token is in its environment, for whatever can
//! refuse a lower one. On a terminal the command is in the foreground, and this program is stopped
//! and continued with it; what was stopped for too long has lost its hold, and does not go on.

use super::{
    account,
    child::{self, Change, Child, not_started},
    connect::Server,
    error::CliError,
    job_signals::JobSignals,
    number::whole,
    output,
    resource::closed,
    shell,
    signals::Signals,
    terminal_text::plain,
    time_text,
};
use crate::core::model::limits::LEASE;
use clap::{Args, Subcommand};
use rallypoint_client::{
    ClaimStream, Client, Hold,
    api::{AcquireRequest, Claim, ClaimEnd, ResourceMode, ResourceUse},
};
use std::{ffi::OsString, future::pending, pin::pin, process::ExitCode, time::Duration};
use tokio::time::timeout;

/// Who the owner of the hold is, for commands below that claim something themselves.
pub(super) const OWNER: &str = "RALLYPOINT_OWNER";

/// For how long the answer to a claim is waited for that is given up: the server may be away.
const GIVE_BACK_TIMEOUT: Duration = Duration::from_secs(1);

/// Arguments of `lock`.
#[derive(Args, Debug)]
#[command(override_usage = "rallypoint lock run [OPTIONS] <NAME>... -- <COMMAND>...")]
pub(super) struct Lock {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Run a command while holding resources; wait for them first
    Run(Box<Run>),
}

#[derive(Args, Debug)]
struct Run {
    /// The resources, all of which are held while the command runs
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Use them beside others, as a reader, for one permit
    #[arg(long)]
    shared: bool,
    /// Use so many permits of each, beside others
    #[arg(long, value_name = "N", value_parser = whole::<i32>(1..))]
    permits: Option<i32>,
    /// How long to wait for them at most; 0: only if they are free [default: for ever]
    #[arg(long, value_parser = time_text::parse_or_zero, value_name = "TIME")]
    wait: Option<Duration>,
    /// How long the hold outlives this program, or its connection [default: 15s]
    #[arg(long, value_parser = time_text::within(LEASE), value_name = "TIME")]
    lease: Option<Duration>,
    /// For whom, as others see it [default: USER@HOST:PID, below another `lock run` OWNER/PID]
    #[arg(long, value_name = "TEXT")]
    owner: Option<String>,
    /// Why, as others see it [default: the program]
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The command, behind `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Lock {
    /// Runs the command; ends as it does.
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        let Verb::Run(run) = self.verb;
        child::check(&run.command)?;
        run.run(server.client().await?).await
    }
}

impl Run {
    async fn run(self, client: Client) -> Result<ExitCode, CliError> {
        let (mut signals, mut job) = (Signals::new()?, JobSignals::new()?);
        let owner = self
            .owner
            .clone()
            .unwrap_or_else(|| owner(std::env::var(OWNER).ok()));
        let mut claiming = pin!(client.claim(self.request(&owner)));
        let claim = tokio::select! {
            claim = &mut claiming => claim,
            exit = job.end(&mut signals) => {
                // It may be in line by now, or come there.
                let withdrawn = async { claiming.await?.withdraw().await };
                given_back(timeout(GIVE_BACK_TIMEOUT, withdrawn), (&mut signals, &mut job)).await;
                return Ok(exit.into());
            }
        };
        let what = format!("cannot lock {}", self.names.join(", "));
        let mut claim = claim.map_err(|error| CliError::call(&what, &error))?;
        tokio::select! {
            granted = granted(&client, &mut claim) => granted.map_err(|error| CliError::call(&what, &error))?,
            exit = job.end(&mut signals) => {
                // Granted or not by now.
                given_back(claim.withdraw(), (&mut signals, &mut job)).await;
                return Ok(exit.into());
            }
        }
        if claim.claim().end() == ClaimEnd::TimedOut {
            let name = shell::word(&self.names[0]);
            let next = format!("see `rallypoint resource queue {name}`");
            return Err(CliError::new(what)
                .why("the time to wait is over")
                .next(next));
        }
        let (number, token) = (claim.claim().claim, claim.claim().token);
        let hold = tokio::select! {
            hold = confirmed(claim, what) => hold?,
            exit = job.end(&mut signals) => {
                let released = client.release_claim(number, token);
                given_back(released, (&mut signals, &mut job)).await;
                return Ok(exit.into());
            }
        };
        let environment = [
            ("RALLYPOINT_TOKEN", hold.token().to_string()),
            ("RALLYPOINT_CLAIM", hold.claim().claim.to_string()),
            (OWNER, owner),
        ];
        let child = match Child::start(&self.command, &environment) {
            Ok(child) => child,
            Err(error) => {
                given_back(hold.release(), (&mut signals, &mut job)).await;
                return Err(not_started(&self.command[0], &error));
            }
        };
        let signals = (&mut signals, &mut job);
        under(hold, child, signals).await
    }

    fn request(&self, owner: &str) -> AcquireRequest {
        let is_shared = self.shared || self.permits.is_some();
        let mode = match is_shared {
            true => ResourceMode::Shared,
            false => ResourceMode::Exclusive,
        };
        let used = |name: &String| ResourceUse {
            name: name.clone(),
            mode: mode.into(),
            permits: self.permits.unwrap_or(i32::from(is_shared)),
        };
        // Its arguments may hold secrets.
        let program = self.command[0].to_string_lossy();
        let said = self.reason.as_deref().unwrap_or(&program);
        AcquireRequest {
            resources: self.names.iter().map(used).collect(),
            owner: owner.to_owned(),
            reason: said[..said.floor_char_boundary(1_000)].to_owned(),
            lease: self.lease.map(time_text::message),
            wait: self.wait.map(time_text::message),
            ..AcquireRequest::default()
        }
    }
}

/// Waits until a claim that is given up is given back. Its lease ends it, too: whoever sends
/// another signal does not wait.
pub(super) async fn given_back(
    giving: impl Future,
    (signals, job): (&mut Signals, &mut JobSignals),
) {
    tokio::select! {
        _ = giving => {}
        _ = job.end(signals) => {}
    }
}

/// Waits until the claim is granted or has ended, and says how it fares.
async fn granted(client: &Client, claim: &mut ClaimStream) -> rallypoint_client::Result<()> {
    while !claim.is_granted() && !claim.has_ended() {
        let waits = claim.claim().clone();
        let said = async {
            output::note(waiting(client, &waits).await);
            pending().await
        };
        // The claim is renewed only while its next change is awaited, and answers about the
        // resources may take longer than its lease.
        tokio::select! {
            biased;
            () = said => {}
            changed = claim.next() => drop(changed?),
        }
    }
    Ok(())
}

async fn waiting(client: &Client, claim: &Claim) -> String {
    // Nothing is expected of a resource that grants nothing.
    let closed = match claim.expected_wait {
        Some(_) => None,
        None => closed::in_words(client, &claim.resources).await,
    };
    match closed {
        Some(closed) => format!("claim {} waits: {closed}", claim.claim),
        None => in_line(claim),
    }
}

fn in_line(claim: &Claim) -> String {
    let mut said = format!(
        "claim {} waits: place {} among the claims in line",
        claim.claim, claim.position
    );
    if let Some(first) = claim.in_the_way.first() {
        let owner = match (first.handle.as_str(), first.owner.as_str()) {
            ("", "") => format!("claim {}", first.claim),
            ("", owner) => plain(owner),
            (handle, _) => format!("task {handle}/{}", first.seq),
        };
        let since = time_text::ago(time_text::micros(first.since.as_ref()));
        let held_for = since.trim_end_matches(" ago");
        said.push_str(&format!(", held by {owner} for {held_for}"));
    }
    if claim.expected_wait.is_some() {
        let expected = time_text::duration_us(claim.expected_wait.as_ref());
        said.push_str(&format!(", about {} to go", time_text::duration(expected)));
    }
    said
}

/// Makes sure of a claim that was granted. `what` failed, if it is lost.
async fn confirmed(claim: ClaimStream, what: String) -> Result<Hold, CliError> {
    let hold = Hold::of(claim).await;
    let hold = hold.map_err(|error| CliError::call(&what, &error))?;
    // This program may have stood still since the grant, for longer than the lease.
    match hold.confirm().await {
        None => Ok(hold),
        Some(why) => Err(CliError::new(what).why(plain(&why))),
    }
}

/// Lets the command run to its end, or to that of the hold.
async fn under(
    hold: Hold,
    mut child: Child,
    (signals, job): (&mut Signals, &mut JobSignals),
) -> Result<ExitCode, CliError> {
    let code = loop {
        let lost = tokio::select! {
            // What has ended has ended under the hold.
            biased;
            changed = child.changed() => match changed {
                Ok(Change::Ended(code)) => break code,
                Ok(Change::Stopped) => {
                    child.stop_with_it();
                    job.forget_stop().await;
                    tokio::select! {
                        lost = hold.confirm() => lost,
                        exit = signals.every() => {
                            child.go_on();
                            child.end(exit);
                            continue;
                        }
                    }
                }
                Err(error) => {
                    return Err(CliError::new("cannot wait for the command").why(error));
                }
            },
            why = hold.lost() => Some(why),
            exit = signals.every() => {
                child.end(exit);
                continue;
            }
            signal = job.next() => {
                signals.note();
                child.pass_on(signal);
                continue;
            }
        };
        match lost {
            None => child.go_on(),
            Some(why) => {
                child.kill().await;
                let what = "the lock is lost, and the command was killed";
                return Err(CliError::new(what).why(plain(&why)));
            }
        }
    };
    released(hold, (signals, job)).await?;
    Ok(ExitCode::from(code))
}

/// Gives the hold back after its command. Fails if it was lost by then, which nobody had heard
/// while the command ran.
async fn released(
    hold: Hold,
    (signals, job): (&mut Signals, &mut JobSignals),
) -> Result<(), CliError> {
    // What it has left behind runs without the lock, and a signal right behind its end was for it.
    signals.note();
    let claim = hold.claim().claim;
    let released = tokio::select! {
        released = hold.release() => released,
        _ = job.end(signals) => {
            output::note("nobody has acknowledged the release of the lock; its lease ends it");
            return Ok(());
        }
    };
    match released {
        Ok(()) => Ok(()),
        Err(error) if error.is("CLAIM_ENDED") => {
            let what = "the command has ended, and its lock was lost before it was given back";
            Err(CliError::new(what).why(plain(&error.message)).next(format!(
                "others may have had it meanwhile: see `rallypoint resource claim {claim}`"
            )))
        }
        Err(error) => {
            output::note(format!("the lock could not be released: {error}"));
            Ok(())
        }
    }
}

/// `USER@HOST:PID`; of a command that runs under a hold a part of its owner, which waits for it.
pub(super) fn owner(above: Option<String>) -> String {
    if let Some(above) = above.filter(|above| !above.is_empty()) {
        return format!("{above}/{}", std::process::id());
    }
    let (user, host) = (account::name(), account::host());
    format!("{user}@{host}:{}", std::process::id())
}
