//! The SBOM: every library that is linked into one of the programs, as CycloneDX 1.5 in JSON.
//!
//! cargo names the libraries that it builds for these packages and this platform, which leaves out those of
//! tests and of other systems. maturin can write an SBOM too, but lists the libraries of all systems
//! and the path of the checkout.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::place::Place;
use super::programs::BOTH;
use crate::cmd::{cargo, cmd, stdout_of};
use crate::house::House;

const TARGET: &str = "x86_64-unknown-linux-gnu";

pub(super) fn path(place: &Place) -> PathBuf {
    place.out.join(format!("meridian-{}.cdx.json", place.version))
}

pub(super) fn write(house: &House, place: &Place) -> anyhow::Result<()> {
    let packages: Vec<&str> = BOTH.iter().flat_map(|one| ["--package", one.package]).collect();
    let edges = ["--target", TARGET, "--edges", "normal,no-proc-macro"];
    let form = ["--locked", "--prefix", "none", "--no-dedupe", "--format", "{p}|{l}"];
    let tree = stdout_of(cargo(&house.root, &[&["tree"], &packages[..], &edges, &form].concat()))?;
    let sums = sums(house.file("Cargo.lock")?);
    let mut components: Vec<Value> =
        tree.lines().filter_map(|line| component(line, &sums)).collect();
    components.sort_by_key(|one| one["bom-ref"].to_string());
    components.dedup();
    let time = format!("--date=@{}", place.epoch);
    let time = stdout_of(cmd(&house.root, "date", &["--utc", "+%FT%TZ", &time]))?;
    let sbom = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.trim(),
            "component": {
                "type": "application",
                "bom-ref": "meridian",
                "name": "meridian",
                "version": place.version,
                "licenses": [{"expression": "Apache-2.0"}],
            },
        },
        "components": components,
    });
    let file = path(place);
    let text = serde_json::to_string_pretty(&sbom)? + "\n";
    std::fs::write(&file, text).with_context(|| file.display().to_string())
}

/// The library of a line `name v1.2.3|licence`; None for crates of the workspace, which have a path.
fn component(line: &str, sums: &BTreeMap<(String, String), String>) -> Option<Value> {
    let (id, licence) = line.split_once('|')?;
    let (name, version) = id.split_once(" v").filter(|(_, version)| !version.contains(' '))?;
    let purl = format!("pkg:cargo/{name}@{version}");
    let mut library = json!({
        "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
        // Some libraries write the alternative as it was usual before SPDX.
        "licenses": [{"expression": licence.replace('/', " OR ")}],
    });
    if let Some(sum) = sums.get(&(name.to_owned(), version.to_owned())) {
        library["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    }
    Some(library)
}

/// The sums in Cargo.lock by name and version.
fn sums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut sums = BTreeMap::new();
    for package in lock.split("[[package]]") {
        let value = |key: &str| {
            let mut lines = package.lines().filter_map(|line| line.strip_prefix(key));
            Some(lines.next()?.strip_prefix(" = ")?.trim_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(sum)) =
            (value("name"), value("version"), value("checksum"))
        {
            sums.insert((name, version), sum);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    // A library gets its sum and a licence in SPDX's form; a crate of the workspace is none.
    #[test]
    fn libraries_are_read() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.2.3\"\nchecksum = \"abc\"\n";
        let library = component("a v1.2.3|MIT/Apache-2.0", &sums(lock)).unwrap();
        assert_eq!(library["purl"], "pkg:cargo/a@1.2.3");
        assert_eq!(library["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(library["hashes"][0]["content"], "abc");
        let own = "meridian-base v0.1.0 (a/product/base)|Apache-2.0";
        assert_eq!(component(own, &BTreeMap::new()), None);
    }
}
