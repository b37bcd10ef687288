//! Tokens of a SQL text, told apart as psql does it, so far as that decides where a statement ends.
//!
//! Pure, and of one text at a time: a token depends on nothing before it. Strings are standard
//! conforming (a backslash escapes only in `E'…'`), and a string that goes on behind a line break
//! is two tokens, as in psql.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Space,
    /// From `--` to the end of the line, without its end.
    LineComment,
    BlockComment,
    /// A name without quotes, or a keyword.
    Word,
    /// A string, a name in quotes, or a text in dollar quotes.
    Quoted,
    Open,
    Close,
    Semicolon,
    /// `\;` or `\:`, which psql takes for the character alone.
    Escaped,
    /// The begin of a command of psql.
    Backslash,
    Other,
}

/// Something is opened and not closed: how it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unclosed(pub String);

/// The first token of a text that is not empty, and its length in bytes.
pub(super) fn first(text: &str) -> Result<(Token, usize), Unclosed> {
    let bytes = text.as_bytes();
    Ok(match bytes {
        [b, ..] if is_space(*b) => (Token::Space, run(bytes, is_space)),
        [b'-', b'-', ..] => (
            Token::LineComment,
            run(bytes, |b| !matches!(b, b'\n' | b'\r')),
        ),
        [b'/', b'*', ..] => (Token::BlockComment, block_comment(bytes)?),
        [b'\'' | b'"', ..] => (Token::Quoted, quoted(bytes, 0)?),
        [b'e' | b'E', b'\'', ..] => (Token::Quoted, escape_string(bytes)?),
        [b'b' | b'B' | b'x' | b'X' | b'n' | b'N', b'\'', ..] => (Token::Quoted, quoted(bytes, 1)?),
        [b'u' | b'U', b'&', b'\'' | b'"', ..] => (Token::Quoted, quoted(bytes, 2)?),
        [b'u' | b'U', b'&', ..] => (Token::Other, 1),
        [b'$', ..] => dollar(text)?,
        [b'(', ..] => (Token::Open, 1),
        [b')', ..] => (Token::Close, 1),
        [b';', ..] => (Token::Semicolon, 1),
        [b'\\', b';' | b':', ..] => (Token::Escaped, 2),
        [b'\\', ..] => (Token::Backslash, 1),
        [b':', b':', ..] => (Token::Other, 2),
        // A variable of psql: its name holds no dollar.
        [b':', name @ ..] => (Token::Other, 1 + run(name, continues_name)),
        [b, ..] if b.is_ascii_digit() => (Token::Other, number(bytes)),
        [b, ..] if begins_name(*b) => (Token::Word, word(bytes)),
        _ => (Token::Other, 1),
    })
}

fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 0x0c)
}

/// Of a name or a keyword; every character that is not of ASCII may stand there.
fn begins_name(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_' || !b.is_ascii()
}

fn continues_name(b: u8) -> bool {
    begins_name(b) || b.is_ascii_digit()
}

fn word(bytes: &[u8]) -> usize {
    run(bytes, |b| continues_name(b) || b == b'$')
}

/// How many bytes at the begin are of a kind.
fn run(bytes: &[u8], is_kind: impl Fn(u8) -> bool) -> usize {
    let end = bytes.iter().position(|b| !is_kind(*b));
    end.unwrap_or(bytes.len())
}

