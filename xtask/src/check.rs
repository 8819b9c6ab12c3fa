//! `./x check`: the house rules as a program.
//!
//! A rule is one file with one function that lists violations and their remedies. All rules run,
//! even after one has failed, so that one run shows everything. Some rules compare with recorded
//! numbers, which may only improve (`ratchet`).

mod absences;
mod architecture;
mod asserts;
mod code;
mod commands;
mod counts;
mod crates;
mod cycles;
mod defects;
pub(crate) mod deny;
mod dependencies;
mod engines;
mod english;
mod features;
mod folder_cycles;
mod format;
mod functions;
mod header;
mod imports;
mod keys;
mod length;
mod links;
mod lints;
mod made;
mod named_tests;
mod pages;
mod paths;
mod policies;
mod purity;
mod ratchet;
mod rustdoc;
mod size;
mod sources;
mod terms;
mod tests_exist;
mod tokens;
mod type_names;
mod versions;
mod words;

use std::time::Instant;

use crate::house::House;
use ratchet::Ratchet;

#[derive(Default, clap::Args)]
pub(crate) struct Args {
    /// Only these rules; all of them by default
    rules: Vec<String>,
    /// Do not check; record the numbers that may only improve, where none got worse
    #[arg(long)]
    write: bool,
}

/// One house rule.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    /// The rule, stated as it should hold.
    pub(crate) holds: &'static str,
    pub(crate) run: fn(&House) -> anyhow::Result<Vec<Broken>>,
}

/// One violation of a rule.
#[derive(Debug, PartialEq)]
pub(crate) struct Broken {
    /// A file, with a line if there is one; otherwise any name for the place.
    pub(crate) place: String,
    /// The problem, and the remedy.
    pub(crate) what: String,
}

/// The quick rules first; those that start cargo last.
const RULES: &[Rule] = &[
    imports::RULE,
    crates::RULE,
    cycles::RULE,
    folder_cycles::RULE,
    type_names::RULE,
    terms::RULE,
    asserts::RULE,
    length::RULE,
    words::RULE,
    english::RULE,
    paths::RULE,
    size::RULE,
    functions::RULE,
    tests_exist::RULE,
    named_tests::RULE,
    versions::RULE,
    links::RULE,
    pages::RULE,
    architecture::RULE,
    dependencies::RULE,
    deny::RULE,
    purity::RULE,
    features::RULE,
    format::RULE,
    lints::RULE,
    rustdoc::RULE,
    commands::RULE,
    policies::RULE,
    engines::RULE,
    keys::RULE,
    absences::RULE,
    defects::RULE,
    counts::RULE,
    header::RULE,
];

/// The recorded numbers.
const RATCHETS: &[&Ratchet] = &[
    &folder_cycles::RATCHET,
    &type_names::RATCHET,
    &terms::RATCHET,
    &asserts::RATCHET,
    &length::RATCHET,
    &counts::RATCHET,
];

/// Runs the rules and prints the violations; true if there are none.
pub(crate) fn run(house: &House, args: &Args) -> anyhow::Result<bool> {
    let mut rules = chosen(&args.rules)?;
    if args.rules.is_empty() && !house.scope.whole() {
        // It takes minutes, and what it finds breaks no program.
        rules.retain(|rule| rule.name != rustdoc::RULE.name);
    }
    if args.write {
        return write_numbers(house, &rules);
    }
    let mut broken_rules = Vec::new();
    for rule in rules {
        let start = Instant::now();
        // A rule that can't be checked counts as broken, and does not stop the others.
        let unable = |error: anyhow::Error| vec![of("not checked", format!("{error:#}"))];
        let broken = (rule.run)(house).unwrap_or_else(unable);
        let seconds = start.elapsed().as_secs_f64();
        let verdict = if broken.is_empty() { "ok    " } else { "BROKEN" };
        println!("{verdict} {:<13} {:<60} {seconds:5.1} s", rule.name, rule.holds);
        for Broken { place, what } in &broken {
            println!("       {place}: {what}");
        }
        if !broken.is_empty() {
            broken_rules.push(rule.name);
        }
    }
    if !broken_rules.is_empty() {
        println!("broken: {}", broken_rules.join(", "));
    }
    Ok(broken_rules.is_empty())
}

/// Records the numbers of these rules; false if some got worse.
fn write_numbers(house: &House, rules: &[&Rule]) -> anyhow::Result<bool> {
    let mut all_written = true;
    for ratchet in RATCHETS.iter().filter(|one| rules.iter().any(|rule| rule.name == one.name)) {
        all_written &= ratchet.write(house)?;
    }
    Ok(all_written)
}

/// Writes every part of a page that is generated from the binary's output, and the C header; false if the build fails.
pub(crate) fn write_pages(house: &House) -> anyhow::Result<bool> {
    if !house.build()? {
        return Ok(false);
    }
    for part in [&policies::PART, &engines::PART, &keys::PART] {
        part.write(house)?;
    }
    defects::write(house)?;
    header::write(house)?;
    Ok(true)
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Rule>> {
    if names.is_empty() {
        return Ok(RULES.iter().collect());
    }
    let all = || RULES.iter().map(|rule| rule.name).collect::<Vec<_>>().join(" ");
    let find = |name: &String| RULES.iter().find(|rule| rule.name == name);
    let or_say = |name| find(name).ok_or_else(|| anyhow::anyhow!("no rule {name}: {}", all()));
    names.iter().map(or_say).collect()
}

/// A violation at one line of a file.
pub(crate) fn at(path: &str, line: usize, what: impl Into<String>) -> Broken {
    Broken { place: format!("{path}:{line}"), what: what.into() }
}

/// A violation in a whole file, crate or page.
pub(crate) fn of(place: impl Into<String>, what: impl Into<String>) -> Broken {
    Broken { place: place.into(), what: what.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A misspelt rule is an error that lists the rules, never a run of nothing.
    #[test]
    fn an_unknown_rule_is_an_error() {
        let Err(error) = chosen(&["import".into()]) else { panic!("accepted") };
        assert!(error.to_string().contains("no rule import: imports"), "{error}");
    }

    // Rules are requested and reported by name, so each name is unique.
    #[test]
    fn every_rule_has_its_own_name() {
        let mut names: Vec<_> = RULES.iter().map(|rule| rule.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
    }
}
