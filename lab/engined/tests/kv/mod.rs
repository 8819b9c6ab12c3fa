//! Prefill and decode on two engines, under paused time: the exchange, leases, and failures.

mod exchange;
mod failures;
mod gated;
mod leases;
mod params;

use crate::common::{Client, options};
use meridian_engined::{LoadFailure, Network, Options, Service, Transfer};
use serde_json::{Value, json};

const TEXT: &str = "/v1/completions";
const USAGE: &str = "vllm:kv_cache_usage_perc";
const EXPIRED: &str = "vllm:nixl_num_kv_expired_reqs_total";
const LATE: &str = "vllm:nixl_num_notifications_after_expiry_total";
const FAILED: &str = "vllm:nixl_num_failed_transfers_total";
const UNTOLD: &str = "vllm:nixl_num_failed_notifications_total";
const MISMATCHES: &str = "meridian_engine_kv_mismatches_total";
const BYTES: &str = "vllm:nixl_bytes_transferred_sum";
const TRANSFERS: &str = "vllm:nixl_bytes_transferred_count";

/// KV bytes of a block: 128 KiB a token for llama-3.1-8b.
const BLOCK: f64 = 16.0 * 131_072.0;

/// Two engines that reach each other through pipes.
struct Pair {
    prefill: Engine,
    decode: Engine,
}

struct Engine {
    service: Service,
    client: Client,
}

fn with_transfer(network: &Network, change: impl FnOnce(&mut Options, &mut Transfer)) -> Options {
    let (mut options, mut transfer) = (options(), Transfer::default());
    transfer.network = network.clone();
    change(&mut options, &mut transfer);
    Options { transfer: Some(transfer), ..options }
}

async fn engine(options: Options) -> Engine {
    let service = Service::start(options).unwrap();
    let client = Client::connect(&service).await;
    Engine { service, client }
}

/// A pair, whose decoding engine has some other options.
async fn pair(change: impl FnOnce(&mut Options, &mut Transfer)) -> Pair {
    let network = Network::in_memory();
    let prefill = engine(with_transfer(&network, |_, _| {})).await;
    let decode = engine(with_transfer(&network, change)).await;
    Pair { prefill, decode }
}

fn recompute(_: &mut Options, transfer: &mut Transfer) {
    transfer.load_failure = LoadFailure::Recompute;
}

/// A prompt of `tokens` tokens.
fn prompt(word: &str, tokens: usize) -> String {
    word.chars().cycle().take(4 * tokens).collect()
}

fn body(prompt: &str, max_tokens: u32, params: &Value) -> String {
    json!({"prompt": prompt, "max_tokens": max_tokens, "kv_transfer_params": params}).to_string()
}

/// The params that a router sends with a prefill leg.
fn prefill_params() -> Value {
    json!({"do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": null,
           "remote_block_ids": null, "remote_host": null, "remote_port": null})
}

impl Engine {
    /// Runs a prefill leg and returns the params for the decode leg.
    async fn prefill(&mut self, prompt: &str) -> Value {
        let (status, answer) = self.client.json(TEXT, &body(prompt, 1, &prefill_params())).await;
        assert_eq!(status, 200, "{answer}");
        answer["kv_transfer_params"].clone()
    }

    async fn decode(&mut self, prompt: &str, params: &Value) -> (u16, Value) {
        self.client.json(TEXT, &body(prompt, 6, params)).await
    }

    /// Starts a decode leg from a client of its own.
    async fn spawn_decode(
        &self,
        prompt: &str,
        params: &Value,
    ) -> tokio::task::JoinHandle<(u16, Value)> {
        let mut client = Client::connect(&self.service).await;
        let body = body(prompt, 6, params);
        tokio::spawn(async move { client.json(TEXT, &body).await })
    }

    async fn metric(&mut self, name: &str) -> f64 {
        self.client.metric(name).await
    }

    async fn labelled(&mut self, name: &str, label: &str, value: &str) -> f64 {
        let labels = format!("engine=\"0\",model_name=\"llama-3.1-8b\",{label}=\"{value}\"");
        self.client.metric(&format!("vllm:{name}{{{labels}}}")).await
    }

    /// Ends the engine like a kill: its connections and its side channel close.
    async fn kill(self) {
        drop(self);
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}
