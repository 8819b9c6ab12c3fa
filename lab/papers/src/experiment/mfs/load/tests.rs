//! The grid of the built-in file, and the comparison with static classes.

use meridian_tools::cluster::file::{KvLayers, Rate};

use super::standing::Standing;
use super::*;
use crate::experiment::find;
use crate::experiment::spec::{Spec, read};

fn spec() -> FlowLoad {
    let spec: Spec = read("mfs-load", find("mfs-load").unwrap().yaml).unwrap();
    spec.flow_load.unwrap()
}

// Every workload runs with every rate of the cards and every granularity, each at its one rate.
#[test]
fn a_grid_is_whole() {
    let spec = spec();
    let part = Part::whole(&spec);
    assert_eq!((part.spots.len(), part.sweep.cases.len()), (24, 24));
    for (spot, case) in part.spots.iter().zip(&part.sweep.cases) {
        assert_eq!((case.card, case.rates.len()), (Some(spot.card), 1));
        assert!(case.models.iter().all(|served| served.kv_layers == spot.layers), "{spot:?}");
    }
    let names: std::collections::BTreeSet<_> = part.sweep.cases.iter().map(|c| &c.name).collect();
    assert_eq!(names.len(), 24);
    assert_eq!(part.spots[4].columns(), ["agents at 1", "50", "4"]);
    let control = Part::control(&spec).unwrap();
    let spots = control.spots.iter().map(|spot| (spot.card.0, spot.layers));
    let one = KvLayers::Some(1);
    assert_eq!(spots.collect::<Vec<_>>(), [(Rate(6.25e9).0, one), (Rate(3.125e9).0, one)]);
}

// The small variant keeps one workload and the slowest cards, which are last.
#[test]
fn the_small_variant_has_the_most_contention() {
    let small = small(&spec());
    let part = Part::whole(&small);
    assert_eq!(part.spots.len(), small.grid.kv_layers.len());
    assert!(part.spots.iter().all(|spot| spot.card == Rate(3.125e9)));
}

// An error names the field and the name that is missing, before anything runs.
#[test]
fn a_missing_name_is_reported() {
    let mut wrong = spec();
    wrong.control.cases = vec!["chats".to_owned()];
    let error = Part::control(&wrong).err().unwrap().to_string();
    assert_eq!(error, "flow_load.control.cases: no case is called `chats`");
    let mut wrong = spec();
    wrong.systems.retain(|system| system.name != FAIR);
    let error = places(&wrong).unwrap_err().to_string();
    assert_eq!(error, "flow_load.systems: `fair` is missing; add it");
}

// Less than 1 % is level, however many points it is; a lead needs more than 5 points to be far.
#[test]
fn a_cell_is_ahead_level_or_behind() {
    for (ratio, points, expected) in [
        (1.2, 6.0, Standing::FarAhead),
        (1.2, 5.0, Standing::Ahead),
        (1.011, 0.9, Standing::Ahead),
        (1.009, 0.8, Standing::Level),
        (0.991, -0.8, Standing::Level),
        (0.989, -0.9, Standing::Behind),
    ] {
        assert_eq!(Standing::of(ratio, points), expected, "{ratio} {points}");
    }
}

// The table inside `meridian flow doctor` has this experiment's parameters: after a change of the file,
// run `meridian experiment mfs-load` and copy its mfs-load.csv there, and its table into lab/results/mfs-load.md.
#[test]
fn the_doctors_table_is_of_this_file() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../flow/cards/src/worth/mfs-load.csv");
    let csv = std::fs::read_to_string(path).unwrap();
    let params = params::of_text(&serde_json::to_string(&spec()).unwrap());
    let line = format!("# Parameters {params}. ");
    assert!(csv.contains(&line), "{path} lacks `{line}`");
}
