//! How a configuration, an admin request or a command names the role of a replica, and the protocol
//! by which it hands over KV.

use std::fmt;
use std::str::FromStr;

use meridian_base::Role;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::AddReplica;
use crate::engines::Engine;
use crate::legs::{self, Protocol};
use crate::suggest;

impl AddReplica {
    /// The protocol by which it hands over KV with this engine behind it; none for a replica that
    /// takes whole requests.
    #[must_use]
    pub fn protocol(&self, engine: Option<Engine>) -> Option<&'static Protocol> {
        let usual = || engine.and_then(|engine| engine.transfer).and_then(legs::find);
        match self.role.is_both() {
            true => None,
            false => self.transfer.map(|name| name.0).or_else(usual),
        }
    }
}

/// The role of a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoleName(pub Role);

/// The protocol by which a replica hands over KV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferName(pub &'static Protocol);

/// A name that no role or no protocol has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    given: String,
    kind: &'static str,
    known: Vec<&'static str>,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownName { given, kind, known } = self;
        write!(f, "`{given}` is not {kind}; {}", suggest(given, known))
    }
}

impl std::error::Error for UnknownName {}

impl RoleName {
    /// Whether it is the default, which configurations leave out.
    #[must_use]
    #[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
    pub fn is_both(&self) -> bool {
        self.0 == Role::Both
    }

    /// Its name in configuration and status.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.word()
    }

    /// Every accepted name.
    pub fn all() -> impl Iterator<Item = &'static str> {
        Role::ALL.iter().map(Role::word)
    }
}

impl FromStr for RoleName {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<RoleName, UnknownName> {
        let role = Role::ALL.into_iter().find(|role| role.word() == name).map(RoleName);
        role.ok_or_else(|| UnknownName {
            given: name.to_owned(),
            kind: "a role",
            known: RoleName::all().collect(),
        })
    }
}

impl TransferName {
    /// Its name in configuration and status.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Every accepted name.
    pub fn all() -> impl Iterator<Item = &'static str> {
        legs::ALL.iter().map(|protocol| protocol.name)
    }
}

impl FromStr for TransferName {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<TransferName, UnknownName> {
        legs::find(name).map(TransferName).ok_or_else(|| UnknownName {
            given: name.to_owned(),
            kind: "a transfer protocol",
            known: TransferName::all().collect(),
        })
    }
}

impl Serialize for RoleName {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for RoleName {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<RoleName, D::Error> {
        String::deserialize(input)?.parse().map_err(de::Error::custom)
    }
}

impl Serialize for TransferName {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for TransferName {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<TransferName, D::Error> {
        String::deserialize(input)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every name reads back as written. An error about any other name lists all names.
    #[test]
    fn names() {
        for role in Role::ALL.map(RoleName) {
            assert_eq!(role.name().parse(), Ok(role));
            let json = serde_json::to_string(&role).unwrap();
            assert_eq!(serde_json::from_str::<RoleName>(&json).unwrap(), role);
        }
        for name in TransferName::all() {
            let transfer: TransferName = name.parse().unwrap();
            let json = serde_json::to_string(&transfer).unwrap();
            assert_eq!(serde_json::from_str::<TransferName>(&json).unwrap(), transfer);
        }
        let error = "prefil".parse::<RoleName>().unwrap_err().to_string();
        assert!(error.starts_with("`prefil` is not a role; did you mean `prefill`?"), "{error}");
        let error = "nixel".parse::<TransferName>().unwrap_err().to_string();
        assert!(error.starts_with("`nixel` is not a transfer protocol; "), "{error}");
    }
}
