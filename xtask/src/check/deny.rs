//! Libraries have allowed licences and come from allowed places: `deny.toml`.
//!
//! The rule reads the lists from `deny.toml` and compares them with what cargo knows, without a
//! network. Known vulnerabilities need a database that changes every day, so only cargo-deny, which
//! reads the same file, checks them: `full` does where the program is installed.

use anyhow::Context as _;
use toml::Table;

use super::{Broken, Rule, of};
use crate::cmd::{cargo, cmd, ends_well, stdout_of};
use crate::house::House;

pub(crate) const RULE: Rule = Rule {
    name: "deny",
    holds: "libraries have the licences and sources of deny.toml",
    run: |house| {
        let libraries = libraries(house);
        let mut found = broken(house.file(PAGE)?, &libraries)?;
        if is_installed(house)
            && let Err(error) = full(house)
        {
            found.push(of(PAGE, format!("{error:#}")));
        }
        Ok(found)
    },
};

const PAGE: &str = "deny.toml";
/// The advisories that cargo-deny fetches.
const DATABASE: &str = "https://github.com/RustSec/advisory-db";

/// Checks with cargo-deny, which adds known vulnerabilities to the rule. Without the program it
/// fails, unless the database can't be reached from here, so that the program would not help.
pub(crate) fn full(house: &House) -> anyhow::Result<()> {
    let is_installed = is_installed(house);
    let check = |what: &[&str]| ends_well(cargo(&house.root, &[&["deny", "check"], what].concat()));
    if is_installed && check(&["advisories", "licenses", "sources"])? {
        return Ok(());
    }
    if !is_reachable(house) {
        println!("NOT CHECKED: known vulnerabilities. {DATABASE} can't be reached from here");
        anyhow::ensure!(
            !is_installed || check(&["licenses", "sources"])?,
            "cargo deny check failed"
        );
        return Ok(());
    }
    anyhow::ensure!(
        is_installed,
        "NOT CHECKED: known vulnerabilities. Install cargo-deny: cargo install cargo-deny --locked"
    );
    anyhow::bail!(
        "cargo deny check failed; update the library, or give the advisory's id and a \
                   reason in `ignore` under [advisories]"
    )
}

fn is_installed(house: &House) -> bool {
    stdout_of(cargo(&house.root, &["deny", "--version"])).is_ok()
}

fn is_reachable(house: &House) -> bool {
    stdout_of(cmd(&house.root, "timeout", &["30", "git", "ls-remote", DATABASE, "HEAD"])).is_ok()
}

/// One library that the workspace builds.
struct Library {
    name: String,
    licence: Option<String>,
    /// `None` for crates.io.
    elsewhere: Option<String>,
}

fn libraries(house: &House) -> Vec<Library> {
    let outside =
        house.metadata.packages.iter().filter_map(|one| Some((one, one.source.as_ref()?)));
    let library = outside.map(|(package, source)| Library {
        name: package.name.to_string(),
        licence: package.license.clone(),
        elsewhere: (!source.is_crates_io()).then(|| source.repr.clone()),
    });
    library.collect()
}

fn broken(file: &str, libraries: &[Library]) -> anyhow::Result<Vec<Broken>> {
    let file: Table = file.parse().context(PAGE)?;
    let licences = section(&file, "licenses")?;
    let allowed = texts(licences, "allow");
    let exceptions = exceptions(licences);
    let sources = section(&file, "sources")?;
    let places = [texts(sources, "allow-registry"), texts(sources, "allow-git")].concat();
    let mut found = Vec::new();
    for key in ["unknown-registry", "unknown-git"] {
        if sources.get(key).and_then(toml::Value::as_str) != Some("deny") {
            found.push(of(PAGE, format!("lacks `{key} = \"deny\"` under [sources]")));
        }
    }
    for one in libraries {
        let own = exceptions.iter().filter(|(name, _)| *name == one.name);
        let own: Vec<&str> = own.flat_map(|(_, licences)| licences.clone()).collect();
        let may = |licence: &str| allowed.contains(&licence) || own.contains(&licence);
        let licence = one.licence.as_deref().unwrap_or_default();
        if !permits(licence, &may) {
            found.push(of(&one.name, format!(
                "has the licence {licence:?}, which {PAGE} does not allow; do without it, or allow \
                 the licence for it in `exceptions`, with a reason"
            )));
        }
        if let Some(place) = one.elsewhere.as_ref().filter(|place| !is_listed(place, &places)) {
            found.push(of(
                &one.name,
                format!(
                    "comes from {place}, which {PAGE} does not allow; take a version from crates.io"
                ),
            ));
        }
    }
    found.extend(stale(&allowed, &exceptions, libraries));
    Ok(found)
}

/// Allowances that no library needs any more.
fn stale(allowed: &[&str], exceptions: &[(&str, Vec<&str>)], libraries: &[Library]) -> Vec<Broken> {
    let has = |one: &Library, licence: &str| {
        one.licence.as_deref().is_some_and(|text| ids(text).contains(&licence))
    };
    let unused = allowed.iter().filter(|id| !libraries.iter().any(|one| has(one, id)));
    let unused = unused.map(|id| format!("allows {id}, which no library has"));
    let gone = exceptions.iter().filter(|(name, _)| !libraries.iter().any(|one| one.name == *name));
    let gone = gone.map(|(name, _)| format!("has an exception for {name}, which is not used"));
    unused.chain(gone).map(|what| of(PAGE, format!("{what}; take it out"))).collect()
}

fn section<'a>(file: &'a Table, name: &str) -> anyhow::Result<&'a Table> {
    file.get(name).and_then(toml::Value::as_table).with_context(|| format!("{PAGE}: no [{name}]"))
}

