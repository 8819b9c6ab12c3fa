//! Files that belong to another program, or to another command of this one.

use super::node::{Node, NodeKind};

/// The format of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A gateway's.
    Gateway,
    /// A control plane's.
    Control,
    /// The WAN relay's.
    Wan,
    /// A list of replicas.
    Replicas,
    /// A policy alone, for commands.
    Policy,
    /// Regions of a simulation, for commands.
    Regions,
}

impl Format {
    /// The shortest file that works.
    pub(super) fn example(self) -> &'static str {
        match self {
            Format::Gateway => "version: 1\nreplicas:\n  - url: http://127.0.0.1:8000",
            Format::Control => "version: 1\nstore: fleet.redb",
            Format::Wan => "version: 1\nroutes:\n  - {from: us, to: eu, target: 127.0.0.1:8082}",
            Format::Replicas => "- url: http://127.0.0.1:8000",
            Format::Policy => "policy: meridian",
            Format::Regions => "regions:\n  - {name: us, traffic: 1}\nrtt_ms: [[1]]",
        }
    }

    fn of(root: &Node) -> Option<Format> {
        let has = |name: &str| root.field(name).is_some();
        if has("store") {
            Some(Format::Control)
        } else if has("routes") || has("links") {
            Some(Format::Wan)
        } else if has("rtt_ms") {
            Some(Format::Regions)
        } else if ["replicas", "listen", "policy", "peers", "tenants"].into_iter().any(has) {
            Some(Format::Gateway)
        } else {
            matches!(root.kind, NodeKind::List(_)).then_some(Format::Replicas)
        }
    }

    /// The kind of the file, and the command that reads it.
    fn named(self) -> &'static str {
        match self {
            Format::Gateway => {
                "this is a gateway's configuration; start it with `meridian gateway -c FILE`"
            }
            Format::Control => {
                "this is a control plane's configuration (it has `store`); start it with `meridian \
                 control -c FILE`"
            }
            Format::Wan => {
                "this is the WAN relay's configuration; start it with `meridian wan -c FILE`"
            }
            Format::Replicas => {
                "this is a list, as a file of `discovery` has; put it under `replicas:`, and add \
                 `version: 1`"
            }
            Format::Policy => {
                "this is a policy for commands; put its fields into a gateway's configuration"
            }
            Format::Regions => {
                "this is a file of regions; use it in `meridian what-if --regions FILE`"
            }
        }
    }
}

/// The message about a file that is valid YAML and has another purpose.
pub(super) fn recognise(root: &Node, wanted: Format) -> Option<String> {
    let has = |name: &str| root.field(name).is_some();
    if has("model_list") || has("litellm_settings") {
        return Some(import("a LiteLLM configuration", "litellm"));
    }
    if has("apiVersion") && has("kind") {
        return Some(
            "this is a Kubernetes manifest; put the configuration alone into the file, as under \
             `data` of a ConfigMap"
                .to_owned(),
        );
    }
    if has("services") && !has("replicas") {
        return Some(
            "this is a Docker Compose file; put the configuration in a file of its own".to_owned(),
        );
    }
    let found = Format::of(root).filter(|found| *found != wanted)?;
    if (found, wanted) == (Format::Replicas, Format::Regions) {
        return Some("this is a list; put it under `regions:`, and add `rtt_ms`".to_owned());
    }
    // A gateway's file may have a field of another format by mistake.
    let ours = match wanted {
        Format::Gateway => ["replicas", "listen", "policy", "peers"].as_slice(),
        Format::Control => &["store"],
        Format::Wan => &["routes", "links"],
        Format::Replicas => &[],
        Format::Policy => &["policy"],
        Format::Regions => &["regions", "rtt_ms"],
    };
    (!ours.iter().any(|name| has(name))).then(|| found.named().to_owned())
}

/// The message about a text that is not YAML, and that another program reads.
pub(super) fn recognise_text(text: &str) -> Option<String> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let opens = |line: &str| {
        let word = line.split_whitespace().next().unwrap_or_default();
        let blocks = ["server", "upstream", "http", "location", "events", "stream"];
        let opens = line.ends_with('{') || line.contains('{') && line.ends_with('}');
        blocks.contains(&word.trim_end_matches('{')) && opens
    };
    if lines().any(opens) {
        return Some(import("an nginx configuration", "nginx"));
    }
    let routers = ["--worker-urls", "sglang_router", "vllm-router", "smg "];
    if lines().any(|line| routers.iter().any(|router| line.contains(router))) {
        return Some(import("a router's command line", "smg"));
    }
    None
}

fn import(what: &str, format: &str) -> String {
    format!("this is {what}; convert it with `meridian import {format} FILE`")
}
