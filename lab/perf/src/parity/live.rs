//! One run of real processes.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, ensure};
use meridian_fleet::{Client, EngineSpec, Fleet, Gateway, GatewaySpec, Process};
use meridian_routing::Role;

use super::shape::{CARD_GBPS, Shape};
use super::{Figures, Options};
use meridian_tools::load;
use meridian_tools::load::Arrivals;
use meridian_tools::load::Quantiles;

pub(super) async fn run(options: &Options, shape: &Shape, seed: u64) -> anyhow::Result<Figures> {
    let fleet = Fleet::of_this_program()?;
    let mut engines: Vec<Process> = Vec::new();
    for (at, role) in shape.roles.iter().enumerate() {
        engines.push(fleet.engine(&format!("engine-{at}"), &engine(*role)).await?);
    }
    let gateway = gateway(&fleet, options, shape, &engines).await?;
    let load = load::Options {
        url: gateway.url.clone(),
        model: Some("llama-3.1-8b".to_owned()),
        workload: shape.workload.clone(),
        arrivals: Arrivals::Closed { clients: options.clients },
        duration: Some(options.each),
        seed,
        ignore_eos: true,
        ..load::Options::default()
    };
    let report = load::run(load, None, std::future::pending()).await?;
    ensure!(report.all_well(), "{} of the live requests failed", report.counts.errors);
    let row = report.rows.first().context("the load generator has measured nothing")?;
    let Quantiles { mean, p50, p90, p99, .. } = row.ttft_ms.context("no first token came")?;
    let split = 100.0 * split(&gateway).await? / report.counts.sent as f64;
    Ok([mean, p50, p90, p99, row.throughput_rps.unwrap_or(f64::NAN), split])
}

fn engine(role: Role) -> EngineSpec {
    let args = match role {
        Role::Both => Vec::new(),
        role => vec![
            "--role".to_owned(),
            role.word().to_owned(),
            "--kv-link-gbps".to_owned(),
            CARD_GBPS.to_string(),
        ],
    };
    EngineSpec { args, ..EngineSpec::default() }
}

/// A gateway that has found and probed every replica.
async fn gateway(
    fleet: &Fleet,
    options: &Options,
    shape: &Shape,
    engines: &[Process],
) -> anyhow::Result<Gateway> {
    let replicas: Vec<String> = engines.iter().map(|engine| engine.said(0).to_owned()).collect();
    let with_roles = replicas.iter().cloned().zip(shape.roles);
    let roles = with_roles.filter(|(_, role)| **role != Role::Both);
    let roles: BTreeMap<_, _> = roles.map(|(url, role)| (url, role.word())).collect();
    let spec =
        GatewaySpec { policy: options.policy.clone(), replicas, roles, ..GatewaySpec::default() };
    let gateway = fleet.gateway("gateway", &spec).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(gateway)
}

/// Number of requests whose prompt another replica computed.
async fn split(gateway: &Gateway) -> anyhow::Result<f64> {
    let page = Client::new().scrape(&gateway.admin).await?;
    Ok(page.sum("meridian_prefill_leg_seconds_count").unwrap_or(0.0))
}