/// Comments are nested.
fn block_comment(bytes: &[u8]) -> Result<usize, Unclosed> {
    let (mut depth, mut at) = (1, 2);
    while depth > 0 {
        match &bytes[at..] {
            [] => return Err(Unclosed("/*".to_owned())),
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    Ok(at)
}

/// From a quote at `start` to the next one that is not doubled.
fn quoted(bytes: &[u8], start: usize) -> Result<usize, Unclosed> {
    let quote = bytes[start];
    let mut at = start + 1;
    loop {
        match &bytes[at..] {
            [] => return Err(Unclosed(char::from(quote).to_string())),
            [one, two, ..] if *one == quote && *two == quote => at += 2,
            [one, ..] if *one == quote => return Ok(at + 1),
            _ => at += 1,
        }
    }
}

/// `E'…'`, in which a backslash escapes what follows it.
fn escape_string(bytes: &[u8]) -> Result<usize, Unclosed> {
    let mut at = 2;
    loop {
        match &bytes[at..] {
            [] | [b'\\'] => return Err(Unclosed("E'".to_owned())),
            [b'\'', b'\'', ..] | [b'\\', ..] => at += 2,
            [b'\'', ..] => return Ok(at + 1),
            _ => at += 1,
        }
    }
}

/// A text in dollar quotes, a parameter like `$1`, or a lone `$`.
fn dollar(text: &str) -> Result<(Token, usize), Unclosed> {
    let bytes = text.as_bytes();
    if bytes.get(1).is_some_and(u8::is_ascii_digit) {
        return Ok((Token::Other, 1 + number(&bytes[1..])));
    }
    let name = run(&bytes[1..], continues_name);
    if bytes.get(1 + name) != Some(&b'$') {
        return Ok((Token::Other, 1));
    }
    let mark = &text[..name + 2];
    match text[mark.len()..].find(mark) {
        Some(inside) => Ok((Token::Quoted, inside + 2 * mark.len())),
        None => Err(Unclosed(mark.to_owned())),
    }
}

/// A number and the name that psql reads with it: the `e` of `1e'…'` begins no string.
fn number(bytes: &[u8]) -> usize {
    let digits = |from: usize| run(&bytes[from..], |b| b.is_ascii_digit());
    let mut length = digits(0);
    if bytes.get(length) == Some(&b'.') && bytes.get(length + 1) != Some(&b'.') {
        length += 1;
        length += digits(length);
    }
    if let [b'e' | b'E', b'+' | b'-', ..] = &bytes[length..] {
        length += 2;
        match digits(length) {
            0 => return length,
            exponent => length += exponent,
        }
    }
    match &bytes[length..] {
        name @ [b, ..] if begins_name(*b) => length + word(name),
        _ => length,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokens of a text, without spaces.
    fn tokens(mut text: &str) -> Vec<(Token, &str)> {
        let mut found = Vec::new();
        while !text.is_empty() {
            let (token, length) = first(text).expect("nothing is left open");
            found.push((token, &text[..length]));
            text = &text[length..];
        }
        found.retain(|(token, _)| *token != Token::Space);
        found
    }

    #[test]
    fn every_quote_is_one_token() {
        let all = [
            "'it''s; -- one'",
            r"'no escape\'",
            r"E'it\'s; one\\'",
            r"e'a\'''b'",
            "B'01'",
            "n'x;'",
            r"U&'\0061;'",
            r#"U&"d\0061;""#,
            "\"a \"\"name\"\";\"",
            "$$a;'b$$",
            "$ä_1$a;$$ $b$ $ä_1$",
        ];
        for text in all {
            assert_eq!(tokens(text), [(Token::Quoted, text)]);
        }
    }

    #[test]
    fn comments_are_nested_and_end_with_their_line() {
        let text = "/* a /* ; */ ' */ -- it's;\n;+/*/ ;*/";
        let found: Vec<_> = tokens(text).into_iter().map(|(token, _)| token).collect();
        use Token::{BlockComment, LineComment, Other, Semicolon};
        assert_eq!(
            found,
            [BlockComment, LineComment, Semicolon, Other, BlockComment]
        );
    }

    #[test]
    fn a_dollar_within_a_name_a_number_or_a_parameter_quotes_nothing() {
        let other = |text| (Token::Other, text);
        let word = |text| (Token::Word, text);
        let quoted = |text| (Token::Quoted, text);
        let expected = [word("a$b$"), other("$1"), other("$"), word("x")];
        assert_eq!(tokens("a$b$ $1 $x"), expected);
        assert_eq!(tokens("1$$;$$"), [other("1"), quoted("$$;$$")]);
        assert_eq!(
            tokens("1.5e3$a$ $1b$$"),
            [other("1.5e3$a$"), other("$1b$$")]
        );
        assert_eq!(tokens("1e--1"), [other("1e-"), other("-"), other("1")]);
        assert_eq!(tokens("1e-2$$;$$"), [other("1e-2"), quoted("$$;$$")]);
        assert_eq!(tokens(":a$b$;$b$"), [other(":a"), quoted("$b$;$b$")]);
        assert_eq!(tokens("::a$b$"), [other("::"), word("a$b$")]);
        assert_eq!(tokens(r"1e'\' 1..e'\''"), {
            let range = [other("1"), other("."), other("."), quoted(r"e'\''")];
            [&[other("1e"), quoted(r"'\'")], &range[..]].concat()
        });
    }

    #[test]
    fn what_is_not_closed_is_named() {
        let all = [
            ("'a''", "'"),
            ("\"a", "\""),
            (r"E'a\'", "E'"),
            (r"E'a\", "E'"),
            ("/* /* */", "/*"),
            ("$a$ $b$", "$a$"),
        ];
        for (text, begin) in all {
            assert_eq!(first(text), Err(Unclosed(begin.to_owned())), "{text}");
        }
    }
}
