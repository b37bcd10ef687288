//! What the command line as a whole must be.

use super::Cli;
use clap::{Command, CommandFactory};
use std::collections::{BTreeMap, BTreeSet};

const DOCUMENT: &str = include_str!("../../docs/cli.md");

/// The verbs under their whole names: `jobs` has some of its own.
fn verbs() -> BTreeMap<String, Command> {
    let below = |command: &Command| -> Vec<Command> {
        let verbs = command.get_subcommands();
        let verbs = verbs.filter(|verb| verb.get_name() != "help");
        verbs.cloned().collect()
    };
    let mut verbs = BTreeMap::new();
    for verb in below(&Cli::command()) {
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
    Cli::command().debug_assert();
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
