//! Commands on their way through the loop: their weight, which of them outlive a core, and how they
//! are isolated when Postgres rejects their batch.

use crate::core::{Command, JobVerb, Ticket, Verb};

/// A command, and who waits for its reply.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// `None`: nobody waits for the reply.
    pub ticket: Option<Ticket>,
    pub command: Command,
}

/// Weight of a task in its batch besides its body.
const TASK_BYTES: usize = 64;

/// Weight of a command in its batch.
pub(super) fn bytes(command: &Command) -> usize {
    let tasks = match command {
        Command::Call {
            verb: Verb::Submit(submit),
            ..
        } => submit.bodies.len(),
        Command::Job {
            verb: JobVerb::Create { job, .. } | JobVerb::Update { job, .. },
            ..
        } => job.steps.bodies.len() + job.on_failure.bodies.len(),
        _ => 0,
    };
    command.bytes() + tasks * TASK_BYTES
}

/// Whether a command outlives the core: its sender does not repeat it.
pub(super) fn survives(command: &Command) -> bool {
    matches!(
        command,
        Command::Completed(_) | Command::Slots { .. } | Command::StreamClosed(_)
    )
}

/// One completion or checkpoint per command, so that one of them can be the culprit.
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
            // The caller is answered with the last one.
            Command::Checkpoint(mut handles) if handles.len() > 1 => {
                let last = handles.pop();
                out.extend(handles.into_iter().map(|handle| Envelope {
                    ticket: None,
                    command: Command::Checkpoint(vec![handle]),
                }));
                out.push(Envelope {
                    command: Command::Checkpoint(last.into_iter().collect()),
                    ..envelope
                });
            }
            command => out.push(Envelope {
                command,
                ..envelope
            }),
        }
    }
    out
}

/// What becomes of the culprit: a completion fails as `RESULT_UNSTORABLE`; any other command has
/// been answered.
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
