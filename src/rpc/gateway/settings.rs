//! What the parts of the gateway have to know of the server.

use super::same_site::Hosts;
use crate::{identity::Authenticator, rpc::room::Rooms};

/// What a gateway has to know.
pub(in crate::rpc) struct Settings {
    /// Under which names it may be reached.
    pub hosts: Hosts,
    /// Where messages, answers and events take their room.
    pub rooms: Rooms,
    /// The most bytes of a request.
    pub largest: usize,
    /// The server waits for its database, and nobody is known yet.
    pub is_starting: bool,
    /// Knows callers, for the page; `None`: everybody may do everything.
    pub authenticator: Option<Authenticator>,
    /// Callers come by TLS.
    pub by_tls: bool,
}
