//! The KV transfer from a prefill instance to a decode instance.
//!
//! A decode rank needs the layers of its stage and the heads of its share; it gets them from the
//! prefill ranks that have them. With more ranks than heads, heads are replicated and one copy is
//! enough; a latent vector is complete on every rank. Layers are sent as they are computed, so only
//! the part that remains after the last one adds delay.

use std::collections::BTreeMap;

use crate::instance::Instance;
use crate::loads::Loads;
use crate::route::route;
use crate::task::{Network, Task};
use crate::topology::GpuId;

/// A transfer of one request's KV.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// Bytes on each link.
    pub loads: Loads,
    /// Seconds without contention.
    pub seconds: f64,
}

/// Parts in which a prompt's KV is sent: layer by layer, or all at the end as in the paper.
pub(crate) fn parts(task: &Task<'_>) -> u32 {
    if task.network == Network::Printed { 1 } else { task.subject.shape.layers }
}

/// Seconds after a prompt that took `service` until KV that takes `seconds` has arrived.
#[must_use]
pub(crate) fn exposed(seconds: f64, layers: u32, service: f64) -> f64 {
    let each = 1.0 / f64::from(layers.max(1));
    (seconds - service * (1.0 - each)).max(seconds * each)
}

/// The transfer of a mean prompt's KV; `None` if the instances do not reach each other.
#[must_use]
pub fn transfer(task: &Task<'_>, from: &Instance, to: &Instance) -> Option<Transfer> {
    if task.network == Network::Printed {
        return printed(task, from, to);
    }
    let mut loads = Loads::default();
    let mut latency = 0.0_f64;
    for (source, target, share) in pieces(task, from, to) {
        let bytes = share * task.subject.shape.kv_bytes(1) * task.prompt.mean;
        let way = route(task.topology, source, target, bytes)?;
        loads.add(&way.links, bytes);
        latency = latency.max(way.latency);
    }
    let busy = loads.slowest(task.topology).map_or(0.0, |(_, seconds)| seconds);
    Some(Transfer { loads, seconds: latency + busy })
}

/// Equations 14 and 15: each GPU sends one piece after the other, hop by hop, on links of its own.
fn printed(task: &Task<'_>, from: &Instance, to: &Instance) -> Option<Transfer> {
    let kv = task.subject.shape.kv_bytes(1) * task.prompt.mean;
    let mut each: BTreeMap<GpuId, f64> = BTreeMap::new();
    for (source, target, share) in pieces(task, from, to) {
        let way = route(task.topology, source, target, share * kv)?;
        *each.entry(source).or_default() += share * kv * way.stored(task.topology);
    }
    let seconds = each.into_values().fold(0.0, f64::max);
    Some(Transfer { loads: Loads::default(), seconds })
}

/// The sender, receiver and share of the model's KV for each piece.
pub(crate) fn pieces(task: &Task<'_>, from: &Instance, to: &Instance) -> Vec<(GpuId, GpuId, f64)> {
    let mut all = Vec::new();
    let (p, d) = (from.stages.len(), to.stages.len());
    for (i, sources) in from.stages.iter().enumerate() {
        for (j, targets) in to.stages.iter().enumerate() {
            let layers = both(i, p, j, d);
            if layers > 0.0 {
                ranks(task, from, to, (sources, targets), layers, &mut all);
            }
        }
    }
    all
}

/// The overlap of the `i`-th of `n` parts and the `j`-th of `m`.
fn both(i: usize, n: usize, j: usize, m: usize) -> f64 {
    let edge = |at: usize, of: usize| at as f64 / of as f64;
    (edge(i + 1, n).min(edge(j + 1, m)) - edge(i, n).max(edge(j, m))).max(0.0)
}

