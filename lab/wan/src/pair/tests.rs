use std::time::Duration;

use super::*;
use crate::Figures;

/// A connection with its own clock, over links of 40 ms there and 60 ms back.
struct World {
    now: Time,
    there: Link,
    back: Link,
    pair: Pair,
    /// The actions, by ms.
    seen: Vec<(u64, Step)>,
}

fn link(delay_ms: u64) -> Link {
    Link::new(Figures { delay: Duration::from_millis(delay_ms), ..Figures::default() })
}

impl World {
    fn new() -> World {
        World::over(link(40), link(60))
    }

    fn over(mut there: Link, mut back: Link) -> World {
        let mut links = Links { there: &mut there, back: &mut back };
        let spec = WindowSpec::default();
        let pair = Pair::new(Time::ZERO, &mut links, spec, 1 << 20, &Rng::new(1));
        World { now: Time::ZERO, there, back, pair, seen: Vec::new() }
    }

    /// A connection whose handshake is complete: at 140 ms.
    fn open() -> World {
        let mut world = World::new();
        world.run(40);
        world.tell(|pair, now, links| pair.dialled(now, true, links));
        world.run(140);
        world.seen.clear();
        world
    }

    fn tell(&mut self, what: impl FnOnce(&mut Pair, Time, &mut Links)) {
        let mut links = Links { there: &mut self.there, back: &mut self.back };
        what(&mut self.pair, self.now, &mut links);
    }

    fn run(&mut self, until_ms: u64) -> &[(u64, Step)] {
        let until = Time::from_millis(until_ms);
        let mut links = Links { there: &mut self.there, back: &mut self.back };
        loop {
            while let Some(step) = self.pair.advance(self.now, &mut links) {
                self.seen.push((self.now.as_nanos() / 1_000_000, step));
            }
            match self.pair.next(&links).filter(|at| *at <= until) {
                Some(at) => self.now = at,
                None if self.now == until => return &self.seen,
                None => self.now = until,
            }
        }
    }
}

const RESET_BOTH: Step = Step::Over { reset_near: true, reset_far: true };

// The far side is dialled after one way. The near side's first byte leaves after a round trip and
// arrives after one and a half; from then on the far side's own bytes may leave.
#[test]
fn a_connect_waits_out_its_handshake() {
    let mut world = World::new();
    world.tell(|pair, now, links| pair.read(now, Side::Near, 100, links));
    assert_eq!(world.run(40), [(40, Step::Dial)]);
    world.tell(|pair, now, links| pair.dialled(now, true, links));
    world.run(139);
    assert_eq!((world.pair.arrived(Side::Far), world.pair.room(Side::Far)), (0, 0));
    world.run(140);
    assert_eq!((world.pair.arrived(Side::Far), world.pair.room(Side::Far)), (100, 1 << 20));
    world.tell(|pair, now, links| pair.read(now, Side::Far, 7, links));
    world.run(199);
    assert_eq!(world.pair.arrived(Side::Near), 0);
    world.run(200);
    assert_eq!(world.pair.arrived(Side::Near), 7);
}

// If nothing listens, the near side learns of it after a round trip.
#[test]
fn a_refusal_takes_a_round_trip() {
    let mut world = World::new();
    world.run(40);
    world.tell(|pair, now, links| pair.dialled(now, false, links));
    world.run(99);
    assert_eq!(world.seen.len(), 1);
    assert_eq!(world.run(100)[1], (100, RESET_BOTH));
    assert_eq!((world.there.counts.refused, world.there.counts.open), (1, 0));
}

// A side that ends first still receives the other one's bytes; when both have ended, so has the
// connection.
#[test]
fn half_closes_pass_through() {
    let mut world = World::open();
    world.tell(|pair, now, links| pair.ended(now, Side::Near, links));
    assert_eq!(world.run(200), [(180, Step::End(Side::Far))]);
    world.tell(|pair, now, links| pair.read(now, Side::Far, 7, links));
    world.tell(|pair, now, links| pair.ended(now, Side::Far, links));
    world.run(300);
    assert_eq!(world.seen.len(), 1, "the end waits for the bytes before it");
    world.tell(|pair, _, links| pair.wrote(Side::Near, 7, links));
    let over = Step::Over { reset_near: false, reset_far: false };
    assert_eq!(world.run(301)[1..], [(300, Step::End(Side::Near)), (300, over)]);
    assert_eq!((world.there.counts.resets, world.there.counts.open), (0, 0));
}

