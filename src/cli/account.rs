//! The account that runs a command, and its host.

use nix::unistd::{Uid, User};

/// Its name as the environment has it. Containers and cron do not always set USER.
pub(super) fn in_environment() -> Option<String> {
    named(|name| std::env::var(name).ok())
}

/// Its name, or its number if it has none.
pub(super) fn name() -> String {
    in_environment().unwrap_or_else(of_process)
}

/// The name of this host as the kernel has it; empty: that cannot be read.
pub(super) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.unwrap_or_default().trim().to_owned()
}

fn named(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut named = ["USER", "LOGNAME"].into_iter().filter_map(variable);
    named.find(|name| !name.is_empty())
}

fn of_process() -> String {
    let own = Uid::current();
    let known = User::from_uid(own).ok().flatten();
    known.map_or_else(|| own.to_string(), |user| user.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_a_name_or_a_number() {
        let both = |name: &str| Some(name.to_lowercase());
        assert_eq!(named(both).as_deref(), Some("user"));
        let empty = |name: &str| Some(if name == "USER" { "" } else { "anna" }.to_owned());
        assert_eq!(named(empty).as_deref(), Some("anna"));
        assert_eq!(named(|_| None), None);
        assert!(!of_process().is_empty());
    }
}
