//! `meridian bench compare`: two runs, or two sets of runs, side by side.

use std::path::PathBuf;

use meridian_tools::compare;

use super::output::{Files, Forms, print};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: meridian bench compare before.json after.json --svg compared.svg")]
pub(super) struct Compare {
    /// Reports of one side, as --json writes them; several runs with commas between them
    #[arg(value_name = "A.json", value_delimiter = ',', num_args = 1, required = true)]
    a: Vec<PathBuf>,
    /// Reports of the other side
    #[arg(value_name = "B.json", value_delimiter = ',', num_args = 1, required = true)]
    b: Vec<PathBuf>,
    /// Compare runs with different workloads too
    #[arg(long)]
    any_workload: bool,
    #[command(flatten)]
    files: Files,
}

/// Compares the runs.
pub(super) fn run(args: Compare) -> anyhow::Result<()> {
    let Compare { a, b, any_workload, files } = args;
    files.check()?;
    let found = compare::compare(&compare::Options { a, b, any_workload })?;
    print(&compare::render(&found));
    files.write(&Forms {
        json: &|| compare::json(&found),
        csv: &|| compare::csv(&found),
        svg: &|| compare::svg(&found),
    })
}