// A reset of the near side reaches the far side a delay later; bytes still held are counted.
#[test]
fn a_reset_travels() {
    let mut world = World::open();
    world.tell(|pair, now, links| pair.read(now, Side::Far, 9, links));
    world.tell(|pair, now, links| pair.broke(now, Side::Near, links));
    assert_eq!(world.run(500), [(180, RESET_BOTH)]);
    assert_eq!((world.back.counts.dropped, world.back.counts.held()), (9, 0));
    assert_eq!(world.pair.held(), 0);
}

// A side that ended and then turns out to be gone, since writes to it fail, resets the other one:
// so a cancel reaches the sender of a stream.
#[test]
fn a_reset_follows_an_end() {
    let mut world = World::open();
    world.tell(|pair, now, links| pair.ended(now, Side::Near, links));
    world.run(200);
    world.tell(|pair, now, links| pair.broke(now, Side::Near, links));
    assert_eq!(world.run(500), [(180, Step::End(Side::Far)), (240, RESET_BOTH)]);
}

// A lost link resets its connections at once, and new ones until it is restored.
#[test]
fn a_lost_link_resets_connections() {
    let mut world = World::open();
    world.back.turn(world.now, LinkState::Down);
    assert_eq!(world.run(500), [(140, RESET_BOTH)]);
    let mut late = World::over(link(40), world.back.clone());
    assert_eq!(late.run(0), [(0, RESET_BOTH)]);
    world.back.turn(world.now, LinkState::Up);
    assert_eq!(World::over(link(40), world.back.clone()).run(50), [(40, Step::Dial)]);
}

// A loss and its repair between two polls still reset the connection.
#[test]
fn a_short_loss_is_not_missed() {
    let mut world = World::open();
    world.there.turn(world.now, LinkState::Down);
    world.there.turn(world.now, LinkState::Up);
    assert_eq!(world.run(500), [(140, RESET_BOTH)]);
}

// Over a cut link a connect hangs, in either direction, and continues after the repair.
#[test]
fn a_connect_over_a_cut_hangs() {
    let mut world = World::over(link(40), link(60));
    world.there.turn(Time::ZERO, LinkState::Cut);
    assert_eq!(world.run(5000), []);
    world.there.turn(world.now, LinkState::Up);
    world.back.turn(world.now, LinkState::Cut);
    assert_eq!(world.run(6000), [(5040, Step::Dial)]);
    world.tell(|pair, now, links| pair.dialled(now, true, links));
    world.tell(|pair, now, links| pair.read(now, Side::Near, 5, links));
    world.run(7000);
    assert_eq!(world.pair.arrived(Side::Far), 0);
    world.back.turn(world.now, LinkState::Up);
    world.run(7100);
    assert_eq!(world.pair.arrived(Side::Far), 5);
}

// A client that gives up a hanging connect never reaches the far side, not even after the repair.
// One that closes one half early over a working link does.
#[test]
fn a_connect_that_was_given_up_stays_so() {
    let mut world = World::new();
    world.there.turn(Time::ZERO, LinkState::Cut);
    world.tell(|pair, now, links| pair.read(now, Side::Near, 5, links));
    world.run(1000);
    world.tell(|pair, now, links| pair.ended(now, Side::Near, links));
    let over = Step::Over { reset_near: true, reset_far: false };
    assert_eq!(world.run(1000), [(1000, over)]);
    world.there.turn(world.now, LinkState::Up);
    assert_eq!(world.run(9000).len(), 1);

    let mut early = World::new();
    early.tell(|pair, now, links| pair.read(now, Side::Near, 5, links));
    early.tell(|pair, now, links| pair.ended(now, Side::Near, links));
    early.run(40);
    early.tell(|pair, now, links| pair.dialled(now, true, links));
    early.run(140);
    assert_eq!(early.pair.arrived(Side::Far), 5);
    early.tell(|pair, _, links| pair.wrote(Side::Far, 5, links));
    assert_eq!(early.run(141)[1], (140, Step::End(Side::Far)));
}

// A connection that the driver gives up leaves balanced counts.
#[test]
fn closing_balances_the_counts() {
    let mut world = World::open();
    world.tell(|pair, now, links| pair.read(now, Side::Near, 50, links));
    world.tell(|pair, _, links| pair.close(links, true));
    let counts = world.there.counts;
    assert_eq!((counts.open, counts.opened, counts.resets, counts.held()), (0, 1, 1, 0));
    assert_eq!(world.run(500), []);
}
