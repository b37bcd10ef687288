//! Bearer tokens, of which only hashes are known here. A token is random and long, so a plain
//! SHA-256 of it cannot be guessed back, and finding a hash by its value tells nobody anything
//! about the token.

use sha2::{Digest, Sha256};
use std::{collections::HashMap, sync::Arc};

const PREFIX: &str = "sha256:";

/// SHA-256 of a token.
pub(super) type TokenHash = [u8; 32];

/// Hashes of tokens, and to whom each belongs.
#[derive(Clone, Default)]
pub struct Tokens(HashMap<TokenHash, Arc<str>>);

impl Tokens {
    /// A token of `name` has this hash, `sha256:` and 64 hexadecimal digits. The error repeats
    /// nothing of it.
    pub fn add(&mut self, name: &str, hash: &str) -> Result<(), &'static str> {
        let digits = hash.strip_prefix(PREFIX).and_then(from_hex);
        let Some(hash) = digits else {
            return Err("write the hash of a token, as \"sha256:\" and 64 hexadecimal digits");
        };
        match self.0.insert(hash, name.into()) {
            None => Ok(()),
            Some(_) => Err("this token is in the file twice: a token belongs to one name"),
        }
    }

    /// Somebody has this name.
    pub fn has(&self, name: &str) -> bool {
        self.names().any(|owner| owner == name)
    }

    /// The names of their owners; of one with several tokens more than once.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(|owner| &**owner)
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All hashes, and to whom each belongs.
    pub(super) fn owners(&self) -> impl Iterator<Item = (TokenHash, &Arc<str>)> {
        self.0.iter().map(|(hash, name)| (*hash, name))
    }
}

/// The hash of a token.
pub(super) fn hash(token: &str) -> TokenHash {
    Sha256::digest(token.as_bytes()).into()
}

fn from_hex(text: &str) -> Option<TokenHash> {
    let is_hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut bytes = [0; 32];
    for (index, byte) in bytes.iter_mut().enumerate().filter(|_| is_hex) {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    is_hex.then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `secret`.
    const HASH: &str = "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

    #[test]
    fn a_token_is_known_by_its_hash() {
        let mut tokens = Tokens::default();
        assert_eq!(tokens.add("etl", HASH), Ok(()));
        let owners: HashMap<TokenHash, &Arc<str>> = tokens.owners().collect();
        let owner = |token| owners.get(&hash(token)).map(|name| &***name);
        assert_eq!(owner("secret"), Some("etl"));
        assert_eq!(owner("Secret"), None);
        assert_eq!(owner(HASH), None, "the hash opens nothing");
        assert!(tokens.add("other", HASH).is_err(), "whose is it?");
    }

    #[test]
    fn what_is_no_hash_is_refused() {
        for wrong in [
            "secret",
            "sha256:",
            &HASH[7..],
            &HASH[..70],
            &HASH.replace('b', "é"),
        ] {
            assert!(Tokens::default().add("etl", wrong).is_err(), "{wrong}");
        }
    }
}
