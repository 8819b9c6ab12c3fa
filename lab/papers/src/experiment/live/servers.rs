//! Real llama.cpp servers in a live run, and their step times for the simulator.
//!
//! The step times are measured on as many servers as the fleet has, all busy at once: they share
//! the machine's cores, as they do in a run. So the simulated servers are always as slow as busy
//! ones, also while some of the real ones are idle and leave their cores to the others.
//!
//! A prompt token here is four bytes, as everywhere in the simulator, whatever the model's tokens.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use meridian_base::mix;
use meridian_fleet::llamacpp::{self, LlamaCpp, Own, ServerSpec};
use meridian_fleet::{Fleet as Processes, Stage};
use meridian_tools::load::{self, Arrivals, Options, Report, Workload};
use meridian_tools::table::Table;
use meridian_workload::BYTES_PER_TOKEN;
use tokio::task::{LocalSet, spawn_local};

use crate::experiment::plan::Plan;
use crate::experiment::spec::{Fleet, Speed};

/// Bytes of the short and the long prompts whose TTFTs give the time of a prompt token.
const PROMPTS: [u32; 2] = [512, 2048];
/// Tokens of the replies that give the time of a step.
const REPLY: u32 = 100;
/// Requests of each client in a measurement.
const ROUNDS: u64 = 5;

/// The server of each replica of a fleet; none if its replicas are model engines.
///
/// # Errors
/// If only some of them are servers, or they differ.
pub(super) fn of(fleet: &Fleet) -> anyhow::Result<Option<ServerSpec>> {
    let kind = |at: usize| (fleet.groups[at].llamacpp_context, fleet.groups[at].max_num_seqs);
    ensure!(
        (0..fleet.groups.len()).all(|at| kind(at) == kind(0)),
        "fleets ({}).groups: llamacpp_context and max_num_seqs differ; give all the same",
        fleet.name
    );
    let (Some(context), slots) = kind(0) else { return Ok(None) };
    let slots = slots.with_context(|| {
        format!("fleets ({}).max_num_seqs: missing; give the slots of a server", fleet.name)
    })?;
    Ok(Some(ServerSpec { slots, context, port: 0 }))
}

/// Installs llama.cpp if a fleet needs it and the user has given none, and gives such fleets the step
/// times of real servers.
///
/// # Errors
/// If a server can't be installed, started or measured, or is given and no fleet has servers.
pub(super) fn prepare(
    plan: &mut Plan,
    own: Option<&Own>,
) -> anyhow::Result<(Option<LlamaCpp>, Option<Table>)> {
    let mut table = Table::new(
        "Step times of the servers, measured while all were busy, ms",
        &["fleet", "a step", "a sequence in it", "a prompt token of four bytes in it"],
    );
    let mut installed = None;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for fleet in &mut plan.fleets {
        let Some(spec) = of(fleet)? else { continue };
        let count = fleet.replicas();
        let (found, speed) = LocalSet::new().block_on(&runtime, async {
            let found = match own {
                Some(own) => LlamaCpp::Own(own.clone()),
                None => llamacpp::install(&llamacpp::home(&std::env::current_dir()?)).await?,
            };
            let speed = measure(&found, spec, count).await.context("measuring servers")?;
            anyhow::Ok((found, speed))
        })?;
        installed = Some(found);
        fleet.groups.iter_mut().for_each(|group| group.speed = Some(speed));
        let Speed { step_ms, sequence_ms, token_ms } = speed;
        let mut row = vec![fleet.name.clone()];
        row.extend([step_ms, sequence_ms, token_ms].map(|ms| format!("{ms:.3}")));
        table.row(row);
    }
    ensure!(
        own.is_none() || installed.is_some(),
        "--llama-server: no live fleet of this experiment has llama.cpp servers; leave it out"
    );
    let table = installed.is_some().then_some(table);
    Ok((installed, table))
}

/// Replaces the model engines of a stage by servers if its fleet has them.
///
/// # Errors
/// As [`of`].
pub(super) fn seat(
    stage: &mut Stage,
    fleet: &Fleet,
    installed: Option<&LlamaCpp>,
) -> anyhow::Result<()> {
    if let Some((spec, installed)) = of(fleet)?.zip(installed) {
        stage.llamacpp = Some((installed.clone(), spec));
        stage.gateways.iter_mut().for_each(|post| post.spec.engine = "llamacpp".into());
    }
    Ok(())
}

/// Measures `count` servers at once.
async fn measure(installed: &LlamaCpp, spec: ServerSpec, count: usize) -> anyhow::Result<Speed> {
    let processes = Processes::of_this_program()?;
    let mut servers = Vec::new();
    for at in 0..count {
        servers.push(processes.llamacpp(&format!("server-{at}"), installed, spec).await?);
    }
    let urls: Vec<&str> = servers.iter().map(|server| server.said(0)).collect();
    let gap = |report: &Report| Some(report.rows.first()?.tpot_ms.as_ref()?.p50);
    let first = |report: &Report| Some(report.rows.first()?.ttft_ms.as_ref()?.p50);
    // The first requests of a server are slow.
    all(&urls, 0, (1, 64, 8), gap).await?;
    let alone = all(&urls, 1, (1, 64, REPLY), gap).await?;
    let full = all(&urls, 2, (spec.slots, 64, REPLY), gap).await?;
    let short = all(&urls, 3, (1, PROMPTS[0], 1), first).await?;
    let long = all(&urls, 4, (1, PROMPTS[1], 1), first).await?;
    for server in servers {
        llamacpp::end(server).await?;
    }
    Ok(speed([alone, full], spec.slots, [short, long]))
}

