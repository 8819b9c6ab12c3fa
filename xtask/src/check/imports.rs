//! Every crate imports only what the import table allows, and no tree names one above it.
//!
//! `product` is what an operator runs and names neither `flow` nor `lab`; `flow` names `product` only;
//! `lab` may name all. Within the trees the table keeps the three machines separate from each other and
//! from everything with a socket, so that the same decision runs in a gateway and in a simulator.

use super::{Broken, Rule, of};
use crate::house::House;

pub(crate) const RULE: Rule = Rule {
    name: "imports",
    holds: "crates import only what the import table and the trees allow",
    run: |house| Ok(broken(&edges(house))),
};

/// One line of the table: the imports that a crate may have, and additional ones for its tests.
struct ImportsLine {
    tree: Tree,
    name: &'static str,
    may: &'static [&'static str],
    tests: &'static [&'static str],
}

/// The trees, each of which may name those before it.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Tree {
    Product,
    Flow,
    Lab,
}

/// Short names: `base` is the package `meridian-base`.
const TABLE: &[ImportsLine] = &[
    product("base", &[]),
    product("routing", &["base"]),
    product("protocol", &["base"]),
    product("files", &[]),
    product("config", &["base", "files", "protocol", "routing"]),
    product("tls", &["files", "protocol"]),
    product("page", &[]),
    product("dns", &[]),
    product("kubernetes", &["base"]),
    product("import", &["config", "protocol"]),
    product("control", &["base", "config", "files", "protocol", "tls", "dns"]),
    // Recorded engines for the tests of the gateway. Its own compare them with the legs that the
    // gateway sends.
    ImportsLine { tests: &["protocol"], ..product("mock", &[]) },
    // The gateway's own tests may run a control plane next to it, in the same process.
    ImportsLine {
        tests: &["control", "mock"],
        ..product(
            "gateway",
            &["base", "routing", "config", "files", "protocol", "tls", "page", "kubernetes"],
        )
    },
    product(
        "cli",
        &["base", "routing", "config", "files", "protocol", "tls", "import", "control", "gateway"],
    ),
    flow("flow", &["base"]),
    flow("messages", &["base", "flow"]),
    flow("cards", &["base"]),
    flow("gate", &["base", "flow", "messages"]),
    // Its tests have nodes.
    ImportsLine { tests: &["gate"], ..flow("coordinator", &["base", "flow", "messages"]) },
    flow("flow-abi", &["base", "flow", "gate", "messages"]),
    lab("rivals", &["base", "routing"]),
    lab("engine", &["base"]),
    lab("fabric", &["base"]),
    lab("workload", &["base"]),
    lab("plan", &["base", "engine", "fabric"]),
    lab("sim", &["base", "routing", "rivals", "engine", "flow", "fabric", "workload"]),
    lab("engined", &["base", "cards", "engine", "fabric", "flow", "gate", "messages"]),
    // Its tests start fleets.
    ImportsLine { tests: &["fleet"], ..lab("wan", &["base", "config", "protocol"]) },
    lab("fleet", &["base", "protocol", "tls", "page", "wan"]),
    ImportsLine {
        tests: &["engined"],
        ..lab(
            "tools",
            &[
                "base", "routing", "rivals", "config", "protocol", "engine", "fabric", "flow",
                "workload", "sim", "wan", "fleet",
            ],
        )
    },
    lab("perf", EVERYTHING),
    lab("papers", EVERYTHING),
    lab("lab", EVERYTHING),
    // The program of the packages: the product, with the policies of other routers.
    ImportsLine { tests: &["config"], ..lab("meridian", &["cli", "rivals"]) },
    lab("xtask", &[]),
];

const EVERYTHING: &[&str] = &["*"];

