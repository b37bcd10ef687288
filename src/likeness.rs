//! The name that somebody meant who has written another one, and how much of that is repeated.

/// How alike a name must be to one that exists to be taken for it.
const ALIKE: f64 = 0.75;
/// Bytes of a text that an error repeats.
const MOST_REPEATED: usize = 40;

/// The end of a sentence about a word that is none of those known: which was probably meant.
pub(crate) fn did_you_mean(wrong: &str, known: &[&str]) -> String {
    let meant = closest(wrong, known);
    meant.map_or_else(String::new, |meant| format!(": did you mean `{meant}`?"))
}

/// The word that was probably meant, whatever its case.
pub(crate) fn closest<'a>(wrong: &str, known: &[&'a str]) -> Option<&'a str> {
    closest_of(wrong, known.iter().copied(), ALIKE)
}

/// The same of many words, which must be as like as `alike`. What is far longer or shorter than a
/// word is not compared with it: some letters out of a long word are in it by chance, and a caller
/// may have written millions.
pub(crate) fn closest_of<'a>(
    wrong: &str,
    known: impl Iterator<Item = &'a str>,
    alike: f64,
) -> Option<&'a str> {
    let is_near = |word: &&str| {
        let (most, least) = (wrong.len().max(word.len()), wrong.len().min(word.len()));
        3 * least >= most
    };
    let mut lower = None;
    let likeness = |word: &'a str| {
        let wrong = lower.get_or_insert_with(|| wrong.to_lowercase());
        (strsim::jaro_winkler(wrong, &word.to_lowercase()), word)
    };
    let likenesses = known.filter(is_near).map(likeness);
    let best = likenesses.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(likeness, _)| *likeness >= alike)
        .map(|(_, word)| word)
}

/// As much of a text as an error repeats.
pub(crate) fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(MOST_REPEATED)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_millions_is_compared_with_nothing() {
        // It would take many minutes.
        let (long, known) = ("q".repeat(4 << 20), vec!["quite_near"; 1_000]);
        assert_eq!(closest(&long, &known), None);
        assert_eq!(closest("quite_neer", &known), Some("quite_near"));
        assert_eq!(shortened(&long).len(), MOST_REPEATED);
    }
}
