//! `jobs claim NAME -- command…`: a run of a job is done by this command, unless somebody else has
//! it, or it is done. Made for the crontabs of several machines.
//!
//! The command runs in a process group of its own, which is killed once the claim is lost. What it
//! ends with is said until that is acknowledged.

use super::{job_clock, show};
use crate::{
    cli::{
        child::{self, Change, Child, not_started},
        connect::Server,
        error::CliError,
        exit::Exit,
        job_signals::JobSignals,
        lock, output, shell,
        signals::Signals,
        terminal_text::plain,
        time_text,
        when::{self, When},
    },
    core::model::limits::LEASE,
};
use clap::Args;
use rallypoint_client::{
    ClaimedRun, Client,
    api::{ClaimRunRequest, ClaimRunResponse, GetJobRequest, Job},
};
use std::{ffi::OsString, process::ExitCode, time::Duration};
use tokio::time::{Instant, sleep};

/// Between two attempts of `--wait`.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// While a run is waited for: how often it is asked whether one may come at all.
const HELD_INTERVAL: Duration = Duration::from_secs(60);

/// Arguments of `jobs claim`.
#[derive(Args, Debug)]
pub(super) struct ClaimCommand {
    /// The job: one whose runs programs do (`claimed = true`)
    name: String,
    /// The due time of the run [default: the oldest that may be claimed]
    #[arg(long, value_name = "TIME")]
    due: Option<When>,
    /// How long to wait for a run at most [default: not at all]
    #[arg(long, value_parser = time_text::parse_or_zero, value_name = "TIME")]
    wait: Option<Duration>,
    /// How long the claim outlives this program, or its connection [default: 15s]
    #[arg(long, value_parser = time_text::within(LEASE), value_name = "TIME")]
    lease: Option<Duration>,
    /// For whom, as others see it [default: USER@HOST:PID]
    #[arg(long, value_name = "TEXT")]
    owner: Option<String>,
    /// The command, behind `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl ClaimCommand {
    pub(super) async fn run(self, server: &Server) -> Result<ExitCode, CliError> {
        child::check(&self.command)?;
        let client = server.client().await?;
        let (mut signals, mut job) = (Signals::new()?, JobSignals::new()?);
        let claimed = tokio::select! {
            claimed = self.confirmed(&client) => claimed?,
            exit = job.end(&mut signals) => return Ok(exit.into()),
        };
        let Some(run) = claimed else {
            return Ok(ExitCode::SUCCESS);
        };
        let environment = [
            ("RALLYPOINT_JOB", self.name.clone()),
            ("RALLYPOINT_DUE", show::due(run.run())),
            ("RALLYPOINT_TOKEN", run.token().to_string()),
            ("RALLYPOINT_NAMESPACE", run.namespace().to_owned()),
        ];
        match Child::start(&self.command, &environment) {
            Ok(child) => {
                let signals = (&mut signals, &mut job);
                self.under(run, child, signals).await
            }
            Err(error) => {
                let failed = format!("cannot run {}: {error}", self.command[0].display());
                lock::given_back(run.finish(Some(&failed)), (&mut signals, &mut job)).await;
                Err(not_started(&self.command[0], &error))
            }
        }
    }

    /// Claims a run and makes sure of it; `None`: there is nothing to do, and why was said.
    async fn confirmed(&self, client: &Client) -> Result<Option<ClaimedRun>, CliError> {
        let Some(run) = self.claim(client).await? else {
            return Ok(None);
        };
        // This program may have stood still since it was given the run, for longer than the lease.
        match run.confirm().await {
            None => Ok(Some(run)),
            Some(why) => {
                let what = format!("the claim on a run of job {} is lost", self.name);
                Err(CliError::new(what).why(plain(&why)))
            }
        }
    }

