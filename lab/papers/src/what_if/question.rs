//! A question: traffic, fleets, policies and an objective.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use meridian_plan::prices_by_kind;
use meridian_routing::HeldConfig;
use meridian_tools::load::Slo;
use meridian_tools::rule::Rule;

use super::fleet::{Arrangement, Gpus};
use super::places::Places;
use super::traffic::Traffic;
use crate::experiment::price;

/// What to simulate.
pub struct Question {
    /// The requests.
    pub traffic: Traffic,
    /// The regions, and the network between them.
    pub places: Places,
    /// The GPUs of a fleet, by their shares.
    pub gpus: Gpus,
    /// GPUs of a replica.
    pub tp: u32,
    /// The model, by its short name.
    pub model: String,
    /// The sizes of the fleets, in replicas.
    pub sizes: Vec<u32>,
    /// The policies.
    pub policies: Vec<Rule>,
    /// Whole replicas, and the pools to compare with them.
    pub arrangements: Vec<Arrangement>,
    /// Rate of the network card of a replica in a pool, in 10^9 bits per second.
    pub kv_gbps: f64,
    /// The objective.
    pub slo: Slo,
    /// Prices of GPUs.
    pub prices: Prices,
    /// Limits of the gateways' queues.
    pub held: HeldConfig,
    /// Requests sent before this do not count.
    pub warmup: Duration,
    /// The largest fleet of the search, in replicas.
    pub most: u32,
    /// The first seed.
    pub first_seed: u64,
    /// This many seeds are simulated.
    pub seeds: u32,
    /// Whether the objective must also be met by the requests of each region alone.
    pub each_region: bool,
}

impl Question {
    /// The seeds.
    pub(super) fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        self.first_seed..self.first_seed + u64::from(self.seeds)
    }

    /// The fewest replicas of a fleet: one in each region, and two where there are pools.
    pub(crate) fn fewest(&self, arrangement: Arrangement) -> u32 {
        let each = if arrangement == Arrangement::Whole { 1 } else { 2 };
        each * self.places.served() as u32
    }
}

/// USD an hour for a GPU, in place of the shipped prices or in addition to them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices(BTreeMap<String, f64>);

impl Prices {
    /// The price of one GPU in USD an hour; `None` if it is unknown.
    #[must_use]
    pub fn of(&self, gpu: &str) -> Option<f64> {
        self.0.get(gpu).copied().or_else(|| price::usd_per_hour(gpu))
    }

    /// The prices of these GPUs as given ones, so that a report does not depend on the shipped table.
    ///
    /// # Errors
    /// When a price was given for another GPU.
    pub fn spelled<'a>(&self, gpus: impl Iterator<Item = &'a str>) -> Result<Prices, String> {
        let gpus: Vec<&str> = gpus.collect();
        match self.0.keys().find(|gpu| !gpus.contains(&gpu.as_str())) {
            Some(gpu) => {
                Err(format!("no replica has {gpu}; leave its price out, or add {gpu} to --gpu"))
            }
            None => Ok(Prices(
                gpus.iter().filter_map(|gpu| Some(((*gpu).to_owned(), self.of(gpu)?))).collect(),
            )),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromStr for Prices {
    type Err = String;

    /// Parses `h100=1.89,l4=0.38`, as `meridian plan` does. A GPU without a price has its listed one.
    fn from_str(text: &str) -> Result<Prices, String> {
        prices_by_kind(text.split(',')).map(Prices).map_err(|problems| problems.to_string())
    }
}

impl fmt::Display for Prices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(|(gpu, usd)| format!("{gpu}={usd}")).collect();
        f.write_str(&all.join(","))
    }
}
