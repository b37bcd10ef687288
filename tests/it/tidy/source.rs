//! Source files as text: their code, their functions, and the rooms they name.

use proc_macro2::{TokenStream, TokenTree};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// A file of text: its path from the top of the repository, and what it holds.
pub(crate) struct Source {
    pub name: String,
    pub text: String,
}

impl Source {
    /// The text without line comments.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self
            .text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line));
        lines.map(|(number, line)| (number, line.split("//").next().unwrap_or_default()))
    }

    /// Where the code holds one of these words.
    pub(crate) fn says(&self, words: &[&str]) -> Vec<String> {
        let holds = |line: &str| {
            line.split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| words.contains(&word))
        };
        self.code()
            .filter(|(_, line)| holds(line))
            .map(|(n, line)| format!("{}:{n}: {}", self.name, line.trim()))
            .collect()
    }

    /// Rooms named as `crate::room` or `crate::{room, …}`, outside the tests.
    pub(crate) fn rooms_named(&self) -> Vec<String> {
        let code: Vec<&str> = self
            .code()
            .map(|(_, line)| line)
            .take_while(|line| line.trim() != "#[cfg(test)]")
            .collect();
        let code = code.join("\n");
        code.split("crate::")
            .skip(1)
            .flat_map(first_names)
            .collect()
    }

    /// Identifiers of the code, those in macros included, each once.
    pub(crate) fn identifiers(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        identifiers(self.text.parse().expect("rustc reads it, too"), &mut found);
        found
    }

    /// Words of the code that a patch adds or changes.
    pub(crate) fn words_of_patch(&self) -> BTreeSet<String> {
        let lines = self.text.lines().filter(|line| line.starts_with('+'));
        lines.flat_map(names).collect()
    }

    /// Names of the code in a page of Markdown, which writes them in `backticks`.
    pub(crate) fn names_in_page(&self) -> BTreeSet<String> {
        let lines = self.text.lines().filter(|line| !line.starts_with("```"));
        let text = lines.collect::<Vec<_>>().join(" ");
        text.split('`').skip(1).step_by(2).flat_map(names).collect()
    }

    /// Functions and their lengths, by the indentation that rustfmt keeps.
    pub(crate) fn functions(&self) -> Vec<(String, usize)> {
        let lines: Vec<&str> = self.text.lines().collect();
        let function = |line: &str| {
            line.trim_start()
                .split(' ')
                .take(5)
                .any(|word| word == "fn")
                && !line.ends_with(';')
        };
        let length = |start: usize| {
            let indent = lines[start].len() - lines[start].trim_start().len();
            let end = format!("{}}}", " ".repeat(indent));
            lines[start..]
                .iter()
                .position(|line| *line == end)
                .unwrap_or(0)
                + 1
        };
        let starts = (0..lines.len()).filter(|index| {
            function(lines[*index]) && !lines[*index].trim_start().starts_with("//")
        });
        starts
            .map(|start| (lines[start].trim().to_owned(), length(start)))
            .collect()
    }
}

/// Names in a text that is not Rust, or not all of it.
fn names(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| !word.is_empty()).map(str::to_owned)
}

fn identifiers(tokens: TokenStream, found: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => drop(found.insert(ident.to_string())),
            TokenTree::Group(group) => identifiers(group.stream(), found),
            TokenTree::Punct(_) | TokenTree::Literal(_) => (),
        }
    }
}

/// The words of an identifier, in lower case: `EventBuffer` and `event_buffer` have the same ones.
pub(crate) fn words(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for c in identifier.chars() {
        if c == '_' || (c.is_uppercase() && after_lower) {
            words.push(String::new());
        }
        after_lower = c.is_lowercase();
        if c != '_' {
            words
                .last_mut()
                .expect("never empty")
                .extend(c.to_lowercase());
        }
    }
    words
}

/// The first names of a path, or of the paths in its braces.
fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| {
        text.trim()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect::<String>()
    };
    let Some(list) = path.strip_prefix('{') else {
        return vec![name(path)];
    };
    let mut depth = 0;
    let mut names = vec![String::new()];
    for c in list.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(String::new()),
            _ => (),
        }
        names.last_mut().expect("never empty").push(c);
    }
    names
        .iter()
        .map(|text| name(text.trim_start_matches(',')))
        .filter(|name| !name.is_empty())
        .collect()
}

pub(crate) fn room(name: &str) -> &str {
    let inside = name.trim_start_matches("src/");
    inside.split(['/', '.']).next().unwrap_or_default()
}

/// The Rust files at or below a path; none when it does not exist.
pub(crate) fn sources(path: &str) -> Vec<Source> {
    texts(path, "rs")
}

/// The files with this extension at or below a path.
pub(crate) fn texts(path: &str, extension: &str) -> Vec<Source> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    walk(&top.join(path), extension, &mut files);
    files.sort();
    let source = |path: PathBuf| Source {
        name: path
            .strip_prefix(top)
            .expect("below the top")
            .to_string_lossy()
            .into_owned(),
        text: fs::read_to_string(&path).expect("a readable source file"),
    };
    files.into_iter().map(source).collect()
}

fn walk(path: &Path, extension: &str, files: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a readable folder") {
            walk(&entry.expect("a readable entry").path(), extension, files);
        }
    } else if path.extension().is_some_and(|its| its == extension) {
        files.push(path.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn an_identifier_falls_into_words() {
        assert_eq!(words("EventBuffer"), ["event", "buffer"]);
        assert_eq!(words("MAX_SLEEP"), ["max", "sleep"]);
    }

    #[test]
    fn the_reader_of_imports_sees_lists() {
        assert_eq!(first_names("core::Seq;"), ["core"]);
        assert_eq!(
            first_names("{core::{A, B}, journal, rpc::x};"),
            ["core", "journal", "rpc"]
        );
    }
}
