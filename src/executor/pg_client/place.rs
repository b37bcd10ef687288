//! Where logins lead.

use super::login::{Host, Login};
use crate::database_url::is_here;

impl Login {
    /// Whether it leads to the same database.
    pub fn is_at(&self, other: &Login) -> bool {
        let place = |login: &Login| (login.host.clone(), login.port, login.database.clone());
        place(self) == place(other)
    }

    /// Whether it is that user of the server at a port of a host, or of the folder of a socket.
    /// All names of this machine are one.
    pub(crate) fn is_user_at(&self, user: &str, host: &str, port: u16) -> bool {
        let own = match &self.host {
            Host::Name(name) => name.clone(),
            Host::Socket(folder) => folder.display().to_string(),
        };
        let here = |host: &str| host.starts_with('/') || is_here(host);
        let is_same = own == host || here(&own) && here(host);
        is_same && (&*self.user, self.port) == (user, port)
    }
}
