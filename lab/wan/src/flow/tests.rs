use std::num::NonZeroU64;
use std::time::Duration;

use super::*;
use crate::{LinkState, SEGMENT};

/// A flow over two links, with its own clock.
struct World {
    now: Time,
    link: Link,
    back: Link,
    flow: Flow,
}

/// Arrivals with their times in ms: pieces at the same time are merged.
type Arrivals = Vec<(f64, usize)>;

fn figures(delay_ms: u64, rate: u64) -> Figures {
    let delay = Duration::from_millis(delay_ms);
    Figures { delay, jitter: Duration::ZERO, rate: NonZeroU64::new(rate) }
}

impl World {
    fn new(there: Figures, back: Figures, window: WindowSpec) -> World {
        let (mut link, back) = (Link::new(there), Link::new(back));
        let mut flow = Flow::new(&link, window, 8 << 20, Rng::new(1));
        flow.open(Time::ZERO, &mut link);
        World { now: Time::ZERO, link, back, flow }
    }

    /// The same delay both ways, no rate, and a window that never limits.
    fn wide(delay_ms: u64) -> World {
        let window = WindowSpec { start: 8 << 20, most: 8 << 20 };
        World::new(figures(delay_ms, 0), figures(delay_ms, 0), window)
    }

    fn push(&mut self, len: usize) {
        self.flow.push(self.now, len, &mut self.link, &self.back);
    }

    /// Advances to a time, event by event, taking everything that arrives.
    fn run(&mut self, until_ms: u64) -> Arrivals {
        let until = Time::from_millis(until_ms);
        let mut arrivals = Arrivals::new();
        self.flow.advance(self.now, &mut self.link, &self.back);
        while let Some(at) = self.flow.next(&self.link, &self.back).filter(|at| *at <= until) {
            assert!(at >= self.now, "{at} is past at {}", self.now);
            self.now = at;
            self.flow.advance(at, &mut self.link, &self.back);
            self.take(&mut arrivals);
        }
        self.now = until;
        self.flow.advance(until, &mut self.link, &self.back);
        self.take(&mut arrivals);
        arrivals
    }

    fn take(&mut self, arrivals: &mut Arrivals) {
        let len = self.flow.arrived();
        self.flow.take(len, &mut self.link);
        let ms = self.now.as_nanos() as f64 / 1e6;
        match arrivals.last_mut() {
            Some(last) if last.0 == ms => last.1 += len,
            _ if len > 0 => arrivals.push((ms, len)),
            _ => {}
        }
    }
}

// Bytes arrive exactly the delay after they were pushed, and no state is left.
#[test]
fn bytes_arrive_a_delay_later() {
    let mut world = World::wide(40);
    world.push(1000);
    assert_eq!(world.run(5), []);
    world.push(7);
    assert_eq!(world.run(100), [(40.0, 1000), (45.0, 7)]);
    assert_eq!((world.flow.held(), world.link.counts.held()), (0, 0));
    assert_eq!(world.flow.next(&world.link, &world.back), None);
}

// A rate makes bytes leave one after the other: 100,000 bytes at 1 MB/s end 100 ms after the first.
#[test]
fn a_rate_spreads_bytes() {
    let window = WindowSpec { start: 8 << 20, most: 8 << 20 };
    let mut world = World::new(figures(10, 1_000_000), figures(10, 0), window);
    world.push(100_000);
    let arrivals = world.run(1000);
    assert_eq!(arrivals.first().unwrap(), &(11.46, SEGMENT));
    assert_eq!(arrivals.last().unwrap().0, 110.0);
    assert_eq!(arrivals.iter().map(|a| a.1).sum::<usize>(), 100_000);
}

// Two connections share a link's rate: together they take as long as one with all the bytes. The
// one that is polled first loses no more than the piece that the other one sent meanwhile.
#[test]
fn a_rate_is_shared() {
    let window = WindowSpec { start: 8 << 20, most: 8 << 20 };
    let mut world = World::new(figures(10, 1_000_000), figures(10, 0), window);
    let mut other = world.flow.clone();
    world.push(50_000);
    other.push(world.now, 50_000, &mut world.link, &world.back);
    assert_eq!(world.run(1000).last().unwrap().0, 61.46);
    other.advance(Time::from_millis(109), &mut world.link, &world.back);
    assert!(other.arrived() < 50_000, "{} bytes came too soon", other.arrived());
    other.advance(Time::from_millis(110), &mut world.link, &world.back);
    assert_eq!(other.arrived(), 50_000);
}

