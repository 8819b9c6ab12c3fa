//! Lanes: the parts of a run, and the crates that it tests.
//!
//! The lane of a change tests the product whole, and of flow and lab the crates that the change
//! touches. It leaves heavy and foreign tests to `./x test --all`, and prints what it leaves out.

use cargo_metadata::DependencyKind;

use super::base::Base;
use super::parts::Part;
use super::reads;
use super::touched::{self, Node, Touch};
use crate::house::House;
use crate::scope::{Kind, Scope, programs};

pub(crate) struct Lane {
    pub(crate) parts: Vec<Part>,
    pub(crate) scope: Scope,
    /// The crates that run, and why; to print before.
    pub(crate) text: String,
    /// A line for each part that does not run whole; to print after.
    pub(crate) left_out: String,
}

impl Lane {
    pub(crate) fn all() -> Lane {
        let left_out = "\nleft out, as it takes long or fetches much; each is a command\n  \
                        chaos, reference, vllm-pd\n";
        Lane { left_out: left_out.to_owned(), ..Lane::of(Part::ALL) }
    }

    /// The parts in order, with all crates.
    pub(crate) fn of(parts: &[Part]) -> Lane {
        // The build has its own line in the table of times.
        let builds = parts.iter().any(|part| part.needs_build());
        let build = builds.then_some(Part::Build);
        let others = parts.iter().copied().filter(|part| *part != Part::Build);
        let parts = build.into_iter().chain(others).collect();
        Lane { parts, scope: Scope::Whole, text: String::new(), left_out: String::new() }
    }

    /// The parts for the product and what changed, and the packages where they changed.
    pub(crate) fn of_a_change(house: &House, parts: &[Part]) -> Lane {
        let base = Base::find(house).map_err(|error| format!("{error:#}"));
        let rows = rows(house, base.as_ref());
        let mut parts = parts.to_vec();
        let packages =
            base.as_ref().map_or(Some("no base"), |base| touched::of_packages(&base.changed));
        if parts != Part::FAST && packages.is_some() {
            parts.push(Part::Dist);
        }
        let without = rows.iter().filter(|row| row.why.is_none()).map(|row| row.name.clone());
        let kinds = parts.iter().filter_map(|part| part.kind()).collect();
        let scope = Scope::Part { without: without.collect(), kinds };
        let text = table(base.as_ref(), &rows);
        let left_out = left_out(house, &parts, &scope);
        Lane { parts, scope, text, left_out }
    }
}

/// A crate of flow or lab.
struct Row {
    name: String,
    /// Why it runs, if it does.
    why: Option<String>,
}

fn rows(house: &House, base: Result<&Base, &String>) -> Vec<Row> {
    let nodes = nodes(house);
    let everything = match base {
        Ok(base) => touched::of_everything(&base.changed).map(str::to_owned),
        Err(_) => Some("no base".to_owned()),
    };
    let touches = base
        .map_or_else(|_| vec![None; nodes.len()], |base| touched::touched(&nodes, &base.changed));
    let mut rows = Vec::new();
    for ((node, touch), package) in nodes.iter().zip(touches).zip(house.packages()) {
        if node.folder.starts_with("flow/") || node.folder.starts_with("lab/") {
            let has_binary = package.targets.iter().any(cargo_metadata::Target::is_bin);
            let always = has_binary.then(|| "always: its binary runs in other tests".to_owned());
            let because = everything.clone().or_else(|| touch.map(said));
            rows.push(Row { name: node.name.clone(), why: because.or(always) });
        }
    }
    rows
}

/// `lab/sim/src/lib.rs, through meridian-sim`
fn said(touch: Touch) -> String {
    match touch.through {
        Some(name) => format!("{}, through {}", touch.path, short(&name)),
        None => touch.path,
    }
}

/// The workspace as cargo sees it.
fn nodes(house: &House) -> Vec<Node> {
    let packages = house.packages();
    let node = |package: &&cargo_metadata::Package| {
        let folder = house.folder(package);
        let named = |tests: bool| {
            let dependencies = package.dependencies.iter().filter(move |one| one.path.is_some());
            let kind =
                dependencies.filter(move |one| tests == (one.kind == DependencyKind::Development));
            kind.map(|one| one.name.clone()).collect()
        };
        let reads = reads::outside(&house.files, &folder);
        let (needs, tests_need) = (named(false), named(true));
        Node { name: package.name.to_string(), folder, needs, tests_need, reads }
    };
    packages.iter().map(node).collect()
}

fn short(name: &str) -> &str {
    name.strip_prefix("meridian-").unwrap_or(name)
}

