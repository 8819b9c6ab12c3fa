//! Tunes every competing policy over a grid of its own parameters, and finds the best of each.
//!
//! Published defaults come from other fleets and other models; a comparison with them alone could
//! be won by accident. Here each policy gets the parameters that suit this world, chosen from every
//! combination of the file's values, including the published defaults, on the tuning half of the
//! workloads. The score is the geometric mean of the inverse of throughput, mean TTFT, P90 TTFT and
//! mean E2E over those workloads, relative to the published defaults; the least wins. Regions'
//! gateways that forward (`two_layer`) and gateways that see all replicas (`flat`) are tuned
//! separately. With several seeds, all candidates run under the first one, and the best fifth of
//! each policy and topology under all.
//!
//! The winners are written to `tuned.yaml`, which the comparison reads from `experiments/`.

use std::collections::{BTreeMap, BTreeSet};

use meridian_config::AdmissionMode;
use meridian_protocol::policy::{Policy, Scalar};
use meridian_tools::rule::every_policy;
use meridian_tools::stats::Mean;
use meridian_tools::table::Table;

use super::cells::simulate;
use super::compare::{self, SCORE};
use super::duels::halves;
use super::grid::Grid;
use super::plan::Plan;
use super::spec::{Half, Ref, Spec, Sweep, System, Topology, Tuned};
use super::{Context, Findings, build, params, results};

/// Topologies that are tuned separately.
const TOPOLOGIES: [Topology; 2] = [Topology::TwoLayer, Topology::Flat];
/// One candidate in so many goes on after the first seed.
const FINALISTS: usize = 5;

/// Runs the sweeps.
///
/// # Errors
/// If the YAML is invalid.
pub(crate) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let candidates = candidates(&context.spec);
    let mut spec = context.spec.clone();
    spec.systems.extend(candidates.iter().enumerate().map(|(i, one)| Ref::Own(system(i, one))));
    let mut plan = Plan::new(&spec, context.quick)?;
    halves(&plan)?;
    plan.workloads.retain(|w| w.0.half == Some(Half::Tuning));
    let mut tables = Vec::new();
    if context.seeds > 1 {
        let first = Context {
            seeds: 1,
            spec: context.spec.clone(),
            commit: None,
            servers: None,
            ..*context
        };
        let grid = simulate(&first, &plan)?;
        let contests = contests(&grid, &candidates);
        tables.push(all(
            "All candidates under the first seed, best first",
            &grid,
            &candidates,
            &contests,
        ));
        let best = finalists(&candidates, &contests);
        plan.systems.retain(|(system, ..)| best.contains(&system.name));
    }
    let grid = simulate(context, &plan)?;
    let contests = contests(&grid, &candidates);
    tables.insert(0, winners(&grid, &candidates, &contests));
    if !context.quick {
        tables.insert(
            1,
            all("Candidates under all seeds, best first", &grid, &candidates, &contests),
        );
    }
    Ok(Findings {
        rows: results::rows(&grid),
        tables,
        violations: grid.violations(),
        params: params::hash(&plan)?,
        files: vec![("tuned.yaml".to_owned(), file(&context.spec, &candidates, &contests))],
        ..Findings::default()
    })
}

/// The systems that run under the other seeds too: the published defaults, to which scores relate,
/// and the best of each policy and topology.
fn finalists(candidates: &[Tuned], contests: &[Contest]) -> BTreeSet<String> {
    let best = |contest: &Contest| {
        let most = contest.ranked.len().div_ceil(FINALISTS);
        contest.ranked.iter().take(most).map(|(place, _)| *place).collect::<Vec<_>>()
    };
    let published = (0..candidates.len()).filter(|place| is_published(&candidates[*place]));
    let places = contests.iter().flat_map(best).chain(published);
    places.map(|place| name(place, &candidates[place])).collect()
}

