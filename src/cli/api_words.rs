//! What the server says of calls of the API, in the verbs of the command line.

use super::shell;

/// Calls as the server names them, each with the verb that makes it. A name comes before those
/// that it contains.
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
    ("GetStatus", "`status`"),
    ("ListJobs", "`jobs list`"),
    ("ListTasks", "`tasks`"),
    ("ListSchedulers", "`list`"),
    ("UpdateJob", "`jobs apply`"),
    ("ResumeJob", "`jobs resume`"),
    ("GetJob", "`jobs get`"),
    ("ListRuns", "`jobs runs`"),
    ("CancelRun", "`jobs cancel-run`"),
    ("StartAgent", "`jobs start-agent`"),
    ("CreateResource", "`resource create`"),
    ("UpdateResource", "`resource update`"),
    ("GetClaim", "`resource claim`"),
    ("ForceRelease", "`resource release --force`"),
];

/// What the server says of fields of the API, as options say it.
const OPTIONS: &[(&str, &str)] = &[
    (
        "set the mode to SHARED",
        "say `--shared` (of a task `shared`, behind the name)",
    ),
    ("filter.error_codes", "--error-code"),
    ("from_order: ", "--from-order: "),
    ("the list of jobs has", "`jobs list` has"),
    ("the list of its runs has", "`jobs runs` has"),
    ("wait for its AsyncDone", "`rallypoint wait` for its end"),
    (
        "`reuse` finds a scheduler by its name: give one",
        "`--name` needs a name",
    ),
    // A command repeats its calls by itself.
    ("; repeat it with the same request_id", ""),
];

/// How the server ends the sentence on a pause.
const PAUSE_ENDS: &str = ", until ResumeTarget";

/// The text with verbs and options in place of calls and fields.
pub(super) fn translated(text: &str) -> String {
    let words = VERBS.iter().chain(OPTIONS);
    words.fold(resuming(text), |text, (call, verb)| {
        text.replace(call, verb)
    })
}

/// The translated text with whole commands in place of the verbs that have a scheduler go on.
/// `scheduler`: its handle or its name, as a word of a shell.
pub(super) fn of_scheduler(text: &str, scheduler: &str) -> String {
    let command = |text: String, verb: &str| {
        let (name, options) = verb.split_once(' ').unwrap_or((verb, ""));
        let whole = format!("rallypoint {name} {scheduler} {options}");
        text.replace(&format!("`{verb}`"), &format!("`{}`", whole.trim_end()))
    };
    let verbs = ["resume --ignore-failures", "resume", "retry --failed"];
    verbs.into_iter().fold(text.to_owned(), command)
}

/// The text with the whole command that ends a pause of a target.
fn resuming(text: &str) -> String {
    let Some((before, behind)) = text.split_once(PAUSE_ENDS) else {
        return text.to_owned();
    };
    let named = before
        .split_once(" is paused since")
        .map(|(named, _)| named);
    let named = named.and_then(|named| named.rsplit_once("target "));
    let scope = named.map_or("--all".to_owned(), |(_, target)| shell::word(target));
    let command = format!(", until `rallypoint resume-target {scope} --reason TEXT`");
    format!("{before}{command}{}", resuming(behind))
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
            let mut command = Cli::command();
            for word in verb.trim_matches('`').split(' ') {
                let Some(option) = word.strip_prefix("--") else {
                    command = command.find_subcommand(word).expect(verb).clone();
                    continue;
                };
                let mut known = command.get_arguments().filter_map(|it| it.get_long());
                assert!(known.any(|known| known == option), "{verb}");
            }
        }
        assert_eq!(
            translated("until ResumeScheduler with ignore_failures"),
            "until `resume --ignore-failures`"
        );
        let paused = "target app is paused since … (x), until ResumeTarget; everything is paused \
                      since … (y), until ResumeTarget";
        assert_eq!(
            translated(paused),
            "target app is paused since … (x), until `rallypoint resume-target app --reason TEXT`; \
             everything is paused since … (y), until `rallypoint resume-target --all --reason TEXT`"
        );
        let paused = "target my app is paused since … (x), until ResumeTarget";
        let resume = "`rallypoint resume-target 'my app' --reason TEXT`";
        assert!(translated(paused).ends_with(resume));
        assert_eq!(
            translated("have it alone: set the mode to SHARED"),
            "have it alone: say `--shared` (of a task `shared`, behind the name)"
        );
        assert_eq!(
            translated("or end it with CancelRun"),
            "or end it with `jobs cancel-run`"
        );
    }

    #[test]
    fn nobody_is_told_of_a_request_id() {
        let said = "the database is away: the call may or may not have had an effect; repeat it \
                    with the same request_id";
        let translated = translated(said);
        assert!(translated.ends_with("had an effect"), "{translated}");
    }

    #[test]
    fn verbs_of_a_scheduler_are_whole_commands() {
        for (said, command) in [
            ("until ResumeScheduler", "`rallypoint resume night`"),
            ("(RetryFailed)", "`rallypoint retry night --failed`"),
            (
                "or ResumeScheduler with ignore_failures",
                "`rallypoint resume night --ignore-failures`",
            ),
        ] {
            let said = of_scheduler(&translated(said), "night");
            assert!(said.contains(command), "{said}");
        }
    }

    #[test]
    fn a_name_comes_before_those_that_it_contains() {
        for (place, (name, _)) in VERBS.iter().enumerate() {
            let mut before = VERBS[..place].iter();
            assert!(before.all(|(shorter, _)| !name.contains(shorter)), "{name}");
        }
    }
}
