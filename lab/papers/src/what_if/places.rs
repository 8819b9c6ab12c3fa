//! The regions of a question: shares of traffic and replicas, round trips, egress prices and
//! residency rules.

use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use meridian_config::{self as config, Format};
use meridian_sim as sim;
use serde::Deserialize;

use super::residency::{self, Rules};
use crate::experiment::build;
use crate::experiment::spec::{Place, Regions, Topology};

/// Shares of traffic and replicas, relative to each other.
const SHARES: RangeInclusive<f64> = 1e-6..=1e6;
/// The longest round trip between two regions, ms: a minute.
const MOST_RTT_MS: f64 = 60_000.0;

/// The file of `--regions`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    regions: Vec<Region>,
    rtt_ms: Vec<Vec<f64>>,
    #[serde(default = "two_layer")]
    topology: Topology,
    #[serde(default)]
    residency: Vec<residency::Rule>,
}

/// One region.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// Its name; in a journal, that of the requests that entered there.
    pub name: String,
    /// Its continent; its name by default.
    pub continent: Option<String>,
    /// Its share of the traffic; without one, the recorded regions are used.
    pub traffic: Option<f64>,
    /// Its share of the replicas.
    #[serde(default = "one")]
    pub replicas: f64,
    /// USD for 10^9 bytes that leave it for another region.
    #[serde(default)]
    pub egress_usd_per_gb: f64,
}

/// Regions, and the network between them.
#[derive(Clone, Debug)]
pub struct Places {
    /// The regions.
    pub regions: Vec<Region>,
    pub(super) wan: sim::Wan,
    pub(super) topology: sim::Topology,
    pub(super) rules: Rules,
    /// The only region with clients and replicas.
    only: Option<usize>,
}

impl Places {
    /// One region without a network.
    #[must_use]
    pub fn one() -> Places {
        let region = Region {
            name: "local".to_owned(),
            continent: None,
            traffic: Some(1.0),
            replicas: 1.0,
            egress_usd_per_gb: 0.0,
        };
        Places {
            regions: vec![region],
            wan: sim::Wan { rtt_ms: vec![vec![0.0]], jitter: 0.0, loss: 0.0 },
            topology: sim::Topology::RegionLocal,
            rules: Rules::default(),
            only: None,
        }
    }

    /// The regions of an experiment, each with its shares of the traffic and of the replicas, and
    /// nothing to pay for egress.
    pub(crate) fn of(
        set: &Regions,
        shares: impl Iterator<Item = (f64, f64)>,
        topology: &Topology,
    ) -> anyhow::Result<Places> {
        let region = |(place, (traffic, replicas)): (&Place, (f64, f64))| Region {
            name: place.name.clone(),
            continent: Some(place.continent.clone()),
            traffic: Some(traffic),
            replicas,
            egress_usd_per_gb: 0.0,
        };
        let Regions { rtt_ms, jitter, loss, .. } = set.clone();
        Ok(Places {
            regions: set.regions.iter().zip(shares).map(region).collect(),
            wan: sim::Wan { rtt_ms, jitter, loss },
            topology: build::topology(&set.regions, topology)?,
            rules: Rules::default(),
            only: None,
        })
    }

    /// One of these regions by itself: the others have no clients and no replicas.
    pub(crate) fn alone(&self, region: usize) -> Places {
        Places { topology: sim::Topology::RegionLocal, only: Some(region), ..self.clone() }
    }

    /// Whether this region has clients and replicas.
    pub(super) fn serves(&self, region: usize) -> bool {
        self.only.is_none_or(|only| only == region)
    }

    /// Regions with replicas.
    pub(super) fn served(&self) -> usize {
        (0..self.regions.len()).filter(|region| self.serves(*region)).count()
    }

