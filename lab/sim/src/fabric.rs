//! The network that a world's transfers cross, and what each of its flows is for.

use meridian_base::{FlowId, Time};
use meridian_fabric::{Demand, Network};

use crate::rows::Rows;
use crate::run::Carrier;

/// A network whose flows each have a purpose of type `T`.
#[derive(Debug)]
pub(crate) struct Fabric<T> {
    pub(crate) network: Network,
    pub(crate) flows: Rows<T>,
}

impl<T> Fabric<T> {
    /// A network of ports with these rates in bytes per second.
    pub(crate) fn new(rates: &[f64]) -> Fabric<T> {
        Fabric { network: Network::new(rates), flows: Rows::default() }
    }

    pub(crate) fn begin(&mut self, now: Time, demand: Demand, purpose: T) -> FlowId {
        let flow = FlowId(self.flows.enter(purpose));
        self.network.begin(now, flow, demand);
        flow
    }

    /// Breaks a flow off.
    pub(crate) fn end(&mut self, now: Time, flow: FlowId) {
        self.network.end(now, flow);
        self.flows.take(flow.0);
    }
}

impl<T> Carrier for Fabric<T> {
    type End = (FlowId, T);

    fn due(&mut self) -> Option<Time> {
        self.network.next_end()
    }

    fn ended(&mut self, now: Time) -> Option<(FlowId, T)> {
        let flow = self.network.ended(now)?;
        let purpose = self.flows.take(flow.0);
        assert!(purpose.is_some(), "{flow} ended, and has no purpose");
        purpose.map(|purpose| (flow, purpose))
    }

    fn settle(&mut self, now: Time) {
        self.network.settle(now);
    }
}
