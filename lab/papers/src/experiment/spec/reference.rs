//! References by name to entries of the catalogue.

use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

use anyhow::{Context, anyhow};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A value given in place, or by its name in the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub enum Ref<T> {
    /// By name.
    Named(String),
    /// In place.
    Own(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ref<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Ref<T>, D::Error> {
        struct NameOrMap<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for NameOrMap<T> {
            type Value = Ref<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name of the catalogue, or a map in its place")
            }
            fn visit_str<E>(self, name: &str) -> Result<Ref<T>, E> {
                Ok(Ref::Named(name.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Ref<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Ref::Own)
            }
        }
        d.deserialize_any(NameOrMap(PhantomData))
    }
}

impl<T: Clone> Ref<T> {
    /// The referenced value.
    ///
    /// # Errors
    ///
    /// When the catalogue has no such name; `field` is where it was requested.
    pub fn resolve(&self, catalogue: &[T], name: fn(&T) -> &str, field: &str) -> anyhow::Result<T> {
        match self {
            Ref::Own(own) => Ok(own.clone()),
            Ref::Named(wanted) => {
                let found = catalogue.iter().find(|item| name(item) == wanted);
                found.cloned().ok_or_else(|| {
                    let known: Vec<_> = catalogue.iter().map(name).collect();
                    anyhow!(
                        "{field}: `{wanted}` is not in the catalogue; use one of {}, or give it in \
                         place",
                        known.join(", ")
                    )
                })
            }
        }
    }
}

/// Reads a user's file with the same strictness.
///
/// # Errors
///
/// Like [`read`], and when there is no such file.
pub fn read_file<T: DeserializeOwned>(file: &Path) -> anyhow::Result<T> {
    let shown = || format!("--file {}", file.display());
    let yaml = std::fs::read_to_string(file).with_context(shown)?;
    meridian_tools::yaml::read(&yaml, "an experiment").with_context(shown)
}

/// Reads a YAML file of experiments, strictly.
///
/// # Errors
/// Syntax, an unknown key or a wrong type, with its line; `name` is the file.
pub fn read<T: DeserializeOwned>(name: &str, yaml: &str) -> anyhow::Result<T> {
    serde_saphyr::from_str(yaml).with_context(|| format!("experiments/{name}.yaml"))
}
