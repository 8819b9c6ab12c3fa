//! TLS configurations made from certificate files, with hot reload when the files change.
//!
//! This crate serves four ports:
//! - the peer port and the control plane's port, where both sides show a certificate of the fleet,
//! - the client port, where only the gateway shows a certificate,
//! - the gateway's admin port, where the client may show one.
//!
//! All of them reload their files while they serve ([`Reread`]), so replacing a certificate needs
//! no restart. [`identity()`] returns the peer that a certificate names.
//!
//! Deliberately not here: sockets, and issuing certificates.

mod files;
mod health;
mod identity;
mod of_region;
mod of_secret;
mod open;
mod reread;
mod revoked;
mod sides;

pub use files::{FileError, Files, Material};
pub use identity::{NameError, identity, party};
pub use of_secret::{FLEET, OfSecret};
pub use open::{of_machine, open_client, open_client_as, open_server};
pub use reread::{LOOK, Look, Reread, Unread};
pub use revoked::Revoked;
pub use sides::{client, client_of_region, mutual_server, server};
