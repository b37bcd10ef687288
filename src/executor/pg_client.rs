//! Speaks the protocol of Postgres with the targets: logs in, sends messages in one write, and
//! reads the answers as they come.
//!
//! It exists beside sqlx, which serves the journal, because a task needs what sqlx does not offer:
//! several messages in one write, the notices, and a limit of what one message may make this
//! process hold. It knows nothing of tasks, and logs nothing: what travels here belongs to them.

mod connection;
mod error;
mod frames;
mod login;
mod place;
mod stream;
mod tls;

pub(crate) use connection::{Connection, Row, within};
pub(crate) use error::{Error, Report};
pub(crate) use frames::Frame;
pub use login::Login;
