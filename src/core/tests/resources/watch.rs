//! Who follows a resource is told of each change once, and of nothing else.

use super::super::{
    task_resources::a_writer,
    world::{World, plain, submission},
};
use super::{WRITER, caller, settings, spec};
use crate::core::{
    Caller, ClaimNo, Command, Namespace, Reject, Reply, Report, ResourceField, ResourceReply,
    ResourceVerb, ResourceView, Verb, model::limits::Limits,
};
use std::{sync::Arc, time::Duration};

fn watch(name: &str, seen: u64) -> Command {
    ask(ResourceVerb::Watch {
        name: name.into(),
        seen,
    })
}

/// The present state and its revision.
fn state(w: &mut World, name: &str) -> (Arc<ResourceView>, u64) {
    match reply_of(w.command(watch(name, 0))) {
        ResourceReply::Watched(Some(view), revision) => (view, revision),
        other => panic!("answered with {other:?}"),
    }
}

fn reply_of(reply: Option<Reply>) -> ResourceReply {
    match reply {
        Some(Reply::Resource(reply)) => *reply,
        other => panic!("answered with {other:?}"),
    }
}

fn release(w: &mut World, no: i64) -> Command {
    let token = w.token(no);
    ask(ResourceVerb::Release {
        claim: ClaimNo(no),
        token,
    })
}

fn ask(verb: ResourceVerb) -> Command {
    Command::Resource {
        caller: caller("default"),
        verb,
    }
}

fn acquire(name: &str) -> Command {
    ask(ResourceVerb::Acquire {
        spec: Arc::new(spec("", &[(name, WRITER)])),
        if_free: false,
    })
}

/// What followers are told by the answers of a batch.
fn followed(replies: Vec<Reply>) -> Vec<ResourceReply> {
    let replies = replies.into_iter().filter_map(|reply| match reply {
        Reply::Resource(reply) => Some(*reply),
        _ => None,
    });
    let is_seen = |reply: &ResourceReply| {
        matches!(reply, ResourceReply::Watched(..) | ResourceReply::Unwatched)
    };
    replies.filter(is_seen).collect()
}

fn counts(reply: &ResourceReply) -> (usize, usize) {
    match reply {
        ResourceReply::Watched(Some(view), _) => (view.holds, view.waiting),
        other => panic!("told {other:?}"),
    }
}

#[test]
fn followers_are_told_of_a_change_with_the_batch_that_brings_it() {
    let mut w = World::new(0);
    w.define("orders", settings(1));
    w.define("other", settings(1));
    let (first, revision) = state(&mut w, "orders");
    assert_eq!((first.holds, first.waiting), (0, 0));
    let two = [watch("orders", revision), watch("orders", revision)];
    assert!(w.commands(two).is_empty());
    // What is about something else is no change.
    assert!(followed(w.commands([acquire("other")])).is_empty());
    // Of several changes in one batch the last state is told.
    let replies = followed(w.commands([acquire("orders"), acquire("orders")]));
    let seen: Vec<_> = replies.iter().map(counts).collect();
    assert_eq!(seen, [(1, 1), (1, 1)]);
    // What came between two questions is told at the next one.
    let (now, revision) = state(&mut w, "orders");
    let ends = release(&mut w, now.holders[0].no.0);
    assert!(followed(w.commands([ends])).is_empty());
    let replies = followed(w.commands([watch("orders", revision)]));
    let seen: Vec<_> = replies.iter().map(counts).collect();
    assert_eq!(seen, [(1, 0)]);
}

#[test]
fn followers_are_told_of_tasks_that_wait_begin_and_end() {
    let mut w = World::new(4);
    w.define("a", settings(1));
    let s = w.open(plain);
    let (_, revision) = state(&mut w, "a");
    assert!(w.command(watch("a", revision)).is_none());
    // The first one holds it, the second one waits.
    let two = Verb::Submit(Arc::new(submission(None, [a_writer(), a_writer()])));
    let seen = first_of(followed(w.commands([World::say(s, two)])));
    assert_eq!((seen.0.holds, seen.0.lines), (1, 1));
    assert!(w.command(watch("a", seen.1)).is_none());
    for left in [(1, 0), (0, 0)] {
        let (_, revision) = state(&mut w, "a");
        assert!(w.command(watch("a", revision)).is_none());
        let first = w.running(s)[0];
        let end = w.completion(s, first, Report::Succeeded(None));
        let seen = first_of(followed(w.commands([Command::Completed(vec![end])])));
        assert_eq!((seen.0.holds, seen.0.lines), left);
    }
}

