//! Which assumption gives the published gains: the systems of Figure 7 on one placement, with every
//! set of the paper's assumptions.
//!
//! All systems have eight ranks over two servers, so that only the all-reduces differ. One table
//! takes the assumptions away one by one, another ranks all sets by their distance from the
//! published gains: the mean over the three rivals of the logarithm's absolute difference.

use anyhow::Context as _;
use meridian_plan::{Network, Slo, Subject, Task};
use meridian_tools::table::Table;
use meridian_tools::{parallel, results};
use serde_json::json;

use super::fleets::ATTAINMENT;
use super::unit;
use crate::experiment::claim::Claim;
use crate::experiment::spec::{FleetCase, FleetMetric, Fleets};
use crate::experiment::{Context, Findings, params};
use crate::fleet::{Asked, Assumption, Assumptions, Deployed, Mode, System, lengths, sustained};

/// The assumptions in the order in which one table takes them away, and what each says.
const ALL: [(Assumption, &str); 5] = [
    (Assumption::RingTwice, "the ring counts twice"),
    (Assumption::RingOnly, "NCCL has no tree"),
    (Assumption::StoreAndForward, "hops store and forward"),
    (Assumption::Alone, "links are not shared"),
    (Assumption::BareRivals, "rivals use cards only"),
];
const RIVALS: [System; 3] = [System::Distserve, System::DsAtp, System::DsSwitchml];
/// Sets in the ranking.
const NEAREST: usize = 5;

/// The rates of a set: requests a second a GPU, in the order of [`System::ALL`].
#[derive(Clone, Copy, Debug)]
struct Run {
    assumed: Assumptions,
    rates: [f64; 4],
}

impl Run {
    /// HeroServe's gain over each rival.
    fn gains(&self) -> [f64; 3] {
        [0, 1, 2].map(|rival| self.rates[3] / self.rates[rival])
    }
}

/// Runs it.
///
/// # Errors
/// If the file is invalid, or a case has no placement.
pub(crate) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let spec = context.spec.fleet.as_ref().context("fleet: missing; say what is served where")?;
    let spec = if context.quick { spec.clone().small() } else { spec.clone() };
    let sets = sets(context.quick);
    let params = format!("{:?}{}", meridian_engine::GPUS, serde_json::to_string(&spec)?);
    let mut found = Findings { params: params::of_text(&params), ..Findings::default() };
    for case in &spec.cases {
        let runs = parallel(sets.len(), |nth| {
            let run = one(case, &spec, sets[nth], context.seeds);
            (context.progress)(nth + 1, sets.len(), &case.name);
            run
        });
        let runs: Vec<Run> = runs.into_iter().collect::<anyhow::Result<_>>()?;
        let published = published(&spec, case);
        found.tables.push(steps(case, &runs, published));
        found.tables.push(nearest(case, &runs, published));
        found.rows.extend(runs.iter().map(|run| row(case, run)));
        found.claims.extend(claims(&spec, case, &runs));
    }
    Ok(found)
}

/// The rows of the table of steps: what each has, in words.
fn named() -> Vec<(String, Assumptions)> {
    let network = Mode::Network.assumptions();
    let mut all = vec![("all: the network mode".to_owned(), network)];
    for (one, words) in ALL {
        all.push((format!("all but: {words}"), network.without(&[one])));
    }
    let paper = "the paper's mode: links are shared, and equations 16 to 18 choose";
    all.push((paper.to_owned(), Mode::Paper.assumptions()));
    let mut left = network;
    for (one, words) in &ALL[..ALL.len() - 1] {
        left = left.without(&[*one]);
        all.push((format!("then without: {words}"), left));
    }
    all.push(("none: corrected".to_owned(), Mode::Corrected.assumptions()));
    all
}

/// The sets to run: those of the table of steps, and unless it is the small variant all.
fn sets(quick: bool) -> Vec<Assumptions> {
    let mut all: Vec<Assumptions> = named().into_iter().map(|(_, set)| set).collect();
    for bits in 0..1_u32 << ALL.len() {
        let chosen = ALL.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
        let chosen: Vec<Assumption> = chosen.map(|(_, (one, _))| *one).collect();
        if !quick {
            all.push(Assumptions::of(&chosen));
        }
    }
    let mut distinct: Vec<Assumptions> = Vec::new();
    all.into_iter().for_each(|set| {
        if !distinct.contains(&set) {
            distinct.push(set);
        }
    });
    distinct
}

/// All systems with one set.
fn one(case: &FleetCase, spec: &Fleets, assumed: Assumptions, seeds: u32) -> anyhow::Result<Run> {
    let topology = unit(&case.topology, case.gpu.as_deref())?;
    let subject = Subject::named(&case.model)?;
    let pairs = lengths::pairs(&case.lengths, subject.shape.context)?;
    let slo = Slo {
        ttft: case.ttft.0.as_secs_f64(),
        tpot: case.tpot.0.as_secs_f64(),
        attainment: ATTAINMENT,
    };
    // The same placement for every set.
    let task = Task::new(&topology, &subject, lengths::statistics(&pairs), slo);
    let placed = case.placement.place(&task, System::Distserve, Mode::Corrected, &mut None)?;
    let printed = assumed.has(Assumption::StoreAndForward) && assumed.has(Assumption::Alone);
    let network = if printed { Network::Printed } else { Network::Corrected };
    let task = Task { network, ..task };
    let asked = Asked { pairs: &pairs, slo, window: spec.window.0.as_secs_f64(), seeds };
    let mut rates = [0.0; 4];
    for (rate, system) in rates.iter_mut().zip(System::ALL) {
        let laid = Deployed::new(&task, system, assumed, &placed)?;
        *rate = sustained(&laid, &asked, placed.rate()) / f64::from(topology.gpus());
    }
    Ok(Run { assumed, rates })
}

