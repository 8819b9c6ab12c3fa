//! Keys of the registry: the subject of a record, as a path.

use std::fmt;

use super::Refused;
use crate::store::Keys;

/// The kind of record under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `desired/region/NAME`
    Region,
    /// `desired/replica/NAME`
    Replica,
    /// `observed/gateway/NAME`
    Gateway,
    /// `observed/load/NAME`, of a gateway
    Load,
    /// `observed/replica/NAME/GATEWAY`
    Seen,
}

/// A key of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    kind: Kind,
    name: String,
}

impl Key {
    /// A region's record.
    ///
    /// # Errors
    /// If the name is invalid.
    pub fn region(name: &str) -> Result<Key, Refused> {
        Key::new(Kind::Region, name)
    }

    /// A replica's record.
    ///
    /// # Errors
    /// If the name is invalid.
    pub fn replica(name: &str) -> Result<Key, Refused> {
        Key::new(Kind::Replica, name)
    }

    /// A gateway's record.
    ///
    /// # Errors
    /// If the name is invalid.
    pub fn gateway(name: &str) -> Result<Key, Refused> {
        Key::new(Kind::Gateway, name)
    }

    /// A gateway's newest report.
    ///
    /// # Errors
    /// If the name is invalid.
    pub fn load(gateway: &str) -> Result<Key, Refused> {
        Key::new(Kind::Load, gateway)
    }

    /// A replica as observed by a gateway.
    ///
    /// # Errors
    /// If one of the names is invalid.
    pub fn seen(replica: &str, gateway: &str) -> Result<Key, Refused> {
        check("replica", replica)?;
        check("gateway", gateway)?;
        Ok(Key { kind: Kind::Seen, name: format!("{replica}/{gateway}") })
    }

    fn new(kind: Kind, name: &str) -> Result<Key, Refused> {
        check(what(kind), name)?;
        Ok(Key { kind, name: name.to_owned() })
    }

    /// Parses a key; `None` if it is not a key of the registry.
    #[must_use]
    pub fn parse(text: &str) -> Option<Key> {
        let (kind, name) = Kind::ALL
            .into_iter()
            .find_map(|kind| Some((kind, text.strip_prefix(kind.prefix())?)))
            .filter(|(kind, name)| (*kind == Kind::Seen) == name.contains('/'))?;
        let mut parts = name.split('/');
        let good = parts.by_ref().take(2).all(sound) && parts.next().is_none();
        good.then(|| Key { kind, name: name.to_owned() })
    }

    /// The kind of record.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The name; for an observed replica, the replica's and the gateway's with `/` between.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn what(&self) -> &'static str {
        what(self.kind)
    }

    pub(super) fn unknown(&self) -> Refused {
        Refused::Unknown { what: self.what(), name: self.name.clone() }
    }

    pub(super) fn busy(&self) -> Refused {
        Refused::Busy { what: self.what(), name: self.name.clone() }
    }

    pub(super) fn unreadable(&self, why: &impl fmt::Display) -> Refused {
        let (what, name) = (self.what(), self.name.clone());
        Refused::Unreadable { what, name, why: why.to_string() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind.prefix(), self.name)
    }
}

/// The records that followers apply, without observations: every probe and every report would be a
/// change. Their prefixes are next to each other.
#[must_use]
pub fn followed() -> Keys {
    Keys::through("desired/", Kind::Gateway.prefix())
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Region, Kind::Replica, Kind::Gateway, Kind::Load, Kind::Seen];

    fn prefix(self) -> &'static str {
        match self {
            Kind::Region => "desired/region/",
            Kind::Replica => "desired/replica/",
            Kind::Gateway => "observed/gateway/",
            Kind::Load => "observed/load/",
            Kind::Seen => "observed/replica/",
        }
    }
}

fn what(kind: Kind) -> &'static str {
    match kind {
        Kind::Region => "region",
        Kind::Replica | Kind::Seen => "replica",
        Kind::Gateway | Kind::Load => "gateway",
    }
}

pub(super) fn check(what: &'static str, name: &str) -> Result<(), Refused> {
    if sound(name) { Ok(()) } else { Err(Refused::Name { what, name: name.to_owned() }) }
}

fn sound(name: &str) -> bool {
    let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"._-".contains(&c);
    (1..=63).contains(&name.len()) && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    // A key reads back from its text; names that would make two keys equal are refused.
    #[test]
    fn keys_are_read_back() {
        let keys =
            [Key::region("eu"), Key::replica("eu-1.a"), Key::load("g"), Key::seen("r", "g_2")];
        for key in keys.map(Result::unwrap) {
            assert_eq!(Key::parse(&key.to_string()), Some(key));
        }
        for bad in ["", "EU", "a/b", "a b", &"x".repeat(64)] {
            assert!(Key::region(bad).is_err(), "{bad:?}");
            assert_eq!(Key::parse(&format!("desired/region/{bad}")), None, "{bad:?}");
        }
        assert_eq!(Key::parse("observed/replica/r/g/x"), None);
        assert_eq!(Key::parse("observed/replica/r"), None);
        let is_followed = |kind: &Kind| followed().has(&format!("{}x", kind.prefix()));
        let kinds: Vec<_> = Kind::ALL.into_iter().filter(is_followed).collect();
        assert_eq!(kinds, [Kind::Region, Kind::Replica, Kind::Gateway]);
    }
}
