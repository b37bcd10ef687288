//! What the server says of calls of the API, in the verbs of the command line.

/// Calls as the server names them, each with the verb that makes it. Longer names come first.
const VERBS: &[(&str, &str)] = &[
    (
        "ResumeScheduler with ignore_failures",
        "`resume --ignore-failures`",
    ),
    ("ResumeScheduler", "`resume`"),
    ("PauseScheduler", "`pause`"),
    ("ResumeTarget", "`resume-target`"),
    ("RetryFailed", "`retry --failed`"),
    ("GetScheduler", "`exec`"),
    ("ExecAsync", "`exec`"),
];

/// The text with verbs in place of calls.
pub(super) fn translated(text: &str) -> String {
    let verbs = VERBS.iter();
    verbs.fold(text.to_owned(), |text, (call, verb)| {
        text.replace(call, verb)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;
    use prost_reflect::DescriptorPool;
    use rallypoint_client::api::DESCRIPTOR;

    #[test]
    fn each_call_and_each_verb_exists() {
        let pool = DescriptorPool::decode(DESCRIPTOR).expect("descriptors");
        let methods = pool
            .services()
            .flat_map(|it| it.methods().collect::<Vec<_>>());
        let calls: Vec<String> = methods.map(|call| call.name().to_owned()).collect();
        for (call, verb) in VERBS {
            let call = call.split(' ').next().expect("a call");
            assert!(calls.iter().any(|known| known == call), "{call}");
            let mut words = verb.trim_matches('`').split(' ');
            let verb = words.next().expect("a verb");
            let command = Cli::command();
            let verb = command.find_subcommand(verb).expect(verb);
            for option in words {
                let mut known = verb.get_arguments().filter_map(|it| it.get_long());
                assert!(
                    known.any(|known| format!("--{known}") == option),
                    "{option}"
                );
            }
        }
        assert_eq!(
            translated("until ResumeScheduler with ignore_failures"),
            "until `resume --ignore-failures`"
        );
    }
}
