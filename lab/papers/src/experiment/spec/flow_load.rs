//! The gain of flow scheduling over the use of the cards: workloads on a grid of cards' rates and
//! granularities of KV.

use meridian_tools::cluster::file::{File, KvLayers, Rate};
use serde::{Deserialize, Serialize};

use super::flow::{Case, FlowSystem};

/// The workloads, the grid they run on, and the policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowLoad {
    /// Servers and network, and the settings of every run; the cases have the models.
    pub cluster: File,
    /// The workloads.
    pub cases: Vec<Case>,
    /// The settings that every workload runs with.
    pub grid: FlowGrid,
    /// The systems compared. `mfs`, `fair` and `apart` must be among them.
    pub systems: Vec<FlowSystem>,
    /// Schedulers by name: MFS is compared with the best of these in each cell.
    pub rivals: Vec<String>,
    /// Static traffic classes by name: MFS is compared with each. The first decides where MFS is
    /// ahead, level or behind.
    pub classes: Vec<String>,
    /// Other ways to enforce and to coordinate the order.
    pub control: FlowControl,
    /// Requests of a run in the small variant.
    pub quick_requests: usize,
}

/// Settings of a cluster, in all combinations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowGrid {
    /// Rates of a card.
    pub cards: Vec<Rate>,
    /// Layers whose KV is one flow.
    pub kv_layers: Vec<KvLayers>,
}

/// Other ways to enforce and to coordinate the order, on a part of the workloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowControl {
    /// The workloads, by name.
    pub cases: Vec<String>,
    /// The settings that they run with.
    pub grid: FlowGrid,
    /// The systems; the others are compared with the first.
    pub systems: Vec<FlowSystem>,
}
