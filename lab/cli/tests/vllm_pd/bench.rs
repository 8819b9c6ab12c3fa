//! `vllm bench serve` as a client of a gateway before model engines, over both of its APIs.
//!
//! The benchmark takes token counts from the answers' usage and measures the first token and the gaps
//! between the others. So its sums must be the engines' own, and its gaps show that answers stream.

use std::path::Path;
use std::time::Duration;

use meridian_fleet::{Client, EngineSpec, Fleet, Gateway, GatewaySpec, Process, Program};
use serde_json::Value;

use super::common::{fleet, must, status_when, up};
use super::engines;

/// The engines' name of their model.
const MODEL: &str = "llama-3.1-8b";
const PROMPTS: u64 = 40;
const OUTPUT: u64 = 24;
/// How long the benchmark may take. Most of it are imports, on a busy machine a minute and a half.
const LIMIT: Duration = Duration::from_secs(600);

/// The benchmark's names of the APIs, and their paths.
const BACKENDS: [(&str, &str); 2] =
    [("openai", "/v1/completions"), ("openai-chat", "/v1/chat/completions")];

/// All prompts succeed through the gateway, stream, and have the token counts of the engines.
pub(super) async fn both_backends() {
    let fleet = fleet();
    let parts = engines::install(&fleet).await;
    let spec = EngineSpec { time_scale: 4.0, ..EngineSpec::default() };
    let engines = [must(fleet.engine("e0", &spec).await), must(fleet.engine("e1", &spec).await)];
    let replicas = engines.iter().map(|engine| engine.said(0).to_owned()).collect();
    let spec = GatewaySpec { replicas, ..GatewaySpec::default() };
    let gateway = must(fleet.gateway("gateway", &spec).await);
    let client = Client::new();
    status_when(&client, &gateway, "two replicas", up(2)).await;
    for (backend, path) in BACKENDS {
        let before = counts(&client, &engines).await;
        let report = benchmark(&fleet, &parts, &gateway, (backend, path)).await;
        let after = counts(&client, &engines).await;
        succeeded(&report);
        let tokens = [&report["total_input_tokens"], &report["total_output_tokens"]];
        let of_engines = [after[0] - before[0], after[1] - before[1]];
        assert_eq!(tokens.map(Value::as_u64), of_engines.map(Some), "{backend}");
        assert_eq!(of_engines[1], PROMPTS * OUTPUT, "{backend}");
        println!("{backend}: {PROMPTS} prompts, tokens in and out {of_engines:?}");
    }
    let rest = status_when(&client, &gateway, "rest", |s| s.requests.in_flight == 0).await;
    let requests = rest.requests;
    assert_eq!((requests.failed, requests.cancelled), (0, 0), "{requests:?}");
    assert!(rest.replicas.iter().all(|replica| replica.done > 0), "both replicas answer");
}

/// Runs the benchmark; returns its report.
async fn benchmark(
    fleet: &Fleet,
    parts: &engines::Parts,
    gateway: &Gateway,
    (backend, path): (&str, &str),
) -> Value {
    let file = format!("{backend}.json");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vllm_pd/bench.py");
    let mut program = Program::new(backend, parts.python()).args([script]);
    program = program.args(["--backend", backend, "--endpoint", path]);
    program = program.args(["--base-url", gateway.url.as_str(), "--model", MODEL, "--tokenizer"]);
    program = program.args([parts.model()]).args(["--dataset-name", "random"]);
    program = program.args(["--random-input-len", "200", "--ignore-eos", "--disable-tqdm"]);
    program = program.args(["--num-prompts", &PROMPTS.to_string()]);
    program = program.args(["--random-output-len", &OUTPUT.to_string()]);
    program = program.args(["--max-concurrency", "8", "--save-result", "--save-detailed"]);
    program = program.args(["--result-filename", &file, "--result-dir"]).args([fleet.dir()]);
    program.env = engines::OFFLINE.map(|(name, value)| (name.into(), value.into())).into();
    let mut client = must(fleet.start(program).await);
    let ended = must(client.wait(LIMIT).await);
    let log = std::fs::read_to_string(client.log()).expect("there is a log");
    assert!(ended.success(), "{ended}: {log}");
    let report = std::fs::read(fleet.dir().join(file)).expect("the report is there");
    serde_json::from_slice(&report).expect("the report is JSON")
}

fn succeeded(report: &Value) {
    let (done, failed) = (report["completed"].as_u64(), report["failed"].as_u64());
    assert_eq!((done, failed), (Some(PROMPTS), Some(0)), "{}", report["errors"]);
    let each = |name: &str| report[name].as_array().expect("the report is detailed").clone();
    let gaps: usize = each("itls").iter().filter_map(Value::as_array).map(Vec::len).sum();
    assert!(gaps as u64 > PROMPTS, "answers come in pieces: {}", report["itls"]);
    let is_time = |ttft: &Value| ttft.as_f64().is_some_and(|seconds| seconds > 0.0);
    assert!(each("ttfts").iter().all(is_time), "{}", report["ttfts"]);
}

/// The tokens of prompts and of answers that the engines count.
async fn counts(client: &Client, engines: &[Process]) -> [u64; 2] {
    let mut sums = [0, 0];
    for engine in engines {
        let page = must(client.scrape(engine.said(0)).await);
        for (sum, name) in sums.iter_mut().zip(["prompt_tokens", "generation_tokens"]) {
            *sum += page.count(&format!("vllm:{name}_total")).unwrap_or(0);
        }
    }
    sums
}
