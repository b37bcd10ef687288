//! Descriptors: every connection is one, and the limit that shells set is for programs with few.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// So many must be allowed: as many connections as a port has at most, and what else is open.
const WANTED: u64 = 16_384;

/// Raises the limit, and says so if that is not enough.
pub(super) fn make_room() {
    let allowed = raise_descriptor_limit();
    if allowed < WANTED {
        tracing::warn!(
            allowed,
            wanted = WANTED,
            "few open files are allowed, so callers may find no connection: raise the limit \
             (`ulimit -n`, `LimitNOFILE` of systemd)"
        );
    }
}

/// Allows this process as many open files and connections as the operating system lets it. Returns
/// how many that are.
pub fn raise_descriptor_limit() -> u64 {
    let limits = getrlimit(Resource::RLIMIT_NOFILE);
    let (soft, hard) = limits.unwrap_or((0, 0));
    let raised = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    raised.map_or(soft, |()| hard)
}
