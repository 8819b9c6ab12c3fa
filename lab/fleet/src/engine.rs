//! A model engine of the fleet: `meridian engine` on its own port.

use std::path::PathBuf;

use meridian_protocol::admin::Role;

use crate::{Fleet, Process, Result};

/// An instance of a plan.
#[derive(Debug, Clone)]
pub struct PlannedInstance {
    /// Its name in the plan: `prefill-0` and so on.
    pub name: String,
    /// The plan's file.
    pub plan: PathBuf,
    /// Its topology: a file, or a name.
    pub topology: PathBuf,
    /// The model's `config.json` or name, if not the plan's own.
    pub subject: Option<String>,
}

/// Settings of a model engine.
#[derive(Debug, Clone)]
pub struct EngineSpec {
    /// The model's name in the engine model's table.
    pub model: String,
    /// The GPU's name there.
    pub gpu: String,
    /// The instance of a plan that it is, in place of a model on a GPU.
    pub planned: Option<PlannedInstance>,
    /// `ADDRESS:PORT`; port 0 means any.
    pub listen: String,
    /// Speed relative to real time.
    pub time_scale: f64,
    /// KV blocks, if not the GPU's own number.
    pub kv_blocks: Option<u32>,
    /// Requests in a batch, if not the default.
    pub max_num_seqs: Option<u32>,
    /// The part of requests that it takes.
    pub role: Role,
    /// Seed of its noise.
    pub seed: u64,
    /// Further arguments of `meridian engine`.
    pub args: Vec<String>,
}

impl Default for EngineSpec {
    /// Llama-3.1-8B on an L4, in real time, on any port.
    fn default() -> EngineSpec {
        EngineSpec {
            model: "llama-3.1-8b".into(),
            gpu: "l4".into(),
            planned: None,
            listen: "127.0.0.1:0".into(),
            time_scale: 1.0,
            kv_blocks: None,
            max_num_seqs: None,
            role: Role::Both,
            seed: 0,
            args: Vec::new(),
        }
    }
}

impl EngineSpec {
    fn args(&self, name: &str) -> Vec<String> {
        let mut args = vec!["engine".to_owned()];
        let mut flag = |flag: &str, value: String| args.extend([flag.to_owned(), value]);
        match &self.planned {
            Some(planned) => {
                flag("--plan", planned.plan.display().to_string());
                flag("--topology", planned.topology.display().to_string());
                flag("--instance", planned.name.clone());
                planned.subject.iter().for_each(|subject| flag("--model", subject.clone()));
            }
            None => {
                flag("--model", self.model.clone());
                flag("--gpu", self.gpu.clone());
                flag("--name", name.to_owned());
            }
        }
        flag("--listen", self.listen.clone());
        flag("--time-scale", self.time_scale.to_string());
        flag("--seed", self.seed.to_string());
        if let Some(blocks) = self.kv_blocks {
            flag("--kv-blocks", blocks.to_string());
        }
        if let Some(seqs) = self.max_num_seqs {
            flag("--max-num-seqs", seqs.to_string());
        }
        if self.planned.is_none() && self.role != Role::Both {
            flag("--role", self.role.word().to_owned());
        }
        args.extend(self.args.iter().cloned());
        args
    }
}

impl Fleet {
    /// Starts a model engine; its address is `said(0)`, and that of its side channel `said(1)`.
    pub async fn engine(&self, name: &str, spec: &EngineSpec) -> Result<Process> {
        self.meridian(name, spec.args(name), &["listening on ", "side channel on "]).await
    }
}
