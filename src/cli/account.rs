//! The account that runs a command.

use nix::unistd::{Uid, User};

/// Its name, or its number if it has none.
pub(super) fn name() -> String {
    named(|name| std::env::var(name).ok())
}

/// Containers and cron do not always set USER.
fn named(variable: impl Fn(&str) -> Option<String>) -> String {
    let mut named = ["USER", "LOGNAME"].into_iter().filter_map(variable);
    let named = named.find(|name| !name.is_empty());
    let own = Uid::current();
    let known = || User::from_uid(own).ok().flatten().map(|user| user.name);
    named.or_else(known).unwrap_or_else(|| own.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_a_name_or_a_number() {
        let both = |name: &str| Some(name.to_lowercase());
        assert_eq!(named(both), "user");
        let empty = |name: &str| Some(if name == "USER" { "" } else { "anna" }.to_owned());
        assert_eq!(named(empty), "anna");
        assert!(!named(|_| None).is_empty());
    }
}
