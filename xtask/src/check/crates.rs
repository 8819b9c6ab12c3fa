//! Every crate takes its version, edition, licence and lints from the workspace.

use super::{Broken, Rule, of};

pub(crate) const RULE: Rule = Rule {
    name: "crates",
    holds: "crates inherit the workspace's lints and versions",
    run: |house| {
        let manifests = house.files.iter().filter(|file| file.path.ends_with("/Cargo.toml"));
        let texts = manifests.map(|file| (&file.path, file.text.as_deref().unwrap_or_default()));
        // An experiment may be a workspace of its own.
        let members = texts.filter(|(_, text)| !text.contains("\n[workspace]\n"));
        Ok(members.flat_map(|(path, text)| broken(path, text)).collect())
    },
};

/// The crate that has to read its callers' memory, and has the workspace's other lints itself.
const OWN_LINTS: &str = "flow/flow-abi/Cargo.toml";

fn broken(path: &str, manifest: &str) -> Vec<Broken> {
    let mut found = Vec::new();
    for key in ["version", "edition", "rust-version", "license", "publish"] {
        let wanted = format!("{key}.workspace = true");
        if !manifest.lines().any(|line| line == wanted) {
            found.push(of(path, format!("lacks `{wanted}` under [package]")));
        }
    }
    if !manifest.contains("[lints]\nworkspace = true\n") && path != OWN_LINTS {
        found.push(of(path, "lacks `[lints]` with `workspace = true`: its lints would be off"));
    }
    for line in dependencies(manifest).filter(|line| !line.contains("workspace = true")) {
        let name = line.split('=').next().unwrap_or(line).trim();
        let what = "has its version here; move it to [workspace.dependencies] of the root";
        found.push(of(path, format!("{name} {what}")));
    }
    found
}

/// The lines of all tables of dependencies.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    manifest.lines().filter(move |line| {
        if line.starts_with('[') {
            inside = line.ends_with("dependencies]");
            return false;
        }
        inside && line.contains('=') && !line.starts_with('#')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nname = \"a\"\nversion.workspace = true\n\
        edition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\n\
        publish.workspace = true\n\n[lints]\nworkspace = true\n\n[dependencies]\n\
        bytes = { workspace = true }\n";

    // A regular crate of the workspace.
    #[test]
    fn an_inheriting_crate_is_fine() {
        assert_eq!(broken("Cargo.toml", GOOD), []);
    }

    // A crate without the lints would compile `unsafe` unseen.
    #[test]
    fn missing_lints_are_found() {
        let found = broken("Cargo.toml", &GOOD.replace("[lints]\nworkspace = true\n", ""));
        assert!(found[0].what.contains("[lints]"), "{found:?}");
    }

    // A version in a crate leads to two crates with different versions of one library.
    #[test]
    fn a_version_of_its_own_is_found() {
        let found = broken("Cargo.toml", &GOOD.replace("{ workspace = true }", "\"1\""));
        assert!(found[0].what.starts_with("bytes has its version here"), "{found:?}");
    }
}
