//! Reads a crontab: what its lines say, and what has no place in a file of jobs.

use crate::{cli::terminal_text::unclean, core::schedule::TimeZones};

/// A line that runs a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// From 1.
    pub line: usize,
    /// Five fields.
    pub fields: String,
    /// What `CRON_TZ` says above it; empty: the zone of the machine.
    pub time_zone: String,
    /// Of a system crontab: as whom the command runs.
    pub user: Option<String>,
    /// For the shell.
    pub command: String,
    /// The shell that `SHELL` names above it; empty: `/bin/sh`.
    pub shell: String,
}

/// What a crontab holds.
#[derive(Debug, Default)]
pub(super) struct Crontab {
    pub entries: Vec<Entry>,
    /// Lines that have no place in a file of jobs, and why.
    pub left_out: Vec<(usize, String)>,
    /// The first line that names a time zone which nobody knows, and the zone.
    pub unknown_zone: Option<(usize, String)>,
}

/// Reads a crontab; with `has_users` as those below `/etc`, which name a user in each line.
pub(super) fn read(text: &str, has_users: bool) -> Crontab {
    let mut crontab = Crontab::default();
    let (mut time_zone, mut shell) = (String::new(), String::new());
    for (line, text) in (1..).zip(text.lines().map(str::trim)) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if let Some((name, value)) = variable(text) {
            match name {
                "CRON_TZ" => {
                    time_zone = value.to_owned();
                    if !value.is_empty() && TimeZones::bundled().zone(value).is_err() {
                        crontab
                            .unknown_zone
                            .get_or_insert((line, time_zone.clone()));
                    }
                }
                "SHELL" => shell = value.to_owned(),
                _ => crontab.left_out.push((
                    line,
                    format!("{name}: set it for `rallypoint jobs claim`, where the command runs"),
                )),
            }
            continue;
        }
        let entry = entry(line, text, has_users).and_then(|entry| {
            check_shown(&entry.command)?;
            check_shown(&shell)?;
            Ok(Entry {
                time_zone: time_zone.clone(),
                shell: shell.clone(),
                ..entry
            })
        });
        match entry {
            Ok(entry) => crontab.entries.push(entry),
            Err(why) => crontab.left_out.push((line, why)),
        }
    }
    crontab
}

/// Refuses what could do anything to the terminal on which the line for another crontab is shown
/// as it is, or what nobody would see there who pastes it. A tab is as good as a space.
fn check_shown(text: &str) -> Result<(), String> {
    match unclean(&text.replace('\t', " ")) {
        Some(character) => Err(format!(
            "U+{:04X} in its command, or in the name of its shell, cannot be shown: claim a script \
             that does it",
            u32::from(character)
        )),
        None => Ok(()),
    }
}

fn variable(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let name = name.trim().trim_matches('"');
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let value = value.trim().trim_matches(['"', '\'']);
    (!name.is_empty() && name.chars().all(is_name)).then_some((name, value))
}

fn entry(line: usize, text: &str, has_users: bool) -> Result<Entry, String> {
    let (fields, rest) = match text.strip_prefix('@') {
        Some(named) => {
            let (name, rest) = split(named);
            (of_name(name)?.to_owned(), rest)
        }
        None => {
            let mut rest = text;
            let mut fields = Vec::new();
            for _ in 0..5 {
                let (field, behind) = split(rest);
                fields.push(field);
                rest = behind;
            }
            (fields.join(" "), rest)
        }
    };
    let (user, command) = match has_users {
        true => {
            let (user, command) = split(rest);
            if !is_user(user) || command.starts_with('-') {
                return Err(format!(
                    "`{user} {command}` is no user with a command: without --system, lines name no \
                     user"
                ));
            }
            (Some(user.to_owned()), command)
        }
        false => (None, rest),
    };
    if command.is_empty() {
        return Err("no line of a crontab: five fields and a command".to_owned());
    }
    Ok(Entry {
        line,
        fields,
        time_zone: String::new(),
        user,
        command: command.to_owned(),
        shell: String::new(),
    })
}

fn is_user(word: &str) -> bool {
    let is_of_a_name = |c: char| c.is_alphanumeric() || "_.-$".contains(c);
    !word.starts_with(['-', '.']) && word.chars().all(is_of_a_name)
}

fn of_name(name: &str) -> Result<&'static str, String> {
    match name.to_ascii_lowercase().as_str() {
        "hourly" => Ok("0 * * * *"),
        "daily" | "midnight" => Ok("0 0 * * *"),
        "weekly" => Ok("0 0 * * 0"),
        "monthly" => Ok("0 0 1 * *"),
        "yearly" | "annually" => Ok("0 0 1 1 *"),
        "reboot" => Err("@reboot: a job is due at a time; start it with the machine".to_owned()),
        _ => Err(format!("@{name} is not known")),
    }
}

/// The first word, and what follows it.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// The command, and what stands behind the first bare `%`: cron ends the command there, and gives
/// it the rest as its input. A backslash makes the sign a character of the command, unless a
/// backslash before it takes that one.
fn cut(command: &str) -> (&str, Option<&str>) {
    let is_bare = |(at, _): &(usize, &str)| {
        let before = &command[..*at];
        (at - before.trim_end_matches('\\').len()).is_multiple_of(2)
    };
    match command.match_indices('%').find(is_bare) {
        Some((at, _)) => (&command[..at], Some(&command[at + 1..])),
        None => (command, None),
    }
}

/// Whether crons disagree where the command ends: behind two backslashes a `%` is bare, but for
/// cronie (of Red Hat and others), which never counts them.
pub(super) fn is_cut_by_some(command: &str) -> bool {
    let (command, input) = cut(command);
    input.is_some() && command.ends_with('\\')
}

/// A command as cron's shell is to hand it over: whole, to a shell of its own, unless it is a
/// program with plain words. Else cron's shell would run a part of it beside the claim, on every
/// machine. Its input stays behind it, and signs in it stay as they are: cron reads the line again.
pub(super) fn in_one_word(command: &str, shell: &str) -> String {
    let (command, input) = cut(command);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " _./:@+,-".contains(c);
    let sets_variable = command
        .split(' ')
        .next()
        .is_some_and(|word| word.contains('='));
    // A lone dot is a word of the shell.
    let has_path = ["/", "./", "../"]
        .iter()
        .any(|path| command.starts_with(path));
    let starts_plainly = has_path || !command.contains(' ');
    let shell = if shell.is_empty() { "/bin/sh" } else { shell };
    let mut word = match command.chars().all(is_plain) && !sets_variable && starts_plainly {
        true => command.to_owned(),
        false => {
            let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
            let shell = match shell.chars().all(|c| is_plain(c) && c != ' ') {
                true => shell.to_owned(),
                false => quoted(shell),
            };
            format!("{shell} -c {}", quoted(command))
        }
    };
    if let Some(input) = input {
        word.push('%');
        word.push_str(input);
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_ends_at_the_first_bare_percent_sign() {
        for (command, expected) in [
            (r"backup $(date +\%F)", None),
            ("mail ops%hello%you", Some(("mail ops", "hello%you"))),
            (r"date +\%F % hello", Some((r"date +\%F ", " hello"))),
            (r"echo \\%x", Some((r"echo \\", "x"))),
            (r"echo \\\%x", None),
            ("%", Some(("", ""))),
            ("poll", None),
        ] {
            let (before, input) = cut(command);
            assert_eq!(input.map(|input| (before, input)), expected, "{command}");
            assert_eq!(
                is_cut_by_some(command),
                command == r"echo \\%x",
                "{command}"
            );
        }
    }
}
