//! Canaries: random words that stand where secrets do, so that whatever shows one shows a secret.

use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};
use uuid::Uuid;

/// Characters of a word that are looked for, so that a word is found which was cut.
const CORE: usize = 16;

/// Words, each with the place where it was planted.
#[derive(Default)]
pub(super) struct Canaries(Mutex<Vec<(&'static str, String)>>);

impl Canaries {
    /// A new word for a place.
    pub(super) fn plant(&self, place: &'static str) -> String {
        let random = Sha256::digest(Uuid::now_v7().as_bytes());
        let random: String = random[..12]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let word = format!("k{random}");
        self.watch(place, &word);
        word
    }

    /// A secret that somebody else has made, from its end on: that is random.
    pub(super) fn watch(&self, place: &'static str, secret: &str) {
        let secret = secret.trim_end();
        let begin = secret.len() - CORE - 8;
        let core = secret[begin..begin + CORE].to_owned();
        let mut words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        words.push((place, core));
    }

    /// The places whose words are in a text, in whatever form.
    pub(super) fn found_in(&self, text: &str) -> Vec<&'static str> {
        let text = condensed(text);
        let folded = text.to_lowercase();
        let words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = |core: &str| {
            folded.contains(&core.to_lowercase())
                || bytes(core).iter().any(|form| folded.contains(form))
                || base64(core).iter().any(|form| text.contains(form))
        };
        let found = words.iter().filter(|(_, core)| is_there(core));
        found.map(|(place, _)| *place).collect()
    }

    /// Fails if a text shows one of them.
    pub(super) fn are_not_in(&self, what: &str, text: &str) {
        let found = self.found_in(text);
        let lines = text.lines().filter(|line| !self.found_in(line).is_empty());
        let lines: Vec<&str> = lines.take(if found.is_empty() { 0 } else { 5 }).collect();
        assert!(
            found.is_empty(),
            "{what} shows {found:?}:\n{}",
            lines.join("\n")
        );
    }
}

/// What of a text can hold a word in some form, once each: a log says the same again and again.
fn condensed(text: &str) -> String {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || "+/=_-".contains(c);
    let is_of_numbers = |c: char| c.is_ascii_digit() || ", ".contains(c);
    let words = text.split(|c| !is_of_word(c));
    let numbers = text.split(|c| !is_of_numbers(c));
    let long = words.chain(numbers).filter(|part| part.len() >= CORE);
    let parts: BTreeSet<&str> = long.collect();
    parts.into_iter().collect::<Vec<_>>().join("\n")
}

/// Bytes as programs print them: in hexadecimal digits, and as a list of numbers.
fn bytes(core: &str) -> [String; 2] {
    let hex = core.bytes().map(|byte| format!("{byte:02x}"));
    let numbers: Vec<String> = core.bytes().map(|byte| byte.to_string()).collect();
    [hex.collect(), numbers.join(", ")]
}

/// What is left of a word in Base64, whatever stands before and behind it.
fn base64(core: &str) -> [String; 3] {
    [0, 1, 2].map(|before| {
        let text = format!("{}{core}", "_".repeat(before));
        let whole = text.len() / 3 * 3;
        let encoded = STANDARD.encode(&text[..whole]);
        // The first characters depend on what stands before.
        encoded[before.min(1) * 4..].to_owned()
    })
}

#[test]
fn a_word_is_found_in_whatever_form_it_is_shown() {
    let canaries = Canaries::default();
    let word = canaries.plant("a place");
    let in_base64 = |before: &str| STANDARD.encode(format!("{before}{word} behind"));
    for shown in [
        word.clone(),
        word.to_uppercase(),
        word[..20].to_owned(),
        format!("{:?}", word.as_bytes()),
        word.bytes().map(|byte| format!("{byte:02X}")).collect(),
        in_base64(""),
        in_base64("x"),
        in_base64("xy"),
        in_base64("xyz"),
    ] {
        assert_eq!(
            canaries.found_in(&format!("a {shown} b")),
            ["a place"],
            "{shown}"
        );
    }
    let other = Canaries::default().plant("another place");
    assert!(canaries.found_in(&other).is_empty());
}
