//! Names of open schedulers: one has a name at a time, from its opening to its release, also after
//! a recovery.

use super::world::{World, free, plain, request};
use crate::core::{
    Caller, Command, Handle, Namespace, Naming, Open, Reject, ReleaseMode, Reply, Request,
    Settings, Verb,
};
use std::{sync::Arc, time::Duration};

fn open(name: &str, reuse: bool, request: Option<Request>) -> Verb {
    let name = name.into();
    Verb::Open(Open {
        naming: Some(Naming { name, reuse }),
        request,
        ..Open::default()
    })
}

/// What a call says: a scheduler that was opened, or one that was found.
#[derive(Debug, PartialEq)]
enum Got {
    Opened(Handle),
    Found(Handle),
    Taken(Handle),
    Refused(Reject),
}
use Got::{Found, Opened, Refused, Taken};

fn got(reply: Reply) -> Got {
    match reply {
        Reply::Scheduler(view) => Opened(view.image.handle),
        Reply::Found(view) => Found(view.image.handle),
        Reply::Rejected(Reject::NameTaken { holder }) => Taken(holder),
        Reply::Rejected(reject) => Refused(reject),
        other => panic!("an open was answered with {other:?}"),
    }
}

/// Asks for a name under a new handle, which is returned, too.
fn ask(w: &mut World, verb: Verb) -> (Handle, Got) {
    let handle = w.new_handle();
    let reply = w.call(handle, verb);
    (handle, got(reply))
}

fn opened(w: &mut World, name: &str) -> Handle {
    let (handle, got) = ask(w, open(name, false, None));
    assert_eq!(got, Opened(handle));
    handle
}

#[test]
fn a_name_is_taken_or_found_as_long_as_its_scheduler_is_open() {
    let mut w = World::new(1);
    let a = opened(&mut w, "nightly");
    for crash in [false, true] {
        if crash {
            w.crash();
        }
        assert_eq!(ask(&mut w, open("nightly", false, None)).1, Taken(a));
        assert_eq!(ask(&mut w, open("nightly", true, None)).1, Found(a));
    }
    let (b, got) = ask(&mut w, open("hourly", true, None));
    assert_eq!(got, Opened(b), "another name is another scheduler");
}

#[test]
fn of_two_calls_in_one_batch_one_opens() {
    let mut w = World::new(1);
    let (a, b) = (w.new_handle(), w.new_handle());
    let calls = [a, b].map(|handle| World::say(handle, open("nightly", true, None)));
    let replies = w.commands(calls);
    let replies: Vec<Got> = replies.into_iter().map(got).collect();
    assert_eq!(replies, [Opened(a), Found(a)]);
}

#[test]
fn a_release_frees_the_name_though_tasks_are_left() {
    for mode in [ReleaseMode::Finish, ReleaseMode::Cancel] {
        for crash in [false, true] {
            let mut w = World::new(1);
            let a = opened(&mut w, "nightly");
            w.submit(a, [free(), free()]);
            w.release(a, mode);
            if crash {
                w.crash();
            }
            let b = opened(&mut w, "nightly");
            // What becomes of the first one does not concern the second one.
            w.release(a, ReleaseMode::Cancel);
            w.cancel(a, 1);
            assert_eq!(ask(&mut w, open("nightly", true, None)).1, Found(b));
        }
    }
}

#[test]
fn a_name_is_of_one_namespace() {
    let mut w = World::new(1);
    opened(&mut w, "nightly");
    let handle = w.new_handle();
    let caller = Caller {
        namespace: Namespace("another".into()),
        name: "test".into(),
    };
    let reply = w.command(Command::Call {
        caller,
        handle,
        verb: open("nightly", true, None),
    });
    assert_eq!(reply.map(got), Some(Opened(handle)));
}

#[test]
fn who_is_found_keeps_its_settings_and_is_used() {
    let mut w = World::new(1);
    let hour = Duration::from_secs(3600);
    let verb = |weight| {
        Verb::Open(Open {
            settings: Arc::new(Settings {
                weight,
                idle_timeout: hour,
                ..Settings::default()
            }),
            naming: Some(Naming {
                name: "nightly".into(),
                reuse: true,
            }),
            request: None,
        })
    };
    let (a, _) = ask(&mut w, verb(1.0));
    for _ in 0..3 {
        w.seconds(3000.0);
        let other = w.new_handle();
        match w.call(other, verb(2.0)) {
            Reply::Found(view) => assert_eq!(
                (view.image.handle, view.image.settings.weight),
                (a, 1.0),
                "the settings of the call do not count"
            ),
            other => panic!("{other:?}"),
        }
    }
    w.seconds(3601.0);
    let (b, got) = ask(&mut w, verb(2.0));
    assert_eq!(got, Opened(b), "the first one was released for idleness");
}

#[test]
fn a_call_that_opened_is_remembered_and_one_that_found_looks_again() {
    let mut w = World::new(1);
    let (a, first) = ask(&mut w, open("nightly", true, request(1, 5)));
    assert_eq!(first, Opened(a));
    let found = |w: &mut World| ask(w, open("nightly", true, request(2, 5)));
    assert_eq!(found(&mut w).1, Found(a));
    w.submit(a, [free()]);
    w.release(a, ReleaseMode::Finish);
    for crash in [false, true] {
        if crash {
            w.crash();
        }
        assert_eq!(
            ask(&mut w, open("nightly", true, request(1, 5))).1,
            Opened(a),
            "the scheduler that the call opened, though it is released"
        );
    }
    assert_eq!(
        ask(&mut w, open("nightly", true, request(1, 6))).1,
        Refused(Reject::RequestIdReused)
    );
    let (b, again) = found(&mut w);
    assert_eq!(again, Opened(b));
}

#[test]
fn schedulers_without_a_name_have_none_in_common() {
    let mut w = World::new(1);
    let (a, b) = (w.open(plain), w.open(plain));
    w.release(a, ReleaseMode::Finish);
    assert_eq!(w.submit(b, [free()]), 1);
}