/// The step times from the gaps between tokens with one sequence and with all slots in use, and
/// from the TTFTs of the two prompts.
fn speed([alone, full]: [f64; 2], slots: u32, [short, long]: [f64; 2]) -> Speed {
    let tokens = f64::from((PROMPTS[1] - PROMPTS[0]) / BYTES_PER_TOKEN);
    let token_ms = ((long - short) / tokens).max(0.0);
    // Full servers are exact; a decode is a token, too.
    let (slots, most) = (f64::from(slots), full / f64::from(slots));
    let each = (full - alone) / (slots - 1.0).max(1.0);
    let each = each.max(token_ms).clamp(0.0, most);
    Speed { step_ms: full - slots * each, sequence_ms: (each - token_ms).max(0.0), token_ms }
}

/// The mean of a figure over the servers, each with its own clients at the same time. `load` is
/// the clients of a server, the bytes of a prompt and the tokens of a reply.
async fn all(
    urls: &[&str],
    part: u64,
    load: (u32, u32, u32),
    figure: impl Fn(&Report) -> Option<f64>,
) -> anyhow::Result<f64> {
    let (clients, question_bytes, max_tokens) = load;
    let one = |(at, url): (usize, &&str)| {
        let shape = Workload {
            turns: 1,
            system_bytes: 0,
            question_bytes,
            max_tokens,
            ..Workload::default()
        };
        let options = Options {
            url: (*url).to_owned(),
            workload: shape,
            arrivals: Arrivals::Closed { clients },
            seed: mix(part, at as u64),
            programs: Some(u64::from(clients) * ROUNDS),
            ignore_eos: true,
            tick: Duration::from_secs(60),
            ..Options::default()
        };
        spawn_local(load::run(options, None, std::future::pending::<()>()))
    };
    let running: Vec<_> = urls.iter().enumerate().map(one).collect();
    let mut sum = 0.0;
    for run in running {
        let report = run.await??;
        sum += figure(&report).with_context(|| answered(&report))?;
    }
    Ok(sum / urls.len() as f64)
}

/// The answers of a server that can't be measured by them, and the errors by kind.
fn answered(report: &Report) -> String {
    let load::Counts { ok, sent, .. } = report.counts;
    let errors = report.errors.iter().filter(|(_, count)| **count > 0);
    let errors: Vec<String> = errors.map(|(kind, count)| format!("{kind:?} {count}")).collect();
    format!(
        "a server answered {ok} of {sent} requests in a form to measure; errors: {}",
        if errors.is_empty() { "none".to_owned() } else { errors.join(", ") }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::spec;

    // The terms give back the gaps and the difference of the TTFTs that they come from; a decode
    // counts as a token, and noise makes no term negative.
    #[test]
    fn step_times_are_those_measured() {
        let Speed { step_ms, sequence_ms, token_ms } = speed([3.0, 4.0], 2, [60.0, 98.4]);
        assert!((token_ms - 0.1).abs() < 1e-9, "{token_ms}");
        assert!((step_ms + sequence_ms + token_ms - 3.0).abs() < 1e-9);
        assert!((step_ms + 2.0 * (sequence_ms + token_ms) - 4.0).abs() < 1e-9);
        let noisy = speed([3.0, 2.9], 2, [60.0, 50.0]);
        assert_eq!(noisy, Speed { step_ms: 2.9, sequence_ms: 0.0, token_ms: 0.0 });
        let crowded = speed([1.0, 4.0], 2, [60.0, 98.4]);
        assert_eq!((crowded.step_ms, crowded.sequence_ms + crowded.token_ms), (0.0, 2.0));
    }

    // A fleet is either of servers with slots or of model engines.
    #[test]
    fn servers_are_alike() {
        let fleet = |first: &str, second: &str| -> Fleet {
            let group = |more| format!("{{gpu: l4, model: llama-3.1-8b, count: [1]{more}}}");
            let yaml = format!("{{name: f, groups: [{}, {}]}}", group(first), group(second));
            spec::read("test", &yaml).expect("a good fleet")
        };
        let server = ", llamacpp_context: 4096, max_num_seqs: 2";
        let found = of(&fleet(server, server)).expect("alike").expect("servers");
        assert_eq!((found.slots, found.context), (2, 4096));
        assert!(of(&fleet("", "")).expect("alike").is_none());
        assert!(of(&fleet(server, "")).is_err());
        let no_slots = ", llamacpp_context: 4096";
        let error = of(&fleet(no_slots, no_slots)).expect_err("no slots").to_string();
        assert!(error.contains("max_num_seqs"), "{error}");
    }
}
