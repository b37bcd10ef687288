//! What the command line as a whole must be.

use super::{command_line, in_parts, tips::sensible, words};
use clap::Command;
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
};

const DOCUMENT: &str = include_str!("../../docs/cli.md");

/// The verbs under their whole names: `jobs` has some of its own.
fn verbs() -> BTreeMap<String, Command> {
    let below = |command: &Command| -> Vec<Command> {
        let verbs = command.get_subcommands();
        let verbs = verbs.filter(|verb| verb.get_name() != "help");
        verbs.cloned().collect()
    };
    let mut verbs = BTreeMap::new();
    for verb in below(&command_line()) {
        let own = below(&verb);
        let name = verb.get_name().to_owned();
        let whole = |one: Command| (format!("{name} {}", one.get_name()), one);
        match own.is_empty() {
            true => drop(verbs.insert(name, verb)),
            false => verbs.extend(own.into_iter().map(whole)),
        }
    }
    verbs
}

#[test]
fn the_command_line_is_consistent() {
    command_line().debug_assert();
}

#[test]
fn programs_are_told_what_is_missing_and_what_to_do() {
    let refused = command_line().try_get_matches_from(["rallypoint", "exec"]);
    let said = in_parts(&refused.expect_err("no statement").to_string()).to_json();
    let missing = "the following required arguments were not provided: <SQL|-f FILE>...";
    assert_eq!(said["error"], missing);
    assert_eq!(said["next"], "try '--help'");
    let why = said["why"].as_array().expect("a list");
    let is_usage = why[0]
        .as_str()
        .is_some_and(|why| why.starts_with("Usage: "));
    assert!(is_usage && why.len() == 1, "{why:?}");
}

#[test]
fn the_document_lists_every_verb_with_its_description_and_no_other() {
    let rows = DOCUMENT.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows = rows.filter_map(|row| row.split_once("` | "));
    let listed: BTreeMap<&str, &str> = rows
        .filter_map(|(verb, rest)| Some((verb, rest.split_once(" | ")?.0)))
        .collect();
    for (name, verb) in verbs() {
        let about = verb.get_about().expect("a description").to_string();
        assert_eq!(listed.get(name.as_str()), Some(&about.as_str()));
    }
    assert_eq!(listed.len(), verbs().len());
}

#[test]
fn one_word_means_one_thing_in_all_verbs() {
    let mut short: BTreeMap<char, BTreeSet<String>> = BTreeMap::new();
    let mut takes: BTreeMap<String, BTreeSet<bool>> = BTreeMap::new();
    for verb in verbs().values() {
        for argument in verb.get_arguments() {
            let Some(long) = argument.get_long() else {
                continue;
            };
            if let Some(letter) = argument.get_short() {
                short.entry(letter).or_default().insert(long.to_owned());
            }
            let has_value = argument.get_action().takes_values();
            takes.entry(long.to_owned()).or_default().insert(has_value);
        }
    }
    let several = short.iter().filter(|(_, long)| long.len() > 1);
    assert_eq!(several.count(), 0, "{short:?}");
    // `lock run --wait 10m`: there is nothing to wait for without an end.
    takes.retain(|name, kinds| kinds.len() > 1 && name != "wait");
    assert!(takes.is_empty(), "{takes:?}");
}

#[test]
fn every_argument_says_what_it_is_for() {
    for (verb, command) in verbs() {
        for argument in command.get_arguments() {
            let name = argument.get_id();
            assert!(argument.get_help().is_some(), "{verb} {name}");
        }
    }
}

