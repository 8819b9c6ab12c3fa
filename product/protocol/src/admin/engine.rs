//! The engine that a configuration, an admin request or a command names for a replica.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::engines::{ALL, Engine, find};
use crate::suggest;

/// A replica's engine, or `auto` to detect it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineName {
    /// Detected from its responses.
    #[default]
    Auto,
    /// This one.
    Is(Engine),
}

/// A name that no engine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownEngine(String);

impl EngineName {
    /// Its name in configuration and status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            EngineName::Auto => "auto",
            EngineName::Is(engine) => engine.name,
        }
    }

    /// Every accepted name.
    pub fn all() -> impl Iterator<Item = EngineName> {
        std::iter::once(EngineName::Auto).chain(ALL.iter().copied().map(EngineName::Is))
    }
}

impl FromStr for EngineName {
    type Err = UnknownEngine;

    fn from_str(name: &str) -> Result<EngineName, UnknownEngine> {
        match name {
            "auto" => Ok(EngineName::Auto),
            _ => find(name).map(EngineName::Is).ok_or_else(|| UnknownEngine(name.to_owned())),
        }
    }
}

impl fmt::Display for UnknownEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = EngineName::all().map(EngineName::name).collect();
        write!(f, "`{}` is not an engine; {}", self.0, suggest(&self.0, &names))
    }
}

impl std::error::Error for UnknownEngine {}

impl Serialize for EngineName {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for EngineName {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<EngineName, D::Error> {
        String::deserialize(input)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every name reads back as written, in YAML and JSON. An error about any other name lists all
    // names.
    #[test]
    fn names() {
        for engine in EngineName::all() {
            let json = serde_json::to_string(&engine).unwrap();
            assert_eq!(json, format!("\"{}\"", engine.name()));
            assert_eq!(serde_json::from_str::<EngineName>(&json).unwrap(), engine);
            assert_eq!(serde_saphyr::from_str::<EngineName>(engine.name()).unwrap(), engine);
        }
        let refused = serde_json::from_str::<EngineName>("\"VLLM\"").unwrap_err().to_string();
        let wanted = "`VLLM` is not an engine; did you mean `vllm`? Use one of auto, vllm, ";
        assert!(refused.starts_with(wanted), "{refused}");
    }
}
