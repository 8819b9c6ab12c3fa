//! The file format of a cluster: YAML, strict, with units in its values.

use std::fmt;
use std::path::PathBuf;

use meridian_protocol::policy::Policy;
use meridian_protocol::units::Span;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::yaml;

/// Servers, the network between them, the models on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Servers; by default as many as MFS simulates, and the same for the next three.
    #[serde(default = "servers")]
    pub servers: u32,
    /// GPUs of a server.
    #[serde(default = "gpus")]
    pub gpus: u32,
    /// Network cards of a server; by default as many as GPUs.
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
    /// Cards with a different rate.
    #[serde(default)]
    pub slow_cards: Vec<SlowCard>,
    /// The models served.
    pub models: Vec<Served>,
    /// The flow machine's settings.
    #[serde(default)]
    pub flow: Flow,
    /// `false` gives KV and collectives separate networks.
    #[serde(default = "yes")]
    pub shared: bool,
    /// Where the order of flows holds.
    #[serde(default, skip_serializing_if = "Enforce::is_total")]
    pub enforce: Enforce,
    /// The coordinator between servers; without it, every server knows all flows at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordinator: Option<Coordinator>,
    /// Relative error of the estimated exchanges of batches.
    #[serde(default = "fifth")]
    pub estimate_error: f64,
    /// Requests of each model that are computed before the run, so that caches are warm.
    #[serde(default = "known")]
    pub known: usize,
    /// Requests of each model that are sent; the first eighth does not count.
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
    Pooled,
    /// Each flow to one, by hash, as ECMP does.
    #[default]
    Hashed,
}

/// Where the order of flows holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforce {
    /// At every port.
    #[default]
    Total,
    /// At the sender; receivers and switches only see the class.
    Host,
    /// Nowhere: every port only sees the class.
    Classes,
}

impl Enforce {
    fn is_total(&self) -> bool {
        *self == Enforce::Total
    }
}

/// The coordinator that tells each server about the flows of others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coordinator {
    /// From a change on one server to its effect on another.
    pub delay: Span,
    /// Share of messages that are lost, 0 to 1.
    #[serde(default)]
    pub loss: f64,
}

/// A card with a different rate.
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
    /// Ranks of a replica: expert parallel, or sequence parallel in a model without experts.
    pub ranks: u32,
    /// Prefill replicas.
    pub prefill: u32,
    /// Decode replicas; by default as many as prefill replicas.
    pub decode: Option<u32>,
    /// How the ranks of a model with experts divide attention.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attention: Attention,
    /// Most prompt tokens at once: per rank if a rank attends to its own requests, otherwise per
    /// replica.
    #[serde(default = "batch_tokens")]
    pub batch_tokens: u32,
    /// Coefficient of variation of the ranks' load from their experts.
    #[serde(default = "fifth")]
    pub skew: f64,
    /// Layers whose KV is one flow; `all` moves KV once.
    #[serde(default)]
    pub kv_layers: KvLayers,
    /// Replicas that a prefix can be fetched from.
    #[serde(default = "one_victim")]
    pub victims: usize,
    /// Whether a replica keeps a prefix that it fetched.
    #[serde(default)]
    pub keep: bool,
    /// The objectives, over a TTFT at low load.
    #[serde(default)]
    pub slo: Slo,
    /// The load.
    #[serde(default)]
    pub load: Load,
}

/// How the ranks of a model with experts divide attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attention {
    /// Each request is attended to by one rank.
    #[default]
    Request,
    /// Each request is attended to by all ranks.
    Tensor,
}

/// Layers whose KV is one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "no layers: use a number of them, or all")]
pub enum KvLayers {
    /// This many.
    Some(u16),
    /// All of the model.
    All(All),
}

impl fmt::Display for KvLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KvLayers::Some(layers) => write!(f, "{layers}"),
            KvLayers::All(_) => f.write_str("all"),
        }
    }
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
    /// The TTFT at low load that the objectives multiply.
    #[serde(skip_serializing_if = "is_default")]
    pub of: Of,
    /// Objective of the tight tier.
    pub tight: f64,
    /// Objective of the loose tier.
    pub loose: f64,
    /// Share of requests in the tight tier.
    pub tight_share: f64,
}

impl Default for Slo {
    fn default() -> Slo {
        Slo { of: Of::Own, tight: 3.0, loose: 10.0, tight_share: 0.8 }
    }
}

/// The TTFT at low load that objectives multiply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    /// Each request's own.
    #[default]
    Own,
    /// The mean over all requests of the model.
    Mean,
}

/// The load of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    /// A generator.
    pub generator: Option<Policy>,
    /// A built-in trace: `mooncake`.
    pub excerpt: Option<String>,
    /// A file with a trace.
    pub trace: Option<PathBuf>,
    /// Requests a second for each prefill GPU. Without it, a trace's own times.
    pub rate: Option<f64>,
    /// Factor on the number of users, compared with the publication or the trace: turns of one
    /// conversation are further apart by this factor. For a trace, a whole number of copies.
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
    /// Terms of MFS that are disabled.
    pub without: Vec<Term>,
    /// Time constant of the load ahead of a flow; 0s ignores it.
    pub load_window: Option<Span>,
    /// Most requests that may be given up, as a share of arrivals.
    pub drop_share: Option<f64>,
    /// A flow without progress for this long rises.
    pub aging: Option<Span>,
}

/// Edges of the levels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "no thresholds: use paper, corrected, or as {top: 1, ratio: 4}")]
pub enum Thresholds {
    /// By name.
    Named(Named),
    /// From `top` down, each a `ratio` below the one before.
    Own {
        /// Utilisation from which a handoff is critical.
        top: f64,
        /// Factor from one level to the next.
        ratio: f64,
    },
}

/// Edges of the levels, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Named {
    /// As printed in the paper.
    Paper,
    /// From 0.5.
    Corrected,
}

/// How stages are ordered against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arbitration {
    /// Possible on a host.
    Hierarchical,
    /// Possible with a switch.
    Level,
}

/// The order of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Red {
    /// The robust effective deadline.
    Deadline,
    /// The deadline less the remaining service.
    Laxity,
}

/// A term of MFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// Handoffs rise by need.
    Mlu,
    /// Reuse is placed by distance.
    Rli,
    /// Batches are ordered by deadline.
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
                "`{text}` would be a dead port: give a rate above 0, or leave the port out"
            ))),
            None => Err(D::Error::custom(format!(
                "`{text}` is not a rate: write it with a unit, as in 200Gbps or 25GB/s"
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

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
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
