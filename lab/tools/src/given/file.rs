//! The file format of single flows: YAML, strict, with units in its values.

use std::collections::BTreeMap;

use meridian_protocol::units::Span;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::cluster::file::{Flow as Settings, Rate};
use crate::yaml;

/// Ports, and flows on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The ports, each with its rate.
    pub ports: BTreeMap<String, Rate>,
    /// The flows.
    pub flows: Vec<Flow>,
    /// The flow machine's settings, as in a cluster file.
    #[serde(default)]
    pub flow: Settings,
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Its name, in tables and timelines.
    pub name: String,
    /// Its purpose.
    pub stage: Stage,
    /// Its bytes.
    pub size: Option<Volume>,
    /// The ports that it crosses, the sender's first.
    #[serde(default)]
    pub ports: Vec<String>,
    /// When its request's first token is due, from the start. Best effort if absent.
    pub deadline: Option<Span>,
    /// The layer that needs it (reuse, collective) or made it (handoff).
    #[serde(default)]
    pub layer: u16,
    /// When it can start: from the start of the run, or from the end of the flows in `after`.
    #[serde(default = "at_once")]
    pub release: Span,
    /// Flows that must end first.
    #[serde(default)]
    pub after: Vec<String>,
    /// The time of work that follows it, such as computation: the flow must end this long before
    /// the deadline. Policies do not know it.
    #[serde(default = "at_once")]
    pub then: Span,
    /// The request that it is part of, with one deadline for all; by default a separate one.
    pub request: Option<String>,
    /// The batch that the request is computed in; by default a separate one.
    pub batch: Option<String>,
}

/// The purpose of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Cached KV is fetched for a layer.
    Reuse,
    /// A layer's parts are joined.
    Collective,
    /// A layer's KV goes to decode.
    Handoff,
}

fn at_once() -> Span {
    Span(std::time::Duration::ZERO)
}

impl File {
    /// Reads a file's text.
    ///
    /// # Errors
    /// Syntax, an unknown key, a wrong type, with its line.
    pub fn read(yaml: &str) -> anyhow::Result<File> {
        yaml::read(yaml, "a file of flows")
    }
}

/// Whether a text is intended as a file of flows and not as a cluster, valid or not.
#[must_use]
pub fn is_flows(yaml: &str) -> bool {
    yaml.lines().any(|line| line.starts_with("flows:"))
}

/// Bytes, written with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume(pub u64);

/// The units of a size, each before its own suffixes.
const UNITS: [(&str, f64); 7] = [
    ("GiB", 1_073_741_824.0),
    ("MiB", 1_048_576.0),
    ("KiB", 1024.0),
    ("GB", 1e9),
    ("MB", 1e6),
    ("kB", 1e3),
    ("B", 1.0),
];

/// Most bytes of a flow.
const MOST: f64 = 1e15;

impl<'de> Deserialize<'de> for Volume {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Volume, D::Error> {
        let text = String::deserialize(d)?;
        let split = UNITS.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, size)));
        let number =
            split.and_then(|(number, size)| Some(number.trim().parse::<f64>().ok()? * size));
        match number {
            Some(bytes) if (0.0..=MOST).contains(&bytes) => Ok(Volume(bytes as u64)),
            Some(_) => {
                Err(D::Error::custom(format!("`{text}` is not a size: use 1B to 1000000GB")))
            }
            None => Err(D::Error::custom(format!(
                "`{text}` is not a size: write it with a unit, as in 64KiB or 2MB"
            ))),
        }
    }
}

impl Serialize for Volume {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&format_args!("{}B", self.0))
    }
}
