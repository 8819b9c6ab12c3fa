//! Checks a plan: each problem has its field, value and remedy.

mod places;
mod pools;
mod published;

use meridian_config::AdmissionMode;
use meridian_engine::Profile;
use meridian_tools::metric;

use super::{Feed, Plan};
use crate::experiment::spec::{Fleet, Kind, Load, Regions, Spec, System, Topology, Workload};

/// Distributions and states that plots can show, in addition to the metrics.
const DISTRIBUTIONS: [&str; 3] = ["ttft_ms", "e2e_ms", "tpot_ms"];
const STATES: [&str; 3] = ["kv_used", "outstanding", "running"];

/// Problems with the parts of a plan.
pub(super) fn plan(plan: &Plan) -> Vec<String> {
    let n = plan.regions.regions.len();
    let mut found = regions(&plan.regions);
    let names = |field: &str, names: Vec<&str>| unique(field, &names);
    found.extend(names("fleets", plan.fleets.iter().map(|f| f.name.as_str()).collect()));
    found.extend(names("workloads", plan.workloads.iter().map(|w| w.0.name.as_str()).collect()));
    found.extend(names("systems", plan.systems.iter().map(|s| s.0.name.as_str()).collect()));
    found.extend(plan.fleets.iter().flat_map(|f| fleet(f, n)));
    found.extend(plan.workloads.iter().flat_map(|(w, feeds)| workload(w, feeds, plan)));
    found.extend(plan.systems.iter().flat_map(|(s, ..)| system(s, plan)));
    if plan.measure.window.0.is_zero() {
        found.push("measure.window: 0s would measure nothing; use a time above 0".to_owned());
    }
    found
}

fn unique(field: &str, names: &[&str]) -> Vec<String> {
    if names.is_empty() {
        return vec![format!("{field}: empty; give at least one")];
    }
    let twice = names.iter().enumerate().filter(|(i, name)| names[..*i].contains(name));
    twice.map(|(_, name)| format!("{field}: `{name}` appears twice; rename one")).collect()
}

fn regions(regions: &Regions) -> Vec<String> {
    let mut found = Vec::new();
    let names: Vec<_> = regions.regions.iter().map(|r| r.name.as_str()).collect();
    found.extend(unique("regions.regions", &names));
    let n = names.len();
    let rows = &regions.rtt_ms;
    if rows.len() != n || rows.iter().any(|row| row.len() != n) {
        let shape: Vec<_> = rows.iter().map(|row| row.len().to_string()).collect();
        found.push(format!(
            "regions.rtt_ms: rows of {} for {n} regions; give {n} rows of {n}",
            if shape.is_empty() { "nothing".to_owned() } else { shape.join(", ") }
        ));
    }
    for value in rows.iter().flatten().filter(|v| !(0.0..=10_000.0).contains(*v)) {
        found.push(format!("regions.rtt_ms: {value} is not a round-trip time; use 0 to 10000 ms"));
    }
    for (name, value) in [("jitter", regions.jitter), ("loss", regions.loss)] {
        if !(0.0..1.0).contains(&value) {
            found.push(format!("regions.{name}: {value} is not a share; use 0 to below 1"));
        }
    }
    found
}

fn per_region(field: &str, given: usize, regions: usize) -> Option<String> {
    (given != regions)
        .then(|| format!("{field}: {given} numbers for {regions} regions; give one for each"))
}

fn fleet(fleet: &Fleet, regions: usize) -> Vec<String> {
    let name = format!("fleets ({})", fleet.name);
    let mut found = Vec::new();
    for (i, group) in fleet.groups.iter().enumerate() {
        found.extend(per_region(&format!("{name}.groups[{i}].count"), group.count.len(), regions));
        if let Err(e) = Profile::named(&group.model, &group.gpu, group.tp) {
            found.push(format!(
                "{name}.groups[{i}]: model `{}`, gpu `{}`, tp {}: {e}",
                group.model, group.gpu, group.tp
            ));
        }
        if !(0.0..1.0).contains(&group.jitter) {
            let jitter = group.jitter;
            found.push(format!(
                "{name}.groups[{i}].jitter: {jitter} is not a share; use 0 to below 1"
            ));
        }
    }
    if fleet.replicas() == 0 {
        found.push(format!("{name}: 0 replicas; count at least one"));
    }
    found.extend(degraded(&name, fleet));
    found.extend(pools::problems(&name, fleet));
    found
}

