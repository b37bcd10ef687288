//! The token by which a server knows a caller. It is in no error and no `Debug`.

use crate::error::{Error, Result};
use secrecy::{ExposeSecret, SecretString};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;
use tonic::{
    Status,
    metadata::{Ascii, MetadataValue},
};

/// For how long what was read counts. Whoever renews a token leaves more time than that.
const READ_INTERVAL: Duration = Duration::from_secs(10);

/// A token, or a file whose first line is one. Clones share what was read.
#[derive(Clone, Debug)]
pub(crate) enum Token {
    Fixed(MetadataValue<Ascii>),
    File(Arc<TokenFile>),
}

#[derive(Debug)]
pub(crate) struct TokenFile {
    path: PathBuf,
    read: Mutex<Read>,
}

/// What was read of a file.
#[derive(Debug)]
struct Read {
    at: Instant,
    token: MetadataValue<Ascii>,
    /// When it was another one than before; `None`: it is the first.
    changed: Option<Instant>,
}

impl Token {
    /// Fails unless it is printable ASCII.
    pub(crate) fn new(token: &SecretString) -> Result<Token> {
        Ok(Token::Fixed(bearer(token.expose_secret())?))
    }

    /// Reads the file. Fails when there is no token in it.
    pub(crate) fn read(path: &Path) -> Result<Token> {
        let read = Read {
            at: Instant::now(),
            token: from_file(path)?,
            changed: None,
        };
        Ok(Token::File(Arc::new(TokenFile {
            path: path.to_owned(),
            read: Mutex::new(read),
        })))
    }

    /// What is sent with a call. A file is read again after a while; while it cannot be, what was
    /// read before counts.
    pub(crate) fn metadata(&self) -> MetadataValue<Ascii> {
        let file = match self {
            Token::Fixed(token) => return token.clone(),
            Token::File(file) => file,
        };
        let mut read = file.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.at.elapsed() >= READ_INTERVAL {
            read.again(&file.path);
        }
        read.token.clone()
    }

    /// Whether another token is there since a moment ago, so that a call may succeed that was
    /// refused with the one before.
    pub(crate) fn was_renewed(&self) -> bool {
        let Token::File(file) = self else {
            return false;
        };
        let mut read = file.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.again(&file.path);
        read.changed
            .is_some_and(|changed| changed.elapsed() < READ_INTERVAL)
    }
}

impl Read {
    /// Takes what is in the file now. While it cannot be read, what is known counts.
    fn again(&mut self, path: &Path) {
        self.at = Instant::now();
        if let Some(token) = from_file(path).ok().filter(|token| *token != self.token) {
            self.token = token;
            self.changed = Some(self.at);
        }
    }
}

fn from_file(path: &Path) -> Result<MetadataValue<Ascii>> {
    let wrong = |why: String| {
        let text = format!("the token in {} cannot be used: {why}", path.display());
        Error::from(Status::invalid_argument(text))
    };
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let text = SecretString::from(text);
    let token = text.expose_secret().lines().next().unwrap_or_default();
    if token.trim().is_empty() {
        return Err(wrong("its first line is empty".to_owned()));
    }
    bearer(token).map_err(|error| wrong(error.message))
}

fn bearer(token: &str) -> Result<MetadataValue<Ascii>> {
    let token = token.trim();
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let value = format!("Bearer {token}").parse::<MetadataValue<Ascii>>();
    let mut value = value.ok().filter(|_| is_token).ok_or_else(|| {
        Error::from(Status::invalid_argument(
            "a token is printable ASCII without spaces",
        ))
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_shown_nowhere() {
        let token = Token::new(&"s3cret".to_owned().into()).expect("a token");
        assert!(!format!("{token:?}").contains("s3cret"));
        assert_eq!(token.metadata().as_bytes(), b"Bearer s3cret");
        for wrong in ["", "s3cret two", "s3\u{e9}cret"] {
            let error = Token::new(&wrong.to_owned().into()).expect_err("refused");
            assert!(!format!("{error:?}").contains("s3"), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewed_file_is_read_again() {
        let path = std::env::temp_dir().join(format!("token-{}", std::process::id()));
        fs::write(&path, "one\n").expect("written");
        let token = Token::read(&path).expect("a token");
        assert_eq!(token.metadata().as_bytes(), b"Bearer one");
        fs::write(&path, "two\n").expect("written");
        tokio::time::advance(READ_INTERVAL).await;
        assert_eq!(token.metadata().as_bytes(), b"Bearer two");
        assert!(token.was_renewed(), "a moment ago");
        tokio::time::advance(READ_INTERVAL).await;
        assert!(!token.was_renewed());
        fs::remove_file(&path).expect("removed");
        tokio::time::advance(READ_INTERVAL).await;
        assert_eq!(token.metadata().as_bytes(), b"Bearer two");
        assert!(Token::read(&path).is_err(), "nor is it used at a start");
    }
}
