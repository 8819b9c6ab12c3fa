//! The notebook of examples/what-if, run by Jupyter on the results of a small question.

use std::path::Path;
use std::process::Command;

use meridian_fleet::venv::{self, Pins};

use crate::common::must;

const PINS: Pins = Pins { name: "notebook", key: "NOTEBOOK_PIP", module: "nbclient" };

// Every cell runs: tables are tables, and plots are plots. A wrong folder is an error. A reader of
// Parquet that is not ours finds the table of the CSV, with types.
#[tokio::test]
async fn the_notebook_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = must(venv::install(&venv::home(&root, "notebook"), PINS).await);
    let folder = std::env::temp_dir().join(format!("meridian-notebook-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("makes a folder");
    let what_if = Command::new(crate::programs::MERIDIAN)
        .args(["what-if", "mooncake", "--requests", "300", "--replicas", "2..3", "--most", "4"])
        .args(["--policies", "default,round_robin", "--out", "target/what-if"])
        .current_dir(&folder)
        .output()
        .expect("it runs");
    assert!(what_if.status.success(), "{}", String::from_utf8_lossy(&what_if.stderr));
    let run = |results: &str| {
        let mut command = Command::new(&python);
        command.arg("-c").arg(include_str!("notebook.py"));
        command.arg(root.join("examples/what-if/what-if.ipynb")).arg(&folder);
        command.env("WHAT_IF", results).output().expect("it runs")
    };
    let ran = run("target/what-if");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let (table, plot) = ("text/html text/plain", "image/png text/plain");
    let types = "replicas i\nmeets_slo b\nttft_ms.mean f\npolicy O\n";
    let wanted = format!("{table}\n{plot}\n{plot}\n{table}\n{types}");
    assert_eq!(String::from_utf8_lossy(&ran.stdout), wanted);
    let failed = run("elsewhere");
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(!failed.status.success() && said.contains("elsewhere/what-if.csv"), "{said}");
    std::fs::remove_dir_all(&folder).expect("removes the folder");
}
