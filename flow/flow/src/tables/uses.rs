//! Uses: the bytes that one request still has to send over one port.

use meridian_base::PortId;

use super::{NONE, World};

/// One request's use of one port.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    pub(crate) request: u32,
    pub(crate) port: PortId,
    /// Bytes of stage 1 that are planned and not completed.
    pub(crate) reuse: u64,
    /// Bytes of stage 3 that are submitted and not completed.
    pub(crate) released: u64,
    /// Bytes of stage 3 that are planned and not submitted.
    pub(crate) coming: u64,
    /// Bytes of stage 3 of each layer.
    pub(crate) per_layer: u64,
    /// The level that the handoffs here have reached, and the need that caused it.
    pub(crate) level: u8,
    pub(crate) mlu: f64,
    /// The share of the port that the request needs to be in time, regardless of the load ahead.
    pub(crate) need: f64,
    /// The request's next use.
    pub(crate) next: u32,
    /// Neighbours among the port's uses.
    port_prev: u32,
    pub(crate) port_next: u32,
}

impl Use {
    pub(super) fn vacant() -> Use {
        Use {
            request: NONE,
            port: PortId(u32::MAX),
            reuse: 0,
            released: 0,
            coming: 0,
            per_layer: 0,
            level: 0,
            mlu: 0.0,
            need: 0.0,
            next: NONE,
            port_prev: NONE,
            port_next: NONE,
        }
    }

    /// Bytes of stage 3 still to be sent.
    pub(crate) fn handoff(&self) -> u64 {
        self.released.saturating_add(self.coming)
    }
}

impl World {
    /// Free rows for uses.
    pub(crate) fn room_for_uses(&self) -> usize {
        self.vacant_uses.len()
    }

    /// The use of `port` by `request`, added if it is new; `None` if the table is full.
    pub(crate) fn use_of(&mut self, request: u32, port: PortId) -> Option<u32> {
        let key = key(request, port);
        if let Some(&found) = self.by_use.get(&key) {
            return Some(found);
        }
        let at = self.vacant_uses.pop()?;
        let before = self.by_use.insert(key, at);
        assert!(before.is_none(), "a request uses a port in one row");
        let (next, port_next) =
            (self.requests[request as usize].uses, self.port_uses[port.index()]);
        let level = self.ladder.levels - 1;
        self.uses[at as usize] = Use { request, port, level, next, port_next, ..Use::vacant() };
        if port_next != NONE {
            let before = core::mem::replace(&mut self.uses[port_next as usize].port_prev, at);
            assert!(before == NONE, "no use is before the first of a port");
        }
        self.requests[request as usize].uses = at;
        self.port_uses[port.index()] = at;
        if !self.own_load.is_empty() {
            self.own_load.clear(at as usize);
        }
        Some(at)
    }

    /// The uses of a request.
    pub(crate) fn uses_of(&self, request: u32) -> impl Iterator<Item = &Use> {
        self.chain(self.request(request).uses, |one| one.next)
    }

    /// The uses of a port.
    pub(crate) fn uses_at(&self, port: PortId) -> impl Iterator<Item = &Use> {
        self.chain(self.port_uses[port.index()], |one| one.port_next)
    }

    fn chain(&self, first: u32, next: fn(&Use) -> u32) -> impl Iterator<Item = &Use> {
        let row = |at: u32| self.uses.get(at as usize);
        core::iter::successors(row(first), move |one| row(next(one)))
    }

    /// The use whose need is largest.
    pub(crate) fn worst_use(&self, request: u32) -> Option<&Use> {
        let larger = |most: &'_ Use, one: &'_ Use| one.need > most.need;
        self.uses_of(request).reduce(|most, one| if larger(most, one) { one } else { most })
    }

    /// Whether handoffs of the request need at least the top threshold's share of a port.
    pub(crate) fn is_critical(&self, request: u32) -> bool {
        self.uses_of(request).any(|one| one.level == 0 && one.handoff() > 0)
    }

    /// Removes all uses of a request.
    pub(super) fn end_uses(&mut self, request: u32) {
        let mut at = self.requests[request as usize].uses;
        while at != NONE {
            let Use { port, released, next, port_prev, port_next, .. } = self.uses[at as usize];
            assert!(released == 0, "a request ends after the bytes of its handoffs");
            let from = match port_prev {
                NONE => &mut self.port_uses[port.index()],
                _ => &mut self.uses[port_prev as usize].port_next,
            };
            assert!(*from == at, "a use follows the one before it at its port");
            *from = port_next;
            if port_next != NONE {
                self.uses[port_next as usize].port_prev = port_prev;
            }
            let found = self.by_use.remove(&key(request, port));
            assert!(found == Some(at), "a use is found by its request and port until it ends");
            self.vacant_uses.push(at);
            at = next;
        }
        self.requests[request as usize].uses = NONE;
    }
}

fn key(request: u32, port: PortId) -> u64 {
    u64::from(request) << 32 | u64::from(port.0)
}
