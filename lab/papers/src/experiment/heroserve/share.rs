//! Figure 1: the share of all-reduces in a prefill if every rank is on a separate server.

use anyhow::anyhow;
use meridian_plan::{
    GpuId, Instance, Lengths, Parallel, Parts, Phase, Slo, Subject, Task, TopologySpec,
    printed_ring,
};
use meridian_tools::results;
use meridian_tools::table::Table;
use serde_json::json;

use crate::experiment::claim::{Claim, Verdict};
use crate::experiment::{Context, Findings, params};
use crate::fleet::Mode;

/// GPU, and the published lower bound of the share.
const PUBLISHED: [(&str, f64); 2] = [("l40s", 0.65), ("a100", 0.75)];

/// Runs it.
///
/// # Errors
/// When a knob is missing.
pub(crate) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let (ranks, batch) = (context.knob("ranks")?, context.knob("batch")?);
    let prompt = context.knob("prompt")?;
    let mut found = Findings {
        params: params::of_text(&format!("{:?} {ranks} {batch} {prompt}", meridian_engine::GPUS)),
        ..Findings::default()
    };
    let header = ["GPU", "mode", "computing, ms", "all-reduces, ms", "share, %"];
    let mut table = Table::new("A prefill of Llama-3.1-70B over 100 Gb/s", &header);
    for (gpu, published) in PUBLISHED {
        // Equation 11 is the same in the network mode.
        for mode in [Mode::Paper, Mode::Corrected] {
            let (computing, joining) = prefill(gpu, mode, ranks as u32, batch, prompt)?;
            let share = joining / (joining + computing);
            table.row([
                gpu.to_owned(),
                mode.name().to_owned(),
                format!("{:.1}", computing * 1e3),
                format!("{:.1}", joining * 1e3),
                format!("{:.1}", share * 100.0),
            ]);
            found.claims.push(Claim::about(
                &format!("share of all-reduces on {gpu}, mode {}", mode.name()),
                "Fig. 1",
                format!("above {:.0} %", published * 100.0),
                format!("{:.1} %", share * 100.0),
                Verdict::of(share > published),
            ));
            let given = [("mode", json!(mode.name())), ("collective_share", json!(share))];
            found.rows.push(results::bare("ring", gpu, &given));
        }
    }
    found.tables.push(table);
    Ok(found)
}

/// Seconds of computation and of all-reduces.
fn prefill(
    gpu: &str,
    mode: Mode,
    ranks: u32,
    batch: f64,
    prompt: f64,
) -> anyhow::Result<(f64, f64)> {
    let yaml = format!(
        "version: 1\nunits:\n- servers:\n  - {{count: {ranks}, gpu: {gpu}, gpus: 1, cards: 1, \
         card_rate: 100Gb/s}}\n"
    );
    let topology = TopologySpec::read(&yaml)?.build()?;
    let subject = Subject::named("llama-3.1-70b")?;
    let lengths = Lengths::equal(prompt);
    let slo = Slo { ttft: 10.0, tpot: 1.0, attainment: 0.9 };
    let task = Task::new(&topology, &subject, (lengths, lengths), slo);
    let members: Vec<GpuId> = topology.all_gpus().collect();
    let parallel = Parallel { tp: ranks, pp: 1, ep: false };
    let instance = Instance { phase: Phase::Prefill, parallel, stages: vec![members.clone()] };
    let parts = Parts::of(&task, &instance).map_err(|why| anyhow!("{gpu}: {why:?}"))?;
    let stage = &parts.stages[0];
    let mut work = meridian_engine::Work::default();
    (0..batch as u32).for_each(|_| work.prefill(0, prompt as u32));
    let bytes = work.tokens * parts.token_bytes;
    let ring = match mode {
        Mode::Paper | Mode::Network => printed_ring(&topology, &members),
        Mode::Corrected => stage.choices.first().cloned(),
    };
    let ring = ring.ok_or_else(|| anyhow!("{gpu}: no ring"))?;
    Ok((stage.terms.seconds(&work), stage.reductions * ring.seconds(bytes)))
}
