//! Text as a terminal gets it: nothing in it commands the terminal, hides what is written or turns
//! it around, and it is as wide as a terminal shows it.
//!
//! What callers, servers and databases say passes [`clean`] on its way to a terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The text without what a terminal would take for a command, or would hide or turn around.
pub(super) fn clean(text: &str) -> String {
    let shown = |character: char| match character {
        '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => '\u{fffd}',
        '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' => '\u{fffd}',
        control if control.is_control() => ' ',
        other => other,
    };
    text.chars().map(shown).collect()
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
        assert_eq!(plain("a\u{200b}b"), "a\u{fffd}b");
    }

    #[test]
    fn a_text_is_cut_by_what_it_takes_on_the_screen() {
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("表示表示", 5), "表示…");
        assert_eq!(cut("abc", 3), "abc");
    }
}