    /// Reads a file of regions.
    ///
    /// # Errors
    /// When the file can't be read, every mistake of form, or else the first one of meaning, with
    /// field, value and remedy.
    pub fn read(path: &Path) -> anyhow::Result<Places> {
        let shown = || format!("--regions {}", path.display());
        let yaml = std::fs::read_to_string(path).with_context(shown)?;
        Places::parse(&yaml).with_context(shown)
    }

    pub(super) fn parse(yaml: &str) -> anyhow::Result<Places> {
        let made = |file: &File| Places::made(file).map_err(|error| format!("{error:#}"));
        let file =
            config::read(yaml, Format::Regions, |file| made(file).err().into_iter().collect())?;
        Places::made(&file)
    }

    fn made(file: &File) -> anyhow::Result<Places> {
        check(file)?;
        let places: Vec<Place> = file.regions.iter().map(place).collect();
        let simulated = matches!(
            file.topology,
            Topology::TwoLayer | Topology::RegionLocal | Topology::Flat | Topology::Central(_)
        );
        ensure!(
            simulated,
            "topology: {} is for experiments; use two_layer, region_local, flat or central",
            build::topology_name(&file.topology)
        );
        let topology = build::topology(&places, &file.topology)?;
        let wan = sim::Wan { rtt_ms: file.rtt_ms.clone(), jitter: 0.0, loss: 0.0 };
        let rules = Rules::resolve(&file.residency, &file.regions)?;
        Ok(Places { regions: file.regions.clone(), wan, topology, rules, only: None })
    }

    /// Replicas of each region: its share of them, and at least one where there are any.
    pub(super) fn counts(&self, replicas: u32) -> Vec<u32> {
        let shares: Vec<f64> = self.regions.iter().map(|region| region.replicas).collect();
        match self.only {
            None => split(replicas, &shares),
            Some(only) => {
                (0..shares.len()).map(|at| if at == only { replicas } else { 0 }).collect()
            }
        }
    }

    /// Shares of the traffic by region; `None` if the recorded regions are used.
    pub(super) fn traffic(&self) -> Option<Vec<f64>> {
        let shares = || self.regions.iter().map(|region| region.traffic);
        let sum: f64 = shares().sum::<Option<f64>>()?;
        shares().map(|share| Some(share? / sum)).collect()
    }

    /// The regions that may serve requests that match these residency rules; `None` for all.
    pub(super) fn may(&self, rules: &[usize]) -> Option<Vec<usize>> {
        self.rules.permitted(rules, self.regions.len())
    }

    /// Why requests that enter in `region` and match these rules can be served nowhere; `None` if
    /// they can be.
    pub(super) fn nowhere(&self, region: usize, rules: &[usize]) -> Option<String> {
        let (may, name) = (self.may(rules)?, &self.regions[region].name);
        if may.is_empty() {
            let rules = self.rules.names(rules);
            return Some(format!(
                "those from {name} match {rules}, whose `run_in` have no region in common; widen \
                 one of them"
            ));
        }
        let alone = self.topology == sim::Topology::RegionLocal && !may.contains(&region);
        alone.then(|| {
            let rules = self.rules.names(&self.rules.without(rules, region));
            format!(
                "those from {name} match {rules}, and the topology region_local forwards nothing; \
                 add {name} to `run_in`, or use two_layer"
            )
        })
    }

    /// The regions for the simulator.
    pub(super) fn simulated(&self) -> Vec<sim::Region> {
        let one = |place: Place| sim::Region { name: place.name, continent: place.continent };
        self.regions.iter().map(place).map(one).collect()
    }

    /// Whether any region charges for egress.
    pub(super) fn charges(&self) -> bool {
        self.regions.iter().any(|region| region.egress_usd_per_gb > 0.0)
    }
}

fn place(region: &Region) -> Place {
    let continent = region.continent.clone().unwrap_or_else(|| region.name.clone());
    Place { name: region.name.clone(), continent }
}

