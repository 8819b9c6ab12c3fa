//! Lists of flows, run through their rows: a batch's early flows by layer, a request's handoffs.

use super::{FlowRow, NONE, World};

impl World {
    /// Adds a flow, whose row is already filled, to the list it belongs to.
    pub(crate) fn link(&mut self, flow: u32) {
        let head = self.head_of(flow);
        let next = *head;
        *head = flow;
        let row = &mut self.flows[flow as usize];
        (row.prev, row.next) = (NONE, next);
        if next != NONE {
            let before = core::mem::replace(&mut self.flows[next as usize].prev, flow);
            assert!(before == NONE, "no flow is before the first of a list");
        }
        self.live_flows += 1;
    }

    /// Removes a flow from its list and from the table.
    pub(crate) fn unlink(&mut self, flow: u32) {
        let FlowRow { live, prev, next, .. } = self.flows[flow as usize];
        assert!(live, "a flow ends once");
        let from = match prev {
            NONE => self.head_of(flow),
            _ => &mut self.flows[prev as usize].next,
        };
        assert!(*from == flow, "a flow follows the one before it in its list");
        *from = next;
        if next != NONE {
            let back = core::mem::replace(&mut self.flows[next as usize].prev, prev);
            assert!(back == flow, "a flow precedes the one after it in its list");
        }
        self.flows[flow as usize].live = false;
        self.live_flows -= 1;
    }

    /// The flow after this one in its list.
    pub(crate) fn after(&self, flow: u32) -> u32 {
        self.flow(flow).next
    }

    /// The first of a batch's early flows for `layer`.
    pub(crate) fn first_of_layer(&self, batch: u32, layer: u16) -> u32 {
        self.batch(batch).heads.get(usize::from(layer)).copied().unwrap_or(NONE)
    }

    /// A batch's early flows, all layers, into `into`.
    pub(crate) fn early_flows(&self, batch: u32, into: &mut alloc::vec::Vec<u32>) {
        for &head in &self.batch(batch).heads {
            self.collect(head, into);
        }
    }

    /// A list from `head` on, into `into`.
    pub(crate) fn collect(&self, head: u32, into: &mut alloc::vec::Vec<u32>) {
        let mut at = head;
        while at != NONE {
            into.push(at);
            at = self.after(at);
        }
    }

    fn head_of(&mut self, flow: u32) -> &mut u32 {
        let row = &self.flows[flow as usize];
        let (batch, request, layer) = (row.batch, row.request, usize::from(row.layer));
        if row.stage.is_early() {
            &mut self.batches[batch as usize].heads[layer]
        } else {
            &mut self.requests[request as usize].handoffs
        }
    }
}
