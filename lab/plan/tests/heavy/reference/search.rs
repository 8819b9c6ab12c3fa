//! Every set of instances, on every set of GPUs.
//!
//! Decode instances are chosen first. Given these, a prefill instance's rate and link load do not
//! depend on the other prefill instances, so it is judged once, alone; the rates and loads of
//! several add up.

use std::collections::BTreeMap;
use std::rc::Rc;

use meridian_plan::{FULL, Fleet, LinkId, Loads, Phase, Rated, Task};

use super::Choice;
use super::bounds::Bounds;
use super::flows::{carried, most_of_gpu};
use super::places::{Placed, Places};
use super::seats::Seats;

/// Smaller differences do not count.
const SAME: f64 = 1.000_001;

pub(super) struct Search<'a> {
    task: &'a Task<'a>,
    seats: &'a Seats,
    /// Those with the highest rate per GPU first.
    prefill: Vec<&'a Choice>,
    decode: Vec<&'a Choice>,
    bounds: Bounds,
    places: Places<'a>,
    /// The usable capacity of each link: bytes a second.
    room: Vec<f64>,
    /// The maximum prefill of one GPU, if the links to decode instances bound that.
    most_of_gpu: Option<f64>,
    best: f64,
    /// Instances that may still be placed; 0 if an exhaustive search was infeasible.
    tries: usize,
}

/// A partial set of instances.
#[derive(Clone)]
struct Partial {
    /// The place it leaves, by number.
    place: usize,
    /// Its rate.
    rate: f64,
    /// The load of the prefill instances on each link: bytes a second.
    loads: Vec<f64>,
}

/// Decode instances, and the results for prefill instances that hand over to them.
struct Decode {
    fleet: Fleet,
    /// Bytes of a request on each link, without its KV.
    loads: Vec<f64>,
    /// Judged prefill instances, by number; `None` for those that serve nothing.
    judged: BTreeMap<usize, Option<Rc<Judged>>>,
    /// Sets of prefill instances tried so far: their rates and loads, by the next choice and the
    /// seats left.
    tried: BTreeMap<(usize, Vec<u8>), Vec<Served>>,
}

/// The rate of prefill instances, and their load on each link.
type Served = (f64, Vec<f64>);
/// The rate of an instance, and the bytes of a request on each link.
type Judged = (f64, Loads);

