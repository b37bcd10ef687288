//! Commands on their way through the loop: what they weigh, what outlives a core, and how they are
//! taken apart when Postgres refuses their batch.

use crate::core::{Command, Ticket, Verb};

/// A command, and who waits for its answer.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// Who waits; `None`: nobody.
    pub ticket: Option<Ticket>,
    /// What is asked.
    pub command: Command,
}

/// What a task costs a batch beside its body.
const TASK_BYTES: usize = 64;

/// What a command weighs in its batch.
pub(super) fn bytes(command: &Command) -> usize {
    match command {
        Command::Call {
            verb: Verb::Submit(submit),
            ..
        } => {
            submit.bodies.bytes.len() + submit.params.bytes.len() + submit.bodies.len() * TASK_BYTES
        }
        Command::Completed(completions) => completions.iter().map(|c| c.report.bytes()).sum(),
        _ => 0,
    }
}

/// ExecutorState by an executor, who will not say it again.
pub(super) fn survives(command: &Command) -> bool {
    matches!(
        command,
        Command::Completed(_) | Command::Slots { .. } | Command::StreamClosed(_)
    )
}

/// One completion per command, so that one of them can be the culprit.
pub(super) fn split(commands: Vec<Envelope>) -> Vec<Envelope> {
    let mut out = Vec::with_capacity(commands.len());
    for envelope in commands {
        match envelope.command {
            Command::Completed(completions) if completions.len() > 1 => {
                out.extend(completions.into_iter().map(|c| Envelope {
                    ticket: None,
                    command: Command::Completed(vec![c]),
                }))
            }
            command => out.push(Envelope {
                command,
                ..envelope
            }),
        }
    }
    out
}

/// What becomes of the culprit: a completion fails as `RESULT_UNSTORABLE`, anything else has been
/// answered.
pub(super) fn storable(envelope: Envelope) -> Option<Envelope> {
    let Command::Completed(completions) = envelope.command else {
        return None;
    };
    let completions: Vec<_> = completions
        .into_iter()
        .filter_map(|completion| completion.without_payload())
        .collect();
    (!completions.is_empty()).then_some(Envelope {
        ticket: None,
        command: Command::Completed(completions),
    })
}
