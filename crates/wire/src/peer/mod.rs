//! What gateways of a fleet tell each other.

mod identity;

pub use identity::{Identity, IdentityError, label};
