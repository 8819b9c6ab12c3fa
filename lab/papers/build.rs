//! Lists the experiments: every file `experiments/NAME.yaml` is one.
//!
//! Writes one line for each to `experiments.rs`, which `src/experiment/registry.rs` includes.

use std::path::PathBuf;
use std::{env, fs, io};

/// Files shared by experiments.
const SHARED: [&str; 4] = ["common", "comparison", "hard", "tuned"];

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default())
        .join("../../experiments")
        .canonicalize()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut names = Vec::new();
    for file in fs::read_dir(&folder)? {
        let name = file?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".yaml").map(str::to_owned));
    }
    names.retain(|name| !SHARED.contains(&name.as_str()));
    names.sort();
    let entry = |name: &String| {
        let path = folder.join(format!("{name}.yaml"));
        format!("    entry({name:?}, include_str!({:?})),\n", path.display().to_string())
    };
    let list = format!("&[\n{}]\n", names.iter().map(entry).collect::<String>());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("experiments.rs"), list)
}
