use meridian_protocol::units::Span;

use super::*;
use crate::experiment;
use crate::experiment::spec::{Measure, read};

fn spec() -> Spec {
    let entry = experiment::find(experiment::RELEASE).expect("it is in the registry");
    read(entry.name, entry.yaml).unwrap()
}

// A hash always draws the same, and more workloads do not change the first ones. Another hash
// draws others.
#[test]
fn the_hash_decides() {
    let spec = spec();
    let draw = spec.draw.as_ref().unwrap();
    let some = draw::all(draw, "0123456789ab", 4, 3);
    assert_eq!(draw::all(draw, "0123456789ab", 12, 3)[..4], some);
    assert_ne!(draw::all(draw, "0123456789ac", 4, 3), some);
}

// Whatever the hash, the drawn settings make a valid plan within the file's ranges, and no generator
// is drawn twice before all are.
#[test]
fn every_draw_is_valid() {
    let spec = spec();
    let draw = spec.draw.as_ref().unwrap();
    let mut slow = 0;
    for hash in 0..40 {
        let drawn = draw::all(draw, &format!("{hash:012x}"), draw.generators.len() as u32, 3);
        let mut names: Vec<&str> = drawn.iter().map(|one| &one.workload.name[3..]).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), draw.generators.len());
        slow += drawn.iter().filter(|one| one.slow.is_some()).count();
        let measured = drawn.into_iter().map(|one| one.measured(10.0, Span::secs(60), draw));
        let measured: Vec<Drawn> = measured.collect();
        for one in &measured {
            let replicas = one.fleet.replicas() as f64;
            assert!((3.0 * draw.replicas[0]..=3.0 * draw.replicas[1]).contains(&replicas));
            let rtt_ms = one.workload.rtt_ms.as_ref().unwrap();
            for (a, row) in rtt_ms.iter().enumerate() {
                for (b, rtt) in row.iter().enumerate() {
                    let [from, to] = if a == b { draw.local_rtt_ms } else { draw.rtt_ms };
                    assert!((from..=to).contains(rtt), "{rtt}");
                    assert_eq!(*rtt, rtt_ms[b][a]);
                }
            }
            let expected = Measure { warmup: Span::secs(60), window: Span::secs(400) };
            assert_eq!(one.workload.measure, Some(expected));
        }
        let mut with = with(&spec, &measured);
        with.systems = goal::named(&with.systems);
        let plan = Plan::new(&with, false).unwrap();
        assert_eq!(plan.workloads.len(), 3 * measured.len());
    }
    // A quarter of 560.
    assert!((100..180).contains(&slow), "{slow}");
}

// A commit is named by 12 digits or more; only those decide.
#[test]
fn hashes_are_cut() {
    assert_eq!(digits("0123456789ABcdef").unwrap(), "0123456789ab");
    for bad in ["unknown commit", "0123456789a", "v1.2-3-g0123456"] {
        assert!(digits(bad).is_err(), "{bad}");
    }
}