impl<'a> Search<'a> {
    pub(super) fn new(
        task: &'a Task<'a>,
        seats: &'a Seats,
        choices: &'a [Choice],
        floor: f64,
    ) -> Search<'a> {
        let bounds = Bounds::new(&seats.by_kind(&seats.full()), choices);
        let of = |phase| {
            let mut of: Vec<&Choice> = choices.iter().filter(|one| one.phase == phase).collect();
            of.sort_by(|a, b| b.per_gpu().total_cmp(&a.per_gpu()));
            of
        };
        let (prefill, decode) = (of(Phase::Prefill), of(Phase::Decode));
        let links = (0..task.topology.link_count()).map(LinkId);
        let room = links.map(|link| FULL * task.topology.usable(link)).collect();
        let (places, most_of_gpu) = (Places::new(task, seats), most_of_gpu(task, &prefill));
        let best = floor;
        Search { task, seats, prefill, decode, bounds, places, room, most_of_gpu, best, tries: 0 }
    }

    /// The rate that an instance must exceed so that a set with it could be above the floor; `None`
    /// if none could.
    pub(super) fn lacks(&self, one: &Choice) -> Option<f64> {
        let full = self.seats.by_kind(&self.seats.full());
        let rest = full.iter().zip(&one.uses).map(|(full, uses)| full - uses);
        self.bounds.lacks(&rest.collect::<Vec<u8>>(), one.phase, self.best)
    }

    /// The best set above the floor, or the floor if there is none; `None` if that takes too many
    /// `tries`.
    pub(super) fn run(mut self, tries: usize) -> Option<f64> {
        self.tries = tries;
        let loads = vec![0.0; self.room.len()];
        self.decodes(0, &Partial { place: 0, rate: 0.0, loads }, &mut Vec::new());
        (self.tries > 0).then_some(self.best)
    }

    /// Every set that continues with decode choices from `at` on.
    fn decodes(&mut self, at: usize, partial: &Partial, chosen: &mut Vec<Rc<Rated>>) {
        if partial.rate > self.best && self.carries_kv(chosen) {
            let mut decode = Decode::new(chosen, self.room.len());
            let served = Partial { rate: 0.0, ..partial.clone() };
            self.prefills(0, &served, &mut decode, &mut Vec::new());
        }
        let left = self.places.at(partial.place).kinds.clone();
        for next in at..self.decode.len() {
            let one = self.decode[next];
            let Some(rest) = rest(&left, one) else { continue };
            if self.bounds.of(&rest, (0.0, partial.rate + one.rate)) <= self.best * SAME {
                continue;
            }
            for placed in self.placed((next, one), partial).iter() {
                let rate = partial.rate + placed.rated.rate;
                let more = Partial { place: placed.leaves, rate, loads: partial.loads.clone() };
                chosen.push(placed.rated.clone());
                self.decodes(next, &more, chosen);
                chosen.pop();
            }
        }
    }

    /// Whether links could carry more than the best to these.
    fn carries_kv(&self, chosen: &[Rc<Rated>]) -> bool {
        self.most_of_gpu.is_none_or(|each| carried(self.task, chosen, each) > self.best * SAME)
    }

    /// Every set that continues with prefill choices from `at` on.
    fn prefills(
        &mut self,
        at: usize,
        partial: &Partial,
        decode: &mut Decode,
        chosen: &mut Vec<Rc<Rated>>,
    ) {
        if partial.rate.min(self.carried(partial)) > self.best {
            self.judge(decode, chosen);
        }
        let left = self.places.at(partial.place).kinds.clone();
        let free: f64 = left.iter().map(|left| f64::from(*left)).sum();
        for next in at..self.prefill.len() {
            let one = self.prefill[next];
            // The following ones have no higher rate per GPU.
            if partial.rate + one.per_gpu() * free <= self.best * SAME {
                break;
            }
            let Some(rest) = rest(&left, one) else { continue };
            if self.bounds.most(&rest, Phase::Prefill) + partial.rate + one.rate <= self.best * SAME
            {
                continue;
            }
            for placed in self.placed((next, one), partial).iter() {
                let Some(judged) = decode.judged(self.task, placed) else { continue };
                let more = partial.and(placed, &judged);
                if self.carries(&more, decode) && !self.beaten(next, &more, decode) {
                    chosen.push(placed.rated.clone());
                    self.prefills(next, &more, decode, chosen);
                    chosen.pop();
                }
            }
        }
    }

    /// An instance of a choice on every set of seats.
    fn placed(&mut self, (nth, one): (usize, &Choice), partial: &Partial) -> Rc<[Placed]> {
        let Some(dealt) = one.dealt.as_ref().filter(|_| self.tries > 0) else {
            self.tries = 0;
            return Rc::new([]);
        };
        let placed = self.places.with(partial.place, (nth, one), dealt);
        self.tries = self.tries.saturating_sub(placed.len());
        placed
    }

    /// The part of a set's rate that links can carry.
    fn carried(&self, partial: &Partial) -> f64 {
        let full = self.room.iter().zip(&partial.loads).map(|(room, bytes)| room / bytes);
        partial.rate * full.fold(f64::INFINITY, f64::min)
    }

    /// Whether links could carry more than the best if the remaining capacity were filled without
    /// putting KV on them.
    fn carries(&self, partial: &Partial, decode: &Decode) -> bool {
        let most = self.bounds.most(&self.places.at(partial.place).kinds, Phase::Prefill);
        let served = (partial.rate + most) * SAME;
        let mut links = self.room.iter().zip(&partial.loads).zip(&decode.loads);
        links.all(|((room, bytes), own)| (bytes + most * own) * self.best <= served * room)
    }

    /// Whether a set tried before leaves the same GPUs, serves no less, and leaves every link no
    /// less of the capacity needed to carry the best, compared with another that continues with
    /// choices from `at` on.
    fn beaten(&self, at: usize, partial: &Partial, decode: &mut Decode) -> bool {
        let Partial { place, rate, loads } = partial;
        let left = &self.places.at(*place).left;
        let tried = decode.tried.entry((at, left.clone())).or_default();
        let beats = |(rate, loads): &Served, (other, others): &Served| {
            let more = rate - other;
            let mut links = self.room.iter().zip(loads).zip(others);
            more >= 0.0
                && links.all(|((room, bytes), others)| (bytes - others) * self.best <= more * room)
        };
        let served = (*rate, loads.clone());
        if tried.iter().any(|other| beats(other, &served)) {
            return true;
        }
        tried.retain(|other| !beats(&served, other));
        tried.push(served);
        false
    }

    fn judge(&mut self, decode: &Decode, chosen: &[Rc<Rated>]) {
        let fleet = Fleet { prefill: chosen.to_vec(), ..decode.fleet.clone() };
        if let Some(verdict) = fleet.judged(self.task) {
            self.best = self.best.max(verdict.goodput);
        }
    }
}

/// The servers of each kind that a choice leaves; `None` if it does not fit.
fn rest(left: &[u8], one: &Choice) -> Option<Vec<u8>> {
    let fits = left.iter().zip(&one.uses).all(|(left, uses)| uses <= left);
    fits.then(|| left.iter().zip(&one.uses).map(|(left, uses)| left - uses).collect())
}

impl Decode {
    fn new(chosen: &[Rc<Rated>], links: usize) -> Decode {
        let fleet = Fleet { prefill: Vec::new(), decode: chosen.to_vec() };
        let rate: f64 = chosen.iter().map(|one| one.rate).sum();
        let mut loads = vec![0.0; links];
        for one in chosen {
            for (link, bytes) in one.loads.iter() {
                loads[link.0 as usize] += bytes * one.rate / rate;
            }
        }
        Decode { fleet, loads, judged: BTreeMap::new(), tried: BTreeMap::new() }
    }

    /// The rate of a prefill instance, and the bytes of one of its requests on each link.
    fn judged(&mut self, task: &Task<'_>, placed: &Placed) -> Option<Rc<Judged>> {
        let judge = || {
            let fleet = Fleet { prefill: vec![placed.rated.clone()], ..self.fleet.clone() };
            fleet.judged(task).map(|verdict| Rc::new((verdict.prefill, verdict.loads)))
        };
        self.judged.entry(placed.id).or_insert_with(judge).clone()
    }
}

impl Partial {
    /// The set with one more prefill instance.
    fn and(&self, placed: &Placed, (rate, bytes): &Judged) -> Partial {
        let mut loads = self.loads.clone();
        bytes.iter().for_each(|(link, bytes)| loads[link.0 as usize] += bytes * rate);
        Partial { place: placed.leaves, rate: self.rate + rate, loads }
    }
}
