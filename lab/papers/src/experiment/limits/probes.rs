//! The messages by which gateways know the replicas: where every gateway sees all of them (`flat`),
//! and where each probes those of its region and gateways send each other digests (`two_layer`).
//!
//! Messages are counted in the simulator, with every probe and digest an event. Their sizes are the
//! page of a busy vLLM, as recorded, and the digest of a region as the gateway's own code writes it,
//! if every replica's figures change.

use std::time::Duration;

use meridian_engine::{Config, Profile};
use meridian_perf::digests;
use meridian_protocol::policy::Policy;
use meridian_routing::policy;
use meridian_sim::{
    Hardware, Load, Measure, News, Region, Scenario, Source, System, Topology, Wan,
};
use meridian_tools::generator;
use meridian_tools::plot::{self, Figure, Point};

use crate::experiment::Context;
use crate::experiment::values::Row;

/// Regions, and replicas of each.
const SIZES: [(usize, usize); 5] = [(3, 4), (3, 32), (10, 8), (10, 32), (30, 8)];
/// Bytes of the page of a busy vLLM (`signals/fixtures/vllm`).
const PAGE: usize =
    include_bytes!("../../../../../product/protocol/src/signals/fixtures/vllm/metrics-load.prom")
        .len();
/// Clients of a replica: none is ever idle.
const CLIENTS: u32 = 4;
const SECONDS: u64 = 5;

/// Counts the messages of every size under both topologies: a row for each.
///
/// # Errors
/// When a scenario can't be made.
pub(super) fn measure(context: &Context<'_>) -> anyhow::Result<Vec<Row>> {
    let sizes = if context.quick { &SIZES[..1] } else { &SIZES[..] };
    let topologies = [("flat", Topology::Flat), ("two_layer", Topology::TwoLayer)];
    let all: Vec<_> = sizes.iter().flat_map(|size| topologies.map(|one| (*size, one))).collect();
    let rows = meridian_tools::parallel(all.len(), |at| -> anyhow::Result<Row> {
        let ((regions, each), (name, topology)) = all[at];
        let report = (context.simulate)(scenario(regions, each, topology)?)?;
        let second = |count: u64| count as f64 / SECONDS as f64;
        let [near, far] = report.probes.map(second);
        let digests = second(report.digests);
        let digest = digests::bytes(each as u16, Duration::from_millis(100))?;
        let bytes = far * PAGE as f64 + digests * digest;
        let row = Row::new(name, &format!("{regions} regions of {each} replicas"), "");
        Ok(row
            .with("regions", [regions as f64])
            .with("replicas_each", [each as f64])
            .with("probes_within_per_s", [near])
            .with("probes_between_per_s", [far])
            .with("digests_per_s", [digests])
            .with("mb_between_per_s", [bytes / 1e6]))
    });
    rows.into_iter().collect()
}

fn scenario(regions: usize, each: usize, topology: Topology) -> anyhow::Result<Scenario> {
    let named = Policy { name: "sessions".to_owned(), ..Policy::default() };
    let generator = generator::build(&named).expect("it is a generator");
    let engine = Config::new(Profile::named("llama-3.1-8b", "l4", 1).expect("it fits"));
    let spec = policy::find("meridian").expect("it is the default");
    let load = |region| Load {
        region,
        source: Source::Closed {
            clients: CLIENTS * each as u32,
            generator: generator.clone(),
            ramp: Duration::from_secs(1),
            programs: None,
            day: None,
        },
        may_run_in: None,
    };
    let rtt = |a: usize, b: usize| if a == b { 1.0 } else { 80.0 };
    let rtt_ms = (0..regions).map(|a| (0..regions).map(|b| rtt(a, b)).collect()).collect();
    Ok(Scenario {
        seed: 1,
        regions: (0..regions)
            .map(|at| Region { name: format!("region-{at}"), continent: String::new() })
            .collect(),
        wan: Wan { rtt_ms, jitter: 0.0, loss: 0.0 },
        replicas: (0..regions * each).map(|at| Hardware::new(at / each, engine)).collect(),
        system: System { news: News::Eager, ..System::usual(spec, topology) },
        loads: (0..regions).map(load).collect(),
        faults: Vec::new(),
        autoscaler: None,
        racks: Vec::new(),
        measure: Measure { warmup: Duration::from_secs(1), window: Duration::from_secs(SECONDS) },
        paranoid: false,
    })
}

/// Bytes between regions over the number of replicas.
///
/// # Errors
/// A plot that can't be drawn.
pub(super) fn figure(rows: &[Row]) -> anyhow::Result<Figure> {
    let line = |topology: &str| {
        let of = |row: &Row, name: &str| row.known(name)[0];
        let point = |row: &Row| {
            let v = of(row, "mb_between_per_s");
            Point { x: of(row, "regions") * of(row, "replicas_each"), mean: v, low: v, high: v }
        };
        let mut points: Vec<Point> =
            rows.iter().filter(|row| row.system == topology).map(point).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        (topology.to_owned(), points)
    };
    let title = "Bytes between regions to know the replicas".to_owned();
    let axes = ["replicas of all regions", "MB/s (logarithmic)"];
    let svg = plot::lines(&title, axes, &[line("flat"), line("two_layer")], true)?;
    Ok(Figure::new(&["probes"], title, svg))
}
