//! The JSON schemas of configuration files, in the validator of Python's `jsonschema`: they accept the
//! repository's own files, and refuse wrong ones whose form is wrong.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use meridian_fleet::venv::{self, Pins};

use crate::common::must;

const PINS: Pins = Pins { name: "jsonschema", key: "JSONSCHEMA_PIP", module: "jsonschema" };

/// Files whose form is right, and whose mistake no schema sees: two values that contradict each other,
/// a file that is not there, a key given twice. `gateway.yaml` is valid, and wrong for another command.
const BEYOND: [&str; 8] = [
    "credentials.yaml",
    "gateway.yaml",
    "given-twice.yaml",
    "journal-folder.yaml",
    "listen-on-any.yaml",
    "missing-certificate.yaml",
    "ports-of-urls.yaml",
    "too-many-replicas.yaml",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn output(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("is text")
}

/// The files that the schema refuses, by name, from lines with the reasons.
async fn refused(of: &str, test: &str, files: &[PathBuf]) -> (BTreeSet<String>, String) {
    let python = must(venv::install(&venv::home(&root(), "jsonschema"), PINS).await);
    let folder =
        std::env::temp_dir().join(format!("meridian-schema-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("makes a folder");
    let (script, schema) = (folder.join("schema.py"), folder.join("schema.json"));
    std::fs::write(&script, include_str!("schema.py")).expect("writes");
    let binary = crate::programs::MERIDIAN;
    std::fs::write(&schema, output(Command::new(binary).args(["config", "schema", of])))
        .expect("writes");
    let said = output(Command::new(python).args([&script, &schema]).args(files));
    std::fs::remove_dir_all(&folder).expect("removes the folder");
    let names = said.lines().filter_map(|line| line.split('\t').next()).map(name);
    (names.collect(), said)
}

fn name(path: impl AsRef<Path>) -> String {
    path.as_ref().file_name().expect("is a file").to_string_lossy().into_owned()
}

/// The files of a folder and its own folders, whose names pass.
fn files(folder: &str, is_one: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("is there") {
            let path = entry.expect("can be read").path();
            match path.is_dir() {
                true => folders.push(path),
                false if is_one(&name(&path)) => found.push(path),
                false => {}
            }
        }
    }
    found.sort();
    found
}

// The examples and the packages' file are accepted.
#[tokio::test]
async fn valid_files() {
    let mut gateways =
        files("examples", |name| name.starts_with("gateway") && name.ends_with(".yaml"));
    gateways.push(root().join("packaging/gateway.yaml"));
    gateways.push(root().join("packaging/meridian/tests/all/wrong/gateway.yaml"));
    assert!(gateways.len() >= 8, "{gateways:?}");
    let lists = files("examples", |name| name == "replicas.yaml");
    let controls = vec![root().join("packaging/meridian/tests/all/wrong/control-plane.yaml")];
    for (of, files) in [("gateway", gateways), ("replicas", lists), ("control", controls)] {
        let (_, said) = refused(of, "valid", &files).await;
        assert_eq!(said, "", "{of}");
    }
}

// Of the wrong files of `wrong_configs`, those with a wrong form are refused.
#[tokio::test]
async fn wrong_files() {
    let all = files("packaging/meridian/tests/all/wrong", |name| name.ends_with(".yaml"));
    let (refused, said) = refused("gateway", "wrong", &all).await;
    let accepted: Vec<String> =
        all.iter().map(name).filter(|name| !refused.contains(name)).collect();
    assert_eq!(accepted, BEYOND, "{said}");
}