// A link's queue is short: a few bytes do not wait behind all bytes of another connection.
#[test]
fn a_full_link_lets_others_in() {
    let window = WindowSpec { start: 8 << 20, most: 8 << 20 };
    let mut world = World::new(figures(10, 100_000), figures(10, 0), window);
    let mut other = world.flow.clone();
    world.push(1_000_000);
    world.run(1000);
    other.push(world.now, 1000, &mut world.link, &world.back);
    other.advance(Time::from_millis(1065), &mut world.link, &world.back);
    assert_eq!(other.arrived(), 1000);
    assert_eq!(world.run(20_000).last().unwrap().0, 10_020.0);
}

// Slow start: ten segments in the first round trip, twice as many in each one after it.
#[test]
fn the_window_doubles_each_round_trip() {
    let mut world = World::new(figures(50, 0), figures(50, 0), WindowSpec::default());
    world.push(100 * SEGMENT);
    let segments = |n: usize| n * SEGMENT;
    let expected =
        [(50.0, segments(10)), (150.0, segments(20)), (250.0, segments(40)), (350.0, segments(30))];
    assert_eq!(world.run(1000), expected);
    // The second message uses the window that the first one opened: it crosses at once.
    world.push(80 * SEGMENT);
    assert_eq!(world.run(2000), [(1050.0, segments(80))]);
}

// The window stops at its limit: from there on each round trip carries as much as the one before.
#[test]
fn the_window_is_bounded() {
    let window = WindowSpec { start: 10 * SEGMENT, most: 20 * SEGMENT };
    let mut world = World::new(figures(50, 0), figures(50, 0), window);
    world.push(70 * SEGMENT);
    let sizes: Vec<_> = world.run(1000).iter().map(|a| a.1 / SEGMENT).collect();
    assert_eq!(sizes, [10, 20, 20, 20]);
}

// A window that is hardly used does not grow: single tokens do not open it for a later burst.
#[test]
fn an_unused_window_does_not_grow() {
    let mut world = World::new(figures(50, 0), figures(50, 0), WindowSpec::default());
    for ms in 1..200 {
        world.push(100);
        world.run(ms * 20);
    }
    assert_eq!(world.flow.window(), 10 * SEGMENT);
}

// A cut keeps the bytes that it caught and those that come later, and the repair sends them once
// and in order.
#[test]
fn a_cut_keeps_bytes_until_the_mend() {
    let mut world = World::wide(40);
    world.push(100);
    world.run(30);
    world.push(20);
    world.run(45);
    world.link.turn(world.now, LinkState::Cut);
    world.push(3);
    assert_eq!(world.run(10_000), []);
    assert_eq!((world.flow.held(), world.link.counts.held()), (23, 23));
    world.link.turn(world.now, LinkState::Up);
    assert_eq!(world.run(20_000), [(10_040.0, 23)]);
}

// Bytes that had arrived before a cut are delivered even if the driver polls after it.
#[test]
fn a_cut_does_not_reach_back() {
    let mut world = World::wide(40);
    world.push(100);
    world.link.turn(Time::from_millis(50), LinkState::Cut);
    world.flow.advance(Time::from_millis(60), &mut world.link, &world.back);
    assert_eq!(world.flow.arrived(), 100);
}

// A cut of the other direction stops acknowledgements: one window of bytes passes, and the rest
// follows the repair.
#[test]
fn a_one_way_cut_stops_the_other_way_after_a_window() {
    let mut world = World::new(figures(50, 0), figures(50, 0), WindowSpec::default());
    world.back.turn(Time::ZERO, LinkState::Cut);
    world.push(30 * SEGMENT);
    assert_eq!(world.run(5000), [(50.0, 10 * SEGMENT)]);
    world.back.turn(world.now, LinkState::Up);
    assert_eq!(world.run(9000), [(5050.0, 20 * SEGMENT)]);
}

// The buffer is the limit: a cut never holds more, and room reports it in advance.
#[test]
fn room_is_what_the_buffer_leaves() {
    let mut world = World::wide(40);
    world.link.turn(Time::ZERO, LinkState::Cut);
    world.push((8 << 20) - 5);
    assert_eq!(world.flow.room(), 5);
    world.push(5);
    assert_eq!(world.flow.room(), 0);
    // Arrived bytes that are not taken count against the limit as well.
    world.link.turn(Time::ZERO, LinkState::Up);
    world.flow.advance(Time::from_millis(40), &mut world.link, &world.back);
    assert_eq!((world.flow.arrived(), world.flow.room()), (8 << 20, 0));
}

