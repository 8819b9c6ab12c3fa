//! The party that a certificate of the fleet names: a gateway, a control plane, or an operator.
//!
//! All URIs have the form `spiffe://FLEET/...`; a client checks the DNS name. All control planes of
//! a fleet share a name of two labels, which no gateway has, so a gateway's certificate can't stand
//! in for theirs.

use std::fmt;
use std::str::FromStr;

use super::identity::{Identity, IdentityError, label};

/// One party.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Party {
    /// A gateway.
    Gateway(Identity),
    /// A control plane.
    Control {
        /// The fleet.
        fleet: String,
        /// Its own name.
        name: String,
    },
    /// An operator of the fleet.
    Operator {
        /// The fleet.
        fleet: String,
        /// Their name.
        name: String,
    },
}

impl Party {
    /// The control plane `name` of `fleet`.
    ///
    /// # Errors
    /// If one of them is not a DNS label in lower case.
    pub fn control(fleet: &str, name: &str) -> Result<Party, IdentityError> {
        label("fleet", fleet)?;
        label("control", name)?;
        Ok(Party::Control { fleet: fleet.to_owned(), name: name.to_owned() })
    }

    /// The operator `name` of `fleet`.
    ///
    /// # Errors
    /// If one of them is not a DNS label in lower case.
    pub fn operator(fleet: &str, name: &str) -> Result<Party, IdentityError> {
        label("fleet", fleet)?;
        label("operator", name)?;
        Ok(Party::Operator { fleet: fleet.to_owned(), name: name.to_owned() })
    }

    /// The fleet.
    #[must_use]
    pub fn fleet(&self) -> &str {
        match self {
            Party::Gateway(identity) => identity.fleet(),
            Party::Control { fleet, .. } | Party::Operator { fleet, .. } => fleet,
        }
    }

    /// Its own name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Party::Gateway(identity) => identity.gateway(),
            Party::Control { name, .. } | Party::Operator { name, .. } => name,
        }
    }

    /// Its kind for the certificate's subject: `region/NAME`, `control` or `operator`.
    #[must_use]
    pub fn unit(&self) -> &str {
        match self {
            Party::Gateway(identity) => identity.region(),
            Party::Control { .. } => "control",
            Party::Operator { .. } => "operator",
        }
    }

    /// The URI of its certificate.
    #[must_use]
    pub fn uri(&self) -> String {
        match self {
            Party::Gateway(identity) => identity.uri(),
            Party::Control { fleet, name } => format!("spiffe://{fleet}/control/{name}"),
            Party::Operator { fleet, name } => format!("spiffe://{fleet}/operator/{name}"),
        }
    }

    /// The DNS name that its clients expect; none for an operator, which accepts no connections.
    #[must_use]
    pub fn dns_name(&self) -> Option<String> {
        match self {
            Party::Gateway(identity) => Some(identity.dns_name()),
            Party::Control { fleet, .. } => Some(control_name(fleet)),
            Party::Operator { .. } => None,
        }
    }
}

/// The DNS name of a fleet's control planes.
#[must_use]
pub fn control_name(fleet: &str) -> String {
    format!("control.{fleet}")
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Party::Gateway(identity) => write!(f, "{identity}"),
            Party::Control { name, .. } => write!(f, "control plane {name}"),
            Party::Operator { name, .. } => write!(f, "operator {name}"),
        }
    }
}

impl FromStr for Party {
    type Err = IdentityError;

    fn from_str(uri: &str) -> Result<Party, IdentityError> {
        let rest = uri.strip_prefix("spiffe://").unwrap_or_default();
        let (fleet, path) = rest.split_once('/').unwrap_or_default();
        match path.split_once('/') {
            Some(("control", name)) => return Party::control(fleet, name),
            Some(("operator", name)) => return Party::operator(fleet, name),
            _ => {}
        }
        uri.parse().map(Party::Gateway)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Each kind reads back from its URI; no URI can be read as another kind.
    #[test]
    fn uris_read_back() {
        let gateway = Identity::new("prod", "control", "a").expect("are labels");
        for party in [
            Party::Gateway(gateway),
            Party::control("prod", "c-1").expect("are labels"),
            Party::operator("prod", "alice").expect("are labels"),
        ] {
            assert_eq!(party.uri().parse(), Ok(party.clone()));
            assert_ne!(
                party.dns_name() == Some("control.prod".into()),
                party.unit() != "control" || party.name() == "a"
            );
        }
        for bad in
            ["spiffe://prod/control/A", "spiffe://prod/operator/", "spiffe://prod/x/control/a"]
        {
            assert!(bad.parse::<Party>().is_err(), "{bad}");
        }
    }
}
