//! The registry of experiments, each named after its file in `experiments/`. An experiment's code
//! is [`cells::run`] unless [`OWN`] has another.

use super::{
    Context, Findings, calibration, capacity, cells, goal, gorgo, heroserve, limits, live, mfs,
    planner_measured, rates, release, saturation, skywalker_cost, skywalker_load, tuning, versus,
};

/// The experiment that judges a commit, once.
pub const RELEASE: &str = "release";

/// The function that runs an experiment.
pub type Code = fn(&Context<'_>) -> anyhow::Result<Findings>;

/// One experiment.
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// The text of its file.
    pub yaml: &'static str,
    /// The function that runs it.
    pub code: Code,
    /// The function that runs it on real processes, if supported.
    pub live: Option<Code>,
}

/// Experiments with custom code, or that also run on real processes.
const OWN: &[(&str, Code, Option<Code>)] = &[
    ("skywalker-fig2", skywalker_load::days, None),
    ("skywalker-fig3", skywalker_cost::run, None),
    ("skywalker-fig5", skywalker_load::similarity_figures, None),
    ("skywalker-fig8", cells::run, Some(live::run)),
    ("skywalker-fig10", cells::run, Some(live::run)),
    ("gorgo-tables", gorgo::tables, Some(live::run)),
    ("gorgo-fit", gorgo::fit, None),
    ("llm-cache-router", cells::run, Some(live::run)),
    ("mfs-fig5", mfs::run, None),
    ("mfs-fig9", mfs::run, None),
    ("mfs-fig10", mfs::run, None),
    ("mfs-fig11", mfs::run, None),
    ("mfs-fig12", mfs::run, None),
    ("mfs-fig13", mfs::run, None),
    ("mfs-fig14", mfs::run, None),
    ("mfs-ablation", mfs::run, None),
    ("mfs-load", mfs::load, None),
    ("mfs-testbed", mfs::testbed, Some(mfs::testbed_live)),
    ("heroserve-fig1", heroserve::share, None),
    ("heroserve-fig2", heroserve::hops, None),
    ("heroserve-fig7", heroserve::fleets, None),
    ("heroserve-fig8", heroserve::fleets, None),
    ("heroserve-fig9", heroserve::exchanges, None),
    ("heroserve-fig10", heroserve::fleets, None),
    ("heroserve-causes", heroserve::causes, None),
    ("calibration", calibration::run, None),
    ("planner-measured", planner_measured::run, None),
    ("several-gateways", cells::run, Some(live::run)),
    ("hard-live", cells::run, Some(live::run)),
    ("slots-live", cells::run, Some(live::run)),
    ("capacity", capacity::run, None),
    ("limits", limits::run, None),
    ("baseline-grid", tuning::run, None),
    ("meridian-saturation", saturation::run, None),
    ("meridian-vs-all", versus::run, None),
    ("goal", goal::run, None),
    (RELEASE, release::run, None),
    ("open-loop-rates", rates::run, None),
    ("pd-capacities", rates::run, None),
    ("pd-pairs", cells::run, Some(live::run)),
];

/// Every experiment, by name. `build.rs` lists the files.
pub static ALL: &[Entry] = include!(concat!(env!("OUT_DIR"), "/experiments.rs"));

const fn entry(name: &'static str, yaml: &'static str) -> Entry {
    let mut at = 0;
    while at < OWN.len() {
        let (own, code, live) = OWN[at];
        if equal(own.as_bytes(), name.as_bytes()) {
            return Entry { name, yaml, code, live };
        }
        at += 1;
    }
    Entry { name, yaml, code: cells::run, live: None }
}

/// `a == b` for strings in a constant expression.
const fn equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// The experiment called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Custom code belongs to an existing file, and is used for it.
    #[test]
    fn own_code_has_its_file() {
        for (name, code, live) in OWN {
            let entry = find(name).unwrap_or_else(|| panic!("no file experiments/{name}.yaml"));
            assert!(std::ptr::fn_addr_eq(entry.code, *code), "{name}");
            assert_eq!(entry.live.is_some(), live.is_some(), "{name}");
        }
    }
}
