//! The topology in a configuration: a name, or a name with its bound.

use std::fmt;

use meridian_routing::Topology as Machine;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Peers, suggest};

/// `topology: two_layer` or `topology: {waterfall: 0.8}`.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// `two_layer`, `waterfall`, `continent` or `region_local`.
    pub name: String,
    /// The utilisation above which requests are forwarded, if the topology has such a bound.
    pub above: Option<f64>,
}

/// Topologies that a gateway can have.
pub(super) const NAMES: [&str; 4] = ["two_layer", "waterfall", "continent", "region_local"];

/// The waterfall's published bound.
const ABOVE: f64 = 0.8;

impl Default for Topology {
    fn default() -> Self {
        Topology { name: NAMES[0].to_owned(), above: None }
    }
}

impl Topology {
    /// The routing machine's topology.
    ///
    /// # Errors
    /// If the name or its bound is invalid; the error names the remedy.
    pub fn resolve(&self) -> Result<Machine, String> {
        let above = self.above.unwrap_or(ABOVE);
        let machine = match self.name.as_str() {
            "two_layer" => Machine::TwoLayer,
            "region_local" => Machine::Local,
            "waterfall" => Machine::Waterfall { above: above as f32 },
            "continent" => Machine::Continent { above: above as f32 },
            // These describe how gateways are arranged, not a rule of one gateway.
            name @ ("central" | "flat") => {
                return Err(format!(
                    "topology: `{name}` is an arrangement of gateways, not a rule of one; use region_local, and list the replicas of all regions in replicas"
                ));
            }
            name => {
                return Err(format!("topology: `{name}` is unknown; {}", suggest(name, &NAMES)));
            }
        };
        let bounded = matches!(machine, Machine::Waterfall { .. } | Machine::Continent { .. });
        match self.above {
            Some(_) if !bounded => {
                Err(format!("topology.{}: takes no value; write `topology: {0}`", self.name))
            }
            _ if !(0.0..=1.0).contains(&above) => Err(format!(
                "topology.{}: {above} is not a utilisation; use a number from 0 to 1",
                self.name
            )),
            _ => Ok(machine),
        }
    }

    /// Checks it against the configured peers.
    pub(super) fn check(&self, peers: Option<&Peers>, check: &mut impl FnMut(bool, String)) {
        let machine = match self.resolve() {
            Ok(machine) => machine,
            Err(problem) => return check(false, problem),
        };
        let leaves = matches!(machine, Machine::Waterfall { .. } | Machine::Continent { .. });
        check(
            !leaves || peers.is_some_and(|p| !p.gateways.is_empty()),
            format!(
                "topology: `{}` forwards to peers, and none is listed; list some in peers.gateways, or use region_local",
                self.name
            ),
        );
        let placed = peers.is_none_or(|p| p.continent.is_some());
        check(
            !matches!(machine, Machine::Continent { .. }) || placed,
            "peers.continent: is missing, and `topology: continent` needs it; add it here and in peers.gateways".to_owned(),
        );
    }
}

impl Serialize for Topology {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let Some(above) = self.above else { return s.serialize_str(&self.name) };
        let mut map = s.serialize_map(Some(1))?;
        map.serialize_entry(&self.name, &above)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Topology {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Topology, D::Error> {
        d.deserialize_any(Form)
    }
}

struct Form;

impl<'de> Visitor<'de> for Form {
    type Value = Topology;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a topology, as in `two_layer` or `{waterfall: 0.8}`")
    }

    fn visit_str<E>(self, name: &str) -> Result<Topology, E> {
        Ok(Topology { name: name.to_owned(), above: None })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Topology, A::Error> {
        let wrong = || serde::de::Error::custom("takes one name, as in `{waterfall: 0.8}`");
        let (name, above) = map.next_entry::<String, f64>()?.ok_or_else(wrong)?;
        match map.next_key::<String>()? {
            Some(_) => Err(wrong()),
            None => Ok(Topology { name, above: Some(above) }),
        }
    }
}