/// `count` by shares: each part gets at least one, and the rest goes where most is lacking.
fn split(count: u32, shares: &[f64]) -> Vec<u32> {
    let sum: f64 = shares.iter().sum();
    let mut parts = vec![1_u32; shares.len()];
    for _ in parts.len() as u32..count {
        let lacks = |at: usize| f64::from(count) * shares[at] / sum - f64::from(parts[at]);
        let most = (0..parts.len()).max_by(|a, b| lacks(*a).total_cmp(&lacks(*b)).then(b.cmp(a)));
        parts[most.expect("there is a region")] += 1;
    }
    parts
}

fn check(file: &File) -> anyhow::Result<()> {
    let regions = &file.regions;
    ensure!(!regions.is_empty(), "regions: the list is empty; add one with a name");
    for (at, region) in regions.iter().enumerate() {
        let (name, field) = (&region.name, format!("regions[{at}]"));
        let plain = !name.is_empty() && !name.contains(char::is_control);
        ensure!(plain, "{field}.name: {name:?} is not a name; use letters and digits");
        let twice = regions[..at].iter().any(|other| other.name == *name);
        ensure!(
            !twice,
            "{field}.name: `{name}` is there twice; give each region a name of its own"
        );
        for (key, share) in [("traffic", region.traffic), ("replicas", Some(region.replicas))] {
            if let Some(bad) = share.filter(|share| !SHARES.contains(share)) {
                let (least, most) = (SHARES.start(), SHARES.end());
                bail!("{field}.{key}: {bad} is not a share; use {least} to {most}");
            }
        }
        let usd = region.egress_usd_per_gb;
        ensure!(
            usd >= 0.0 && usd.is_finite(),
            "{field}.egress_usd_per_gb: {usd} is not a price; use USD from 0"
        );
    }
    let given = regions.iter().filter(|region| region.traffic.is_some()).count();
    ensure!(
        given == 0 || given == regions.len(),
        "regions: {given} of {} have a share of the traffic; give it to all, or to none to use the \
         recorded regions",
        regions.len()
    );
    let count = regions.len();
    let rows = file.rtt_ms.len();
    ensure!(rows == count, "rtt_ms: has {rows} rows; write one for each region, {count} in all");
    for (at, row) in file.rtt_ms.iter().enumerate() {
        let columns = row.len();
        ensure!(
            columns == count,
            "rtt_ms[{at}]: has {columns} round trips; write one for each region, {count} in all"
        );
        if let Some(bad) = row.iter().find(|rtt| !(0.0..=MOST_RTT_MS).contains(*rtt)) {
            bail!("rtt_ms[{at}]: {bad} is not a round trip; use 0 to {MOST_RTT_MS} ms");
        }
    }
    Ok(())
}

fn one() -> f64 {
    1.0
}

