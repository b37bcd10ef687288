//! Text as a terminal gets it: nothing in it commands the terminal, hides what is written or turns
//! it around, and it is as wide as a terminal shows it.
//!
//! What callers, servers and databases say passes [`clean`] on its way to a terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The text without what a terminal would take for a command, or would hide or turn around.
pub(super) fn clean(text: &str) -> String {
    text.chars().map(shown).collect()
}

/// The first character that [`clean`] would change.
pub(super) fn unclean(text: &str) -> Option<char> {
    text.chars()
        .find(|character| shown(*character) != *character)
}

/// The joiners U+200C and U+200D stay: words of some languages, and emoji, are written with them.
fn shown(character: char) -> char {
    match character {
        '\u{00ad}' | '\u{061c}' | '\u{180e}' | '\u{200b}' => '\u{fffd}',
        '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' => '\u{fffd}',
        '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' => '\u{fffd}',
        '\u{e0000}'..='\u{e007f}' => '\u{fffd}',
        control if control.is_control() => ' ',
        other => other,
    }
}

/// The same on one line, with one space where there are several.
pub(super) fn plain(text: &str) -> String {
    let clean = clean(text);
    clean.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Columns of a terminal that the text takes.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// The beginning of the text that fits, with an ellipsis where there is more.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut kept, mut used) = (String::new(), 0);
    for character in text.chars() {
        let wide = character.width().unwrap_or(0);
        if used + wide + 1 > width {
            break;
        }
        kept.push(character);
        used += wide;
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_control_the_terminal() {
        assert_eq!(clean("a\x1b[2Jb\tc\u{9b}m"), "a [2Jb c m");
        assert_eq!(plain("a\x1b[2Jb\r\n\tc"), "a [2Jb c");
    }

    #[test]
    fn foreign_text_is_neither_hidden_nor_turned_around() {
        let shown = "drop \u{fffd}elbat";
        assert_eq!(clean("drop \u{202e}elbat"), shown);
        assert_eq!(plain("drop \u{202e}elbat"), shown);
        for hidden in "\u{ad}\u{61c}\u{180e}\u{200b}\u{200e}\u{2066}\u{feff}\u{e0041}".chars() {
            assert_eq!(plain(&format!("a{hidden}b")), "a\u{fffd}b", "{hidden:?}");
            assert_eq!(unclean(&format!("ä {hidden}")), Some(hidden));
        }
    }

    #[test]
    fn joiners_that_words_are_written_with_stay() {
        for text in ["می\u{200c}خواهم", "क्\u{200d}ष", "👩\u{200d}💻", "e\u{301}"]
        {
            assert_eq!(clean(text), text);
            assert_eq!(unclean(text), None);
        }
    }

    #[test]
    fn a_text_is_cut_by_what_it_takes_on_the_screen() {
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("表示表示", 5), "表示…");
        assert_eq!(cut("abc", 3), "abc");
    }
}
