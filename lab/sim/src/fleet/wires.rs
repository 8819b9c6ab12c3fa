//! Transfers: each has a timer for its time without contention, and a flow for each shared port.

use meridian_base::{Duration, Time};
use meridian_fabric::{Demand, Path};

use super::setup::Way;
use crate::fabric::Fabric;
use crate::queue::EventQueue;
use crate::rows::Rows;
use crate::run::Carrier;

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
    transfers: Rows<Transfer<T>>,
    /// Flows and timers, by transfer.
    fabric: Fabric<u32>,
    timers: EventQueue<u32>,
}

impl<T> Wires<T> {
    pub(super) fn new(ports: &[f64]) -> Wires<T> {
        let timers = EventQueue::new(Duration::ZERO);
        Wires { transfers: Rows::default(), fabric: Fabric::new(ports), timers }
    }

    /// Starts `count` operations of `bytes` each.
    pub(super) fn begin(&mut self, now: Time, way: &Way, (bytes, count): (f64, f64), then: T) {
        let alone = (way.latency * count + way.per_byte * bytes * count).max(1e-9);
        let loads = way.loads.iter().map(|(port, load)| (*port, load * bytes * count));
        let loads = loads.filter(|(_, carried)| *carried >= 1.0);
        let open = 1 + loads.clone().count() as u32;
        let id = self.transfers.enter(Transfer { open, then });
        for (port, carried) in loads {
            let path = Path::new(&[port]).expect("one port is a path");
            let demand = Demand { cap: carried / alone, ..Demand::new(path, carried) };
            self.fabric.begin(now, demand, id);
        }
        self.timers.push(now + Duration::from_secs_f64(alone), id);
    }
}

impl<T> Carrier for Wires<T> {
    type End = T;

    fn due(&mut self) -> Option<Time> {
        [self.fabric.due(), self.timers.next()].into_iter().flatten().min()
    }

    /// Ends flows and timers that are due until one was the last of its transfer.
    fn ended(&mut self, now: Time) -> Option<T> {
        loop {
            let flow = self.fabric.ended(now).map(|(_, id)| id);
            let id = flow.or_else(|| self.timers.pop_by(now))?;
            let transfer = self.transfers.get_mut(id).expect("a transfer ends with its last part");
            assert!(transfer.open > 0, "transfer {id} has more ends than parts");
            transfer.open -= 1;
            if transfer.open == 0 {
                return self.transfers.take(id).map(|transfer| transfer.then);
            }
        }
    }

    fn settle(&mut self, now: Time) {
        self.fabric.settle(now);
    }
}
