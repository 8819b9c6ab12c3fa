//! Comparison of the embedded store with a naive one.

use crate::disk::Disk;
use crate::twin::{LIMITS, Twin, draw, on_core, plain, state};
use meridian_base::{Duration, Rng, Time};
use meridian_control::embedded::Core;

// Random calls, expiring leases, and restarts: every answer and the whole state equal the twin's.
#[test]
fn the_store_agrees_with_its_twin() {
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let (disk, mut twin, mut now) = (Disk::default(), Twin::default(), Time::ZERO);
        let mut core = Core::open_on(disk.clone(), LIMITS, now).unwrap();
        for step in 0..150 {
            now = now + Duration::from_millis(rng.below(400) as u64);
            let op = draw(&mut rng, &twin);
            let expected = twin.apply(now, &op);
            let answer = plain(on_core(&mut core, now, &op));
            assert_eq!(answer, expected, "seed {seed}, step {step}, {op:?}");
            if step % 4 == 0 {
                assert_eq!(state(&mut core, now), twin.state(), "seed {seed}, step {step}, {op:?}");
            }
            if rng.below(50) == 0 {
                drop(core);
                core = Core::open_on(disk.clone(), LIMITS, now).unwrap();
                let kept = twin.state();
                twin.restart(&kept, now);
            }
        }
    }
}

// History is limited, so a store that is written to for a long time stays small: it holds at most
// 92 KiB here, after 1.5 MiB of writes.
#[test]
fn the_file_stops_growing() {
    let disk = Disk::default();
    let mut core = Core::open_on(disk.clone(), LIMITS, Time::ZERO).unwrap();
    let (mut rng, mut twin) = (Rng::new(7), Twin::default());
    let mut sizes = Vec::new();
    for round in 0..1500 {
        let now = Time::from_millis(round * 10);
        let op = draw(&mut rng, &twin);
        let _ = (twin.apply(now, &op), on_core(&mut core, now, &op));
        if round % 100 == 99 {
            sizes.push(disk.bytes().len());
        }
    }
    assert!(sizes.iter().all(|size| *size <= 256 << 10), "{sizes:?}");
}
