//! Every crate imports only what the import table allows.
//!
//! The table keeps the three machines separate from each other and from everything with a socket,
//! so that the same decision runs in a gateway and in a simulator. It lists all crates of the
//! project, including planned ones.

use super::{Broken, Rule, of};
use crate::house::House;

pub(crate) const RULE: Rule = Rule {
    name: "imports",
    holds: "crates import only what the import table allows",
    run: |house| Ok(broken(&edges(house))),
};

/// One line of the table: the imports that a crate may have, and additional ones for its tests.
struct Line {
    name: &'static str,
    may: &'static [&'static str],
    tests: &'static [&'static str],
}

/// Short names: `base` is the package `meridian-base`.
const TABLE: &[Line] = &[
    line("base", &[]),
    line("routing", &["base"]),
    line("rivals", &["base", "routing"]),
    line("engine", &["base"]),
    line("flow", &["base"]),
    line("fabric", &["base"]),
    line("workload", &["base"]),
    line("sim", &["base", "routing", "rivals", "engine", "flow", "fabric", "workload"]),
    line("plan", &["base", "engine", "fabric"]),
    line("protocol", &["base", "routing"]),
    line("config", &["protocol", "routing"]),
    line("tls", &["protocol"]),
    line("page", &[]),
    line("dns", &[]),
    // The gateway's own tests may run the engine model or recorded engines behind it, and a control
    // plane next to it, in the same process.
    Line {
        name: "gateway",
        may: &["base", "routing", "protocol", "tls", "page"],
        tests: &["engined", "engine", "control", "mock"],
    },
    // Only tests run it. Its own compare it with the legs that the gateway sends.
    Line { name: "mock", may: &[], tests: &["protocol"] },
    line("cards", &["base"]),
    line("gate", &["base", "flow", "protocol"]),
    // Its tests have nodes.
    Line { name: "coordinator", may: &["base", "flow", "protocol"], tests: &["gate"] },
    line("flow-abi", &["base", "flow", "gate", "protocol"]),
    line("engined", &["base", "cards", "engine", "fabric", "flow", "gate", "protocol"]),
    line("control", &["base", "protocol", "tls", "dns"]),
    line("ina", &["base", "protocol"]),
    line("fleet", &["base", "protocol", "tls", "page"]),
    line("bench", EVERYTHING),
    line("import", &["protocol"]),
    // Of the laboratory, the product names only the policies of other routers, behind the feature
    // `rivals` of this crate.
    line("cli", EVERYTHING),
    line("lab", EVERYTHING),
    line("xtask", &[]),
];

const EVERYTHING: &[&str] = &["*"];

const fn line(name: &'static str, may: &'static [&'static str]) -> Line {
    Line { name, may, tests: &[] }
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
    let Some(line) = TABLE.iter().find(|line| line.name == from) else {
        return Some(format!(
            "{from} is not in the import table; give it a line in xtask/src/check/imports.rs"
        ));
    };
    let allowed = |list: &[&str]| list.contains(&to.as_str()) || list == EVERYTHING;
    if from == to || allowed(line.may) || (*in_tests && allowed(line.tests)) {
        return None;
    }
    let may = if line.may.is_empty() { "nothing".into() } else { line.may.join(", ") };
    Some(format!(
        "{from} imports {to}, and may import {may}. A type that both need belongs in base; what \
         crosses a process belongs in wire; what joins the two belongs in sim, bench or cli"
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
        let found = judged("routing", "engine", false);
        assert_eq!(found[0].place, "routing");
        assert!(found[0].what.starts_with("routing imports engine, and may import base."));
        assert_eq!(judged("routing", "base", false), []);
    }

    // An edge that the table allows for tests is not allowed in the product.
    #[test]
    fn only_tests_of_the_gateway_import_the_engine_model() {
        assert_eq!(judged("gateway", "engined", true), []);
        assert_eq!(judged("gateway", "engined", false).len(), 1);
    }

    // A new crate needs a line of its own before it imports anything.
    #[test]
    fn an_unknown_crate_is_broken() {
        assert!(judged("cache", "cache", false)[0].what.contains("not in the import table"));
    }

    // The cli may import everything.
    #[test]
    fn the_cli_may_import_all() {
        assert_eq!(judged("cli", "gateway", false), []);
    }

    // Every name on the right has its own line, so a misspelt crate is found.
    #[test]
    fn the_table_is_closed() {
        let known = |name: &str| name == "*" || TABLE.iter().any(|line| line.name == name);
        for name in TABLE.iter().flat_map(|line| line.may.iter().chain(line.tests)) {
            assert!(known(name), "{name} has no line");
        }
    }
}
