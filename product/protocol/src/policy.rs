//! A policy by its name and parameters, as configurations and the registry name it.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor, value::MapAccessDeserializer};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `policy: meridian` or `policy: {name: chwbl, load_factor: 1.25}`.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// A name that `meridian policies` lists.
    pub name: String,
    /// Parameters that differ from their published defaults.
    pub params: BTreeMap<String, Scalar>,
}

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Scalar {
    /// A number.
    Number(f64),
    /// YAML reads `off` and `on` as booleans in some places; both spellings work.
    Flag(bool),
    /// A word.
    Word(String),
}

impl Default for Policy {
    fn default() -> Self {
        Policy { name: "meridian".to_owned(), params: BTreeMap::new() }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Scalar, D::Error> {
        struct Parameter;
        impl Visitor<'_> for Parameter {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a word")
            }
            fn visit_bool<E>(self, flag: bool) -> Result<Scalar, E> {
                Ok(Scalar::Flag(flag))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar::Number(number as f64))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
                Ok(Scalar::Number(number as f64))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Scalar, E> {
                Ok(Scalar::Number(number))
            }
            fn visit_str<E>(self, word: &str) -> Result<Scalar, E> {
                Ok(Scalar::Word(word.to_owned()))
            }
        }
        from.deserialize_any(Parameter)
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Number(n) => write!(f, "{n}"),
            Scalar::Flag(b) => write!(f, "{b}"),
            Scalar::Word(w) => write!(f, "`{w}`"),
        }
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if self.params.is_empty() {
            return s.serialize_str(&self.name);
        }
        let mut map = s.serialize_map(Some(1 + self.params.len()))?;
        map.serialize_entry("name", &self.name)?;
        for (k, v) in &self.params {
            map.serialize_entry(k, v)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Policy, D::Error> {
        #[derive(Deserialize)]
        struct Map {
            name: String,
            #[serde(flatten)]
            params: BTreeMap<String, Scalar>,
        }
        struct NameOrMap;
        impl<'de> Visitor<'de> for NameOrMap {
            type Value = Policy;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a policy's name, or `name` and parameters below it")
            }
            fn visit_str<E>(self, name: &str) -> Result<Policy, E> {
                Ok(Policy { name: name.to_owned(), params: BTreeMap::new() })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Policy, A::Error> {
                let Map { name, params } = Map::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Policy { name, params })
            }
        }
        d.deserialize_any(NameOrMap)
    }
}
