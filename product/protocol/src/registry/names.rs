//! `GET /admin/names`: who answers which name of the fleet's zone, and why.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The answers of the name server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Names {
    /// The zone, with the final dot.
    pub zone: String,
    /// One for each name, kind of client and family of addresses.
    pub rows: Vec<NameRow>,
}

/// One answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NameRow {
    /// The name that is asked for.
    pub name: String,
    /// `A` or `AAAA`.
    pub kind: String,
    /// Who asks: `clients of eu`, an address, or `anyone`.
    pub client: String,
    /// The regions whose gateways are in the answer.
    pub regions: Vec<String>,
    /// The addresses.
    pub addresses: Vec<IpAddr>,
    /// Why these, and why not others.
    pub why: String,
}
