//! The command of one server's part of an instance, for vLLM and for SGLang.
//!
//! Commands are lists of arguments; a shell script quotes them and a pod takes them as they are.

use serde_json::json;

use super::Unit;
use super::served::Served;
use crate::instance::Phase;

/// vLLM's command. `head` is the name by which the other servers reach the first one.
pub(super) fn vllm(served: &Served, unit: &Unit<'_>, rank: usize, head: &str) -> Vec<String> {
    let mut args = Args(Vec::new());
    args.all(&["vllm", "serve", &served.id]).flag("--served-model-name", &served.name);
    if rank == 0 {
        args.flag("--host", "0.0.0.0").flag("--port", unit.ports.serve);
    }
    args.flag("--max-model-len", served.context).all(&["--enable-prompt-tokens-details"]);
    let one = unit.instance().parallel;
    let count = unit.nodes.len();
    if one.ep {
        args.flag("--data-parallel-size", one.tp);
        args.flag("--data-parallel-size-local", unit.nodes[rank].gpus.len());
        args.all(&["--enable-expert-parallel"]);
        if count > 1 {
            args.flag("--data-parallel-address", head);
            args.flag("--data-parallel-rpc-port", unit.ports.rendezvous);
        }
        // On the first server it would limit the API to that server's ranks.
        if rank > 0 {
            let start: usize = unit.nodes[..rank].iter().map(|node| node.gpus.len()).sum();
            args.flag("--data-parallel-start-rank", start);
        }
    } else {
        args.flag("--tensor-parallel-size", one.tp).flag("--pipeline-parallel-size", one.pp);
        if count > 1 {
            args.flag("--nnodes", count).flag("--node-rank", rank);
            args.flag("--master-addr", head).flag("--master-port", unit.ports.rendezvous);
        }
    }
    if rank > 0 {
        args.all(&["--headless"]);
    }
    args.flag("--kv-transfer-config", transfer(unit.instance().phase));
    args.0
}

/// NixlConnector, as in docs/prefill-decode.md. Requests decide who sends KV and who fetches it, so
/// the role is `kv_both` for all; a decode engine computes a prompt itself if its transfer fails.
fn transfer(phase: Phase) -> serde_json::Value {
    let mut config = json!({"kv_connector": "NixlConnector", "kv_role": "kv_both"});
    if phase == Phase::Decode {
        config["kv_load_failure_policy"] = "recompute".into();
    }
    config
}

/// SGLang's command.
pub(super) fn sglang(served: &Served, unit: &Unit<'_>, rank: usize, head: &str) -> Vec<String> {
    let (one, ports) = (unit.instance().parallel, unit.ports);
    let mut args = Args(Vec::new());
    args.all(&["python", "-m", "sglang.launch_server"]).flag("--model-path", &served.id);
    args.flag("--served-model-name", &served.name).flag("--host", "0.0.0.0");
    args.flag("--port", ports.serve).flag("--context-length", served.context);
    args.flag("--disaggregation-mode", unit.instance().phase.name());
    args.flag("--disaggregation-transfer-backend", "nixl");
    if unit.instance().phase == Phase::Prefill {
        args.flag("--disaggregation-bootstrap-port", ports.bootstrap);
    }
    args.flag("--tp-size", one.tp);
    if one.ep {
        args.flag("--ep-size", one.tp).flag("--dp-size", one.tp).all(&["--enable-dp-attention"]);
    } else {
        args.flag("--pp-size", one.pp);
    }
    if unit.nodes.len() > 1 {
        args.flag("--nnodes", unit.nodes.len()).flag("--node-rank", rank);
        args.flag("--dist-init-addr", format!("{head}:{}", ports.rendezvous));
    }
    args.0
}

struct Args(Vec<String>);

impl Args {
    fn all(&mut self, words: &[&str]) -> &mut Args {
        self.0.extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    fn flag(&mut self, name: &str, value: impl ToString) -> &mut Args {
        self.0.extend([name.to_owned(), value.to_string()]);
        self
    }
}
