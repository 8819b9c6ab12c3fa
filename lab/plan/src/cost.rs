//! What a deployment costs: GPU-hours, and a price if GPUs have one.
//!
//! A deployment costs the same whatever its load, so the cost of a request depends on the rate at
//! which it is used.

use std::collections::BTreeMap;

use meridian_engine::GPUS;

use crate::problem::{Problem, Problems, one_of};
use crate::topology::{GpuId, Topology};

/// The highest price of a GPU's hour that is accepted.
const MOST: f64 = 1e6;
/// The word that stands for the listed price of every kind.
const LISTED: &str = "listed";
const HOUR: f64 = 3600.0;

/// Prices of a GPU's hour by kind, in one currency.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices(BTreeMap<String, f64>);

impl Prices {
    /// Reads prices as `h100=2.5`; `listed` stands for the listed prices of all other kinds. Every
    /// kind of the topology must have one.
    ///
    /// # Errors
    ///
    /// All problems at once: text that is not KIND=PRICE, an unknown kind, a kind given twice, a
    /// price below 0 or that is not a number, and a kind of the topology without a price.
    pub fn read(
        given: &[String],
        listed: impl Fn(&str) -> Option<f64>,
        topology: &Topology,
    ) -> Result<Prices, Problems> {
        let mut prices = prices_by_kind(given.iter().map(String::as_str))?;
        let mut found = Vec::new();
        let listed = |kind: &str| given.iter().any(|text| text == LISTED).then(|| listed(kind));
        let mut kinds: Vec<&str> = topology.servers().iter().map(|one| one.kind.name).collect();
        kinds.sort_unstable();
        kinds.dedup();
        for kind in kinds {
            if prices.contains_key(kind) {
                continue;
            }
            match listed(kind).flatten() {
                Some(price) => {
                    prices.insert(kind.to_owned(), price);
                }
                None => {
                    let remedy = format!("the topology has such GPUs; add {kind}=PRICE");
                    found.push(Problem::new(format!("price of {kind}"), "none", remedy));
                }
            }
        }
        if found.is_empty() { Ok(Prices(prices)) } else { Err(Problems(found)) }
    }

    /// The price of an hour of these GPUs together.
    #[must_use]
    pub fn of(&self, topology: &Topology, gpus: &[GpuId]) -> f64 {
        let price = |gpu: &GpuId| self.0.get(topology.kind(*gpu).name).copied().unwrap_or(0.0);
        gpus.iter().map(price).sum()
    }
}

/// Prices of a GPU's hour by kind, as `h100=2.5`; `listed`, which gives none itself, may stand among
/// them.
///
/// # Errors
///
/// All problems at once: text that is not KIND=PRICE, an unknown kind, a kind given twice, and a price
/// below 0 or that is not a number.
pub fn prices_by_kind<'a>(
    given: impl IntoIterator<Item = &'a str>,
) -> Result<BTreeMap<String, f64>, Problems> {
    let known: Vec<&str> = GPUS.iter().map(|gpu| gpu.name).collect();
    let mut prices = BTreeMap::new();
    let mut found = Vec::new();
    for text in given.into_iter().map(str::trim).filter(|text| *text != LISTED) {
        let Some((kind, price)) = text.split_once('=') else {
            let remedy = format!("write KIND=PRICE, as in h100=2.5, or {LISTED}");
            found.push(Problem::new("price", text, remedy));
            continue;
        };
        let (kind, price) = (kind.trim(), price.trim());
        let field = format!("price of {kind}");
        let number = price.parse().ok().filter(|price| (0.0..=MOST).contains(price));
        match number {
            _ if !known.contains(&kind) => {
                let remedy = format!("use {}", one_of(kind, &known));
                found.push(Problem::new("price", text, remedy));
            }
            None => {
                let remedy = format!("give a number from 0 to {MOST:.0}, an hour of one GPU");
                found.push(Problem::new(field, price, remedy));
            }
            Some(number) => {
                if prices.insert(kind.to_owned(), number).is_some() {
                    found.push(Problem::new(field, price, "give each kind once"));
                }
            }
        }
    }
    if found.is_empty() { Ok(prices) } else { Err(Problems(found)) }
}

