//! Experiments that search the least fleet for a load and an objective.

use std::time::Duration;

use meridian_protocol::policy::Policy;
use meridian_protocol::units::Span;
use meridian_tools::load::Slo;
use serde::{Deserialize, Deserializer};

use super::{Ref, Regions, Topology};

/// The fleets to search.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// Policies, each with its own parameters and admission.
    pub policies: Vec<String>,
    /// Topologies.
    pub topologies: Vec<Topology>,
    /// The largest fleet of a search, in replicas.
    pub most: u32,
    /// Loads.
    pub loads: Vec<CapacityLoad>,
}

/// A load with its objective and its kind of replica.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacityLoad {
    /// Its name.
    pub name: String,
    /// The regions of its clients.
    pub regions: Ref<Regions>,
    /// GPU of a replica.
    pub gpu: String,
    /// Its model.
    pub model: String,
    /// The objective, as `ttft=5s,share=0.9`; each region's requests must meet it.
    #[serde(deserialize_with = "slo")]
    pub slo: Slo,
    /// An excerpt that ships with the program, or a file with a trace or a journal.
    pub trace: Option<String>,
    /// The grid of the trace's arrivals, which are spread over its steps.
    #[serde(default = "no_time")]
    pub spread: Span,
    /// The generator of the requests, in place of a trace.
    pub generator: Option<Policy>,
    /// Requests a second in all regions, in the mean.
    pub rate: Option<f64>,
    /// Each region's share of the traffic; without one, the rate follows SkyWalker's day of five
    /// regions, which takes as long as the measured window.
    pub share: Option<Vec<f64>>,
    /// Whether all regions get as many replicas as the one that needs most: each of them is the
    /// busiest at another time of the day.
    #[serde(default)]
    pub equal: bool,
}

fn slo<'de, D: Deserializer<'de>>(from: D) -> Result<Slo, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

fn no_time() -> Span {
    Span(Duration::ZERO)
}