/// The crates and their reasons; those with the same reason in one line.
fn table(base: Result<&Base, &String>, rows: &[Row]) -> String {
    let mut text = match base {
        Ok(base) => format!("files changed since {}: {}\n", base.name, base.changed.len()),
        Err(why) => {
            let why = why.trim_end_matches([':', ' ']);
            format!("no base, so all of flow and lab runs: {why}\n")
        }
    };
    let mut lines: Vec<(String, Vec<&str>)> =
        vec![("always".to_owned(), vec!["product/*", "packaging/*", "xtask"])];
    for row in rows {
        let why = row.why.clone().unwrap_or_else(|| "left out: not touched".to_owned());
        match lines.iter_mut().find(|(one, _)| *one == why) {
            Some((_, names)) => names.push(short(&row.name)),
            None => lines.push((why, vec![short(&row.name)])),
        }
    }
    // One reason for all needs no list.
    if let [_, (_, names)] = &mut lines[..] {
        *names = vec!["flow/*", "lab/*"];
    }
    // The crates that do not run come last.
    lines.sort_by_key(|(why, _)| why.starts_with("left out"));
    let names: Vec<String> = lines.iter().map(|(_, names)| names.join(" ")).collect();
    let width = names.iter().map(String::len).max().unwrap_or_default().min(40);
    for ((why, _), names) in lines.iter().zip(names) {
        text += &format!("  {names:<width$}  {why}\n");
    }
    text
}

/// What a lane leaves out, a line for each part.
fn left_out(house: &House, parts: &[Part], scope: &Scope) -> String {
    let mut text = String::from("\nleft out; ./x test --all runs it\n");
    for part in Part::ALL.iter().filter(|part| **part != Part::Build) {
        let runs = parts.contains(part);
        let what = match part.kind() {
            Some(kind) => crates(house, kind, scope, runs),
            None if runs && *part == Part::Up => "regions of llama.cpp".to_owned(),
            None if *part == Part::Check => "the rule rustdoc".to_owned(),
            None if runs => String::new(),
            None if *part == Part::Dist && parts.contains(&Part::Up) => {
                "the packages, which the change does not touch".to_owned()
            }
            None => part.what().to_owned(),
        };
        if !what.is_empty() {
            text += &format!("  {:<7} {what}\n", part.to_string());
        }
    }
    text
}

/// The crates whose test programs of a kind do not run.
fn crates(house: &House, kind: Kind, scope: &Scope, runs: bool) -> String {
    let packages = house.packages().into_iter();
    let left = packages.filter(|package| !runs || !scope.has(package));
    let has = |package: &&cargo_metadata::Package| {
        kind == Kind::Unit || programs(package).any(|name| Kind::of(name) == kind)
    };
    let names: Vec<String> =
        left.filter(has).map(|package| short(&package.name).to_owned()).collect();
    match (names.is_empty(), runs) {
        (true, _) => String::new(),
        (false, true) => format!("of {}, which the change does not touch", names.join(" ")),
        (false, false) => format!("of {}", names.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, why: Option<&str>) -> Row {
        Row { name: format!("meridian-{name}"), why: why.map(str::to_owned) }
    }

    // One line for each reason, the crates that do not run last. One reason for all needs no names.
    #[test]
    fn the_table_has_a_line_for_each_reason() {
        let base = Base { name: "0123456789ab (.ci/all-green)".into(), changed: vec!["a".into()] };
        let rows = [row("flow", None), row("sim", Some("a")), row("plan", Some("a"))];
        let text = table(Ok(&base), &rows);
        let lines = [
            "files changed since 0123456789ab (.ci/all-green): 1",
            "  product/* packaging/* xtask  always",
            "  sim plan                     a",
            "  flow                         left out: not touched",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
        let all = [row("flow", Some("no base")), row("sim", Some("no base"))];
        let text = table(Err(&"git is missing: ".to_owned()), &all);
        assert_eq!(text.lines().last(), Some("  flow/* lab/*                 no base"));
        assert!(text.starts_with("no base, so all of flow and lab runs: git is missing"), "{text}");
    }

    // Running one part builds first; running only the check does not.
    #[test]
    fn parts_bring_the_build_along() {
        let of = |parts: &[Part]| Lane::of(parts).parts;
        assert_eq!(of(&[Part::Up]), [Part::Build, Part::Up]);
        assert_eq!(of(&[Part::Check]), [Part::Check]);
        assert_eq!(of(&[Part::Dist]), [Part::Dist]);
        assert_eq!(Lane::all().parts, Part::ALL);
    }

    // Of this workspace: the crates with their folders and what they are built from, without
    // dependencies from elsewhere.
    #[test]
    fn the_workspace_is_as_cargo_sees_it() {
        let nodes = nodes(&House::open().unwrap());
        let node = |name: &str| nodes.iter().find(|node| node.name == name).unwrap();
        assert_eq!(node("meridian-routing").needs, ["meridian-base"]);
        let gateway = node("meridian-gateway");
        assert_eq!(gateway.folder, "product/gateway");
        assert!(gateway.tests_need.contains(&"meridian-mock".to_owned()));
        assert!(!node("meridian-sim").needs.contains(&"meridian-gateway".to_owned()));
    }
}
