//! Reads the reports of both sides and checks that they are comparable.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use crate::load::{Options, Report, Slo};

/// The names of a side's files, for tables.
pub(super) fn name(files: &[PathBuf]) -> String {
    let stem = |file: &PathBuf| {
        file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
    };
    files.iter().map(stem).collect::<Vec<_>>().join(", ")
}

/// The runs of one side.
pub(super) fn side(files: &[PathBuf]) -> anyhow::Result<Vec<Report>> {
    ensure!(!files.is_empty(), "one side has no files: name the JSON report of a run");
    files.iter().map(|file| report(file)).collect()
}

fn report(file: &Path) -> anyhow::Result<Report> {
    let name = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    let remedy = "use a file that `meridian bench --json` or `meridian bench replay --json` wrote";
    let report: Report = serde_json::from_str(&text)
        .with_context(|| format!("{name} is not the report of a run: {remedy}"))?;
    if report.requests.is_empty() {
        let ok = report.counts.ok;
        ensure!(ok == 0, "{name} has no requests: it is of an earlier version; measure again");
        bail!("{name}: no request of this run was answered after its warm-up");
    }
    Ok(report)
}

/// The parts of a load that two runs must have in common.
fn workload(options: &Options) -> [(&'static str, String); 6] {
    let Options { workload, arrivals, stream, ignore_eos, abort_share, warm, .. } = options;
    [
        ("workload", format!("{workload:?}")),
        ("arrivals", format!("{arrivals:?}")),
        ("stream", stream.to_string()),
        ("ignore_eos", ignore_eos.to_string()),
        ("abort_share", abort_share.to_string()),
        ("warm", format!("{warm:?}")),
    ]
}

/// Checks that all runs of both sides have one workload.
pub(super) fn same_workload(a: &[Report], b: &[Report]) -> anyhow::Result<()> {
    let Some(first) = a.first() else { return Ok(()) };
    let first = workload(&first.options);
    for other in a.iter().chain(b).skip(1) {
        for ((name, here), (_, there)) in first.iter().zip(workload(&other.options)) {
            ensure!(
                *here == there,
                "the runs have different workloads: {name} is {here} in one and {there} in another; \
                 measure both with the same one, or compare them with --any-workload"
            );
        }
    }
    Ok(())
}

/// The objective, if all runs have the same.
pub(super) fn common_slo(a: &[Report], b: &[Report]) -> Option<Slo> {
    let mut all = a.iter().chain(b).map(|report| report.options.slo);
    let first = all.next()??;
    all.all(|slo| slo == Some(first)).then_some(first)
}
