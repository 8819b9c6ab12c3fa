//! Transfers on the network: one timer for the time without contention, one flow for each shared
//! port.

use meridian_base::{Duration, FlowId, Time};
use meridian_fabric::{Demand, Network, Path};

use super::setup::Way;

/// The purpose of a transfer, of type `T`.
#[derive(Debug)]
struct Transfer<T> {
    /// Active flows, plus one for the timer.
    open: u32,
    then: T,
}

/// The active transfers.
#[derive(Debug)]
pub(super) struct Wires<T> {
    network: Network,
    transfers: Vec<Option<Transfer<T>>>,
    free: Vec<usize>,
    /// The transfer of each flow row.
    flows: Vec<usize>,
    free_flows: Vec<u32>,
}

impl<T: Copy> Wires<T> {
    pub(super) fn new(ports: &[f64]) -> Wires<T> {
        Wires {
            network: Network::new(ports),
            transfers: Vec::new(),
            free: Vec::new(),
            flows: Vec::new(),
            free_flows: Vec::new(),
        }
    }

    /// Starts `count` operations of `bytes` each. Returns the number, and when the timer ends: the
    /// caller must call [`Self::timer`] then.
    pub(super) fn begin(
        &mut self,
        now: Time,
        way: &Way,
        (bytes, count): (f64, f64),
        then: T,
    ) -> (usize, Time) {
        let alone = (way.latency * count + way.per_byte * bytes * count).max(1e-9);
        let id = self.free.pop().unwrap_or_else(|| {
            self.transfers.push(None);
            self.transfers.len() - 1
        });
        let mut open = 1;
        for (port, load) in &way.loads {
            let carried = load * bytes * count;
            if carried < 1.0 {
                continue;
            }
            let path = Path::new(&[*port]).expect("one port is a path");
            let demand = Demand { cap: carried / alone, ..Demand::new(path, carried) };
            let row = self.free_flows.pop().unwrap_or(self.flows.len() as u32);
            if row as usize == self.flows.len() {
                self.flows.push(id);
            }
            self.flows[row as usize] = id;
            self.network.begin(now, FlowId(row), demand);
            open += 1;
        }
        self.transfers[id] = Some(Transfer { open, then });
        (id, now + Duration::from_secs_f64(alone))
    }

    /// The timer of a transfer has ended; returns its purpose if its flows have ended too.
    pub(super) fn timer(&mut self, id: usize) -> Option<T> {
        let transfer = self.transfers[id].as_mut().expect("a transfer outlives its timer");
        transfer.open -= 1;
        if transfer.open > 0 {
            return None;
        }
        self.free.push(id);
        self.transfers[id].take().map(|transfer| transfer.then)
    }

    /// When the next flow ends.
    pub(super) fn next(&mut self) -> Option<Time> {
        self.network.next_end()
    }

    /// Ends flows that are due until one was the last of its transfer; returns its purpose.
    pub(super) fn ended(&mut self, now: Time) -> Option<T> {
        while let Some(FlowId(row)) = self.network.ended(now) {
            self.free_flows.push(row);
            // Like the timer, an ended flow is one less that the transfer waits for.
            if let Some(then) = self.timer(self.flows[row as usize]) {
                return Some(then);
            }
        }
        None
    }

    /// Recomputes every flow's rate after the changes of an instant.
    pub(super) fn settle(&mut self, now: Time) {
        self.network.settle(now);
    }
}
