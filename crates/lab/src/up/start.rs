//! What a region is made of: its replicas, its address, its load.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use super::{DRAIN, Demand, Engines, Options};
use crate::llamacpp::{self, ServerSpec};
use crate::{EngineSpec, Fleet, Process, Result};

/// The port that clients are told of, where it is free.
const USUAL_PORT: u16 = 8080;

pub(super) async fn engines(fleet: &Fleet, options: &Options) -> Result<Vec<Process>> {
    let mut engines = Vec::new();
    match options.engines {
        Engines::Model => {
            for n in 0..options.replicas {
                let spec = EngineSpec {
                    time_scale: options.time_scale,
                    seed: options.seed + u64::from(n),
                    ..EngineSpec::default()
                };
                engines.push(fleet.engine(&format!("engine-{n}"), &spec).await?);
            }
        }
        Engines::LlamaCpp => {
            let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
            let usual = || llamacpp::home(&here);
            let home = options.llamacpp_home.clone().unwrap_or_else(usual);
            note_installation(&home);
            let installed = llamacpp::install(&home).await?;
            for n in 0..options.replicas {
                let name = format!("llamacpp-{n}");
                let spec = ServerSpec { slots: 4, context: 12288, port: 0 };
                engines.push(fleet.llamacpp(&name, &installed, spec).await?);
            }
        }
    }
    Ok(engines)
}

fn note_installation(home: &Path) {
    if !home.join("venv").exists() {
        println!("installing llama.cpp for Python into {}, once", home.display());
    }
}

/// The usual port where it is free, any other where it is not.
pub(super) fn usual_or_any() -> String {
    // The listener goes away here; should somebody take the port before the gateway does, the
    // gateway says so and nothing is lost but this start.
    let free = TcpListener::bind(("127.0.0.1", USUAL_PORT)).is_ok();
    format!("127.0.0.1:{}", if free { USUAL_PORT } else { 0 })
}

pub(super) fn load_args(options: &Options) -> Vec<String> {
    let (workload, clients, tokens, system) = match (options.demand, options.engines) {
        (Demand::Mixed, Engines::Model) => ("mixed", 24, 64, 6144),
        (_, Engines::Model) => ("sessions", 4, 64, 6144),
        (Demand::Mixed, Engines::LlamaCpp) => ("mixed", 8, 32, 2048),
        (_, Engines::LlamaCpp) => ("sessions", 2, 32, 2048),
    };
    let args = [
        ("--workload", workload.to_owned()),
        ("--clients", clients.to_string()),
        ("--max-tokens", tokens.to_string()),
        ("--system-bytes", system.to_string()),
        ("--seed", options.seed.to_string()),
        ("--drain", format!("{}s", DRAIN.as_secs())),
    ];
    args.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
}
