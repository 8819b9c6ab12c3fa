//! Settings of a served engine.

use crate::Transfer;
use meridian_engine::{Config, Stage};
use std::net::SocketAddr;
use std::time::Duration;

/// Settings of one served engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// The engine's own settings.
    pub engine: Config,
    /// The stages of a pipeline in place of the profile's terms; none for an engine without.
    pub stages: Vec<Stage>,
    /// Name of the model in the API.
    pub served_model: String,
    /// Name of this replica, in the `server` header; for people.
    pub name: String,
    /// Address to listen on; port 0 is any free one.
    pub listen: SocketAddr,
    /// Speed of the model relative to real time; above 0.
    pub time_scale: f64,
    /// Seed of reply texts, reply lengths and jitter.
    pub seed: u64,
    /// Largest request body, in bytes.
    pub max_body: usize,
    /// Most connections at once; further ones wait in the listen queue.
    pub max_connections: usize,
    /// How long requests may continue after a shutdown request.
    pub drain: Duration,
    /// Logs the `x-request-id` of each request on stderr when it arrives, as vLLM does with
    /// `--enable-log-requests`; nothing else of it.
    pub log_requests: bool,
    /// The adapters that one batch can have (vLLM's `--max-loras`), with adapters loaded and unloaded
    /// at run time; `None` is a vLLM without LoRA.
    pub max_loras: Option<u32>,
    /// Transfer of KV between engines. Without it a request's `kv_transfer_params` are ignored, as
    /// by a vLLM without a connector.
    pub transfer: Option<Transfer>,
}

impl Options {
    /// An engine on any free loopback port, in real time.
    #[must_use]
    pub fn new(engine: Config) -> Options {
        Options {
            engine,
            stages: Vec::new(),
            served_model: engine.profile.model.name.to_owned(),
            name: "meridian-engine".to_owned(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            time_scale: 1.0,
            seed: 0,
            max_body: 64 << 20,
            max_connections: 8192,
            drain: Duration::from_secs(60),
            log_requests: false,
            max_loras: None,
            transfer: None,
        }
    }
}