/// Problems with replicas that are slow for a while.
fn degraded(name: &str, fleet: &Fleet) -> Vec<String> {
    let mut found = Vec::new();
    for (i, one) in fleet.degraded.iter().enumerate() {
        let field = format!("{name}.degraded[{i}]");
        let replicas = fleet.replicas();
        if one.replica >= replicas {
            found.push(format!(
                "{field}.replica: {} of {replicas} replicas; use 0 to {}",
                one.replica,
                replicas.saturating_sub(1)
            ));
        }
        if !(1.0..=1000.0).contains(&one.factor) {
            found.push(format!("{field}.factor: {} is not a slowdown; use 1 to 1000", one.factor));
        }
        let (at, until) = (one.at.0, one.until.0);
        if at >= until {
            found.push(format!(
                "{field}.until: {until:?} is not after {at:?}; use a later time, or an earlier `at`"
            ));
        }
        let mut before = fleet.degraded[..i].iter().filter(|other| other.replica == one.replica);
        if before.any(|other| at < other.until.0 && other.at.0 < until) {
            found.push(format!(
                "{field}.at: {at:?} is within another time of replica {}; use times that do not \
                 overlap",
                one.replica
            ));
        }
    }
    found
}

fn workload(workload: &Workload, feeds: &[Feed], plan: &Plan) -> Vec<String> {
    let name = format!("workloads ({})", workload.name);
    let mut found = Vec::new();
    if workload.loads.is_empty() {
        found.push(format!("{name}.loads: empty; give at least one"));
    }
    for (i, (one, feed)) in workload.loads.iter().zip(feeds).enumerate() {
        found.extend(load(&format!("{name}.loads[{i}]"), one, feed, plan.regions.regions.len()));
    }
    for fleet in &workload.fleets {
        found.extend(known(&format!("{name}.fleets"), fleet, plan.fleets.iter().map(|f| &f.name)));
    }
    for system in &workload.systems {
        let systems = plan.systems.iter().map(|(s, ..)| &s.name);
        found.extend(known(&format!("{name}.systems"), system, systems));
    }
    found.extend(places::problems(&name, workload, &plan.regions));
    found
}

fn load(field: &str, load: &Load, feed: &Feed, regions: usize) -> Vec<String> {
    let mut found = Vec::new();
    match (&load.clients, &load.rate, &load.capacity, &load.trace) {
        (Some(clients), None, None, None) => {
            found.extend(per_region(&format!("{field}.clients"), clients.len(), regions));
            if clients.iter().all(|n| *n == 0) {
                found.push(format!("{field}.clients: 0 in every region; use at least one client"));
            }
        }
        (None, Some(rate), None, None) => {
            found.extend(per_region(&format!("{field}.rate"), rate.len(), regions));
            found.extend(shares(&format!("{field}.rate"), rate, "rate"));
        }
        (None, None, Some(capacity), None) => {
            found.extend(of_capacity(field, *capacity, load, regions))
        }
        (None, None, None, Some(trace)) => match (&trace.share, feed) {
            (Some(share), _) => {
                found.extend(per_region(&format!("{field}.trace.share"), share.len(), regions));
                found.extend(shares(&format!("{field}.trace.share"), share, "share"));
            }
            (None, Feed::Trace(recorded)) if regions > 1 && !recorded.knows_regions() => {
                found.push(format!(
                    "{field}.trace.share: missing, and the trace names no regions; give one for \
                     each"
                ));
            }
            (None, _) => {}
        },
        (_, _, _, Some(_)) => found.push(format!(
            "{field}: a trace has its own times; leave clients, rate and capacity out, and use \
             trace.speed"
        )),
        _ => found.push(format!(
            "{field}: give either clients or rate, a list by region, or capacity, a number"
        )),
    }
    if load.share.is_some() && load.capacity.is_none() {
        found.push(format!("{field}.share: given without a capacity; give one, or leave it out"));
    }
    found.extend(bursts(field, load));
    found
}

/// Problems with an open loop that is given by its capacity.
fn of_capacity(field: &str, capacity: f64, load: &Load, regions: usize) -> Vec<String> {
    let mut found = Vec::new();
    if !(capacity > 0.0 && capacity.is_finite()) {
        found.push(format!("{field}.capacity: {capacity} is not a rate; use a number above 0"));
    }
    match &load.share {
        Some(share) => {
            found.extend(per_region(&format!("{field}.share"), share.len(), regions));
            found.extend(shares(&format!("{field}.share"), share, "share"));
        }
        None => found.push(format!("{field}.share: missing; give each region's share of capacity")),
    }
    found
}

/// Problems with an open loop's bursts.
fn bursts(field: &str, load: &Load) -> Vec<String> {
    let Some(bursts) = load.bursts else { return Vec::new() };
    let field = format!("{field}.bursts");
    let mut found = Vec::new();
    if load.rate.is_none() && load.capacity.is_none() {
        found.push(format!(
            "{field}: only an open loop has it; use rate or capacity, or leave it out"
        ));
    }
    if !(1.0..=1000.0).contains(&bursts.times) {
        found.push(format!("{field}.times: {} is not a factor; use 1 to 1000", bursts.times));
    }
    let (length, every) = (bursts.length.0, bursts.every.0);
    if length.is_zero() || length >= every {
        found.push(format!(
            "{field}.length: {length:?} of every {every:?}; use a time above 0 and below `every`"
        ));
    }
    found
}

