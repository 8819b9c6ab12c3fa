//! A fleet of model engines: its description, and its processes behind a gateway.

use std::str::FromStr;
use std::time::Duration;

use anyhow::anyhow;
use meridian_engine::{Config, Profile};
use meridian_fleet::{EngineSpec, Fleet as Processes, Gateway, GatewaySpec, Process};

use super::simulated::{self, Sent};
use crate::load::Quantiles;
use crate::rule::Rule;

/// Most engines of a fleet.
const MOST: u32 = 64;
/// Time for the gateway to probe every replica.
const PROBED: Duration = Duration::from_secs(2);

/// Engines of one model behind one gateway.
#[derive(Clone, Debug)]
pub struct Fleet {
    groups: Vec<Group>,
    rule: Rule,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    count: u32,
    model: String,
    gpu: String,
}

/// The processes of a fleet. They end when this is dropped.
pub(super) struct Started {
    /// The gateway's address.
    pub(super) url: String,
    _gateway: Gateway,
    _engines: Vec<Process>,
    _processes: Processes,
}

impl FromStr for Fleet {
    type Err = String;

    /// Parses `3xllama-3.1-8b@l4`, or several of these with commas between them.
    fn from_str(text: &str) -> Result<Fleet, String> {
        let groups: Vec<Group> = text.split(',').map(group).collect::<Result<_, _>>()?;
        let engines: u32 = groups.iter().map(|group| group.count).sum();
        if engines > MOST {
            return Err(format!("`{text}` has {engines} engines; use at most {MOST}"));
        }
        if groups.iter().any(|group| group.model != groups[0].model) {
            return Err(format!("`{text}` has several models; use one"));
        }
        let rule = Rule::given("default").map_err(|error| error.to_string())?;
        Ok(Fleet { groups, rule })
    }
}

fn group(text: &str) -> Result<Group, String> {
    let wanted = || format!("`{text}` is not COUNTxMODEL@GPU, as in 3xllama-3.1-8b@l4");
    let (count, rest) = text.trim().split_once('x').ok_or_else(wanted)?;
    let (model, gpu) = rest.split_once('@').ok_or_else(wanted)?;
    let count = count.parse().ok().filter(|count| *count > 0).ok_or_else(wanted)?;
    Profile::named(model, gpu, 1).map_err(|error| format!("`{text}`: {error}"))?;
    Ok(Group { count, model: model.to_owned(), gpu: gpu.to_owned() })
}

impl Fleet {
    /// The same engines behind a gateway with this policy.
    #[must_use]
    pub fn with_policy(self, rule: Rule) -> Fleet {
        Fleet { rule, ..self }
    }

    /// The model of all engines.
    pub(super) fn model(&self) -> &str {
        &self.groups[0].model
    }

    /// The group of each engine.
    fn engines(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().flat_map(|group| std::iter::repeat_n(group, group.count as usize))
    }

    /// Starts the engines and the gateway, which has probed all of them.
    pub(super) async fn start(&self) -> anyhow::Result<Started> {
        let processes = Processes::of_this_program()?;
        let mut engines = Vec::new();
        for (at, group) in self.engines().enumerate() {
            let spec = EngineSpec {
                model: group.model.clone(),
                gpu: group.gpu.clone(),
                seed: at as u64,
                ..EngineSpec::default()
            };
            engines.push(processes.engine(&format!("engine-{at}"), &spec).await?);
        }
        let replicas = engines.iter().map(|engine| engine.said(0).to_owned()).collect();
        let written = &self.rule.written;
        let admission = written.admission.map(|mode| serde_json::to_string(&mode)).transpose()?;
        // JSON is YAML on one line.
        let policy = serde_json::to_string(&written.policy)?;
        let spec = GatewaySpec { policy, admission, replicas, ..GatewaySpec::default() };
        let gateway = processes.gateway("gateway", &spec).await?;
        tokio::time::sleep(PROBED).await;
        let url = gateway.url.clone();
        Ok(Started { url, _gateway: gateway, _engines: engines, _processes: processes })
    }

    /// TTFT of the requests in the simulator, of each run.
    pub(super) fn simulate(&self, sent: &Sent) -> anyhow::Result<Vec<Quantiles>> {
        let profile = |group: &Group| Profile::named(&group.model, &group.gpu, 1).map(Config::new);
        let engines: Result<Vec<_>, _> = self.engines().map(profile).collect();
        simulated::run(&self.rule, &engines.map_err(|error| anyhow!("{error}"))?, sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // One group or several; every mistake is reported with the form or the known names.
    #[test]
    fn is_parsed() {
        let fleet: Fleet = "3xllama-3.1-8b@l4,1xllama-3.1-8b@h100".parse().expect("a good fleet");
        let gpus: Vec<&str> = fleet.engines().map(|group| &*group.gpu).collect();
        assert_eq!((gpus, fleet.model()), (vec!["l4", "l4", "l4", "h100"], "llama-3.1-8b"));
        for (text, part) in [
            ("", "COUNTxMODEL@GPU"),
            ("3", "COUNTxMODEL@GPU"),
            ("0xllama-3.1-8b@l4", "COUNTxMODEL@GPU"),
            ("3xllama-3.1-8b", "COUNTxMODEL@GPU"),
            ("3xllama-3.1-8b@abacus", "abacus"),
            ("99xllama-3.1-8b@l4", "at most 64"),
            ("1xllama-3.1-8b@l4,1xqwen2.5-7b@l4", "several models"),
        ] {
            let error = text.parse::<Fleet>().expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
