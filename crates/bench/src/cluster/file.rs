//! A cluster as it is written down: YAML, strict, with units in its values.

use std::fmt;
use std::path::PathBuf;

use meridian_wire::config::{Policy, Span};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::yaml;

/// Servers, the network between them, the models on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Servers; without a number as many as MFS simulates, and so for the three that follow.
    #[serde(default = "servers")]
    pub servers: u32,
    /// GPUs of a server.
    #[serde(default = "gpus")]
    pub gpus: u32,
    /// Network cards of a server; as many as GPUs without a number.
    pub cards: Option<u32>,
    /// A card's rate in each direction.
    #[serde(default = "card")]
    pub card: Rate,
    /// Between two GPUs of a server, in each direction.
    #[serde(default = "nvlink")]
    pub nvlink: Rate,
    /// The network between servers.
    #[serde(default)]
    pub network: Network,
    /// How switches spread flows over uplinks.
    #[serde(default)]
    pub uplinks: Uplinks,
    /// Cards with a rate of their own.
    #[serde(default)]
    pub slow_cards: Vec<SlowCard>,
    /// What is served.
    pub models: Vec<Served>,
    /// The flow machine's settings.
    #[serde(default)]
    pub flow: Flow,
    /// `false` gives KV and collectives a network each.
    #[serde(default = "yes")]
    pub shared: bool,
    /// Relative error of what batches are expected to exchange.
    #[serde(default = "fifth")]
    pub estimate_error: f64,
    /// Requests of each model that are computed before the run, so that caches are warm.
    #[serde(default = "known")]
    pub known: usize,
    /// Requests of each model that are sent; the first eighth is not counted.
    #[serde(default = "asked")]
    pub requests: usize,
}

/// The network between servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Network {
    /// One switch.
    #[default]
    SingleSwitch,
    /// Leaves and spines.
    LeafSpine {
        /// Servers of a leaf.
        leaf_servers: u32,
        /// Rate of a leaf's cards over that of its uplinks.
        #[serde(default = "one")]
        oversubscription: f64,
    },
    /// Edges, pods and cores.
    FatTree {
        /// Servers of an edge switch.
        edge_servers: u32,
        /// Edge switches of a pod.
        pod_edges: u32,
        /// Rate of an edge's cards over that of its uplinks.
        #[serde(default = "one")]
        oversubscription: f64,
    },
}

/// How switches spread flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Uplinks {
    /// Over all uplinks.
    #[default]
    Pooled,
    /// Each flow to one, by hash.
    Hashed,
}

/// A card with a rate of its own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowCard {
    /// Its server, from 0.
    pub server: u32,
    /// The card, from 0.
    pub card: u32,
    /// Its rate.
    pub rate: Rate,
}

/// A model on the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Served {
    /// The model's short name.
    pub model: String,
    /// The GPU's short name.
    #[serde(default = "a100")]
    pub gpu: String,
    /// Tensor parallel degree.
    pub tensor: u32,
    /// Ranks of a replica: by experts, or by sequence in a model without experts.
    pub ranks: u32,
    /// Replicas that compute prompts.
    pub prefill: u32,
    /// Replicas that decode; as many as compute prompts without a number.
    pub decode: Option<u32>,
    /// Most prompt tokens at once: of a rank by experts, of a replica by sequence.
    #[serde(default = "batch_tokens")]
    pub batch_tokens: u32,
    /// Coefficient of variation of the ranks' load by their experts.
    #[serde(default = "fifth")]
    pub skew: f64,
    /// Layers whose KV is one flow; `all` moves KV once.
    #[serde(default)]
    pub kv_layers: KvLayers,
    /// Replicas that a prefix can be fetched from.
    #[serde(default = "one_victim")]
    pub victims: usize,
    /// Whether a fetcher keeps what it fetched.
    #[serde(default)]
    pub keep: bool,
    /// The objectives, over a request's own TTFT at low load.
    #[serde(default)]
    pub slo: Slo,
    /// What is asked.
    #[serde(default)]
    pub load: Load,
}

/// Layers whose KV is one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "no layers: use a number of them, or all")]
pub enum KvLayers {
    /// So many.
    Some(u16),
    /// All of the model.
    All(All),
}

/// The word `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum All {
    /// All layers.
    All,
}

impl Default for KvLayers {
    fn default() -> KvLayers {
        KvLayers::Some(1)
    }
}

