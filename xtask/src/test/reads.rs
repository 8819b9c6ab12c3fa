//! Files outside of a crate's folder that its sources name.
//!
//! Sources name them relative to themselves (`include_str!`, `#[path]`) or to the crate's folder
//! (`CARGO_MANIFEST_DIR`), so the literal begins with `../`. A path that is put together in another way
//! is not found.

use std::collections::BTreeSet;

use crate::house::File;

/// The paths from the root, the root itself as an empty one.
pub(crate) fn outside(files: &[File], folder: &str) -> Vec<String> {
    let inside = format!("{folder}/");
    let sources = files.iter().filter(|file| file.path.starts_with(&inside));
    let mut found = BTreeSet::new();
    for (source, text) in sources.filter_map(|file| Some((&file.path, file.text.as_deref()?))) {
        if !source.ends_with(".rs") {
            continue;
        }
        let above = source.rsplit_once('/').map(|(above, _)| above).unwrap_or_default();
        let by_source = text.contains("include_") || text.contains("#[path");
        let by_crate = text.contains("CARGO_MANIFEST_DIR");
        let places = [by_source.then_some(above), by_crate.then_some(folder)];
        for place in places.into_iter().flatten() {
            let paths = literals(text).filter_map(|literal| joined(place, literal));
            let others = paths.filter(|path| path != folder && !path.starts_with(&inside));
            found.extend(others.filter(|path| is_there(files, path)));
        }
    }
    found.into_iter().collect()
}

/// String literals that begin with `../`, or with `/../` behind a folder.
fn literals(text: &str) -> impl Iterator<Item = &str> {
    ["\"../", "\"/../"].into_iter().flat_map(move |start| {
        let rests = text.match_indices(start).map(|(at, _)| &text[at + 1..]);
        rests.filter_map(|rest| Some(rest.split_once('"')?.0.trim_start_matches('/')))
    })
}

/// The path, without its `..`; `None` where it leaves the repository, or is a folder of crates.
fn joined(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop()?;
        } else {
            parts.push(part);
        }
    }
    let joined = parts.join("/");
    (!crate::house::TREES.contains(&joined.as_str())).then_some(joined)
}

fn is_there(files: &[File], path: &str) -> bool {
    let below = format!("{path}/");
    path.is_empty() || files.iter().any(|one| one.path == path || one.path.starts_with(&below))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        let files = [
            File::of("lab/a/src/deep/file.rs", text),
            File::of("lab/a/data.csv", ""),
            File::of("lab/b/src/lib.rs", ""),
            File::of("docs/flow.md", ""),
            File::of("experiments/flows/table.yaml", ""),
        ];
        outside(&files, "lab/a")
    }

    // Inclusions are relative to the source, paths by cargo's variable to the crate.
    #[test]
    fn finds_files_and_folders() {
        assert_eq!(of("include_str!(\"../../../../docs/flow.md\")"), ["docs/flow.md"]);
        let root = "env!(\"CARGO_MANIFEST_DIR\")";
        assert_eq!(of(&format!("{root} join(\"../../experiments\")")), ["experiments"]);
        assert_eq!(of(&format!("concat!({root}, \"/../../docs/flow.md\")")), ["docs/flow.md"]);
        assert_eq!(of(&format!("{root} join(\"../b/src/\")")), ["lab/b/src"]);
        assert_eq!(of(&format!("{root} join(\"../..\")")), [""]);
    }

    // A crate's own files, folders of crates and paths that do not exist are none.
    #[test]
    fn leaves_the_rest() {
        assert!(of("include_str!(\"../../data.csv\")").is_empty());
        assert!(of("CARGO_MANIFEST_DIR \"../\" \"../../etc\" \"../../../../..\"").is_empty());
        assert!(of("plain(\"../../../../docs/flow.md\")").is_empty());
    }

    // This repository's own: a build script that embeds the experiments, and tests of the package in Python.
    #[test]
    fn finds_those_of_the_repository() {
        let house = crate::house::House::open().unwrap();
        let folders = house.packages().into_iter().map(|package| house.folder(package));
        let all: BTreeSet<String> =
            folders.flat_map(|folder| outside(&house.files, &folder)).collect();
        for path in ["experiments", "flow/python", "versions.env"] {
            assert!(all.contains(path), "{path}: {all:?}");
        }
    }
}
