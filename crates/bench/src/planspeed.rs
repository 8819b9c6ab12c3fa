//! What planning a large fleet costs: HeroServe's two of 1,200 servers and 9,600 GPUs, with the model
//! and the objectives that the paper gives them.
//!
//! One thread. The processor's time is what is compared with the target, which other programs do not
//! stretch; the peak of memory is the process's own.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use meridian_plan::{Lengths, Slo, Subject, TOPOLOGIES, Task, TopologySpec, plan};
use serde::Serialize;

use crate::decision::{Row, bounded, print, row, write};
use crate::simspeed::{processor, resident};

/// Where the results go.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file.
    pub json: PathBuf,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    commit: String,
    rows: Vec<Row>,
}

/// Seconds and bytes that planning may take.
const SECONDS: f64 = 10.0;
const GIBIBYTES: f64 = 2.0;

/// Measures, prints the table, writes the file.
///
/// # Errors
/// When a fleet has no plan or the file cannot be written.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let subject = Subject::named("opt-175b")?;
    let mut rows = Vec::new();
    let fleets = [
        ("heroserve-2track", "2track, 9,600 GPUs", "2track, goodput"),
        ("heroserve-8track", "8track, 9,600 GPUs", "8track, goodput"),
    ];
    for (name, time, goodput) in fleets {
        let (_, yaml) = TOPOLOGIES
            .iter()
            .find(|(known, _)| *known == name)
            .ok_or_else(|| anyhow!("no topology {name}"))?;
        let start = processor()?;
        let topology = TopologySpec::read(yaml)?.build()?;
        let task = Task {
            topology: &topology,
            subject: &subject,
            prompt: Lengths { mean: 300.0, cv: 1.0 },
            output: Lengths { mean: 200.0, cv: 1.0 },
            slo: Slo { ttft: 4.0, tpot: 0.2, attainment: 0.9 },
            rate: None,
        };
        let plans = plan(&task).with_context(|| format!("{name} has no plan"))?;
        rows.push(bounded(time, "s", processor()? - start, SECONDS));
        rows.push(row(goodput, "requests/s", plans.first().map_or(0.0, |plan| plan.goodput())));
    }
    let memory = resident("VmHWM")? as f64 / f64::from(1 << 30);
    rows.push(bounded("peak of memory", "GiB", memory, GIBIBYTES));
    print(&rows);
    write(&Report { bench: "plan", commit: crate::commit(), rows }, &options.json)
}