const fn product(name: &'static str, may: &'static [&'static str]) -> ImportsLine {
    ImportsLine { tree: Tree::Product, name, may, tests: &[] }
}

const fn flow(name: &'static str, may: &'static [&'static str]) -> ImportsLine {
    ImportsLine { tree: Tree::Flow, name, may, tests: &[] }
}

const fn lab(name: &'static str, may: &'static [&'static str]) -> ImportsLine {
    ImportsLine { tree: Tree::Lab, name, may, tests: &[] }
}

fn find(name: &str) -> Option<&'static ImportsLine> {
    TABLE.iter().find(|line| line.name == name)
}

/// An import as Cargo.toml states it.
struct Edge {
    from: String,
    to: String,
    in_tests: bool,
}

fn edges(house: &House) -> Vec<Edge> {
    let mut edges = Vec::new();
    for package in house.packages() {
        // A crate without imports must be in the table too: it gets an edge to itself.
        let own = short(&package.name);
        edges.push(Edge { from: own.clone(), to: own.clone(), in_tests: false });
        for dependency in package.dependencies.iter().filter(|one| one.path.is_some()) {
            let in_tests = dependency.kind == cargo_metadata::DependencyKind::Development;
            edges.push(Edge { from: own.clone(), to: short(&dependency.name), in_tests });
        }
    }
    edges
}

fn short(package: &str) -> String {
    package.strip_prefix("meridian-").unwrap_or(package).to_owned()
}

fn broken(edges: &[Edge]) -> Vec<Broken> {
    edges.iter().filter_map(|edge| Some(of(edge.from.clone(), why(edge)?))).collect()
}

fn why(Edge { from, to, in_tests }: &Edge) -> Option<String> {
    let Some(line) = find(from) else {
        return Some(format!(
            "{from} is not in the import table; give it a line in xtask/src/check/imports.rs"
        ));
    };
    if let Some(above) = find(to).filter(|other| other.tree > line.tree) {
        return Some(format!(
            "{from} of {:?} names {to} of {:?}; move what both need down, or the user of both up",
            line.tree, above.tree
        ));
    }
    let allowed = |list: &[&str]| list.contains(&to.as_str()) || list == EVERYTHING;
    if from == to || allowed(line.may) || (*in_tests && allowed(line.tests)) {
        return None;
    }
    let may = if line.may.is_empty() { "nothing".into() } else { line.may.join(", ") };
    Some(format!(
        "{from} imports {to}, and may import {may}. A type that both need belongs in base; what \
         crosses a process belongs in protocol; what joins the two belongs in sim, tools or a cli"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(from: &str, to: &str, in_tests: bool) -> Vec<Broken> {
        broken(&[Edge { from: from.into(), to: to.into(), in_tests }])
    }

    // If one machine imports another, the report names both ends and the remedy.
    #[test]
    fn machines_do_not_import_each_other() {
        let found = judged("engine", "flow", false);
        assert_eq!(found[0].place, "engine");
        assert!(found[0].what.starts_with("engine imports flow, and may import base."));
        assert_eq!(judged("routing", "base", false), []);
    }

    // An edge that the table allows for tests is not allowed in the product.
    #[test]
    fn only_tests_of_the_gateway_import_recorded_engines() {
        assert_eq!(judged("gateway", "mock", true), []);
        assert_eq!(judged("gateway", "mock", false).len(), 1);
    }

    // No crate of the product names the laboratory or the flow scheduler, not even in tests, and no
    // line of the table permits it.
    #[test]
    fn trees_name_only_those_below() {
        for (from, to) in [("gateway", "engined"), ("cli", "rivals"), ("gate", "engine")] {
            for in_tests in [false, true] {
                let found = judged(from, to, in_tests);
                assert!(found[0].what.contains(&format!("names {to} of")), "{found:?}");
            }
        }
        for line in TABLE {
            for other in line.may.iter().chain(line.tests).filter_map(|name| find(name)) {
                assert!(other.tree <= line.tree, "{} names {}", line.name, other.name);
            }
        }
    }

    // A new crate needs a line of its own before it imports anything.
    #[test]
    fn an_unknown_crate_is_broken() {
        assert!(judged("cache", "cache", false)[0].what.contains("not in the import table"));
    }

    // The laboratory's binary may import everything.
    #[test]
    fn the_laboratory_may_import_all() {
        assert_eq!(judged("lab", "gateway", false), []);
    }

    // Every name on the right has its own line, so a misspelt crate is found.
    #[test]
    fn the_table_is_closed() {
        let known = |name: &str| name == "*" || find(name).is_some();
        for name in TABLE.iter().flat_map(|line| line.may.iter().chain(line.tests)) {
            assert!(known(name), "{name} has no line");
        }
    }
}