/// What the first of the followers is shown.
fn first_of(replies: Vec<ResourceReply>) -> (Arc<ResourceView>, u64) {
    match replies.into_iter().next() {
        Some(ResourceReply::Watched(Some(view), revision)) => (view, revision),
        other => panic!("answered with {other:?}"),
    }
}

#[test]
fn settings_and_a_deletion_are_told_also_of_a_name_under_a_pattern() {
    let mut w = World::new(0);
    w.define("tenant/*", settings(1));
    let (_, revision) = state(&mut w, "tenant/7");
    assert!(w.command(watch("tenant/7", revision)).is_none());
    let resized = ask(ResourceVerb::Update {
        name: "tenant/*".into(),
        settings: settings(3),
        fields: vec![ResourceField::Capacity],
    });
    let replies = followed(w.commands([resized]));
    let [ResourceReply::Watched(Some(view), revision)] = &replies[..] else {
        panic!("told {replies:?}");
    };
    assert_eq!(view.image.settings.capacity, 3);
    assert!(w.command(watch("tenant/7", *revision)).is_none());
    let deleted = w.commands([ask(ResourceVerb::Delete("tenant/*".into()))]);
    assert!(matches!(followed(deleted)[..], [ResourceReply::Unwatched]));
    let unknown = w.command(watch("tenant/7", 0));
    assert!(matches!(unknown, Some(Reply::Rejected(_))));
}

#[test]
fn what_one_namespace_follows_takes_no_place_from_another() {
    let limits = Limits {
        streams: 2,
        ..Limits::default()
    };
    let mut w = World::limited(0, limits);
    let mut follow = |namespace: &str, name: &str| {
        let of = |verb| Command::Resource {
            caller: Caller {
                namespace: Namespace(namespace.into()),
                name: "c".into(),
            },
            verb,
        };
        w.command(of(ResourceVerb::Create {
            name: name.into(),
            settings: settings(1),
        }));
        let watch = ResourceVerb::Watch {
            name: name.into(),
            seen: 0,
        };
        match w.command(of(watch)) {
            Some(Reply::Resource(_)) => true,
            Some(Reply::Rejected(Reject::LimitReached { namespace: of, .. })) => {
                assert_eq!(&*of.0, namespace);
                false
            }
            other => panic!("answered with {other:?}"),
        }
    };
    let followed = ["one", "two", "two", "three"].map(|name| follow("a", name));
    assert_eq!(followed, [true, true, true, false]);
    let followed = ["one", "two", "three"].map(|name| follow("b", name));
    assert_eq!(followed, [true, true, false]);
}

#[test]
fn nothing_is_kept_for_followers_that_have_gone() {
    let limits = Limits {
        streams: 2,
        ..Limits::default()
    };
    let mut w = World::limited(0, limits);
    w.define("orders", settings(1));
    let (_, revision) = state(&mut w, "orders");
    let three = [(); 3].map(|()| watch("orders", revision));
    let refused = w.commands(three);
    let [Reply::Rejected(Reject::LimitReached { .. })] = &refused[..] else {
        panic!("answered with {refused:?}");
    };
    // A round answers those that wait, and so there is room.
    w.advance(Duration::from_secs(16));
    assert!(w.command(watch("orders", revision)).is_none());
    // Nobody asks for two rounds: it is forgotten, and there is nothing to do any more.
    w.advance(Duration::from_secs(60));
    let (_, later) = state(&mut w, "orders");
    assert!(later > revision);
}

#[test]
fn a_round_answers_a_few_with_each_batch() {
    let limits = Limits {
        slice: 10,
        ..Limits::default()
    };
    let mut w = World::limited(0, limits);
    w.define("tenant/*", settings(1));
    let names: Vec<String> = (0..105).map(|name| format!("tenant/{name}")).collect();
    for name in &names {
        let (_, revision) = state(&mut w, name);
        assert!(w.command(watch(name, revision)).is_none());
    }
    w.now = w.now + Duration::from_secs(15);
    let mut answered = 0;
    while w.shard.next_due() <= w.now {
        let replies = followed(w.commands([]));
        assert!((1..=10).contains(&replies.len()));
        answered += replies.len();
    }
    assert_eq!(answered, names.len());
}
