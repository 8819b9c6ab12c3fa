//! Every experiment, a line each: its name is its file's, and its code is [`cells::run`] unless the
//! line names another.

use super::{
    Context, Findings, ablation, calibration, cells, gorgo, heroserve, live, llm_cache_router, mfs,
    saturation, skywalker_cost, skywalker_load, tuning, versus,
};

/// What runs an experiment.
pub type Code = fn(&Context<'_>) -> anyhow::Result<Findings>;

/// One experiment.
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// The text of its file.
    pub yaml: &'static str,
    /// What runs it.
    pub code: Code,
    /// What runs it on real processes, where that is possible.
    pub live: Option<Code>,
}

macro_rules! entry {
    ($name:literal) => {
        entry!($name, cells::run)
    };
    ($name:literal, $code:path) => {
        entry!($name, $code, None)
    };
    ($name:literal, $code:path, $live:expr) => {
        Entry {
            name: $name,
            yaml: include_str!(concat!("../../../../experiments/", $name, ".yaml")),
            code: $code,
            live: $live,
        }
    };
}

/// Every experiment, in the order in which `all` runs them.
pub static ALL: &[Entry] = &[
    entry!("skywalker-fig2", skywalker_load::days),
    entry!("skywalker-fig3", skywalker_cost::run),
    entry!("skywalker-fig4"),
    entry!("skywalker-fig5", skywalker_load::similarity_figures),
    entry!("skywalker-fig6"),
    entry!("skywalker-fig8", cells::run, Some(live::run)),
    entry!("skywalker-fig9"),
    entry!("skywalker-fig10", cells::run, Some(live::run)),
    entry!("gorgo-tables", gorgo::tables, Some(live::run)),
    entry!("gorgo-fit", gorgo::fit),
    entry!("llm-cache-router", llm_cache_router::run),
    entry!("mfs-fig5", mfs::run),
    entry!("mfs-fig9", mfs::run),
    entry!("mfs-fig10", mfs::run),
    entry!("mfs-fig11", mfs::run),
    entry!("mfs-fig12", mfs::run),
    entry!("mfs-fig13", mfs::run),
    entry!("mfs-fig14", mfs::run),
    entry!("mfs-ablation", mfs::run),
    entry!("heroserve-fig1", heroserve::share),
    entry!("heroserve-fig2", heroserve::hops),
    entry!("heroserve-fig7", heroserve::fleets),
    entry!("heroserve-fig8", heroserve::fleets),
    entry!("heroserve-fig9", heroserve::exchanges),
    entry!("heroserve-fig10", heroserve::fleets),
    entry!("calibration", calibration::run),
    entry!("several-gateways", cells::run, Some(live::run)),
    entry!("herding"),
    entry!("open-loop-rates"),
    entry!("baseline-grid", tuning::run),
    entry!("meridian-ablation", ablation::run),
    entry!("meridian-saturation", saturation::run),
    entry!("meridian-vs-all", versus::run),
];

/// The experiment called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}
