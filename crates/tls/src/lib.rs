//! Certificates at work: files become TLS configurations, and are read again when they change.
//!
//! Four ports are served with what is here: the peers' and the control plane's, where both sides
//! show a certificate of the fleet, the clients', where the gateway alone shows one, and the gateway's
//! admin port, where the other side may. All of them
//! read their files again while they serve ([`Reread`]), so certificates are exchanged without a
//! restart. [`identity()`] is who a peer's certificate names.
//!
//! Deliberately not here: sockets, and the making of certificates.

mod files;
mod health;
mod identity;
mod open;
mod reread;
mod revoked;
mod sides;

pub use files::{FileError, Files, Material};
pub use identity::{NameError, identity, party};
pub use open::{open_client, open_server};
pub use reread::{LOOK, Look, Reread, Unread};
pub use revoked::Revoked;
pub use sides::{client, mutual_server, server};
