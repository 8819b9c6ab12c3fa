//! The list of systems that can take part, one line each.

use anyhow::{bail, ensure};

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// The mock itself, without a gateway.
    Direct,
    Nginx,
    Haproxy,
    Envoy,
    SglangRouter,
    Smg,
    VllmRouter,
    /// An earlier build of Meridian.
    Before,
    /// The build under test with access log, journal and traces.
    Recorded,
    Meridian,
    /// Meridian with a prefill and a decode replica that hand over KV by this protocol.
    Pools(&'static str),
}

impl Program {
    /// Whether it is a program of this machine, and not of a Python package.
    pub(super) fn is_of_machine(self) -> bool {
        use Program::{Before, Haproxy, Meridian, Nginx, Recorded};
        matches!(self, Nginx | Haproxy | Before | Recorded | Meridian)
    }
}

/// The sides with TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tls {
    None,
    /// The connections to the replica.
    Replica,
    /// Those, and the clients' connections.
    Both,
}

/// A system: a program in one setting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    /// Name in the results and on the command line.
    pub(super) name: &'static str,
    pub(super) program: Program,
    pub(super) tls: Tls,
    /// Whether it belongs to the usual set, and not only to the full one.
    usual: bool,
}

const fn usual(name: &'static str, program: Program) -> Spec {
    Spec { name, program, tls: Tls::None, usual: true }
}

const fn full(name: &'static str, program: Program, tls: Tls) -> Spec {
    Spec { name, program, tls, usual: false }
}

/// All systems, in the order of the table. `before` and `before-tls` run if a binary is given.
const SYSTEMS: [Spec; 18] = [
    usual("direct", Program::Direct),
    usual("nginx", Program::Nginx),
    usual("haproxy", Program::Haproxy),
    usual("envoy", Program::Envoy),
    usual("sglang-router", Program::SglangRouter),
    usual("smg", Program::Smg),
    usual("vllm-router", Program::VllmRouter),
    usual("before", Program::Before),
    usual("recorded", Program::Recorded),
    usual("meridian", Program::Meridian),
    full("nginx-https", Program::Nginx, Tls::Replica),
    full("meridian-https", Program::Meridian, Tls::Replica),
    full("direct-tls", Program::Direct, Tls::Both),
    full("nginx-tls", Program::Nginx, Tls::Both),
    full("haproxy-tls", Program::Haproxy, Tls::Both),
    full("envoy-tls", Program::Envoy, Tls::Both),
    full("before-tls", Program::Before, Tls::Both),
    full("meridian-tls", Program::Meridian, Tls::Both),
];

/// The systems that route to a prefill and a decode replica. smg speaks SGLang's protocol over HTTP,
/// vllm-router vLLM's; Meridian takes part once with each.
const POOLS: [Spec; 5] = [
    usual("direct", Program::Direct),
    usual("smg", Program::Smg),
    usual("vllm-router", Program::VllmRouter),
    usual("meridian-sglang", Program::Pools("sglang")),
    usual("meridian-nixl", Program::Pools("nixl")),
];

/// The systems to run.
pub(super) struct Choice<'a> {
    /// Their names; empty for the usual set, or all.
    pub(super) only: &'a [String],
    pub(super) all: bool,
    pub(super) pools: bool,
    /// Whether there is a binary of an earlier build. It runs beside the build under test: without
    /// TLS always, with TLS if the build under test does.
    pub(super) before: bool,
}

impl Choice<'_> {
    /// The systems, in the order of the table.
    pub(super) fn systems(&self) -> anyhow::Result<Vec<Spec>> {
        let specs: &[Spec] = if self.pools { &POOLS } else { &SYSTEMS };
        if let Some(unknown) = self.only.iter().find(|n| specs.iter().all(|s| s.name != **n)) {
            let names: Vec<&str> = specs.iter().map(|spec| spec.name).collect();
            bail!("system {unknown:?} is unknown: use some of {}", names.join(", "));
        }
        if let Some(name) = self.only.iter().find(|name| name.starts_with("before")) {
            ensure!(self.before, "system {name:?} needs a binary: name one with --before");
        }
        let wanted = |spec: &&Spec| match (spec.program, spec.tls) {
            (Program::Before, _) if !self.before => false,
            (Program::Before, Tls::None) => true,
            (Program::Before, _) => self.names(spec) || self.has("meridian-tls"),
            _ => self.names(spec),
        };
        Ok(specs.iter().filter(wanted).copied().collect())
    }

    fn names(&self, spec: &Spec) -> bool {
        match self.only {
            [] => self.all || spec.usual,
            _ => self.has(spec.name),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.only.iter().any(|n| n == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(only: &[&str], all: bool, before: bool) -> anyhow::Result<Vec<&'static str>> {
        let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
        let choice = Choice { only: &only, all, pools: false, before };
        Ok(choice.systems()?.iter().map(|spec| spec.name).collect())
    }

    // Without names the usual systems run, all on request, and named ones in the order of the table.
    #[test]
    fn systems_are_chosen() {
        let usual = names(&[], false, false).unwrap();
        assert!(usual.contains(&"haproxy") && !usual.contains(&"nginx-tls"), "{usual:?}");
        assert_eq!(names(&[], true, true).unwrap().len(), SYSTEMS.len());
        assert_eq!(names(&["meridian", "nginx"], false, false).unwrap(), ["nginx", "meridian"]);
        let error = names(&["apache"], true, false).unwrap_err().to_string();
        assert!(error.starts_with("system \"apache\" is unknown: use some of direct, nginx"));
    }

    // An earlier build runs exactly if its binary is given, with TLS only beside the other.
    #[test]
    fn an_earlier_build_needs_a_binary() {
        assert!(!names(&[], true, false).unwrap().iter().any(|name| name.starts_with("before")));
        assert_eq!(names(&["meridian"], false, true).unwrap(), ["before", "meridian"]);
        let both = ["before", "before-tls", "meridian-tls"];
        assert_eq!(names(&["meridian-tls"], false, true).unwrap(), both);
        let error = names(&["before-tls"], false, false).unwrap_err().to_string();
        assert_eq!(error, "system \"before-tls\" needs a binary: name one with --before");
    }
}