    /// Claims a run; `None`: there is nothing to do, and why was said.
    async fn claim(&self, client: &Client) -> Result<Option<ClaimedRun>, CliError> {
        let due = match self.due {
            Some(due) => Some(job_clock::instant(client, &self.name, due).await?),
            None => None,
        };
        let due = due.map(when::message);
        let owner = self.owner.clone().unwrap_or_else(|| lock::owner(None));
        let request = ClaimRunRequest {
            name: self.name.clone(),
            due,
            request_id: String::new(),
            owner,
            lease: self.lease.map(time_text::message),
        };
        let until = Instant::now() + self.wait.unwrap_or_default();
        let (mut look_at, mut said) = (Instant::now(), None);
        loop {
            let asked = Instant::now();
            let answer = client.claim_run(request.clone()).await;
            let what = format!("cannot claim a run of job {}", self.name);
            let answer = answer.map_err(|error| CliError::call(what, &error))?;
            if !answer.warning.is_empty() {
                output::note(&answer.warning);
            }
            if answer.claim.is_some() {
                return Ok(ClaimedRun::of(client, answer, asked).await);
            }
            if Instant::now() + POLL_INTERVAL > until {
                let next = self.what_next(client).await;
                output::answer(&answer, |answer| output::line(self.why_not(answer) + &next));
                return Ok(None);
            }
            // Who waits sees nothing else, and nobody may come to lift it.
            if asked >= look_at {
                look_at = asked + HELD_INTERVAL;
                let (_, held) = self.held(client).await;
                if held != said {
                    held.iter().for_each(|why| output::note(self.no_run(why)));
                    said = held;
                }
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Why no run comes, or when the next one is due, for people, as far as that is known.
    async fn what_next(&self, client: &Client) -> String {
        let (job, held) = self.held(client).await;
        match (held, &job.next_due) {
            (Some(why), _) if output::is_json() => {
                output::note(self.no_run(&why));
                String::new()
            }
            (Some(why), _) => format!("; {why}"),
            (None, Some(next)) => format!("; the next run is due {}", time_text::exact(Some(next))),
            (None, None) => String::new(),
        }
    }

    fn no_run(&self, why: &str) -> String {
        format!("{}: no run comes: {why}", self.name)
    }

    /// The job, and why nothing of it may start, as far as that is known.
    async fn held(&self, client: &Client) -> (Job, Option<String>) {
        let name = self.name.clone();
        let known = client.get_job(GetJobRequest { name }).await;
        let job = known.ok().and_then(|known| known.job).unwrap_or_default();
        if let Some(paused) = show::paused(&job) {
            return (job, Some(format!("the job is paused since {paused}")));
        }
        let status = client.status().await.ok();
        let agent = status.and_then(|status| status.jobs?.agent);
        let is_stopped = agent.is_some_and(|agent| agent.stopped);
        (job, is_stopped.then(|| "the agent is stopped".to_owned()))
    }

    fn why_not(&self, answer: &ClaimRunResponse) -> String {
        let name = &self.name;
        match (&answer.run, &answer.holder) {
            (Some(run), Some(holder)) => {
                let owner = show::claimant(holder);
                format!("{name}: {owner} does the run of {}", show::due(run))
            }
            (Some(run), None) => {
                let state = show::state(run);
                format!(
                    "{name}: nothing to do; the run of {}: {state}",
                    show::due(run)
                )
            }
            (None, _) => format!("{name}: nothing is due yet"),
        }
    }

    /// Lets the command run to its end, or to that of the claim, and says how it ended.
    async fn under(
        &self,
        run: ClaimedRun,
        child: Child,
        (signals, job): (&mut Signals, &mut JobSignals),
    ) -> Result<ExitCode, CliError> {
        let code = ended(&run, child, (signals, job)).await?;
        // A signal right behind the end was for the command.
        signals.note();
        let failed =
            (code != 0).then(|| format!("{} ended with {code}", self.command[0].display()));
        let finished = tokio::select! {
            finished = run.finish(failed.as_deref()) => finished,
            exit = job.end(signals) => return Err(unsaid(exit)),
        };
        let what = "the command has ended, and that could not be said";
        let finished = finished.map_err(|error| CliError::call(what, &error))?;
        if finished.late {
            let what = "the command has ended after its claim was lost: it may have run twice";
            let next = format!("see `rallypoint jobs runs {}`", shell::word(&self.name));
            return Err(CliError::new(what).next(next));
        }
        Ok(ExitCode::from(code))
    }
}

/// Resolves to the exit code of a command, unless its claim is lost before: then it is killed.
async fn ended(
    run: &ClaimedRun,
    mut child: Child,
    (signals, job): (&mut Signals, &mut JobSignals),
) -> Result<u8, CliError> {
    loop {
        let lost = tokio::select! {
            // What has ended has ended under the claim.
            biased;
            changed = child.changed() => match changed {
                Ok(Change::Ended(code)) => return Ok(code),
                Ok(Change::Stopped) => {
                    child.stop_with_it();
                    job.forget_stop().await;
                    tokio::select! {
                        lost = run.confirm() => lost,
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
            why = run.lost() => Some(why),
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
                let what = "the claim is lost, and the command was killed";
                return Err(CliError::new(what).why(plain(&why)));
            }
        }
    }
}

fn unsaid(exit: Exit) -> CliError {
    let what = "the command has ended, and nobody has acknowledged that yet";
    CliError::interrupted(what, exit)
}
