//! An error as the journal stores it: one byte with the length of the code, the code, the message.
//! Plain SQL can take it apart.

use crate::core::TaskError;

/// Appends `error` to `bytes`. A code of more than 255 bytes is cut.
pub(in crate::journal) fn put_error(error: &TaskError, bytes: &mut Vec<u8>) {
    let code = &error.code[..error.code.floor_char_boundary(255)];
    bytes.push(code.len() as u8);
    bytes.extend_from_slice(code.as_bytes());
    bytes.extend_from_slice(error.message.as_bytes());
}

/// The error in `bytes`; `None` when they are not one.
pub(in crate::journal) fn take_error(bytes: &[u8]) -> Option<TaskError> {
    let (length, rest) = bytes.split_first()?;
    let (code, message) = rest.split_at_checked(usize::from(*length))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(TaskError {
        code: text(code),
        message: text(message),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_survives_and_a_long_code_is_cut_at_a_character() {
        let error = |code: String| TaskError {
            code,
            message: "nul \0 and ü".into(),
        };
        for (code, expected) in [
            ("23505".to_owned(), "23505".to_owned()),
            ("ü".repeat(200), "ü".repeat(127)),
            (String::new(), String::new()),
        ] {
            let mut bytes = Vec::new();
            put_error(&error(code), &mut bytes);
            assert_eq!(take_error(&bytes), Some(error(expected)));
        }
        assert_eq!(take_error(&[]), None);
        assert_eq!(take_error(&[5, b'x']), None);
    }
}