/// A list of strings; empty if it is not there.
fn texts<'a>(table: &'a Table, key: &str) -> Vec<&'a str> {
    let list = table.get(key).and_then(toml::Value::as_array);
    list.into_iter().flatten().filter_map(toml::Value::as_str).collect()
}

/// The additional licences of single libraries.
fn exceptions(licences: &Table) -> Vec<(&str, Vec<&str>)> {
    let list = licences.get("exceptions").and_then(toml::Value::as_array);
    let tables = list.into_iter().flatten().filter_map(toml::Value::as_table);
    let exception = |table| Some((Table::get(table, "crate")?.as_str()?, texts(table, "allow")));
    tables.filter_map(exception).collect()
}

/// Whether a source as cargo names it, `git+URL?branch=a#COMMIT`, is one of these.
fn is_listed(source: &str, places: &[&str]) -> bool {
    let address = source.split_once('+').map_or(source, |(_, address)| address);
    let address = address.split(['?', '#']).next().unwrap_or(address);
    places.contains(&address)
}

/// Whether a licence expression can be fulfilled: one side of each OR, and both of each AND, which
/// binds tighter. Old crates write a slash for OR.
fn permits(expression: &str, may: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    either(&mut rest, may) && rest.is_empty()
}

fn either(rest: &mut &[&str], may: &dyn Fn(&str) -> bool) -> bool {
    let mut permitted = both(rest, may);
    while let ["OR", after @ ..] = *rest {
        *rest = after;
        // Both sides are read, whatever the first one is.
        permitted |= both(rest, may);
    }
    permitted
}

fn both(rest: &mut &[&str], may: &dyn Fn(&str) -> bool) -> bool {
    let mut permitted = single(rest, may);
    while let ["AND", after @ ..] = *rest {
        *rest = after;
        permitted &= single(rest, may);
    }
    permitted
}

fn single(rest: &mut &[&str], may: &dyn Fn(&str) -> bool) -> bool {
    match *rest {
        ["(", after @ ..] => {
            *rest = after;
            let permitted = either(rest, may);
            let [")", after @ ..] = *rest else { return false };
            *rest = after;
            permitted
        }
        [id, "WITH", exception, after @ ..] => {
            *rest = after;
            may(&format!("{id} WITH {exception}"))
        }
        [id, after @ ..] => {
            *rest = after;
            may(id)
        }
        [] => false,
    }
}

/// The licences that an expression names.
fn ids(expression: &str) -> Vec<&str> {
    expression.split([' ', '/', '(', ')']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[licenses]\nallow = [\"MIT\", \"ISC\"]\n\
        exceptions = [{ crate = \"c\", allow = [\"MPL-2.0\"] }]\n\
        [sources]\nunknown-registry = \"deny\"\nunknown-git = \"deny\"\n";

    fn library(name: &str, licence: Option<&str>, elsewhere: Option<&str>) -> Library {
        let licence = licence.map(str::to_owned);
        Library { name: name.into(), licence, elsewhere: elsewhere.map(str::to_owned) }
    }

    fn found(file: &str, more: Library) -> Vec<String> {
        let fine = library("a", Some("MIT AND ISC"), None);
        let excepted = library("c", Some("MPL-2.0"), None);
        let broken = broken(file, &[fine, excepted, more]).unwrap();
        broken.into_iter().map(|one| format!("{} {}", one.place, one.what)).collect()
    }

    // A licence that is not on the list is found, unless this library is an exception, and so is a
    // library without one.
    #[test]
    fn licences_that_are_not_allowed_are_found() {
        assert_eq!(found(FILE, library("b", Some("Apache-2.0 OR MIT"), None)), [""; 0]);
        assert!(
            found(FILE, library("b", Some("MPL-2.0"), None))[0].starts_with("b has the licence")
        );
        assert!(found(FILE, library("b", None, None))[0].starts_with("b has the licence \"\""));
    }

    // A library from a fork is found, unless the file lists the place.
    #[test]
    fn other_sources_are_found() {
        let fork = || library("b", Some("MIT"), Some("git+https://git.test/b?branch=x#1234"));
        assert!(found(FILE, fork())[0].starts_with("b comes from git+https"));
        assert_eq!(
            found(&format!("{FILE}allow-git = [\"https://git.test/b\"]\n"), fork()),
            [""; 0]
        );
        let open = FILE.replace("unknown-git = \"deny\"", "");
        assert!(found(&open, library("b", Some("MIT"), None))[0].contains("lacks `unknown-git"));
    }

    // The lists are no longer than needed.
    #[test]
    fn stale_allowances_are_found() {
        let file = FILE.replace("\"ISC\"", "\"ISC\", \"0BSD\"").replace("\"c\"", "\"d\"");
        let found = found(&file, library("d2", Some("MIT"), None));
        assert!(found.iter().any(|one| one.contains("allows 0BSD, which no")), "{found:?}");
        assert!(found.iter().any(|one| one.contains("exception for d, which")), "{found:?}");
    }

    // AND binds tighter than OR, a slash is an OR, and an exception to a licence is a licence.
    #[test]
    fn expressions_are_understood() {
        let ok = |text| permits(text, &|id| id == "MIT" || id == "A WITH B");
        assert!(ok("X OR MIT") && ok("X/MIT") && ok("MIT OR X AND Y") && ok("MIT AND (X OR MIT)"));
        assert!(ok("A WITH B") && ok("(X OR MIT) AND MIT"));
        assert!(
            !ok("MIT AND X") && !ok("A") && !ok("(MIT") && !ok("MIT)") && !ok("MIT X") && !ok("")
        );
    }
}
