//! Determines which GPUs and servers are truly equal.

use std::collections::BTreeMap;

use meridian_plan::{GpuId, Server, Topology};

use super::deal::Dealt;

/// GPUs of one server, NUMA node and card: a ring or a stage is the same with any of them.
struct Seat {
    gpus: Vec<GpuId>,
    server: usize,
    /// Seats of one server with the same class are equal: of one NUMA node and, if there are
    /// several access switches, of one card (a GPU that relays to another switch uses its first
    /// card there).
    class: (u8, Option<u32>),
}

/// All seats, adjacent within a server, and the equal ones adjacent among them.
pub(super) struct Seats {
    seats: Vec<Seat>,
    /// For each server the first one equal to it.
    like: Vec<usize>,
}

impl Seats {
    pub(super) fn of(topology: &Topology) -> Seats {
        let mut seats: BTreeMap<_, Vec<GpuId>> = BTreeMap::new();
        for gpu in topology.all_gpus() {
            let home = topology.home(gpu);
            let numa = home.numa[(gpu.0 - home.first) as usize];
            let card = topology.own_card(gpu);
            let class = (numa, card.filter(|_| topology.access().len() > 1));
            let server = topology.server_of(gpu) as usize;
            seats.entry((server, class, card)).or_default().push(gpu);
        }
        let seats =
            seats.into_iter().map(|((server, class, _), gpus)| Seat { gpus, server, class });
        let servers = topology.servers();
        let like = |one: &Server| servers.iter().position(|other| equal(one, other));
        let like = servers.iter().map(|one| like(one).expect("it is as it is")).collect();
        Seats { seats: seats.collect(), like }
    }

    pub(super) fn count(&self) -> usize {
        self.seats.len()
    }

    /// The number of GPUs of each.
    pub(super) fn full(&self) -> Vec<u8> {
        self.seats.iter().map(|seat| seat.gpus.len() as u8).collect()
    }

    /// The seats of a server.
    pub(super) fn range(&self, server: usize) -> core::ops::Range<usize> {
        let at = |server| self.seats.partition_point(|seat| seat.server < server);
        at(server)..at(server + 1)
    }

    pub(super) fn servers(&self) -> usize {
        self.like.len()
    }

    /// The first server equal to this one.
    pub(super) fn like(&self, server: usize) -> usize {
        self.like[server]
    }

    /// The sum over each kind of server.
    pub(super) fn by_kind(&self, counts: &[u8]) -> Vec<u8> {
        let mut sums = vec![0; self.servers()];
        for (seat, count) in self.seats.iter().zip(counts) {
            sums[self.like[seat.server]] += count;
        }
        sums
    }

    /// Whether this seat equals the one before it.
    pub(super) fn as_before(&self, seat: usize) -> bool {
        let key = |seat: &Seat| (seat.server, seat.class, seat.gpus.len());
        seat > 0 && key(&self.seats[seat]) == key(&self.seats[seat - 1])
    }

    /// The canonical form, the same for all that differ only in the choice among equal seats: the
    /// contributions of equal seats and servers, sorted in descending order.
    pub(super) fn canonical<T: Ord + Clone>(&self, of: &[T]) -> Vec<T> {
        let mut blocks: Vec<Vec<T>> = (0..self.servers()).map(|at| self.sorted(at, of)).collect();
        for first in 0..self.servers() {
            let same: Vec<usize> =
                (0..self.servers()).filter(|other| self.like[*other] == first).collect();
            let mut sorted: Vec<Vec<T>> = same.iter().map(|at| blocks[*at].clone()).collect();
            sorted.sort_by(|a, b| b.cmp(a));
            same.into_iter().zip(sorted).for_each(|(at, block)| blocks[at] = block);
        }
        blocks.concat()
    }

    /// The contributions of a server's seats, with equal ones sorted.
    fn sorted<T: Ord + Clone>(&self, server: usize, of: &[T]) -> Vec<T> {
        let range = self.range(server);
        let mut block = of[range.clone()].to_vec();
        for part in self.classes(server) {
            block[part.start - range.start..part.end - range.start].sort_by(|a, b| b.cmp(a));
        }
        block
    }

    /// The runs of equal seats of a server.
    pub(super) fn classes(&self, server: usize) -> Vec<core::ops::Range<usize>> {
        let mut runs: Vec<core::ops::Range<usize>> = Vec::new();
        for seat in self.range(server) {
            match runs.last_mut() {
                Some(run) if self.as_before(seat) => run.end = seat + 1,
                _ => runs.push(seat..seat + 1),
            }
        }
        runs
    }

    /// The GPUs of each stage: of each seat the first free ones, beyond the `taken` ones.
    pub(super) fn members(&self, dealt: &Dealt, taken: &mut [usize]) -> Vec<Vec<GpuId>> {
        let stage = |stage: usize| {
            let mut members = Vec::new();
            for (seat, column) in dealt.0.iter().enumerate() {
                let count = usize::from(column[stage]);
                members.extend_from_slice(&self.seats[seat].gpus[taken[seat]..taken[seat] + count]);
                taken[seat] += count;
            }
            members
        };
        (0..dealt.stages()).map(stage).collect()
    }
}

/// Whether servers differ only in their names.
fn equal(a: &Server, b: &Server) -> bool {
    let key = |one: &Server| {
        let Server { unit, kind, gpus, numa, nvlink, pcie, socket, cards, .. } = one.clone();
        (unit, kind, gpus, numa, nvlink, (pcie, socket), cards)
    };
    key(a) == key(b)
}
