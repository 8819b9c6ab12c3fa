//! The settings of a testbed: read, checked, and made small.

use anyhow::{Context as _, ensure};

use super::FAIR;
use crate::experiment::Context;
use crate::experiment::spec::FlowTestbed;

/// The file's settings, checked, and small in the small variant.
pub(super) fn read(context: &Context<'_>) -> anyhow::Result<FlowTestbed> {
    let given = context.spec.flow_testbed.as_ref();
    let mut spec =
        given.context("flow_testbed: missing; name the hosts' link and the load")?.clone();
    check(&spec)?;
    if context.quick {
        spec.load.requests = spec.quick_requests;
        spec.rounds = 1;
    }
    Ok(spec)
}

pub(super) fn check(spec: &FlowTestbed) -> anyhow::Result<()> {
    let FlowTestbed { model, load, slo, .. } = spec;
    let whole = |name: &str, value: u64, most: u64| {
        ensure!((1..=most).contains(&value), "flow_testbed.{name} is {value}: use 1 to {most}");
        Ok(())
    };
    whole("chunk", spec.chunk.0, 1 << 24)?;
    whole("queue", spec.queue.0, 1 << 26)?;
    whole("lanes", spec.lanes.into(), 16)?;
    whole("rounds", spec.rounds.into(), 100)?;
    whole("model.layers", model.layers.into(), 128)?;
    whole("model.kv", model.kv.0, 1 << 20)?;
    whole("model.exchange", model.exchange.0, 1 << 20)?;
    whole("load.requests", load.requests.into(), 1000)?;
    whole("load.batch", load.batch.into(), 64)?;
    whole("quick_requests", spec.quick_requests.into(), 1000)?;
    let above = |name: &str, value: f64, least: f64, most: f64| {
        let is_valid = value >= least && value <= most;
        ensure!(is_valid, "flow_testbed.{name} is {value}: use {least} to {most}");
        Ok(())
    };
    above("load.rate", load.rate, 0.01, 1000.0)?;
    above("load.prompt", load.prompt, 64.0, 1e6)?;
    above("load.variation", load.variation, 0.0, 10.0)?;
    above("load.cached[0]", load.cached[0], 0.0, load.cached[1].min(1.0))?;
    above("load.cached[1]", load.cached[1], load.cached[0], 1.0)?;
    above("slo.tight", slo.tight, 1.0, 1000.0)?;
    above("slo.loose", slo.loose, 1.0, 1000.0)?;
    above("slo.tight_share", slo.tight_share, 0.0, 1.0)?;
    let has_fair = spec.systems.iter().any(|system| system.name == FAIR);
    ensure!(has_fair, "flow_testbed.systems: `{FAIR}` is missing; add it");
    Ok(())
}
