//! The targets of `serve`, written as NAME=URL or NAME:SLOTS=URL.
//!
//! The URLs hold passwords, so clap does not parse them: it would show what it cannot parse.

use crate::{
    cli::{error::CliError, postgres_url},
    server::{Login, TARGET_SLOTS, Target},
};
use std::{collections::BTreeSet, time::Duration};

const FORM: &str = "write it as NAME=URL or NAME:SLOTS=URL, like app=postgres://user@host/app";

/// The targets, unless something is wrong with one; those that do not say how many slots they have
/// get `slots`.
pub(in crate::cli) fn parse(
    texts: &[String],
    slots: u32,
    session_idle: Duration,
) -> Result<Vec<Target>, CliError> {
    let with_idle = |target| Target {
        session_idle,
        ..target
    };
    let each = each(texts, slots);
    each.map(|target| target.map(with_idle)).collect()
}

/// Each target, or what is wrong with it.
pub(in crate::cli) fn each(
    texts: &[String],
    slots: u32,
) -> impl Iterator<Item = Result<Target, CliError>> {
    let mut names = BTreeSet::new();
    // A variable that is there and empty names none.
    let texts = texts.iter().filter(|text| !text.is_empty());
    (1..).zip(texts).map(move |(number, text)| {
        let target = one_target(number, text, slots)?;
        match names.insert(target.name.clone()) {
            true => Ok(target),
            false => Err(senseless(number)
                .why(format!("`{}` is named twice", target.name))
                .next("give each target a name of its own")),
        }
    })
}

/// Where the `number`th target is named.
pub(in crate::cli) fn place(number: usize) -> String {
    format!("target {number} of --target or RALLYPOINT_TARGETS")
}

fn senseless(number: usize) -> CliError {
    CliError::usage(format!("{} makes no sense", place(number)))
}

/// A target, the `number`th that was named; with `slots` unless it says how many.
fn one_target(number: usize, text: &str, slots: u32) -> Result<Target, CliError> {
    let wrong = |why: &str| senseless(number).why(why).next(FORM);
    let (name, url) = match text.split_once('=') {
        Some((name, url)) if !name.contains("://") => (name, url),
        None if !text.contains("://") => return Err(wrong("there is no `=`")),
        _ => return Err(wrong("there is no name before its URL")),
    };
    let (name, slots) = match name.split_once(':') {
        None => (name, slots),
        Some((name, number)) => match number.parse() {
            Ok(slots) if TARGET_SLOTS.contains(&slots) => (name, slots),
            _ => return Err(wrong("the number of slots is not 1 to 10000")),
        },
    };
    if name.is_empty() {
        return Err(wrong("there is no name before its URL"));
    }
    if has_another(url) {
        return Err(wrong("another target stands in its URL")
            .next("put spaces between the targets of RALLYPOINT_TARGETS, and repeat --target"));
    }
    let login = postgres_url::read(
        &format!("the URL of target {name}"),
        url,
        str::parse::<Login>,
    );
    let login = login.map_err(|error| {
        let next = error.next_step().unwrap_or(FORM);
        wrong(&error.in_words()).next(next)
    })?;
    Ok(Target::new(name, login, slots))
}

/// Whether a URL goes on with a target, as where commas were taken to stand between them.
fn has_another(url: &str) -> bool {
    let behind = url.split_once("://").map_or("", |(_, behind)| behind);
    behind.contains("=postgres://") || behind.contains("=postgresql://")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(texts: &[&str]) -> Result<Vec<(String, u32)>, String> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let targets =
            parse(&texts, 8, Duration::from_secs(1)).map_err(|error| format!("{error:?}"))?;
        let target = |target: Target| (target.name.to_string(), target.slots);
        Ok(targets.into_iter().map(target).collect())
    }

    #[test]
    fn a_target_is_a_name_a_url_and_optional_slots() {
        let url = "postgres://u@h/app?options=-c%20a=b";
        assert_eq!(
            parsed(&[&format!("app={url}"), &format!("b:4={url}")]),
            Ok(vec![("app".to_owned(), 8), ("b".to_owned(), 4)])
        );
    }

    #[test]
    fn a_wrong_target_is_named_by_its_number_and_its_password_is_not_shown() {
        let url = "postgres://u:secret@h/app";
        for wrong in [
            url.replace('=', ""),
            format!("={url}"),
            "app=".to_owned(),
            format!("app:0={url}"),
            format!("app:many={url}"),
            format!("app={}", url.replace("postgres", "mysql")),
        ] {
            let error = parsed(&[&format!("good={url}"), &wrong]).expect_err(&wrong);
            assert!(
                error.contains("target 2") && !error.contains("secret"),
                "{error}"
            );
        }
    }

    #[test]
    fn why_a_target_is_wrong_names_its_url_and_not_its_place() {
        for (wrong, expected) in [
            (
                "b=postgres://u@/d",
                "the URL of target b is not the URL of a Postgres database: it has a user and \
                 names no host",
            ),
            (
                "b=postgres://u@h/d?sslmod=disable",
                "the URL of target b cannot be used: `sslmod` is not known: did you mean \
                 `sslmode`?",
            ),
        ] {
            let error = one_target(1, wrong, 8).expect_err(wrong);
            assert_eq!(error.reasons(), [expected]);
            assert!(error.next_step().is_some_and(|next| next != FORM));
        }
    }

    #[test]
    fn targets_with_a_comma_between_are_told_to_have_a_space() {
        let error = parsed(&["a=postgres://u:secret@/a?host=/run,b:4=postgres://u@h/b"]);
        let error = error.expect_err("two in one");
        assert!(error.contains("put spaces between"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn a_url_alone_lacks_a_name() {
        let url = "postgres://u@h:5432/app";
        for text in [url, &format!("{url}?sslmode=disable"), &format!("={url}")] {
            let error = parsed(&[text]).expect_err(text);
            assert!(error.contains("there is no name before its URL"), "{error}");
        }
    }

    #[test]
    fn a_name_is_given_once() {
        let error = parsed(&["a=postgres://u@h/1", "a=postgres://u@h/2"]).expect_err("twice");
        assert!(error.contains("`a` is named twice"), "{error}");
    }
}