/// The cost of some GPUs at a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bill {
    /// GPUs.
    pub gpus: u32,
    /// Requests a second.
    pub rate: f64,
    /// Mean tokens of a reply.
    pub output: f64,
    /// The price of an hour, if GPUs have prices.
    pub per_hour: Option<f64>,
}

impl Bill {
    /// GPU-hours of a million requests.
    #[must_use]
    pub fn hours_per_million_requests(&self) -> f64 {
        f64::from(self.gpus) / (HOUR * self.rate) * 1e6
    }

    /// GPU-hours of a million tokens of replies.
    #[must_use]
    pub fn hours_per_million_tokens(&self) -> f64 {
        self.hours_per_million_requests() / self.output
    }

    /// The price of a request.
    #[must_use]
    pub fn per_request(&self) -> Option<f64> {
        self.per_hour.map(|price| price / (HOUR * self.rate))
    }

    /// The price of a million tokens of replies.
    #[must_use]
    pub fn per_million_tokens(&self) -> Option<f64> {
        self.per_request().map(|price| price / self.output * 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::TopologySpec;

    fn testbed() -> Topology {
        let yaml = include_str!("../topologies/heroserve-testbed.yaml");
        TopologySpec::read(yaml).unwrap().build().unwrap()
    }

    fn read(given: &[&str]) -> Result<Prices, Problems> {
        let given: Vec<String> = given.iter().map(|one| (*one).to_owned()).collect();
        Prices::read(&given, |kind| (kind == "v100").then_some(0.5), &testbed())
    }

    // Four GPUs at 2 and four at 0.5 cost 10 an hour. At 2 requests a second with replies of 250
    // tokens that is 10 / 7,200 a request, and 4,000 requests are a million tokens.
    #[test]
    fn a_bill_adds_up() {
        let topology = &testbed();
        let prices = read(&["a100-40g=2", "listed"]).unwrap();
        let of = |kind: &'static str| {
            topology.all_gpus().filter(move |gpu| topology.kind(*gpu).name == kind)
        };
        let gpus: Vec<GpuId> = of("a100-40g").take(4).chain(of("v100").take(4)).collect();
        let per_hour = Some(prices.of(topology, &gpus));
        assert_eq!(per_hour, Some(10.0));
        let bill = Bill { gpus: 8, rate: 2.0, output: 250.0, per_hour };
        let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-12, "{a} {b}");
        close(bill.per_request().unwrap(), 10.0 / 7200.0);
        close(bill.per_million_tokens().unwrap(), 4000.0 * 10.0 / 7200.0);
        close(bill.hours_per_million_requests(), 8.0 / 7200.0 * 1e6);
        close(bill.hours_per_million_tokens(), 8.0 / 7200.0 * 4000.0);
        assert_eq!(Bill { per_hour: None, ..bill }.per_request(), None);
    }

    // Every problem has the option, the value and a remedy.
    #[test]
    fn wrong_prices_are_refused() {
        let errors = |given: &[&str]| read(given).unwrap_err().to_string();
        let text = [
            errors(&["2.5"]),
            errors(&["a100-80=1"]),
            errors(&["a100-40g=-1"]),
            errors(&["a100-40g=NaN"]),
            errors(&["a100-40g=1"]),
            errors(&["a100-40g=1", "a100-40g=2", "listed"]),
        ];
        expect_test::expect![[r#"
            price: 2.5; write KIND=PRICE, as in h100=2.5, or listed
            ---
            price: a100-80=1; use a100; known are l4, l4-slow, l4-fast, a100, a100-40g, v100, l40s, rtx-pro-6000, rtx-4090, h100, h200
            ---
            price of a100-40g: -1; give a number from 0 to 1000000, an hour of one GPU
            ---
            price of a100-40g: NaN; give a number from 0 to 1000000, an hour of one GPU
            ---
            price of v100: none; the topology has such GPUs; add v100=PRICE
            ---
            price of a100-40g: 2; give each kind once"#]].assert_eq(&text.join("\n---\n"));
    }
}