/// Problems with shares, which must not be negative and not all 0.
fn shares(field: &str, given: &[f64], what: &str) -> Option<String> {
    match given.iter().find(|r| !(**r >= 0.0 && r.is_finite())) {
        Some(bad) => Some(format!("{field}: {bad} is not a {what}; use 0 or more")),
        None if given.iter().all(|r| *r == 0.0) => {
            Some(format!("{field}: 0 in every region; use a {what} above 0"))
        }
        None => None,
    }
}

fn system(system: &System, plan: &Plan) -> Vec<String> {
    let name = format!("systems ({})", system.name);
    let mut found = Vec::new();
    match &system.topology {
        Topology::Central(region) if region != "first" => {
            let regions = plan.regions.regions.iter().map(|r| &r.name);
            found.extend(known(&format!("{name}.topology.central"), region, regions));
        }
        Topology::Waterfall(above) | Topology::Continent(above) if !(0.0..=1.0).contains(above) => {
            found.push(format!("{name}.topology: {above} is not a share; use 0 to 1"));
        }
        _ => {}
    }
    if system.gateways == 0 {
        found.push(format!("{name}.gateways: 0 would serve no client; use 1 or more"));
    }
    if let Some(siblings) = system.siblings
        && !(0.0..1.0).contains(&siblings.loss)
    {
        let loss = siblings.loss;
        found.push(format!("{name}.siblings.loss: {loss} is not a share below 1; use 0 to 0.9"));
    }
    if system.admission == Some(AdmissionMode::Outstanding(0)) {
        found.push(format!("{name}.admission.outstanding: 0 would admit nothing; use 1 or more"));
    }
    for (field, span) in [("busy", system.probe.busy), ("idle", system.probe.idle)] {
        if span.0.is_zero() {
            found.push(format!("{name}.probe.{field}: 0s would never end; use a time above 0"));
        }
    }
    if system.digests.every.0.is_zero() {
        found.push(format!("{name}.digests.every: 0s would never end; use a time above 0"));
    }
    found
}

/// Problems with the presentation of results.
pub(super) fn spec(spec: &Spec, plan: &Plan) -> Vec<String> {
    let mut found = Vec::new();
    if spec.seeds == 0 {
        found.push("seeds: 0 runs nothing; use 1 or more".to_owned());
    }
    for level in spec.levels.iter().filter(|level| !(**level > 0.0 && level.is_finite())) {
        found.push(format!("levels: {level} is not a share of a capacity; use a number above 0"));
    }
    if !spec.levels.is_empty() && plan.workloads.iter().all(|w| w.0.level.is_none()) {
        found.push("levels: no workload has a capacity; give one, or leave levels out".to_owned());
    }
    for name in &spec.show {
        found.extend(metric_known("show", name));
    }
    let systems = || plan.systems.iter().map(|s| &s.0.name);
    let workloads = || plan.workloads.iter().map(|w| &w.0.name);
    let fleets = || plan.fleets.iter().map(|f| &f.name);
    let variants = [("quick", Some(&spec.quick)), ("live", spec.live.as_ref())];
    for (field, variant) in variants.into_iter().filter_map(|(f, v)| Some((f, v?))) {
        let share = variant.share;
        if !(share > 0.0 && share <= 1.0) {
            found.push(format!(
                "{field}.share: {share} is not a share; use a number above 0, at most 1"
            ));
        }
        let lists: [(&str, &[String], Vec<&String>); 3] = [
            ("systems", &variant.systems, systems().collect()),
            ("workloads", &variant.workloads, workloads().collect()),
            ("fleets", &variant.fleets, fleets().collect()),
        ];
        for (list, names, there) in lists {
            let field = format!("{field}.{list}");
            found.extend(names.iter().filter_map(|name| known(&field, name, there.iter())));
        }
    }
    let names = [systems().collect(), workloads().collect(), fleets().collect()];
    found.extend(published::problems(spec, names));
    for (i, plot) in spec.plots.iter().enumerate() {
        let field = format!("plots[{i}].metric");
        let words: &[&str] = match plot.kind {
            Kind::Bars | Kind::Replicas | Kind::Clients => {
                found.extend(metric_known(&field, &plot.metric));
                continue;
            }
            Kind::Boxes | Kind::Cdf => &DISTRIBUTIONS,
            Kind::Timeline => &STATES,
        };
        found.extend(known(&field, &plot.metric, words.iter()));
    }
    found
}

fn metric_known(field: &str, name: &str) -> Option<String> {
    known(field, name, metric::all().map(|m| m.name))
}

fn known<N: AsRef<str>>(
    field: &str,
    name: &str,
    mut names: impl Iterator<Item = N> + Clone,
) -> Option<String> {
    let all = names.clone();
    if names.any(|n| n.as_ref() == name) {
        return None;
    }
    let all: Vec<_> = all.map(|n| n.as_ref().to_owned()).collect();
    Some(format!("{field}: `{name}` is unknown; use one of {}", all.join(", ")))
}
