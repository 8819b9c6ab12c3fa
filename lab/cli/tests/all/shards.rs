//! An experiment in shards: the Slurm script as a shell script, and the merge of what it wrote.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const BINARY: &str = crate::programs::MERIDIAN;

fn meridian(args: &[&str]) -> Output {
    Command::new(BINARY).args(args).output().expect("the binary runs")
}

/// Starts the script as a task of an array, as Slurm would.
fn task(index: usize, of: usize, args: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/experiment-shards/shards.sbatch");
    let programs = Path::new(BINARY).parent().expect("a binary is in a folder").display();
    let usual = std::env::var("PATH").expect("there is a PATH");
    Command::new("sh")
        .arg(script)
        .args(args)
        .env("PATH", format!("{programs}:{usual}"))
        .env("SLURM_ARRAY_TASK_ID", index.to_string())
        .env("SLURM_ARRAY_TASK_COUNT", of.to_string())
        .output()
        .expect("there is a shell")
}

fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let list = std::fs::read_dir(folder).expect("the folder is there").flatten();
    list.map(|file| (file.path(), std::fs::read(file.path()).expect("it can be read"))).collect()
}

// Three tasks of an array and a merge give the files of one machine, byte for byte. With a task
// missing the merge fails and names it; a task that can't run fails too.
#[test]
fn an_array_of_slurm() {
    let base = std::env::temp_dir().join(format!("meridian-slurm-{}", std::process::id()));
    let path = |name: &str| base.join(name).display().to_string();
    let (shards, out) = (path("shards"), path("out"));
    let small = ["--quick", "--seeds", "2"];
    let run =
        |index| task(index, 3, &[&["skywalker-fig4", shards.as_str()][..], &small[..]].concat());
    succeeds(&run(2));
    succeeds(&run(0));
    let early = meridian(&["experiment", "merge", &shards]);
    let said = String::from_utf8_lossy(&early.stderr);
    assert!(!early.status.success() && said.contains("are missing: 1"), "{said}");
    succeeds(&run(1));
    assert!(!task(0, 3, &["no-such-experiment", &shards]).status.success());

    succeeds(&meridian(&["experiment", "merge", &shards, "--out", &out]));
    let merged = files(Path::new(&out));
    std::fs::remove_dir_all(&out).expect("removes the folder");
    let whole = [&["experiment", "skywalker-fig4", "--out", out.as_str()][..], &small[..]].concat();
    succeeds(&meridian(&whole));
    assert_eq!(merged, files(Path::new(&out)));
    assert!(merged.len() > 3, "{:?}", merged.keys());

    let again = meridian(&["experiment", "merge", &shards, "--seeds", "2"]);
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(said.contains("--seeds: `merge` takes it from the shards; leave it out"), "{said}");
    std::fs::remove_dir_all(&base).expect("removes the folder");
}
