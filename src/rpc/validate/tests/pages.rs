//! Page sizes and page tokens.

use super::{
    super::{ListSchedulers, ListTasks},
    fixtures::{faults, good_handle, one},
};
use crate::{core::Namespace, rpc::errors::reason::Reason};
use rallypoint_client::api;

#[test]
fn pages_are_bounded_and_tokens_are_valid_for_their_query_only() {
    let namespace = Namespace("a".into());
    let request = |page_size, page_token: &str, state| api::ListTasksRequest {
        handle: good_handle(),
        page_size,
        page_token: page_token.into(),
        filter: Some(api::TaskFilter {
            states: Vec::from_iter((state != 0).then_some(state)),
            labels: [("a", "b"), ("c", "d")]
                .map(|(k, v)| (k.into(), v.into()))
                .into(),
            ..Default::default()
        }),
    };
    for size in [-1, 1001, 1_000_000_000] {
        assert_eq!(
            faults(ListTasks::new(&request(size, "", 0), &namespace)),
            one("page_size", Reason::PageSizeOutOfRange)
        );
    }
    assert_eq!(
        faults(ListTasks::new(&request(0, "", 6), &namespace)),
        one("filter.states[0]", Reason::EnumUnknown)
    );
    let first = ListTasks::new(&request(0, "", 5), &namespace).expect("good");
    let token = first.token.after(77);
    assert_eq!((first.size, first.before), (100, None));
    assert_eq!(
        ListTasks::new(&request(0, &token, 5), &namespace)
            .expect("good")
            .before,
        Some(77)
    );
    let wrong = [
        ListTasks::new(&request(0, &token, 4), &namespace),
        ListTasks::new(&request(0, &token, 5), &Namespace("b".into())),
        ListTasks::new(
            &request(0, &token.to_uppercase().replace("0000", "000G"), 5),
            &namespace,
        ),
        ListTasks::new(&request(0, &token[1..], 5), &namespace),
        ListTasks::new(&request(0, "' or 1=1 --", 5), &namespace),
    ];
    for result in wrong {
        assert_eq!(faults(result), one("page_token", Reason::PageTokenInvalid));
    }
    let list = |page_token: &str| api::ListSchedulersRequest {
        page_token: page_token.into(),
        ..Default::default()
    };
    assert_eq!(
        faults(ListSchedulers::new(&list(&token), &namespace)),
        one("page_token", Reason::PageTokenInvalid)
    );
}
