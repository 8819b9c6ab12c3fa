//! Worlds drawn from seeds keep their invariants, and are reproducible.

use meridian_base::Time;
use meridian_sim::{Running, run, swarm};

/// Seeds that once broke an invariant, and a few that never did. Each line starts with the number.
const SEEDS: &str = include_str!("../seeds.txt");

fn seeds() -> impl Iterator<Item = u64> {
    let lines = SEEDS.lines().filter(|l| !l.trim_start().starts_with('#') && !l.is_empty());
    lines.map(|l| {
        let number = l.split_whitespace().next().unwrap_or_default();
        number.parse().unwrap_or_else(|_| panic!("{l:?} begins with a seed"))
    })
}

// Every seed that ever failed stays fixed: requests end once, one hop, residency, bounds.
#[test]
fn kept_seeds_hold() {
    for seed in seeds() {
        let report = run(swarm::scenario(seed)).expect("the swarm draws possible worlds");
        assert_eq!(report.violations, Vec::<String>::new(), "seed {seed}");
        assert!(report.total_requests > 0, "seed {seed} sends nothing");
    }
}

// The same worlds with pairs: also, no attempt is left, no KV stays held, and attempts, engines and
// fabric agree on the KV under way. Many requests are split, and some leases expire.
#[test]
fn kept_seeds_hold_with_pairs() {
    let (mut split, mut expired) = (0, 0);
    for seed in seeds() {
        let report = run(swarm::paired(seed)).expect("the swarm draws possible worlds");
        assert_eq!(report.violations, Vec::<String>::new(), "seed {seed} with pairs");
        split += report.requests.iter().filter(|r| r.crossing.is_some()).count();
        expired += report.leases_expired;
    }
    assert!(split > 1000 && expired > 10, "{split} split, {expired} leases expired");
    let again = || run(swarm::paired(1)).expect("possible");
    assert_eq!(again(), again());
}

// The same seed gives the same report, to the last request; a different one gives a different
// report.
#[test]
fn seeds_repeat() {
    let [first, again, other] = [1, 1, 2].map(|s| run(swarm::scenario(s)).expect("possible"));
    assert_eq!(first, again);
    assert_ne!(first, other);
}

// A run paused ten times gives the same result as an uninterrupted one, and its results so far.
#[test]
fn pieces_make_a_whole() {
    let mut pieces = Running::new(swarm::scenario(1)).expect("possible");
    let handled = (1..=10).map(|step| {
        pieces.until(Time::from_millis(step * 900));
        pieces.events()
    });
    let handled: Vec<u64> = handled.collect();
    assert!(handled.is_sorted() && handled[0] < handled[9], "{handled:?}");
    let report = pieces.end();
    assert!(report.events > handled[9], "loads continue for 10 s or longer");
    assert_eq!(report, run(swarm::scenario(1)).expect("possible"));
}
