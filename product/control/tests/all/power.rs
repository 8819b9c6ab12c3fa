//! The embedded store on a disk that loses power, or its bytes.

use crate::disk::Disk;
use crate::twin::{LIMITS, State, Twin, draw, on_core, plain, state};
use meridian_base::{Duration, Rng, Time};
use meridian_control::Error;
use meridian_control::embedded::Core;

fn open(disk: &Disk) -> Result<Core, Error> {
    Core::open_on(disk.clone(), LIMITS, Time::ZERO)
}

/// Runs random operations until the power fails; returns the possible resulting states.
fn until_dark(core: &mut Core, twin: &mut Twin, rng: &mut Rng) -> Vec<State> {
    let mut now = Time::ZERO;
    loop {
        now = now + Duration::from_millis(rng.below(300) as u64);
        twin.trail = vec![twin.state()];
        let op = draw(rng, twin);
        let expected = twin.apply(now, &op);
        match on_core(core, now, &op) {
            Err(Error::Failed(_)) => return std::mem::take(&mut twin.trail),
            answer => assert_eq!(plain(answer), expected, "{op:?}"),
        }
    }
}

// The power fails at 1,000 random writes and syncs, and each unsynced sector is kept or lost by
// chance. Every time the store opens with all acknowledged operations: entries, revisions, leases
// and history. The operation in progress is there either completely or not at all.
#[test]
fn power_lost_at_a_thousand_points_loses_nothing_acknowledged() {
    let mut rng = Rng::new(0x504F_5745);
    let mut disk = Disk::default();
    let mut twin = Twin::default();
    let mut allowed = vec![twin.state()];
    let mut moved = 0;
    for point in 0..1000 {
        let mut core = open(&disk).unwrap_or_else(|error| panic!("point {point}: {error}"));
        let found = state(&mut core, Time::ZERO);
        assert!(allowed.contains(&found), "point {point}: {found:#?} is none of {allowed:#?}");
        twin.restart(&found, Time::ZERO);
        twin.restart_numbers(core.last_lease().map_or(0, |id| id.0));
        disk.fuse(1 + rng.below(60) as u64);
        let head = found.head;
        allowed = until_dark(&mut core, &mut twin, &mut rng);
        moved += allowed[0].head - head;
        drop(core);
        disk = Disk::holding(disk.after_loss(&mut rng));
    }
    assert!(moved > 1000, "only {moved} revisions were made between the losses");
}

// Power failures while the store opens, over and over, change nothing.
#[test]
fn power_lost_while_opening_loses_nothing() {
    let mut rng = Rng::new(0x4F50_454E);
    let mut disk = Disk::default();
    let mut twin = Twin::default();
    let mut core = open(&disk).unwrap();
    disk.fuse(400);
    let allowed = until_dark(&mut core, &mut twin, &mut rng);
    drop(core);
    for point in 0..200 {
        disk = Disk::holding(disk.after_loss(&mut rng));
        disk.fuse(rng.below(30) as u64);
        if let Ok(mut core) = open(&disk) {
            let found = state(&mut core, Time::ZERO);
            assert!(allowed.contains(&found), "point {point}");
        }
    }
    disk = Disk::holding(disk.after_loss(&mut rng));
    assert!(allowed.contains(&state(&mut open(&disk).unwrap(), Time::ZERO)));
}

/// A small store, with its complete history of states; cut off, or closed properly.
fn written(close: bool) -> (Vec<u8>, Vec<State>) {
    let mut rng = Rng::new(0x424F_4F4B);
    let (disk, mut twin) = (Disk::default(), Twin::default());
    let mut core = open(&disk).unwrap();
    let mut states = vec![twin.state()];
    for step in 0..40 {
        let (now, op) = (Time::from_millis(step * 100), draw(&mut rng, &twin));
        assert_eq!(plain(on_core(&mut core, now, &op)), twin.apply(now, &op));
        states.append(&mut twin.trail);
    }
    let cut_off = disk.bytes();
    drop(core);
    (if close { disk.bytes() } else { cut_off }, states)
}

/// Opens damaged bytes: the result is a state the store once had, or an error, but never a panic or
/// an invented state.
fn opens_honestly(bytes: Vec<u8>, states: &[State], what: &str) -> bool {
    match open(&Disk::holding(bytes)) {
        Ok(mut core) => {
            let found = state(&mut core, Time::ZERO);
            assert!(states.contains(&found), "{what}: {found:#?} is not a state it had");
            true
        }
        Err(Error::Damaged { .. } | Error::Failed(_) | Error::Format { .. }) => false,
        Err(other) => panic!("{what}: {other}"),
    }
}

// A flipped bit anywhere in the file is detected on opening, or is harmless.
#[test]
fn flipped_bits_are_found() {
    for close in [false, true] {
        let (bytes, states) = written(close);
        let (mut good, mut bad) = (0, 0);
        let used = (512..bytes.len()).filter(|at| bytes[*at] != 0);
        let points: Vec<usize> = (0..512).step_by(3).chain(used.step_by(211)).collect();
        for at in points {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            let what = format!("bit of byte {at}, closed: {close}");
            let opened = opens_honestly(flipped, &states, &what);
            *(if opened { &mut good } else { &mut bad }) += 1;
        }
        println!("closed {close}: {good} opened, {bad} refused");
        assert!(good > 0 && bad > 0, "{good} opened, {bad} were refused: nothing was tested");
    }
}

// A file that is cut off anywhere is refused or shows a state that it had.
#[test]
fn files_cut_short_are_found() {
    for close in [false, true] {
        let (bytes, states) = written(close);
        for length in (0..bytes.len()).step_by(499).chain([bytes.len() - 1]) {
            opens_honestly(bytes[..length].to_vec(), &states, &format!("cut at {length}"));
        }
    }
}
