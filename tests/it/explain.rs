//! ExplainTask: why a task is not running, on real servers: every reason by name, from any replica,
//! on the command line too.

mod command_line;
mod reasons;
mod replicas;
mod waits;

use crate::harness::conversation::{Conversation, WAIT_TIMEOUT};
use rallypoint_client::api::{ExplainTaskResponse, blocker::Kind};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// What the service says of a task.
async fn explain(conversation: &Conversation, seq: i64) -> ExplainTaskResponse {
    let answer = conversation.scheduler.explain(seq).await;
    answer.expect("explained")
}

/// The reasons in order.
fn kinds(answer: &ExplainTaskResponse) -> Vec<Kind> {
    let kinds = answer.blockers.iter();
    kinds
        .map(|blocker| blocker.kind.clone().expect("a reason"))
        .collect()
}

/// Asks until the answer is as wanted.
async fn until(
    conversation: &Conversation,
    seq: i64,
    wanted: impl Fn(&ExplainTaskResponse) -> bool,
) -> ExplainTaskResponse {
    let mut last = None;
    let wait = async {
        loop {
            let answer = explain(conversation, seq).await;
            if wanted(&answer) {
                return answer;
            }
            last = Some(answer);
            sleep(Duration::from_millis(10)).await;
        }
    };
    match timeout(WAIT_TIMEOUT, wait).await {
        Ok(answer) => answer,
        Err(_) => panic!("the last answer was {last:?}"),
    }
}
