//! Transfers on the network: one timer for what a transfer takes alone, one flow for each port that
//! others use too.

use meridian_base::{Duration, FlowId, Time};
use meridian_fabric::{Demand, Network, Path};

use super::setup::Way;

/// What a transfer was for, of type `T`.
#[derive(Debug)]
struct Transfer<T> {
    /// Flows under way, and one for the timer.
    open: u32,
    then: T,
}

/// Transfers under way.
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

    /// Begins `count` operations of `bytes` each. Its number, and when its timer is over: whoever
    /// calls brings it to [`Self::timer`] then.
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

    /// The timer of a transfer is over; what the transfer was for, if its flows are too.
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

    /// Ends flows that are over until one was the last of its transfer: what that was for.
    pub(super) fn ended(&mut self, now: Time) -> Option<T> {
        while let Some(FlowId(row)) = self.network.ended(now) {
            self.free_flows.push(row);
            // A flow is one more that the transfer does not wait for, as the timer is.
            if let Some(then) = self.timer(self.flows[row as usize]) {
                return Some(then);
            }
        }
        None
    }

    /// Gives every flow its rate after the changes of an instant.
    pub(super) fn settle(&mut self, now: Time) {
        self.network.settle(now);
    }
}
