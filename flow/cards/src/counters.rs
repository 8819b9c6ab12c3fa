//! Byte counters of a host's network cards, and the share of their rate that the bytes are.
//!
//! [`find()`] lists the cards, [`Card::read`] reads the counters of one, and a [`Meter`] turns readings
//! into a use. Readings are plain numbers and the time is an argument, so that a meter needs no card.
//!
//! # No byte counts twice
//!
//! A card is a port with a cable. Its bytes are counted once, from one of three sources:
//!
//! - an InfiniBand port: the counters of the port. IP over InfiniBand is part of them, so its network
//!   device is not a card.
//! - an Ethernet card without RDMA: the counters of its network device.
//! - an Ethernet card with RDMA (RoCE): the kernel does not see RDMA, so the bytes are those of the
//!   network device plus those of the RDMA port. Where the RDMA port has no usable counters, the
//!   driver's counters of the whole port count alone (`ethtool -S`).
//!
//! Bonds, bridges, VLANs and tunnels are not cards: their bytes cross a card that is counted.

mod card;
mod error;
mod ethtool;
mod find;
mod meter;
mod rate;
mod rdma;
mod sysfs;

#[cfg(test)]
mod tests;

pub use card::{Card, Counts, Kind};
pub use error::CardsError;
pub use find::{Found, Skipped, find};
pub use meter::{Meter, Use};
pub use rate::Rate;
pub use sysfs::{Host, Sysfs};
