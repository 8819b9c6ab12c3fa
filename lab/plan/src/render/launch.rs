//! Start scripts for vLLM and SGLang, and the ranks.

use std::fmt::Write;

use super::served::Served;
use super::{Unit, engine, nccl};

const UNEVEN: &str =
    "# ranks do not come in equal blocks of servers: start it with Ray in the order of ranks.txt\n";

const VLLM: &str = r#"#!/bin/sh
# Starts one instance of the plan with vLLM:
#   sh vllm.sh INSTANCE         on the server named below
#   sh vllm.sh INSTANCE RANK    on each server of an instance that has several, 0 being the first
# Names of servers are those of the topology file; they must be host names that all servers resolve
# to an address of the network that carries KV. HOST_IP is this server's own such address, by
# default its name. UCX chooses the cards of KV transfers; UCX_NET_DEVICES limits them.
set -eu
"#;

const SGLANG: &str = r#"#!/bin/sh
# Starts one instance of the plan with SGLang, as vllm.sh does with vLLM. Not checked: the flags are
# those of SGLang's documentation, and no SGLang has read or run them.
set -eu
"#;

pub(super) fn vllm(served: &Served, units: &[Unit<'_>]) -> String {
    script(VLLM, units, |unit, rank| {
        let server = &unit.nodes[rank].server;
        let mut text = format!(
            "    export VLLM_NIXL_SIDE_CHANNEL_HOST=\"${{HOST_IP:-{server}}}\" VLLM_NIXL_SIDE_CHANNEL_PORT={}\n",
            unit.ports.side
        );
        // For the other ports that vLLM opens between the servers of an instance.
        text.push_str("    if [ -n \"${HOST_IP-}\" ]; then export VLLM_HOST_IP=\"$HOST_IP\"; fi\n");
        text.push_str(&command(&engine::vllm(served, unit, rank, unit.head())));
        text
    })
}

pub(super) fn sglang(served: &Served, units: &[Unit<'_>]) -> String {
    script(SGLANG, units, |unit, rank| command(&engine::sglang(served, unit, rank, unit.head())))
}

/// A script with a case for each server of each instance.
fn script(head: &str, units: &[Unit<'_>], start: impl Fn(&Unit<'_>, usize) -> String) -> String {
    let mut text = format!("{head}case \"${{1-}} ${{2-0}}\" in\n");
    for unit in units {
        if !unit.blocks {
            let _ = write!(text, "# {}: {}", unit.name, UNEVEN.trim_start_matches("# "));
            continue;
        }
        for (rank, node) in unit.nodes.iter().enumerate() {
            let _ = writeln!(text, "\"{} {rank}\") # on {}", unit.name, node.server);
            let _ = writeln!(text, "    export CUDA_VISIBLE_DEVICES={}", Unit::devices(node));
            let settings: Vec<String> = nccl::settings(unit)
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            if !settings.is_empty() {
                let _ = writeln!(text, "    export {}", settings.join(" "));
            }
            text.push_str(&start(unit, rank));
            text.push_str("    ;;\n");
        }
    }
    text.push_str("*)\n    echo \"usage: $0 INSTANCE [RANK]\" >&2\n    exit 2\n    ;;\nesac\n");
    text
}

fn command(args: &[String]) -> String {
    let words: Vec<String> = args.iter().map(|word| quoted(word)).collect();
    format!("    exec {}\n", words.join(" "))
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

pub(super) fn ranks(units: &[Unit<'_>]) -> String {
    let mut text = String::new();
    for unit in units {
        let _ = writeln!(text, "# {}", unit.name);
        let places =
            unit.nodes.iter().flat_map(|node| node.gpus.iter().map(move |gpu| (node, gpu)));
        for (rank, (node, gpu)) in places.enumerate() {
            let _ = writeln!(text, "rank {rank}={} slot={gpu}", node.server);
        }
    }
    text
}
