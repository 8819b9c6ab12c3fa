//! Worlds drawn from seeds keep their invariants, and repeat.

use meridian_sim::{run, swarm};

/// Seeds that once broke an invariant, and a few that never did. The number stands first.
const SEEDS: &str = include_str!("seeds.txt");

fn seeds() -> impl Iterator<Item = u64> {
    let lines = SEEDS.lines().filter(|l| !l.trim_start().starts_with('#') && !l.is_empty());
    lines.map(|l| {
        let number = l.split_whitespace().next().unwrap_or_default();
        number.parse().unwrap_or_else(|_| panic!("{l:?} begins with a seed"))
    })
}

// Every seed that ever failed stays sound: requests end once, one hop, residency, bounds.
#[test]
fn kept_seeds_hold() {
    for seed in seeds() {
        let report = run(swarm::scenario(seed)).expect("the swarm draws possible worlds");
        assert_eq!(report.violations, Vec::<String>::new(), "seed {seed}");
        assert!(report.total_requests > 0, "seed {seed} sends nothing");
    }
}

// The same seed gives the same report, to the last request; another one gives another.
#[test]
fn seeds_repeat() {
    let [first, again, other] = [1, 1, 2].map(|s| run(swarm::scenario(s)).expect("possible"));
    assert_eq!(first, again);
    assert_ne!(first, other);
}
