//! LangChain and LiteLLM as clients of a gateway: whole and streamed answers, tools, errors, and a stream
//! that they leave, over each API that they speak.

use std::path::Path;

use crate::clients::{KEYS, World, file};
use crate::common::{fleet, must};
use meridian_fleet::Program;
use meridian_fleet::venv::{self, Pins};

async fn works(name: &str, pins: Pins, script: &str, steps: &[&str]) {
    let home = venv::home(Path::new(env!("CARGO_MANIFEST_DIR")), name);
    let python = must(venv::install(&home, pins).await);
    let world = World::start(fleet(), &python, &[]).await;
    // While a replica is down, a model that no other one has may be its model, and gets no 404.
    let _late = world.start_late().await;
    let mut program = Program::new("client", python)
        .args([file(script)])
        .args([world.gateway.url.as_str(), KEYS[0]]);
    // Use the price list of the package, and do not download a newer one.
    program.env = vec![("LITELLM_LOCAL_MODEL_COST_MAP".into(), "True".into())];
    let client = must(world.fleet.start(program).await);
    let log = world.ends_well(client).await;
    let done: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix("ok ")).collect();
    assert_eq!(done, steps, "{log}");
    world.rests(steps.len() as u64).await;
}

#[tokio::test]
async fn langchain() {
    let pins = Pins { name: "LangChain", key: "LANGCHAIN_PIP", module: "langchain_core" };
    let steps = ["chat completions", "responses", "messages"];
    works("langchain", pins, "langchain_clients.py", &steps).await;
}

#[tokio::test]
async fn litellm() {
    let pins = Pins { name: "LiteLLM", key: "LITELLM_PIP", module: "uvicorn" };
    works("litellm", pins, "litellm_client.py", &["chat completions", "messages"]).await;
}