/// All candidates, by policy and topology, each with its published defaults first.
fn candidates(spec: &Spec) -> Vec<Tuned> {
    let mut all = Vec::new();
    for sweep in &spec.sweeps {
        for topology in TOPOLOGIES {
            let tried = |params| {
                let topology = topology.clone();
                move |admission| Tuned {
                    policy: sweep.policy.clone(),
                    topology: topology.clone(),
                    params: BTreeMap::clone(&params),
                    admission,
                }
            };
            let published = tried(BTreeMap::new())(None);
            let admissions =
                || std::iter::once(None).chain(sweep.admission.iter().map(|a| Some(*a)));
            let mut these = vec![published];
            for params in combinations(sweep) {
                let these_params = admissions().map(tried(params));
                these.extend(these_params.filter(|one| !is_published(one)));
            }
            all.append(&mut these);
        }
    }
    all
}

/// Every combination of the swept values; values equal to the published default are omitted from
/// each.
fn combinations(sweep: &Sweep) -> Vec<BTreeMap<String, Scalar>> {
    let mut all = vec![BTreeMap::new()];
    for (name, values) in &sweep.params {
        let with = |params: &BTreeMap<String, Scalar>, value: &Scalar| {
            let mut params = params.clone();
            if !is_default(&sweep.policy, name, value) {
                params.insert(name.clone(), value.clone());
            }
            params
        };
        all = all.iter().flat_map(|params| values.iter().map(|v| with(params, v))).collect();
    }
    all
}

/// Whether a parameter's value is the published one: omitting it gives the same.
fn is_default(policy: &str, name: &str, value: &Scalar) -> bool {
    every_policy();
    let resolve =
        |params| meridian_config::resolve(&Policy { name: policy.to_owned(), params }).ok();
    let with = BTreeMap::from([(name.to_owned(), value.clone())]);
    match (resolve(BTreeMap::new()), resolve(with)) {
        (Some((_, published)), Some((_, given))) => {
            format!("{published:?}") == format!("{given:?}")
        }
        _ => false,
    }
}

fn is_published(one: &Tuned) -> bool {
    let own = || meridian_rivals::find(&one.policy).map(|p| p.admission);
    let same = one.admission.is_none_or(|mode| Some(mode.into()) == own());
    one.params.is_empty() && same
}

fn name(place: usize, one: &Tuned) -> String {
    format!("{place} {}@{}", one.policy, build::topology_name(&one.topology))
}

fn system(place: usize, one: &Tuned) -> System {
    one.system(name(place, one), one.topology.clone())
}

/// One policy in one topology: its candidates by place, best first, with their scores.
struct Contest {
    ranked: Vec<(usize, Mean)>,
}

fn contests(grid: &Grid<'_>, candidates: &[Tuned]) -> Vec<Contest> {
    let here = |place: usize| {
        grid.plan.systems.iter().any(|s| s.0.name == name(place, &candidates[place]))
    };
    let mut contests: Vec<(&Tuned, Vec<usize>)> = Vec::new();
    for (place, one) in candidates.iter().enumerate().filter(|(place, _)| here(*place)) {
        match contests.last_mut() {
            Some((first, places))
                if first.policy == one.policy && first.topology == one.topology =>
            {
                places.push(place);
            }
            _ => contests.push((one, vec![place])),
        }
    }
    let rank = |(_, places): (&Tuned, Vec<usize>)| {
        let first = places[0];
        let mut ranked: Vec<(usize, Mean)> = places
            .into_iter()
            .filter_map(|place| Some((place, score(grid, candidates, place, first)?)))
            .collect();
        ranked.sort_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
        Contest { ranked }
    };
    contests.into_iter().map(rank).filter(|c| !c.ranked.is_empty()).collect()
}

/// The score of a candidate relative to that of the published defaults; `None` if it leaves
/// requests unanswered in some cell.
fn score(grid: &Grid<'_>, candidates: &[Tuned], place: usize, first: usize) -> Option<Mean> {
    let name = |place: usize| name(place, &candidates[place]);
    let (own, other) = (name(place), name(first));
    let mut pairs = Vec::new();
    for group in grid.groups() {
        let cell = grid.cells[group[0]];
        let own = grid.at(cell.workload, cell.fleet, &own)?;
        if place != first && !compare::answers(grid, own) {
            return None;
        }
        pairs.push((own, grid.at(cell.workload, cell.fleet, &other)?));
    }
    compare::geometric(&compare::logs(grid, &pairs, &SCORE))
}

