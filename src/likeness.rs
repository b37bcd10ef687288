//! The name that somebody meant who has written another one.

/// How alike a name must be to one that exists to be taken for it.
const ALIKE: f64 = 0.75;

/// The end of a sentence about a word that is none of those known: which was probably meant.
pub(crate) fn did_you_mean(wrong: &str, known: &[&str]) -> String {
    let meant = closest(wrong, known);
    meant.map_or_else(String::new, |meant| format!(": did you mean `{meant}`?"))
}

/// The word that was probably meant, whatever its case.
pub(crate) fn closest<'a>(wrong: &str, known: &[&'a str]) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    let likeness = |word: &&str| strsim::jaro_winkler(&wrong, &word.to_lowercase());
    let words = known.iter().copied();
    let best = words.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    // Some letters out of a long word are in it by chance.
    let is_as_long = |word: &&str| 3 * wrong.len() >= word.len();
    best.filter(|word| likeness(word) >= ALIKE && is_as_long(word))
}
