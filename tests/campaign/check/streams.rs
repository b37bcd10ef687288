//! Promises about streams: no gap, no repetition, the same content for every reader, and `ALL`
//! means all.

use super::{Facts, Verdict};
use crate::history::Answer;
use rallypoint_client::api::end::Reason;

pub(super) fn streams_tell_what_the_log_tells(facts: &Facts, verdict: &mut Verdict) {
    for (id, stream) in &facts.streams {
        for ((_, done), wanted) in stream.done.iter().zip(stream.after + 1..) {
            verdict.expect(
                "streams tell every event once, in order",
                done.done_no == wanted,
                || {
                    format!(
                        "stream {id} of {} tells {} where {wanted} belongs",
                        stream.handle, done.done_no
                    )
                },
            );
            let logged = facts
                .logged(&stream.handle, done.seq)
                .and_then(|row| row.done.as_ref());
            verdict.expect(
                "streams tell what the log tells",
                logged == Some(done),
                || {
                    format!(
                        "stream {id} of {}: {done:?}, and the log has {logged:?}",
                        stream.handle
                    )
                },
            );
        }
    }
}

pub(super) fn all_means_all(facts: &Facts, verdict: &mut Verdict) {
    let requests = facts.requests_by_handle();
    for (id, stream) in facts.streams.iter().filter(|(_, stream)| stream.all) {
        if stream.answer != Some(Answer::Ok(Reason::Goal.into())) {
            continue;
        }
        let last = stream
            .done
            .last()
            .map_or(stream.after, |(_, done)| done.done_no);
        for request in requests.get(stream.handle.as_str()).into_iter().flatten() {
            let known = request
                .tries
                .iter()
                .any(|one| one.ended < stream.begun && matches!(one.answer, Answer::Ok(_)));
            let Some((first, count)) = request.accepted().filter(|_| known) else {
                continue;
            };
            let late = (first..first + i64::from(count)).find(|seq| {
                let done = facts
                    .logged(&stream.handle, *seq)
                    .and_then(|row| row.done.as_ref());
                done.is_none_or(|done| done.done_no > last)
            });
            verdict.expect("a stream until ALL tells of all", late.is_none(), || {
                format!("stream {id} of {} ended without {late:?}", stream.handle)
            });
        }
        for (call, retried) in facts.retries.answered() {
            if call.handle == stream.handle && call.ended < stream.begun {
                let copy = facts.logged(&stream.handle, retried.copy);
                let done = copy.and_then(|row| row.done.as_ref());
                let reported = done.is_some_and(|done| done.done_no <= last);
                verdict.expect("a stream until ALL tells of all", reported, || {
                    format!("stream {id} of {} ended without {copy:?}", stream.handle)
                });
            }
        }
    }
}