/// A candidate's settings, in words.
fn settings(one: &Tuned) -> String {
    let mut words: Vec<String> =
        one.params.iter().map(|(name, value)| format!("{name} {value}")).collect();
    words.extend(one.admission.map(|mode| match mode {
        AdmissionMode::Outstanding(most) => format!("at most {most} outstanding"),
        AdmissionMode::Blind => "admission blind".to_owned(),
        AdmissionMode::Pending => "admission pending".to_owned(),
        AdmissionMode::Saturation => "admission saturation".to_owned(),
        AdmissionMode::PendingKv => "admission pending_kv".to_owned(),
    }));
    if words.is_empty() { "as published".to_owned() } else { words.join(", ") }
}

fn winners(grid: &Grid<'_>, candidates: &[Tuned], contests: &[Contest]) -> Table {
    let mut table = Table::new(
        "The best of each policy, by score over the published defaults, %",
        &["policy", "topology", "candidates", "best", "score"],
    );
    for contest in contests {
        let (place, score) = contest.ranked[0];
        let one = &candidates[place];
        table.row([
            one.policy.clone(),
            build::topology_name(&one.topology).to_owned(),
            contest.ranked.len().to_string(),
            settings(one),
            compare::percent(score, grid.seeds.len()),
        ]);
    }
    table
}

fn all(title: &str, grid: &Grid<'_>, candidates: &[Tuned], contests: &[Contest]) -> Table {
    let mut table = Table::new(
        title,
        &["policy", "topology", "settings", "score over the published defaults, %"],
    );
    for contest in contests {
        for (place, score) in &contest.ranked {
            let one = &candidates[*place];
            table.row([
                one.policy.clone(),
                build::topology_name(&one.topology).to_owned(),
                settings(one),
                compare::percent(*score, grid.seeds.len()),
            ]);
        }
    }
    table
}

/// The winners in the form of `experiments/tuned.yaml`.
fn file(spec: &Spec, candidates: &[Tuned], contests: &[Contest]) -> String {
    let mut text = format!(
        "# {}\n# Written by `meridian experiment baseline-grid`; do not edit. A line a policy and \
         topology;\n# other parameters are as published.\n\ntuned:\n",
        spec.title
    );
    for contest in contests {
        let one = &candidates[contest.ranked[0].0];
        let line = serde_json::to_string(one).expect("names and numbers can be written");
        text.push_str(&format!("  - {line}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::catalogue::tuned;
    use crate::experiment::spec::read;

    fn grid_spec() -> Spec {
        let entry = crate::experiment::find("baseline-grid").expect("it is in the registry");
        read(entry.name, entry.yaml).unwrap()
    }

    // Every combination is tried once, the published defaults first and only once.
    #[test]
    fn candidates_are_the_combinations() {
        let mut spec = grid_spec();
        spec.sweeps = read(
            "test",
            "[{policy: dynamo_kv, params: {overlap_credit: [0.5, 1], ttl_s: [60, 120, 240]}, \
             admission: [pending_kv]}]",
        )
        .unwrap();
        let all = candidates(&spec);
        let here: Vec<&Tuned> = all.iter().filter(|c| c.topology == Topology::Flat).collect();
        assert_eq!((all.len(), here.len()), (24, 12));
        assert!(is_published(here[0]));
        assert_eq!(here.iter().filter(|c| is_published(c)).count(), 1);
        let both = here.iter().filter(|c| c.params.len() == 2).count();
        assert_eq!(both, 4);
    }

    // The complete sweeps of the file are valid; the comparison has their results, and nothing
    // else.
    #[test]
    fn what_was_chosen_is_among_the_candidates() {
        let mut spec = grid_spec();
        let all = candidates(&spec);
        spec.systems.extend(all.iter().enumerate().map(|(i, one)| Ref::Own(system(i, one))));
        halves(&Plan::new(&spec, false).unwrap()).unwrap();
        for line in tuned() {
            assert!(all.contains(line), "{line:?} is not a candidate: run the sweep again");
        }
        for sweep in &spec.sweeps {
            for topology in TOPOLOGIES {
                let lines = tuned().iter();
                let lines = lines.filter(|t| t.policy == sweep.policy && t.topology == topology);
                assert_eq!(lines.count(), 1, "{} in {topology:?}", sweep.policy);
            }
        }
    }
}
