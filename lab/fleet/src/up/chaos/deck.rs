//! Faults that come by chance: cards from a deck that the seed shuffles, one every few seconds.
//!
//! A deck contains every kind of fault, so a short run has most kinds and a long one all, in orders
//! that no table has. A broken part is left alone until it is whole again, and of some kinds of parts
//! only a few are broken at a time, so that the fleet can serve every request eventually.

use std::collections::BTreeSet;
use std::time::Duration;

use meridian_base::Rng;
use meridian_protocol::admin::Role;

use super::super::order::{ALL, Act, Order, What};
use super::kv::{DECODE, PREFILL};
use super::schedule::{Deed, Fault, Schedule};
use super::wait::Moment;

/// Kinds of faults, and how fast they come.
pub(super) struct Deck {
    pub(super) kinds: &'static [DeckKind],
    /// Shortest and longest time between the starts of two faults, seconds; in turn, between a repair
    /// and the next fault.
    pub(super) gap: [f64; 2],
    /// One fault is repaired before the next one starts.
    pub(super) in_turn: bool,
}

/// A kind of fault.
pub(super) struct DeckKind {
    pub(super) name: &'static str,
    /// Its number in a deck.
    pub(super) times: usize,
    /// The kind of part that breaks.
    pub(super) what: What,
    /// Draws the part.
    pub(super) part: fn(&mut Rng) -> String,
    /// Shortest and longest time that it is dead, seconds, if it is drawn.
    pub(super) dead: Option<[f64; 2]>,
    /// How long a part may be suspended, seconds.
    pub(super) stops: &'static [f64],
    /// What happens to it. Then it is revived, unless it does that itself.
    pub(super) act: Act,
    /// Chooses the time until the repair, of the drawn ones: dead and suspended.
    pub(super) lasts: fn(f64, f64) -> f64,
    /// Further orders.
    pub(super) more: fn(&Draw) -> Vec<DeckLine>,
    /// How long parts of a kind are left alone after the repair, seconds.
    pub(super) settle: fn(What) -> f64,
    /// Whether a gateway or a link may be silent meanwhile.
    pub(super) silences: bool,
    /// No part of this kind is broken meanwhile.
    pub(super) spares: Option<What>,
    /// The moment of a request for which the fault waits, and the role of the replica.
    pub(super) moment: Option<(Role, Moment)>,
}

/// A drawn part, and the fault that hits it.
pub(super) struct Draw {
    pub(super) what: What,
    pub(super) name: String,
    pub(super) act: Act,
    pub(super) lasts: f64,
}

/// An order, and its time after the start of the fault, seconds.
pub(super) type DeckLine = (f64, Order);

impl Draw {
    pub(super) fn line(&self, at: f64, act: Act) -> DeckLine {
        (at, Order { act, what: self.what, name: self.name.clone() })
    }

    /// The fault and its repair.
    pub(super) fn lines(&self) -> Vec<DeckLine> {
        let mended = matches!(self.act, Act::Restart | Act::Reload | Act::Edit);
        let revived = (!mended).then(|| self.line(self.lasts, Act::Revive));
        [self.line(0.0, self.act)].into_iter().chain(revived).collect()
    }
}

impl Deck {
    /// The faults of this many seconds.
    pub(super) fn deal(&self, seconds: f64, rng: &mut Rng) -> Schedule {
        let (mut cards, mut busy, mut faults, mut at) = (Vec::new(), Busy::default(), vec![], 0.0);
        while at < seconds {
            if cards.is_empty() {
                cards = self.shuffled(rng);
            }
            // The first card that can be played now; the others keep their places.
            for place in 0..cards.len() {
                if let Some((fault, lasts)) = busy.play(cards[place], at, rng) {
                    cards.remove(place);
                    faults.push(fault);
                    at += if self.in_turn { lasts } else { 0.0 };
                    break;
                }
            }
            at += between(self.gap, rng);
        }
        Schedule { faults, in_turn: self.in_turn }
    }

    fn shuffled(&self, rng: &mut Rng) -> Vec<&'static DeckKind> {
        let each = self.kinds.iter().flat_map(|kind| std::iter::repeat_n(kind, kind.times));
        let mut cards: Vec<&DeckKind> = each.collect();
        for at in (1..cards.len()).rev() {
            cards.swap(at, rng.below(at + 1));
        }
        cards
    }
}

fn between([least, most]: [f64; 2], rng: &mut Rng) -> f64 {
    least + (most - least) * rng.unit()
}

/// Parts that are broken or not whole yet, and until when.
#[derive(Default)]
struct Busy(Vec<(String, String, f64)>);

impl Busy {
    /// A fault of this kind now, and its length in seconds, if its parts are whole.
    fn play(&mut self, kind: &DeckKind, at: f64, rng: &mut Rng) -> Option<(Fault, f64)> {
        let name = (kind.part)(rng);
        let dead = kind.dead.map_or(0.0, |dead| between(dead, rng));
        let stop =
            if kind.stops.is_empty() { 0.0 } else { kind.stops[rng.below(kind.stops.len())] };
        let DeckKind { what, act, .. } = *kind;
        let draw = Draw { what, name, act, lasts: (kind.lasts)(dead, stop) };
        let mut lines = [draw.lines(), (kind.more)(&draw)].concat();
        lines.sort_by(|a, b| a.0.total_cmp(&b.0));
        let lasts = lines.last().map_or(0.0, |(at, _)| *at);
        self.0.retain(|(.., until)| *until > at);
        let parts = lines.iter().map(|(_, order)| (order.what, order.name.as_str()));
        let parts: BTreeSet<(What, &str)> =
            parts.chain(kind.spares.map(|what| (what, ALL))).collect();
        if !parts.iter().all(|(what, name)| self.is_whole(*what, name)) {
            return None;
        }
        for (what, name) in parts {
            let until = at + lasts + (kind.settle)(what);
            self.0.push((group(what, name), name.to_owned(), until));
        }
        let moment = kind.moment.map(|(role, moment)| {
            (0.0, Deed::Moment { role, moment, first: rng.below((PREFILL * DECODE) as usize) })
        });
        let deeds = lines.into_iter().map(|(after, order)| (after, Deed::Order(order)));
        let deeds = moment.into_iter().chain(deeds);
        let events = deeds.map(|(after, deed)| (Duration::from_secs_f64(at + after), deed));
        let DeckKind { name: kind, silences, .. } = *kind;
        Some((Fault { kind, silences, events: events.collect() }, lasts))
    }

    fn is_whole(&self, what: What, name: &str) -> bool {
        let group = group(what, name);
        let broken: Vec<&str> = self
            .0
            .iter()
            .filter(|(of, ..)| *of == group)
            .map(|(_, name, _)| name.as_str())
            .collect();
        match name {
            ALL => broken.is_empty(),
            _ => broken.len() < most(what) && !broken.contains(&name) && !broken.contains(&ALL),
        }
    }
}

/// Parts whose breakages are counted together: the replicas of a region, gateways and regions.
fn group(what: What, name: &str) -> String {
    match what {
        What::Replica => name.split_once("-engine").unwrap_or_default().0.to_owned(),
        What::Region => format!("{:?}", What::Gateway),
        what => format!("{what:?}"),
    }
}

/// Most parts of a group that are broken at a time: half of a region's replicas, two of three control
/// planes.
fn most(what: What) -> usize {
    match what {
        What::Replica | What::Control => 2,
        _ => 1,
    }
}
