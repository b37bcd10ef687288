//! Who calls, and what callers may do: tokens, JWTs and certificates name an identity, rules give
//! it roles in namespaces, and a table says which role each method needs.
//!
//! Invariants: what no rule allows is refused, and so is a method without a row. Nothing that a
//! caller presents is in a message, a log or a `Debug`. It knows nothing of gRPC but the paths of
//! methods.

mod authenticator;
mod jwt;
mod keys;
mod methods;
mod role;
mod rules;
mod tokens;

pub use authenticator::{Authenticator, Credentials, Refusal, Sources};
pub use jwt::{Algorithm, JwtSettings};
pub use keys::{JwkSet, KeySource};
pub use methods::{Access, Audited, METHODS, STREAMS, WAITING, access, audited};
pub use role::Role;
pub use rules::{Identity, Namespaces, Rule};
pub use tokens::Tokens;
