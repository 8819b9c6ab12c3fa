//! Faults that come by chance: cards from a deck that the seed shuffles, one every few seconds.
//!
//! A deck contains every kind of fault, so a short run has most kinds and a long one all, in orders
//! that no table has.

use std::time::{Duration, Instant};

use meridian_base::Rng;

use super::super::Options as Up;
use super::super::order::{Act, Order, What};
use super::super::world::World;
use super::account::Fault;
use super::play::perform;
use super::scenario::Deed;

/// A fault and its repair.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Drawn {
    /// Its kind, in words.
    pub(super) kind: &'static str,
    /// Whether a gateway or a link may be silent meanwhile.
    pub(super) silences: bool,
    /// The orders and their times, seconds from the start; the last one repairs.
    pub(super) orders: Vec<(Duration, Order)>,
}

/// An order, and its time in seconds.
pub(super) type Line = (f64, Act, What, String);

pub(super) fn line(at: f64, act: Act, what: What, name: String) -> Line {
    (at, act, what, name)
}

impl Drawn {
    pub(super) fn new(kind: &'static str, silences: bool, lines: Vec<Line>) -> Drawn {
        let order =
            |(at, act, what, name)| (Duration::from_secs_f64(at), Order { act, what, name });
        Drawn { kind, silences, orders: lines.into_iter().map(order).collect() }
    }
}

/// The faults of this many seconds, ordered by start. `deck` has each kind and its number, and
/// `play` makes a fault of that kind at a time, if its target is whole then.
pub(super) fn deal<Kind: Copy>(
    seconds: f64,
    gap: [f64; 2],
    deck: &[(Kind, usize)],
    rng: &mut Rng,
    mut play: impl FnMut(Kind, f64, &mut Rng) -> Option<Drawn>,
) -> Vec<Drawn> {
    let (mut cards, mut all, mut at) = (Vec::new(), Vec::new(), 0.0);
    while at < seconds {
        if cards.is_empty() {
            cards = shuffled(deck, rng);
        }
        // The first card that can be played now; the others keep their places.
        for place in 0..cards.len() {
            if let Some(drawn) = play(cards[place], at, rng) {
                cards.remove(place);
                all.push(drawn);
                break;
            }
        }
        at += gap[0] + (gap[1] - gap[0]) * rng.unit();
    }
    all
}

fn shuffled<Kind: Copy>(deck: &[(Kind, usize)], rng: &mut Rng) -> Vec<Kind> {
    let each = deck.iter().flat_map(|(kind, times)| std::iter::repeat_n(*kind, *times));
    let mut cards: Vec<Kind> = each.collect();
    for at in (1..cards.len()).rev() {
        cards.swap(at, rng.below(at + 1));
    }
    cards
}

/// Orders all faults and their repairs, each at its time.
pub(super) async fn play(
    world: &mut World,
    up: &Up,
    drawn: &[Drawn],
    played: &mut Vec<Fault>,
) -> std::result::Result<(), String> {
    let each = |(fault, drawn): (usize, &Drawn)| {
        let last = drawn.orders.len() - 1;
        let one = |(nth, (at, order)): (usize, &(Duration, Order))| {
            (*at, fault, nth == last, order.clone())
        };
        drawn.orders.iter().enumerate().map(one).collect::<Vec<_>>()
    };
    let mut orders: Vec<_> = drawn.iter().enumerate().flat_map(each).collect();
    orders.sort_by_key(|(at, ..)| *at);
    let start = tokio::time::Instant::now();
    let mut starts: Vec<Option<Instant>> = vec![None; drawn.len()];
    for (at, fault, last, order) in orders {
        tokio::time::sleep_until(start + at).await;
        let from = *starts[fault].get_or_insert_with(Instant::now);
        perform(world, up, start, &Deed::Order(order)).await?;
        if last {
            let Drawn { kind, silences, .. } = drawn[fault];
            played.push(Fault { kind, silences, from, mended: Instant::now() });
        }
    }
    Ok(())
}