// A faster rate applies to bytes that have not left yet, and to no others.
#[test]
fn a_new_rate_holds_at_once() {
    let window = WindowSpec { start: 8 << 20, most: 8 << 20 };
    let slow = figures(10, 14_600);
    let mut world = World::new(slow, figures(10, 0), window);
    world.push(100 * SEGMENT);
    let before: usize = world.run(1000).iter().map(|a| a.1).sum();
    assert_eq!(before, 9 * SEGMENT);
    world.link.set(world.now, figures(10, 0));
    assert_eq!(world.run(5000), [(1010.0, 91 * SEGMENT)]);
}

// With a shorter delay, later bytes do not overtake earlier ones.
#[test]
fn no_overtaking() {
    let mut world = World::wide(100);
    world.push(1);
    world.run(10);
    world.link.set(world.now, figures(5, 0));
    world.push(2);
    assert_eq!(world.run(1000), [(100.0, 3)]);
}

// Jitter delays by at most its setting, varies, and never reorders.
#[test]
fn jitter_is_bounded() {
    let mut world = World::wide(40);
    let jitter = Duration::from_millis(10);
    world.link.set(Time::ZERO, Figures { jitter, ..world.link.figures() });
    let mut extra = Vec::new();
    for i in 0..200 {
        world.push(1);
        let arrivals = world.run((i + 1) * 100);
        extra.push(arrivals[0].0 - (i * 100) as f64 - 40.0);
    }
    assert!(extra.iter().all(|ms| (0.0..=10.0).contains(ms)), "{extra:?}");
    let mean = extra.iter().sum::<f64>() / 200.0;
    assert!((4.0..6.0).contains(&mean), "{mean}");
}

// A driver that polls late gets everything that was due, and later events are not affected.
#[test]
fn late_questions_do_not_shift_what_follows() {
    let mut world = World::new(figures(50, 0), figures(50, 0), WindowSpec::default());
    world.push(100 * SEGMENT);
    world.flow.advance(Time::from_millis(349), &mut world.link, &world.back);
    assert_eq!(world.flow.arrived(), 70 * SEGMENT);
    world.flow.advance(Time::from_millis(350), &mut world.link, &world.back);
    assert_eq!(world.flow.arrived(), 100 * SEGMENT);
}

// An end stays behind its bytes; a reset replaces those that have not left.
#[test]
fn marks_keep_their_place() {
    let mut world = World::new(figures(50, 0), figures(50, 0), WindowSpec::default());
    world.push(20 * SEGMENT);
    world.flow.mark(world.now, Mark::End, &mut world.link, &world.back);
    let mut reset = world.flow.clone();
    let mut link = world.link.clone();
    world.run(149);
    assert_eq!(world.flow.ended(), None);
    world.run(150);
    assert_eq!(world.flow.ended(), Some(Mark::End));

    reset.mark(Time::ZERO, Mark::Reset, &mut link, &world.back);
    reset.advance(Time::from_millis(50), &mut link, &world.back);
    assert_eq!((reset.ended(), reset.arrived()), (Some(Mark::Reset), 10 * SEGMENT));
    assert_eq!(link.counts.dropped, 10 * SEGMENT as u64);
}

// Random pushes, cuts, repairs, changes of settings and late polls: no byte is lost, invented or
// held beyond the buffer, and after the last repair everything arrives.
#[test]
fn nothing_is_lost_in_any_order_of_events() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut world = World::new(figures(20, 500_000), figures(30, 0), WindowSpec::default());
        let (mut pushed, mut taken, mut ms) = (0, 0, 0);
        for _ in 0..200 {
            match rng.below(8) {
                0 => world.link.turn(world.now, LinkState::Cut),
                1 => world.link.turn(world.now, LinkState::Up),
                2 => world.back.turn(world.now, LinkState::Cut),
                3 => world.back.turn(world.now, LinkState::Up),
                4 => {
                    let new = figures(rng.below(60) as u64, rng.below(2_000_000) as u64);
                    world.link.set(world.now, new);
                }
                _ => {
                    let len = rng.below(60_000).min(world.flow.room());
                    world.push(len);
                    pushed += len;
                }
            }
            ms += rng.below(80) as u64;
            taken += world.run(ms).iter().map(|a| a.1).sum::<usize>();
            assert_eq!(world.flow.held(), pushed - taken, "seed {seed}");
            assert_eq!(world.link.counts.held(), (pushed - taken) as u64, "seed {seed}");
        }
        world.link.turn(world.now, LinkState::Up);
        world.back.turn(world.now, LinkState::Up);
        world.link.set(world.now, figures(10, 0));
        taken += world.run(ms + 60_000).iter().map(|a| a.1).sum::<usize>();
        assert_eq!(taken, pushed, "seed {seed}");
    }
}