fn ranks(
    task: &Task<'_>,
    from: &Instance,
    to: &Instance,
    (sources, targets): (&[GpuId], &[GpuId]),
    layers: f64,
    all: &mut Vec<(GpuId, GpuId, f64)>,
) {
    let model = &task.subject.shape;
    let (n, m) = (sources.len(), targets.len());
    // Ranks that share experts hold whole sequences: a request is on one of them, each in turn.
    if from.parallel.ep || to.parallel.ep || model.latent {
        let copies = if to.parallel.ep { 1.0 } else { m as f64 };
        for step in 0..n.max(m) {
            let share = layers * copies / n.max(m) as f64;
            all.push((sources[step % n], targets[step % m], share));
        }
        return;
    }
    let heads = model.kv_heads.max(1) as usize;
    let copies = (n / heads).max(1);
    for (b, target) in targets.iter().enumerate() {
        let first = b * heads / m;
        for head in first..((b + 1) * heads / m).max(first + 1) {
            // If several ranks have the head, successive targets use different ones.
            let source = head * n / heads + if n > heads { b % copies } else { 0 };
            all.push((sources[source], *target, layers / heads as f64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::TopologySpec;
    use crate::instance::{Parallel, Phase};
    use crate::model::Subject;
    use crate::task::{Lengths, Slo};

    fn sent(model: &str, from: (u32, u32), to: (u32, u32)) -> (f64, f64) {
        let yaml = "version: 1\nunits:\n- servers:\n  - {count: 2, gpu: h100, gpus: 16, nvlink: \
                    450GB/s, cards: 8, card_rate: 400Gb/s}\n";
        let topology = TopologySpec::read(yaml).unwrap().build().unwrap();
        let subject = Subject::named(model).unwrap();
        let lengths = Lengths::equal(1000.0);
        let slo = Slo { ttft: 1.0, tpot: 0.1, attainment: 0.9 };
        let task = Task::new(&topology, &subject, (lengths, lengths), slo);
        let instance = |phase, (tp, pp): (u32, u32), first: u32| {
            let stage = |at: u32| (0..tp).map(|nth| GpuId(first + at * tp + nth)).collect();
            let parallel = Parallel { tp, pp, ep: false };
            Instance { phase, parallel, stages: (0..pp).map(stage).collect() }
        };
        let from = instance(Phase::Prefill, from, 0);
        let to = instance(Phase::Decode, to, 16);
        let pieces = pieces(&task, &from, &to);
        let each = transfer(&task, &from, &to).unwrap();
        (pieces.iter().map(|piece| piece.2).sum(), each.seconds)
    }

    // Correction 11: KV heads are sent, each once, and again only if the receiver keeps it more
    // than once: not hidden sizes over heads.
    #[test]
    fn correction_11_kv_heads_are_sent() {
        for (from, to) in [((4, 1), (4, 1)), ((2, 2), (8, 1)), ((8, 1), (1, 4)), ((16, 1), (4, 2))]
        {
            assert!((sent("llama-3.1-70b", from, to).0 - 1.0).abs() < 1e-9, "{from:?} {to:?}");
        }
        // Sixteen ranks of eight heads keep each head twice.
        assert!((sent("llama-3.1-70b", (4, 1), (16, 1)).0 - 2.0).abs() < 1e-9);
        // A latent vector is complete on every rank.
        assert!((sent("deepseek-v3", (8, 1), (8, 1)).0 - 8.0).abs() < 1e-9);
        // An eighth of the heads: an eighth of the bytes of a model that has a head for each query.
        let (grouped, whole) =
            (sent("llama-3.1-70b", (8, 1), (8, 1)).1, sent("opt-66b", (8, 1), (8, 1)).1);
        let bytes = |name| Subject::named(name).unwrap().shape.kv_bytes(1);
        let ratio = bytes("opt-66b") / bytes("llama-3.1-70b");
        assert!((whole / grouped / ratio - 1.0).abs() < 0.1, "{whole} {grouped} {ratio}");
    }

    // Correction 11: layers are sent as they are computed, so the prompt's own time hides all but
    // the last.
    #[test]
    fn correction_11_layers_overlap_the_prompt() {
        assert!((exposed(0.08, 80, 1.0) - 0.001).abs() < 1e-12);
        assert!((exposed(0.08, 80, 0.0) - 0.08).abs() < 1e-12);
    }
}
