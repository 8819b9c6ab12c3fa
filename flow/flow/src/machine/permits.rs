//! Requesting and granting permits.

use meridian_base::{FlowId, PortId, Time};

use super::{Flows, Output};
use crate::refusal::{Refusal, Subject};
use crate::stage::Stage;
use crate::why::PermitWhy;

impl Flows {
    pub(super) fn ask(&mut self, now: Time, id: FlowId, bytes: u32) {
        let subject = Subject::Flow(id);
        let Some(row) = self.world.flows.get(id.index()).filter(|row| row.live) else {
            return self.refuse(subject, Refusal::Unknown);
        };
        if bytes == 0 {
            return self.refuse(subject, Refusal::NoChunk);
        }
        if self.gates.waits(id.0) {
            return self.refuse(subject, Refusal::AskedTwice);
        }
        let (port, collective) = (row.ports.as_slice()[0], row.stage == Stage::Collective);
        let bytes = bytes.min(self.config.chunk);
        self.gates.ask(port.0, id.0, bytes, &row.place);
        self.release(now, port, PermitWhy::Free);
        let ask = self.gates.ask_of(id.0);
        if ask == 0 {
            return;
        }
        self.watch(port);
        if collective {
            self.due.hold(now, id.0, ask);
        }
    }

    /// Grants the port's free window to waiting flows, by precedence.
    pub(super) fn release(&mut self, now: Time, port: PortId, why: PermitWhy) {
        while let Some((flow, bytes)) = self.gates.next(port.0) {
            self.stalls.active(now, port);
            let row = self.world.flow(flow);
            assert!(row.live, "a permit goes to a flow that is there");
            assert!(row.ports.as_slice()[0] == port, "a flow is gated at its first port");
            let traffic = row.place.traffic;
            self.outputs.push_back(Output::Permit { flow: FlowId(flow), bytes, traffic, why });
        }
    }
}