fn two_layer() -> Topology {
    Topology::TwoLayer
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
regions:
  - {name: us, traffic: 0.5, replicas: 2}
  - {name: eu, traffic: 0.3, egress_usd_per_gb: 0.02}
  - {name: asia, traffic: 0.2}
rtt_ms: [[1, 92, 167], [92, 1, 230], [167, 230, 1]]
residency:
  - {name: eu-keeps, from: [eu], run_in: [eu, us]}
  - {name: one-tenant, tenants: ['ff'], run_in: [eu, asia]}
";

    fn may(places: &Places, region: usize, tenant: u64, model: Option<&str>) -> Option<Vec<usize>> {
        places.may(&places.rules.matching(region, tenant, model))
    }

    // The shipped example is read.
    #[test]
    fn the_example_is_read() {
        let yaml = include_str!("../../../../examples/what-if/regions.yaml");
        let places = Places::parse(yaml).unwrap();
        assert_eq!((places.counts(4), may(&places, 1, 0, None)), (vec![2, 1, 1], Some(vec![1])));
    }

    // Several rules permit what each of them permits; a request that none matches is free.
    #[test]
    fn rules_intersect() {
        let places = Places::parse(FILE).unwrap();
        assert_eq!(may(&places, 0, 1, None), None);
        assert_eq!(may(&places, 1, 1, None), Some(vec![0, 1]));
        assert_eq!(may(&places, 1, 0xff, None), Some(vec![1]));
        assert_eq!(may(&places, 0, 0xff, Some("m")), Some(vec![1, 2]));
        assert!(places.charges());
    }

    // Requests that no region may serve are found, and so are rules that have no request.
    #[test]
    fn requests_without_a_region() {
        let two = FILE.replace("tenants: ['ff'], run_in: [eu, asia]", "from: [eu], run_in: [asia]");
        let places = Places::parse(&two).unwrap();
        assert_eq!((places.nowhere(0, &[]), places.nowhere(1, &[0])), (None, None));
        let why = places.nowhere(1, &[0, 1]).expect("they have no region in common");
        assert!(why.contains("from eu match eu-keeps and one-tenant"), "{why}");
        let alone = Places::parse(&(two + "topology: region_local\n")).unwrap();
        assert_eq!(alone.nowhere(1, &[0]), None);
        let why = alone.nowhere(1, &[1]).expect("it does not forward");
        assert!(
            why.contains("match one-tenant, and") && why.contains("add eu to `run_in`"),
            "{why}"
        );
    }

    // Each region has a replica, and the rest follows the shares.
    #[test]
    fn replicas_follow_shares() {
        let places = Places::parse(FILE).unwrap();
        assert_eq!(places.counts(3), [1, 1, 1]);
        assert_eq!(places.counts(8), [4, 2, 2]);
        assert_eq!(places.counts(5), [3, 1, 1]);
        assert_eq!(Places::one().counts(7), [7]);
        let alone = places.alone(1);
        assert_eq!((alone.counts(3), alone.served()), (vec![0, 3, 0], 1));
    }

    // Every mistake names the field, the value and the remedy.
    #[test]
    fn mistakes_are_reported() {
        for (from, to, part) in [
            ("name: asia", "name: eu", "`eu` is there twice"),
            ("traffic: 0.3, ", "", "2 of 3 have a share"),
            ("replicas: 2", "replicas: 0", "replicas: 0 is not a share"),
            ("0.02", "-1", "-1 is not a price"),
            ("[92, 1, 230], ", "", "rtt_ms: has 2 rows; write one for each region, 3 in all"),
            ("[92, 1, 230]", "[92, 1]", "rtt_ms[1]: has 2 round trips; write"),
            ("167, 230, 1", "167, -230, 1", "rtt_ms[2]: -230 is not a round trip"),
            ("name: asia", "name: ''", "regions[2].name: \"\" is not a name"),
            ("traffic: 0.3", "traffic: 1e308", "is not a share; use 0.000001 to 1000000"),
            ("from: [eu]", "from: [mars]", "`mars` is not a region; use us, eu, asia"),
            ("run_in: [eu, us]", "run_in: []", "run_in: is empty"),
            ("['ff']", "[acme]", "`acme` is not a hash"),
            (
                "residency:",
                "topology: {oracle: {ttft: 1}}\nresidency:",
                "oracle is for experiments",
            ),
            (
                "from: [eu], ",
                "",
                "residency[0]: matches no request; add tenants, models or from (line",
            ),
            ("rtt_ms: [[1, 92, 167], [92, 1, 230], [167, 230, 1]]", "", "rtt_ms: is missing"),
            ("residency:", "rtt_ms: []\nresidency:", "rtt_ms: is given on line 6 already"),
            ("residency:", "topology: two_layers\nresidency:", "did you mean `two_layer`"),
            (
                "residency:",
                "topology: {central: mars}\nresidency:",
                "`mars` is not a region; use us, eu, asia",
            ),
            ("residency:", "residenz:", "residenz"),
        ] {
            let yaml = FILE.replacen(from, to, 1);
            let error = format!("{:#}", Places::parse(&yaml).expect_err(part));
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}
