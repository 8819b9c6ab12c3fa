//! Turns a cluster file into a simulation.

use anyhow::{Context, bail, ensure};
use meridian_base::Duration;
use meridian_engine::{Gpu, MODELS, Model};
use meridian_fabric::{Cluster, Shape, Uplinks};
use meridian_flow::{self as flow, Config, RedOrder, policy};
use meridian_sim::cluster::{Base, Control, Enforce, Parallel, Pool, Setup, Tiers};

use super::file::{self, Attention, File, KvLayers, Network, Served, Term};
use super::load::{self, Asked, Wanted};

/// The card of MFS's testbed, from its datasheet, with the A100's shares of flops and bandwidth: it
/// is of the same generation, and there are no measurements for it.
fn rtx_3090() -> Option<Gpu> {
    let a100 = Gpu::named("a100")?;
    Some(Gpu {
        name: "rtx-3090",
        memory: 25_769_803_776.0,
        bandwidth: 936e9,
        flops: 71e12,
        fp8_flops: 71e12,
        link: 32e9,
        ..a100
    })
}

/// The simulation of `policy` for a file and a seed.
///
/// # Errors
///
/// If the file is invalid; the error names the field, its value and the remedy.
pub fn setup(file: &File, policy: &str, seed: u64) -> anyhow::Result<Setup> {
    ensure!(!file.models.is_empty(), "models is empty: name at least one");
    ensure!(
        (0.0..=1.0).contains(&file.estimate_error),
        "estimate_error is {}: use 0 to 1, 0.2 as a rule",
        file.estimate_error
    );
    ensure!(
        file.shared || file.enforce != file::Enforce::Host,
        "enforce: host needs shared: true, since a host's permits count KV and collectives together"
    );
    let cards = slow_cards(file)?;
    let mut pools = Vec::new();
    for (nth, served) in file.models.iter().enumerate() {
        let name = || format!("models[{nth}] ({})", served.model);
        pools.push(pool(file, served, seed.wrapping_add(nth as u64 * 7919)).with_context(name)?);
    }
    Ok(Setup {
        seed,
        fabric: fabric(file),
        cards,
        pools,
        flow: config(&file.flow, policy)?,
        enforce: match file.enforce {
            file::Enforce::Total => Enforce::Total,
            file::Enforce::Host => Enforce::Host,
            file::Enforce::Classes => Enforce::Classes,
        },
        coordinator: file.coordinator.map(control).transpose()?,
        shared: file.shared,
        estimate_error: file.estimate_error,
        watch: None,
    })
}

fn control(given: file::Coordinator) -> anyhow::Result<Control> {
    let file::Coordinator { delay, loss } = given;
    ensure!(
        delay.0 <= Duration::from_secs(1),
        "coordinator.delay is {:?}: use at most 1s, 5ms as a rule",
        delay.0
    );
    ensure!((0.0..=1.0).contains(&loss), "coordinator.loss is {loss}: use 0 to 1");
    Ok(Control { delay: delay.0, loss })
}

fn fabric(file: &File) -> Cluster {
    let shape = match file.network {
        Network::SingleSwitch => Shape::SingleSwitch,
        Network::LeafSpine { leaf_servers, oversubscription } => {
            Shape::LeafSpine { leaf_servers, oversubscription }
        }
        Network::FatTree { edge_servers, pod_edges, oversubscription } => {
            Shape::FatTree { edge_servers, pod_edges, oversubscription }
        }
    };
    Cluster {
        servers: file.servers,
        gpus: file.gpus,
        cards: file.cards.unwrap_or(file.gpus),
        card_rate: file.card.0,
        nvlink_rate: file.nvlink.0,
        shape,
        uplinks: match file.uplinks {
            file::Uplinks::Pooled => Uplinks::Pooled,
            file::Uplinks::Hashed => Uplinks::Hashed,
        },
    }
}

fn slow_cards(file: &File) -> anyhow::Result<Vec<(u32, u32, f64)>> {
    let cards = file.cards.unwrap_or(file.gpus);
    for (nth, slow) in file.slow_cards.iter().enumerate() {
        let within = |field: &str, value: u32, most: u32| {
            let remedy = format!("use 0 to {}", most.saturating_sub(1));
            ensure!(value < most, "slow_cards[{nth}].{field} is {value}: {remedy}");
            Ok(())
        };
        within("server", slow.server, file.servers)?;
        within("card", slow.card, cards)?;
    }
    Ok(file.slow_cards.iter().map(|slow| (slow.server, slow.card, slow.rate.0)).collect())
}

