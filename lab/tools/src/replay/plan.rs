//! The programs of a trace, and its facts for the report.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use meridian_base::{Time, mix};
use meridian_workload::Program;
use meridian_workload::trace::{Answers, Outcome, ProgramOptions, TraceRequest, to_programs};

use super::simulated::Sent;
use super::{tails, tokens};
use crate::load::{self, Quantiles, Recorded, http};

/// Most requests of a replay.
const MOST: usize = 1 << 20;
/// Tenants named in an error.
const SHOWN: usize = 8;
/// The largest number that every JSON reader keeps.
const HASH: u64 = (1 << 53) - 1;

/// A trace that can be sent.
pub(super) struct Plan {
    /// The programs, by time.
    pub(super) programs: Vec<(Time, Program)>,
    /// When the last request was sent.
    last: Duration,
    /// A hash of the requests.
    pub(super) hash: u64,
    /// The recorded model of each program.
    models: Vec<Option<Arc<str>>>,
    /// Requests of each tenant.
    tenants: BTreeMap<u64, u64>,
    ttft: Vec<Duration>,
}

impl Plan {
    /// The plan of `requests`, whose times are already at `speed`, without those that the recorded
    /// gateway refused as client errors: they would fail again.
    pub(super) fn of(
        mut requests: Vec<TraceRequest>,
        (speed, chained): (f64, Option<Answers>),
        seed: u64,
    ) -> anyhow::Result<Plan> {
        requests.retain(|request| request.outcome != Some(Outcome::ClientError));
        ensure!(!requests.is_empty(), "the trace has no requests that can be sent");
        let count = requests.len();
        ensure!(
            count <= MOST,
            "the trace has {count} requests, and a replay holds at most {MOST}: use --limit, or \
             --after and --before"
        );
        let mut tenants = BTreeMap::new();
        for tenant in requests.iter().filter_map(|request| request.tenant) {
            *tenants.entry(tenant).or_default() += 1;
        }
        let options = ProgramOptions { seed, chained, replies: true, ..ProgramOptions::default() };
        let last = requests.iter().map(|request| request.at).max().unwrap_or_default();
        let (models, hash) = (models(&requests, chained.is_some()), hash(&requests));
        tails::name(&mut requests);
        let ttft = requests.iter().filter_map(|request| request.ttft).collect();
        // Which requests of a session overlap shows at the recorded speed only.
        let recorded = if chained.is_some() { speed } else { 1.0 };
        requests.iter_mut().for_each(|request| request.at = request.at.scaled(recorded));
        let programs = to_programs(requests.into_iter().map(Ok), &options);
        let mut programs: Vec<(Time, Program)> = programs.collect::<Result<_, _>>()?;
        programs.iter_mut().for_each(|(at, _)| *at = at.scaled(1.0 / recorded));
        // The engine writes replies of its own.
        let nodes = programs.iter_mut().flat_map(|(_, program)| &mut program.nodes);
        nodes.for_each(|node| node.reply = None);
        Ok(Plan { programs, last: last.since(Time::ZERO), hash, models, tenants, ttft })
    }

    /// Checks that every tenant has a key.
    pub(super) fn tenants_have(&self, keys: &BTreeMap<u64, String>) -> anyhow::Result<()> {
        let missing: Vec<_> = self.tenants.iter().filter(|(t, _)| !keys.contains_key(t)).collect();
        let shown = missing.iter().take(SHOWN);
        let list: Vec<_> = shown.map(|(t, n)| format!("{t:016x} ({n} requests)")).collect();
        let more = if missing.len() > SHOWN { " and more" } else { "" };
        ensure!(
            missing.is_empty(),
            "keys: {} of {} tenants have no API key: {}{more}; add TENANT=KEY lines, or an \
             --api-key for all others",
            missing.len(),
            self.tenants.len(),
            list.join(", ")
        );
        Ok(())
    }

    /// Recorded TTFT, if the trace has it.
    pub(super) fn recorded_ttft(&self) -> Option<Quantiles> {
        super::quantiles(self.ttft.clone())
    }

    /// The requests for the simulator.
    pub(super) fn for_simulator(&self) -> Sent {
        Sent { programs: self.programs.clone(), last: self.last }
    }

    /// The programs for the endpoint of `load`: each model is the recorded one, if the endpoint
    /// serves it and no other was asked for, and texts have the recorded tokens there.
    pub(super) async fn for_endpoint(
        &self,
        load: &mut load::Options,
        bytes_per_token: Option<f64>,
    ) -> anyhow::Result<Recorded> {
        let client = http::client(load.connect_timeout);
        let mut recorded = Recorded::new(self.programs.clone());
        if load.model.is_none() {
            let served: Vec<Arc<str>> =
                load::models(load).await?.into_iter().map(Arc::from).collect();
            let first = served.first().cloned();
            let first = first
                .with_context(|| format!("{} lists no model: name one with --model", load.url))?;
            let known = |model: &Option<Arc<str>>| {
                let here = model.as_ref().filter(|model| served.contains(*model));
                here.unwrap_or(&first).clone()
            };
            recorded = recorded.with_models(&self.models.iter().map(known).collect::<Vec<_>>());
            load.model = Some(first.to_string());
        }
        let tokens = match bytes_per_token {
            Some(bytes) => load::Tokens { bytes, template: 0.0 },
            None => tokens::measure(&client, load).await?,
        };
        Ok(recorded.fitted(tokens))
    }
}

/// The model of each program: of each request, or of the first of each session.
fn models(requests: &[TraceRequest], chained: bool) -> Vec<Option<Arc<str>>> {
    let mut seen = HashSet::new();
    let first = |request: &&TraceRequest| {
        !chained || request.session.is_none_or(|session| seen.insert(session))
    };
    requests.iter().filter(first).map(|request| request.model.clone()).collect()
}

fn hash(requests: &[TraceRequest]) -> u64 {
    let hash = requests.iter().fold(0, |hash, request| {
        let lengths = u64::from(request.input_tokens) << 32 | u64::from(request.output_tokens);
        let hash = mix(mix(hash, request.at.as_nanos()), lengths);
        request.hash_ids.iter().fold(hash, |hash, id| mix(hash, *id))
    });
    hash & HASH
}