/// The objectives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Slo {
    /// Of the tight tier.
    pub tight: f64,
    /// Of the loose tier.
    pub loose: f64,
    /// Share of requests in the tight tier.
    pub tight_share: f64,
}

impl Default for Slo {
    fn default() -> Slo {
        Slo { tight: 3.0, loose: 10.0, tight_share: 0.8 }
    }
}

/// What is asked of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    /// A generator.
    pub generator: Option<Policy>,
    /// A trace that is part of the program: `mooncake`.
    pub excerpt: Option<String>,
    /// A file with a trace.
    pub trace: Option<PathBuf>,
    /// Requests a second for each GPU that computes prompts. Without it, a trace's own times.
    pub rate: Option<f64>,
    /// How many times as many users there are as published, or in the trace: turns of one conversation
    /// lie so many times as many requests apart. Of a trace, a whole number of copies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<f64>,
}

/// The flow machine's settings that can be changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Flow {
    /// Levels.
    pub levels: Option<u8>,
    /// `paper`, `corrected`, or a top and a ratio.
    pub thresholds: Option<Thresholds>,
    /// `hierarchical` or `level`.
    pub arbitration: Option<Arbitration>,
    /// `deadline` or `laxity`.
    pub red: Option<Red>,
    /// Parts of MFS that are left out.
    pub without: Vec<Term>,
    /// Time constant of the load ahead of a flow; 0s leaves it out.
    pub load_window: Option<Span>,
    /// Most that may be given up, as a share of what came.
    pub drop_share: Option<f64>,
    /// A flow without progress for this long rises.
    pub aging: Option<Span>,
}

/// Where levels begin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "no thresholds: use paper, corrected, or as {top: 1, ratio: 4}")]
pub enum Thresholds {
    /// By name.
    Named(Named),
    /// From `top` down, each a `ratio` below the one before.
    Own {
        /// Utilisation from which a handoff is critical.
        top: f64,
        /// From one level to the next.
        ratio: f64,
    },
}

/// Where levels begin, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Named {
    /// As printed.
    Paper,
    /// From 0.5.
    Corrected,
}

/// How stages meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arbitration {
    /// What a host can do.
    Hierarchical,
    /// What a switch can do.
    Level,
}

/// What batches are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Red {
    /// The robust effective deadline.
    Deadline,
    /// It, less the remaining service.
    Laxity,
}

/// A part of MFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// Handoffs rise by need.
    Mlu,
    /// Reuse stands by distance.
    Rli,
    /// Batches stand by deadline.
    Red,
    /// Infeasible requests are given up.
    Prune,
}

impl File {
    /// Reads a file's text.
    ///
    /// # Errors
    /// Syntax, an unknown key, a wrong type, with its line.
    pub fn read(yaml: &str) -> anyhow::Result<File> {
        yaml::read(yaml, "a cluster file")
    }
}

/// Bytes a second, written as bits or bytes with a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(pub f64);

/// The units that a rate is written in, in bytes a second.
const UNITS: [(&str, f64); 6] = [
    ("Tbps", 125e9),
    ("Gbps", 125e6),
    ("Mbps", 125e3),
    ("TB/s", 1e12),
    ("GB/s", 1e9),
    ("MB/s", 1e6),
];

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Rate, D::Error> {
        let text = String::deserialize(d)?;
        let split = UNITS.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, size)));
        let number =
            split.and_then(|(number, size)| Some(number.trim().parse::<f64>().ok()? * size));
        match number.filter(|number| number.is_finite()) {
            Some(rate) if rate > 0.0 => Ok(Rate(rate)),
            Some(_) => Err(D::Error::custom(format!(
                "`{text}` is the rate of a dead port: give one above 0, or leave the port out"
            ))),
            None => Err(D::Error::custom(format!(
                "`{text}` is no rate: write it with a unit, as in 200Gbps or 25GB/s"
            ))),
        }
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}Gbps", self.0 / 125e6)
    }
}

fn servers() -> u32 {
    256
}

fn gpus() -> u32 {
    8
}

fn card() -> Rate {
    Rate(25e9)
}

fn nvlink() -> Rate {
    Rate(450e9)
}

fn yes() -> bool {
    true
}

fn one() -> f64 {
    1.0
}

fn one_victim() -> usize {
    1
}

fn fifth() -> f64 {
    0.2
}

fn known() -> usize {
    512
}

fn asked() -> usize {
    512
}

fn a100() -> String {
    "a100".to_owned()
}

fn batch_tokens() -> u32 {
    8192
}