fn pool(file: &File, served: &Served, seed: u64) -> anyhow::Result<Pool> {
    let Some(model) = Model::named(&served.model) else {
        let names: Vec<_> = MODELS.iter().map(|model| model.name).collect();
        bail!("model: `{}` is unknown; use one of {}", served.model, names.join(", "));
    };
    let gpu = match served.gpu.as_str() {
        "rtx-3090" => rtx_3090(),
        name => Gpu::named(name),
    };
    let Some(gpu) = gpu else {
        let names: Vec<_> = meridian_engine::GPUS.iter().map(|gpu| gpu.name).collect();
        bail!("gpu: `{}` is unknown; use rtx-3090 or one of {}", served.gpu, names.join(", "));
    };
    let gpus = served.prefill.saturating_mul(served.tensor).saturating_mul(served.ranks);
    let (known, requests, context) = (file.known, file.requests, model.context);
    let wanted = Wanted { known, requests, context, gpus, seed };
    let Asked { known, requests } = load::requests(&served.load, wanted).context("load")?;
    Ok(Pool {
        name: served.model.clone(),
        model,
        gpu,
        tensor: served.tensor,
        ranks: served.ranks,
        parallel: parallel(&model, served.attention)?,
        prefill: served.prefill,
        decode: served.decode.unwrap_or(served.prefill),
        batch_tokens: served.batch_tokens,
        skew: served.skew,
        kv_layers: match served.kv_layers {
            KvLayers::Some(layers) => layers,
            KvLayers::All(_) => model.layers as u16,
        },
        victims: served.victims,
        keep: served.keep,
        slo: tiers(served.slo),
        known,
        requests,
    })
}

fn parallel(model: &Model, attention: Attention) -> anyhow::Result<Parallel> {
    match (model.experts, attention) {
        (Some(_), Attention::Request) => Ok(Parallel::Experts),
        (Some(_), Attention::Tensor) => Ok(Parallel::Tensor),
        (None, Attention::Request) => Ok(Parallel::Sequence),
        (None, Attention::Tensor) => bail!(
            "attention is tensor: {} has no experts, and its ranks divide the sequence; leave \
             attention out, or raise tensor",
            model.name
        ),
    }
}

fn tiers(slo: file::Slo) -> Tiers {
    let file::Slo { of, tight, loose, tight_share } = slo;
    let of = match of {
        file::Of::Own => Base::Own,
        file::Of::Mean => Base::Mean,
    };
    Tiers { of, tight, loose, tight_share }
}

/// The flow machine's settings.
pub fn config(given: &file::Flow, name: &str) -> anyhow::Result<Config> {
    let known = || policy::ALL.iter().map(|spec| spec.name).collect::<Vec<_>>().join(", ");
    let spec = policy::find(name)
        .with_context(|| format!("policy: `{name}` is unknown; use one of {}", known()))?;
    let mut config = Config::new(spec);
    if let Some(levels) = given.levels {
        config.levels = levels;
    }
    if let Some(thresholds) = given.thresholds {
        config.thresholds = match thresholds {
            file::Thresholds::Named(file::Named::Paper) => flow::Thresholds::Paper,
            file::Thresholds::Named(file::Named::Corrected) => flow::Thresholds::Corrected,
            file::Thresholds::Own { top, ratio } => flow::Thresholds::Geometric { top, ratio },
        };
    }
    if let Some(arbitration) = given.arbitration {
        config.arbitration = match arbitration {
            file::Arbitration::Hierarchical => flow::Arbitration::Hierarchical,
            file::Arbitration::Level => flow::Arbitration::Level,
        };
    }
    if let Some(red) = given.red {
        config.red = match red {
            file::Red::Deadline => RedOrder::Deadline,
            file::Red::Laxity => RedOrder::Laxity,
        };
    }
    for term in &given.without {
        let of = match term {
            Term::Mlu => &mut config.terms.mlu,
            Term::Rli => &mut config.terms.rli,
            Term::Red => &mut config.terms.red,
            Term::Prune => &mut config.terms.prune,
        };
        *of = false;
    }
    if let Some(share) = given.drop_share {
        config.drop_share = share;
    }
    if let Some(window) = given.load_window {
        config.load_window = window.0;
    }
    if let Some(aging) = given.aging {
        config.aging = aging.0;
    }
    config.validate().context("flow")?;
    Ok(config)
}
