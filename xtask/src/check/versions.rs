//! `versions.env` pins exact versions, agrees with Cargo.toml about the oldest Rust, and with the page
//! of tested clients about theirs.

use super::{Broken, Rule, of};

pub(crate) const RULE: Rule = Rule {
    name: "versions",
    holds: "versions.env pins exactly and agrees with Cargo.toml",
    run: |house| {
        let rust = house.packages()[0].rust_version.as_ref().map(ToString::to_string);
        let text = house.text(PATH).unwrap_or_default();
        let mut found = broken(text, rust.as_deref().unwrap_or_default());
        found.extend(untested(house.file(CLIENTS)?, text));
        Ok(found)
    },
};

const PATH: &str = "versions.env";
/// The page with the versions of clients, in the second column of its tables.
const CLIENTS: &str = "docs/clients.md";

/// Versions on the page that the tests do not install.
fn untested(page: &str, pins: &str) -> Vec<Broken> {
    let cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").nth(1));
    let versions = cells.flat_map(|cell| cell.split(", "));
    let is_version = |one: &&str| one.chars().all(|c| c.is_ascii_digit() || c == '.');
    let is_pinned = |one: &str| ["==", "@"].iter().any(|pin| pins.contains(&format!("{pin}{one}")));
    let others = versions.filter(is_version).filter(|one| !is_pinned(one));
    others.map(|one| of(CLIENTS, format!("{one} is not a version of {PATH}"))).collect()
}

fn broken(text: &str, cargo_rust: &str) -> Vec<Broken> {
    let mut found = Vec::new();
    let mut rust_min = None;
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some((key, value)) = line.strip_suffix('"').and_then(|line| line.split_once("=\""))
        else {
            found.push(of(PATH, format!("{line} is not KEY=\"value\", which a shell can read")));
            continue;
        };
        if key == "RUST_MIN" {
            rust_min = Some(value);
        }
        let pin = if key.ends_with("_PIP") { "==" } else { "@" };
        let packages = key.ends_with("_PIP") || key.ends_with("_NPM");
        // A scope of npm begins with the sign before versions.
        let loose = |one: &&str| packages && !one[one.len().min(1)..].contains(pin);
        for one in value.split(' ').filter(loose) {
            found.push(of(PATH, format!("{one} of {key} has no version; write {one}{pin}VERSION")));
        }
    }
    // Cargo may state a patch version if the file has none: 1.95 and 1.95.0 agree.
    let agrees = |min: &str| cargo_rust == min || cargo_rust == format!("{min}.0");
    if !rust_min.is_some_and(agrees) {
        let what = format!("RUST_MIN must be rust-version of Cargo.toml, {cargo_rust}");
        found.push(of(PATH, what));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    // An unpinned package would be a different one next month.
    #[test]
    fn a_loose_version_is_found() {
        let found = broken("RUST_MIN=\"1.95\"\nA_PIP=\"gguf==1 numpy\"", "1.95.0");
        assert_eq!(found.len(), 1);
        assert!(found[0].what.starts_with("numpy of A_PIP has no version"), "{found:?}");
        let found = broken("RUST_MIN=\"1.95\"\nA_NPM=\"a@1 @b/c @b/d@2\"", "1.95.0");
        assert_eq!(found.len(), 1);
        assert!(found[0].what.ends_with("write @b/c@VERSION"), "{found:?}");
    }

    // A page that names another version than the tests install would promise too much.
    #[test]
    fn an_untested_version_is_found() {
        let page = "| client | version |\n| --- | --- |\n| A | 1.2.3, 4.0 | 2 retries |\n";
        assert_eq!(untested(page, "A_PIP=\"a==1.2.3\" B_NPM=\"b@4.0-linux\""), []);
        assert_eq!(untested(page, "A_PIP=\"a==1.2.3\"").len(), 1);
    }

    // The script and cargo must refuse the same toolchains.
    #[test]
    fn two_answers_about_rust_are_found() {
        assert!(broken("RUST_MIN=\"1.90\"", "1.95")[0].what.contains("1.95"));
        assert_eq!(broken("RUST_MIN=\"1.95\"", "1.95"), []);
        assert_eq!(broken("# nothing", "1.95").len(), 1);
    }

    // A line that only one of the readers understands is a violation.
    #[test]
    fn a_line_no_shell_reads_is_found() {
        assert!(broken("RUST_MIN=\"1.95\"\nA = 1", "1.95")[0].what.contains("KEY=\"value\""));
    }
}