#[test]
fn a_negative_number_is_a_value_that_is_refused_by_the_name_of_its_option() {
    for line in [
        "exec --order -5 commit",
        "exec --result-rows -1 commit",
        "exec --max-parallelism -1 commit",
        "exec --timeout -5 commit",
        "wait x --order -1",
        "tasks x --limit -2",
        "jobs run x --from-order -1",
        "lock run x --permits -1 -- true",
        "resource create x --capacity -1",
    ] {
        let words = ["rallypoint"].into_iter().chain(line.split(' '));
        let error = command_line().try_get_matches_from(words).expect_err(line);
        let said = error.to_string();
        assert!(said.contains("invalid value '-"), "{line}: {said}");
        assert!(!said.contains("tip:"), "{line}: {said}");
    }
    let words = ["rallypoint", "exec", "--timeout", "-5s", "commit"];
    let error = command_line().try_get_matches_from(words::of(words.map(OsString::from)));
    let said = sensible(error.expect_err("refused")).to_string();
    assert!(
        said.contains("invalid value '-5s' for '--timeout <TIME>'") && !said.contains("tip:"),
        "{said}"
    );
    for line in ["exec -5s commit", "exec --resource a commit"] {
        let words = ["rallypoint"].into_iter().chain(line.split(' '));
        let error = command_line().try_get_matches_from(words);
        let said = sensible(error.expect_err("refused")).to_string();
        assert!(said.contains("unexpected argument"), "{said}");
        assert!(!said.contains("to pass"), "{said}");
    }
    let similar = command_line().try_get_matches_from(["rallypoint", "list", "--limt", "1"]);
    let similar = sensible(similar.expect_err("refused")).to_string();
    assert!(similar.contains("'--limit'"), "{similar}");
    let words = ["rallypoint", "exec", "--param", "-1", "select $1"];
    assert!(command_line().try_get_matches_from(words).is_ok());
}

#[test]
fn how_a_task_ended_is_no_state_but_has_an_option() {
    for (state, tip) in [
        ("failed", "`--failed`"),
        ("timed_out", "`--outcome timed-out`"),
        ("succeeded", "`--outcome succeeded`"),
    ] {
        let words = ["rallypoint", "tasks", "x", "--state", state];
        let error = command_line().try_get_matches_from(words);
        let said = sensible(error.expect_err("refused")).to_string();
        assert!(said.contains(&format!("it is written {tip}")), "{said}");
    }
    let words = ["rallypoint", "tasks", "x", "--state", "odd"];
    let error = command_line().try_get_matches_from(words);
    let said = sensible(error.expect_err("refused")).to_string();
    assert!(!said.contains("it is written"), "{said}");
}

#[test]
fn a_value_out_of_its_bounds_is_answered_by_its_option_and_the_bounds() {
    for (line, option, bounds) in [
        ("exec --weight 0 commit", "--weight", "from 0.01 to 1000"),
        ("lock run x --lease 100ms -- true", "--lease", "1s to 1h"),
        ("jobs claim x --lease 2h -- true", "--lease", "1s to 1h"),
        ("serve --lease 2m", "--lease", "500ms to 1m"),
        ("serve --session-idle 0", "--session-idle", "1s to 1 day"),
        (
            "serve --shutdown-grace 2d",
            "--shutdown-grace",
            "0s to 1 day",
        ),
    ] {
        let words = ["rallypoint"].into_iter().chain(line.split(' '));
        let error = command_line().try_get_matches_from(words).expect_err(line);
        let said = error.to_string();
        assert!(said.contains(option) && said.contains(bounds), "{said}");
    }
    let line = "serve --lease 5 --session-idle 5m --shutdown-grace 0s";
    let words = ["rallypoint"].into_iter().chain(line.split(' '));
    assert!(command_line().try_get_matches_from(words).is_ok());
}

#[test]
fn waiting_for_no_time_is_not_to_wait() {
    for line in [
        "lock run x --wait 0 -- true",
        "jobs claim x --wait 0 -- true",
        "health --wait 0",
        "migrate --database x --wait 0s",
    ] {
        let words = ["rallypoint"].into_iter().chain(line.split(' '));
        assert!(command_line().try_get_matches_from(words).is_ok(), "{line}");
    }
}

#[test]
fn what_help_adds_fits_its_width() {
    for (verb, command) in verbs() {
        let added = command.get_after_long_help();
        let added = added.map(ToString::to_string).unwrap_or_default();
        for line in added.lines() {
            assert!(line.chars().count() <= 100, "{verb}: {line}");
        }
    }
}
