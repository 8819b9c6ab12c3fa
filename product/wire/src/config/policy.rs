//! The policy in a configuration: a name, or a name with parameters.

use std::collections::BTreeMap;
use std::fmt;

use meridian_routing::policy::{self, Given, ParamError, Params, Spec, Value};
use serde::de::{MapAccess, Visitor, value::MapAccessDeserializer};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{closest, suggest};

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
        let name =
            if policy::find("meridian").is_some() { "meridian" } else { policy::ALL[0].name };
        Policy { name: name.to_owned(), params: BTreeMap::new() }
    }
}

impl Policy {
    /// The policy's declaration and complete parameters.
    ///
    /// # Errors
    /// Every problem of the name and the parameters, each with its remedy.
    pub fn resolve(&self) -> Result<(&'static Spec, Params), Vec<String>> {
        self.resolve_as("policy")
    }

    /// The same for the policy at this key of a file.
    pub(crate) fn resolve_as(&self, key: &str) -> Result<(&'static Spec, Params), Vec<String>> {
        let Some(spec) = policy::find(&self.name) else {
            let names: Vec<_> = policy::ALL.iter().map(|s| s.name).collect();
            return Err(vec![format!(
                "{key}: `{}` is unknown; {}",
                self.name,
                suggest(&self.name, &names)
            )]);
        };
        let given: Vec<_> = self.params.iter().map(|(k, v)| (k.clone(), v.given())).collect();
        let params = Params::complete(spec, &given);
        params
            .map(|p| (spec, p))
            .map_err(|errors| errors.iter().map(|e| self.describe(key, spec, e)).collect())
    }

    fn describe(&self, key: &str, spec: &Spec, error: &ParamError) -> String {
        match error {
            ParamError::Unknown(name) => {
                let known: Vec<_> = spec.params.iter().map(|p| p.name).collect();
                let remedy = match known.as_slice() {
                    [] => "it has none; remove this one".to_owned(),
                    known => suggest(name, known),
                };
                format!("{key}.{name}: `{}` has no such parameter; {remedy}", spec.name)
            }
            ParamError::Text(name, error) => {
                let remedy = match closest(&error.word, &error.known) {
                    _ if error.known.is_empty() => String::new(),
                    Some(one) => format!("; did you mean `{one}`?"),
                    None => format!("; use one of {}", error.known.join(", ")),
                };
                format!("{key}.{name}: character {}: {}{remedy}", error.character, error.message)
            }
            ParamError::Invalid(name) => {
                let param = spec.params.iter().find(|p| p.name == *name);
                let given = self.params.get(*name).map(|v| format!("{v}")).unwrap_or_default();
                let refusal = param.map(refusal).unwrap_or_default();
                format!("{key}.{name}: {given} {refusal}")
            }
        }
    }
}

fn refusal(param: &policy::Param) -> String {
    let words = param.words.join(", ");
    let (least, most) = param.range;
    match (param.takes_numbers(), param.words) {
        _ if param.check.is_some() => "is not an expression; write one in quotes".to_owned(),
        (false, _) => format!("is unknown; use one of {words}"),
        (true, []) => format!("is out of range; use a number from {least} to {most}"),
        (true, _) => {
            format!("is out of range; use a number from {least} to {most}, or one of {words}")
        }
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

impl Scalar {
    fn given(&self) -> Given {
        match self {
            Scalar::Number(n) => Given::Number(*n),
            Scalar::Flag(b) => Given::Word(if *b { "on" } else { "off" }.to_owned()),
            Scalar::Word(w) => Given::Word(w.clone()),
        }
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

impl From<Value> for Scalar {
    fn from(value: Value) -> Scalar {
        match value {
            Value::Number(n) => Scalar::Number(n),
            Value::Word(w) => Scalar::Word(w.to_owned()),
            Value::Text(text) => Scalar::Word(text.to_string()),
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