/// The published gain over each rival in a case.
fn published(spec: &Fleets, case: &FleetCase) -> [Option<f64>; 3] {
    RIVALS.map(|rival| {
        let about = spec
            .published
            .iter()
            .filter(|claim| claim.metric == FleetMetric::Rate && claim.cases.contains(&case.name));
        let mut about = about.filter(|claim| claim.over == [rival]);
        about.next().and_then(|claim| claim.published.first().copied())
    })
}

/// How far gains are from the published ones.
fn distance(run: &Run, published: [Option<f64>; 3]) -> f64 {
    let known = run.gains().into_iter().zip(published);
    let known = known.filter_map(|(ours, theirs)| Some((ours / theirs?).ln().abs()));
    let all: Vec<f64> = known.collect();
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

const HEADER: [&str; 8] = [
    "assumed",
    "distserve, requests/s a GPU",
    "ds-atp",
    "ds-switchml",
    "heroserve",
    "over distserve",
    "over ds-atp",
    "over ds-switchml",
];

fn line(table: &mut Table, name: String, run: &Run) {
    let rates = run.rates.iter().map(|rate| format!("{rate:.4}"));
    let gains = run.gains().map(|gain| format!("{gain:.2}"));
    table.row(std::iter::once(name).chain(rates).chain(gains));
}

fn steps(case: &FleetCase, runs: &[Run], published: [Option<f64>; 3]) -> Table {
    let title = format!("{}: assumptions taken away (simulated)", case.name);
    let mut table = Table::new(title, &HEADER);
    let dash = std::iter::repeat_n("-".to_owned(), 4);
    let gains = published.map(|gain| gain.map_or("-".to_owned(), |gain| format!("{gain:.2}")));
    table.row(std::iter::once("published".to_owned()).chain(dash).chain(gains));
    for (name, set) in named() {
        if let Some(run) = runs.iter().find(|run| run.assumed == set) {
            line(&mut table, name, run);
        }
    }
    table
}

fn nearest(case: &FleetCase, runs: &[Run], published: [Option<f64>; 3]) -> Table {
    let title = format!("{}: the sets nearest to the published gains (simulated)", case.name);
    let mut table = Table::new(title, &HEADER);
    let mut all: Vec<&Run> = runs.iter().collect();
    all.sort_by(|a, b| distance(a, published).total_cmp(&distance(b, published)));
    for run in all.into_iter().take(NEAREST) {
        line(&mut table, words(run.assumed), run);
    }
    table
}

/// A set in words.
fn words(set: Assumptions) -> String {
    let has = ALL.iter().filter(|(one, _)| set.has(*one)).map(|(_, words)| *words);
    let mut all: Vec<&str> = has.collect();
    if set.has(Assumption::PrintedChoice) {
        all.push("equations 16 to 18 choose");
    }
    if all.is_empty() { "none".to_owned() } else { all.join("; ") }
}

fn row(case: &FleetCase, run: &Run) -> serde_json::Value {
    let [distserve, atp, switchml] = run.gains();
    let given = [
        ("assumed", json!(words(run.assumed))),
        ("sustained_rps_per_gpu", json!(run.rates[3])),
        ("over_distserve", json!(distserve)),
        ("over_ds_atp", json!(atp)),
        ("over_ds_switchml", json!(switchml)),
    ];
    results::bare(System::Heroserve.name(), &case.name, &given)
}

/// The published gains beside those with all assumptions, and with none.
fn claims(spec: &Fleets, case: &FleetCase, runs: &[Run]) -> Vec<Claim> {
    let mut all = Vec::new();
    for claim in spec.published.iter().filter(|claim| claim.cases.contains(&case.name)) {
        for mode in [Mode::Network, Mode::Corrected] {
            let run = runs.iter().find(|run| run.assumed == mode.assumptions());
            let at = RIVALS.iter().position(|rival| claim.over == [*rival]);
            let ours = run.zip(at).map(|(run, at)| run.gains()[at]);
            let what = format!("{}, mode {}", claim.what, mode.name());
            let ours: Vec<f64> = ours.into_iter().collect();
            all.push(Claim::ratios(&what, &claim.source, &claim.published, &ours));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    // The steps begin with the network mode, end with none, and the full variant has every set.
    #[test]
    fn steps_lead_from_all_to_none() {
        let steps = named();
        assert_eq!(steps[0].1, Mode::Network.assumptions());
        assert_eq!(steps.last().unwrap().1, Assumptions::default());
        assert_eq!(sets(false).len(), (1 << ALL.len()) + 1);
        assert!(steps.iter().all(|(_, set)| sets(true).contains(set)));
    }

    // The distance is that of the logarithms: twice and half of a published gain are equally far.
    #[test]
    fn distances_are_of_ratios() {
        let run = |hero: f64| Run { assumed: Assumptions::default(), rates: [1.0, 1.0, 1.0, hero] };
        let far = |hero| distance(&run(hero), [Some(1.5), None, Some(1.5)]);
        assert!((far(3.0) - far(0.75)).abs() < 1e-12 && far(1.5) < 1e-12);
    }
}
