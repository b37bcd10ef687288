//! A task on the command line: `HANDLE SEQ`, or `HANDLE/SEQ` in one word.

use super::{error::CliError, shell};
use clap::Args;
use std::{fmt, str::FromStr};

/// A task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TaskName {
    pub(super) handle: String,
    pub(super) seq: i64,
}

impl FromStr for TaskName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (handle, seq) = text
            .rsplit_once('/')
            .ok_or("no task is named: write HANDLE/SEQ")?;
        let seq = seq
            .parse()
            .map_err(|_| format!("`{seq}` is not a task number"))?;
        Ok(TaskName {
            handle: handle.to_owned(),
            seq,
        })
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.handle, self.seq)
    }
}

/// The words that name a task.
#[derive(Args, Debug)]
pub(super) struct TaskWords {
    /// The task: handle or name of its scheduler, and its number; HANDLE/SEQ does as well
    #[arg(num_args = 1..=2, required = true, value_names = ["HANDLE", "SEQ"])]
    task: Vec<String>,
}

impl TaskWords {
    /// The scheduler, when they name no task.
    pub(super) fn scheduler(&self) -> Option<&str> {
        let one = self.task.first().filter(|_| self.task.len() == 1)?;
        one.parse::<TaskName>().is_err().then_some(one)
    }

    /// The task that they name.
    pub(super) fn task(&self) -> Result<TaskName, CliError> {
        named(&self.task.join("/"))
    }
}

/// Some tasks of one scheduler: `HANDLE SEQ…`, each number as HANDLE/SEQ as well. No tasks when
/// only the handle is named.
pub(super) fn tasks(first: &str, more: &[String]) -> Result<(String, Vec<i64>), CliError> {
    let (handle, mut seqs) = match first.parse::<TaskName>() {
        Ok(task) => (task.handle, vec![task.seq]),
        Err(_) => (first.to_owned(), Vec::new()),
    };
    for word in more {
        let task = match word.contains('/') {
            true => named(word)?,
            false => named(&format!("{handle}/{word}"))?,
        };
        if task.handle != handle {
            return Err(
                CliError::usage(format!("{task} is a task of another scheduler"))
                    .next("name tasks of one scheduler at a time"),
            );
        }
        seqs.push(task.seq);
    }
    Ok((handle, seqs))
}

fn named(word: &str) -> Result<TaskName, CliError> {
    let Some((handle, seq)) = word.rsplit_once('/') else {
        return Err(CliError::usage("no task is named").next(FORM));
    };
    word.parse()
        .map_err(|wrong: String| CliError::usage(wrong).next(instead(handle, seq)))
}

/// What to write in place of a word that is no number of a task.
fn instead(handle: &str, seq: &str) -> String {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<&str> = seq.split([',', ';', '-', '.']).collect();
    let several = parts.len() > 1 && parts.iter().all(|part| part.is_empty() || is_number(part));
    match several && parts.iter().any(|part| is_number(part)) {
        true => "write each number as a word of its own, with spaces between: 1 2 3".to_owned(),
        false if seq.is_empty() || is_number(seq) => FORM.to_owned(),
        false if is_number(handle) => format!(
            "the scheduler comes first, and the task behind it: {} {handle}",
            shell::word(seq)
        ),
        // A task is shown by its name as well, which others may have, too.
        false => format!(
            "give its number, which `rallypoint tasks {}` shows beside its name",
            shell::word(handle)
        ),
    }
}

const FORM: &str = "write HANDLE SEQ, or HANDLE/SEQ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_task_is_answered_by_where_its_number_is_shown() {
        let said = |word: &str| {
            let error = tasks("night", &[word.to_owned()]).expect_err(word);
            (error.in_words(), error.next_step().map(str::to_owned))
        };
        let (what, next) = said("east");
        assert_eq!(what, "`east` is not a task number");
        assert!(next.is_some_and(|next| next.contains("`rallypoint tasks night`")));
        assert_eq!(said("").1.as_deref(), Some(FORM));
        for several in ["1,2", "1-2", "1..3"] {
            let next = said(several).1.unwrap_or_default();
            assert!(next.contains("with spaces between"), "{several}: {next}");
        }
        let swapped = tasks("2", &["night".to_owned()]).expect_err("swapped");
        let next = swapped.next_step().unwrap_or_default();
        assert!(next.ends_with("the task behind it: night 2"), "{next}");
        assert_eq!(
            tasks("night", &["2".to_owned()]).ok(),
            Some(("night".to_owned(), vec![2]))
        );
    }
}
