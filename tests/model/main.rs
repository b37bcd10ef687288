//! Ownership of a shard as a small model, searched exhaustively: lease, takeover and its first
//! batch, report, fence, and tasks in doubt.
//!
//! Safety depends on no clock, so the model has none: a lease may end at any moment, a message may
//! take for ever, a replica may pause and go on at any point. The model checks the protocol; `sim`
//! and `campaign` check the program. Each rule can be left out: then a counterexample must be
//! found, or the rule (or the model) is useless.

mod protocol;
mod state;

use protocol::{Protocol, Rules};
use stateright::{Checker, HasDiscoveries, Model};

const SEARCH_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);

/// What a search finds: counterexamples of promises, or examples of what may happen.
fn found(protocol: Protocol, enough: HasDiscoveries) -> Vec<&'static str> {
    let begun = std::time::Instant::now();
    let checker = protocol
        .checker()
        .threads(2)
        .timeout(SEARCH_TIMEOUT)
        .finish_when(enough)
        .spawn_bfs()
        .join();
    println!(
        "{} states in {:.1} s",
        checker.unique_state_count(),
        begun.elapsed().as_secs_f64()
    );
    for (name, path) in checker.discoveries() {
        println!("{name}: {:?}", path.into_actions());
    }
    assert!(checker.is_done(), "too many states");
    checker.discoveries().keys().copied().collect()
}

#[test]
fn the_protocol_keeps_its_promises() {
    assert_eq!(
        found(Protocol::small(Rules::all()), HasDiscoveries::Any),
        Vec::<&str>::new()
    );
}

#[test]
fn what_is_promised_to_happen_can_happen() {
    assert_eq!(found(Protocol::examples(), HasDiscoveries::All).len(), 4);
}

#[track_caller]
fn needs(left_out: Rules, broken: &'static str) {
    let violated = found(
        Protocol::small(left_out),
        HasDiscoveries::AnyOf([broken].into()),
    );
    assert!(
        violated.contains(&broken),
        "nothing goes wrong without it: {violated:?}"
    );
}

#[test]
fn the_first_batch_of_an_ownership_is_needed() {
    needs(
        Rules {
            first_batch: false,
            ..Rules::all()
        },
        "no write of an older epoch",
    );
}

#[test]
fn recognising_a_batch_sent_again_is_needed() {
    needs(
        Rules {
            recognise: false,
            ..Rules::all()
        },
        "one outcome",
    );
}

#[test]
fn the_fence_is_needed() {
    needs(
        Rules {
            fence: false,
            ..Rules::all()
        },
        "no attempt beside another",
    );
}

#[test]
fn a_fenced_replica_must_find_no_session() {
    needs(
        Rules {
            register: false,
            ..Rules::all()
        },
        "no attempt beside another",
    );
}

#[test]
fn work_of_an_older_epoch_must_be_refused_once_a_newer_one_was_reported_to() {
    needs(
        Rules {
            refuse_old_work: false,
            ..Rules::all()
        },
        "no attempt beside another",
    );
}

#[test]
fn a_replica_that_starts_must_ask_for_the_epoch_first() {
    needs(
        Rules {
            ask_first: false,
            ..Rules::all()
        },
        "no attempt beside another",
    );
}

#[test]
fn tasks_in_doubt_must_wait() {
    needs(
        Rules {
            in_doubt_waits: false,
            ..Rules::all()
        },
        "no attempt beside another",
    );
}

#[test]
fn adoption_is_needed() {
    needs(
        Rules {
            adopt: false,
            ..Rules::all()
        },
        "what survives is not started again",
    );
}

#[test]
fn the_token_must_be_checked() {
    needs(
        Rules {
            token: false,
            ..Rules::all()
        },
        "only the live attempt ends a task",
    );
}

#[test]
fn answers_must_wait_for_their_batch() {
    needs(
        Rules {
            durable_first: false,
            ..Rules::all()
        },
        "what was acknowledged is kept",
    );
}
