//! What is written behind `:`, and how it is completed.

use super::place::{Place, VIEWS};

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Go(Place),
    Help,
    Quit,
}

/// Words with an argument, and those without one that are no views.
const WITH_ARGUMENT: [&str; 4] = ["scheduler", "task", "job", "resource"];
const OTHERS: [&str; 3] = ["help", "quit", "q"];

/// Names that arguments are completed from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) schedulers: Vec<String>,
    pub(super) jobs: Vec<String>,
    pub(super) resources: Vec<String>,
}

/// The command that a line says; of a word that is not finished, the first one that it begins.
pub(super) fn parse(line: &str) -> Result<Command, String> {
    let (word, argument) = split(line);
    match (word, argument) {
        ("" | "help" | "?", _) => return Ok(Command::Help),
        ("q" | "q!" | "quit" | "exit", _) => return Ok(Command::Quit),
        _ => {}
    }
    let view = |is: &dyn Fn(&str) -> bool| {
        let mut views = VIEWS.iter();
        let found = views.find(|(names, _)| names.iter().any(|name| is(name)));
        found.map(|(_, place)| Command::Go(place.clone()))
    };
    if let Some(command) = view(&|name| name == word) {
        return Ok(command);
    }
    if WITH_ARGUMENT.contains(&word) {
        return one(word, argument).map(Command::Go);
    }
    let starts = |name: &str| name.starts_with(word);
    match view(&starts) {
        Some(command) => Ok(command),
        None => Err(format!(
            "there is no command {word}: try overview, schedulers, jobs, resources, system, \
             scheduler NAME, task HANDLE SEQ, job NAME, resource NAME"
        )),
    }
}

/// The place that a word and its argument name.
fn one(word: &str, argument: &str) -> Result<Place, String> {
    if argument.is_empty() {
        return Err(format!("which {word}? write :{word} NAME"));
    }
    let name = argument.to_owned();
    match word {
        "job" => Ok(Place::Job(name)),
        "resource" => Ok(Place::Resource(name)),
        "scheduler" => Ok(Place::Scheduler(name)),
        _ => {
            let task = argument.rsplit_once([' ', '/']);
            let task = task.and_then(|(handle, seq)| Some((handle.trim(), seq.parse().ok()?)));
            match task.filter(|(handle, seq)| !handle.is_empty() && *seq > 0) {
                Some((handle, seq)) => Ok(Place::Task(handle.to_owned(), seq)),
                None => Err("which task? write :task HANDLE SEQ".to_owned()),
            }
        }
    }
}

/// The rest of the word that is being written, if there is one that begins so.
pub(super) fn completion(line: &str, names: &Names) -> Option<String> {
    let (word, argument) = split(line);
    let has_argument = line.trim_start().contains(char::is_whitespace);
    let rest = |begun: &str, mut all: Box<dyn Iterator<Item = &str> + '_>| {
        let found = all.find(|name| name.starts_with(begun) && name.len() > begun.len());
        found.map(|name| name[begun.len()..].to_owned())
    };
    if !has_argument {
        let views = VIEWS.iter().flat_map(|(names, _)| names.iter().copied());
        let all = views.chain(WITH_ARGUMENT).chain(OTHERS);
        return (!word.is_empty())
            .then(|| rest(word, Box::new(all)))
            .flatten();
    }
    let names = match word {
        "scheduler" | "task" => &names.schedulers,
        "job" => &names.jobs,
        "resource" => &names.resources,
        _ => return None,
    };
    rest(argument, Box::new(names.iter().map(String::as_str)))
}

fn split(line: &str) -> (&str, &str) {
    let line = line.trim();
    let (word, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    (word, argument.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_leads_to_its_view() {
        assert_eq!(parse("schedulers"), Ok(Command::Go(Place::Schedulers)));
        assert_eq!(parse(" res "), Ok(Command::Go(Place::Resources)));
        assert_eq!(parse("sch"), Ok(Command::Go(Place::Schedulers)));
        assert_eq!(parse("job a b"), Ok(Command::Go(Place::Job("a b".into()))));
        let task = Place::Task("h".into(), 7);
        assert_eq!(parse("task h/7"), Ok(Command::Go(task.clone())));
        assert_eq!(parse("task h 7"), Ok(Command::Go(task)));
        assert_eq!(parse("q"), Ok(Command::Quit));
        let said = parse("nothing").expect_err("no command");
        for word in VIEWS.iter().map(|(names, _)| names[0]).chain(WITH_ARGUMENT) {
            assert!(said.contains(word), "{word}: {said}");
        }
        for wrong in ["nothing", "job", "task h", "task h x", "task /1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_begun_is_completed() {
        let names = Names {
            jobs: vec!["nightly".into(), "night watch".into()],
            ..Names::default()
        };
        let complete = |line: &str| completion(line, &names).unwrap_or_default();
        assert_eq!(complete("sche"), "dulers");
        assert_eq!(complete("job ni"), "ghtly");
        assert_eq!(complete("job night w"), "atch");
        for whole in ["", "jobs", "job x", "system n"] {
            assert_eq!(completion(whole, &names), None, "{whole}");
        }
    }
}
