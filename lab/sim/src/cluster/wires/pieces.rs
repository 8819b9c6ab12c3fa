//! What of a flow crosses the fabric: all that is left of it, or the chunks that were permitted.

use meridian_base::{Duration, Time};
use meridian_fabric::Demand;
use meridian_flow::{Place, Why};

use super::{Carried, Piece, Sending, Wires};
use crate::cluster::sending::Change;

impl Wires {
    pub(super) fn placed(&mut self, now: Time, row: u32, place: Place, why: Why) {
        let carried = self.rows.get_mut(row).expect("a placed flow is active");
        let old = carried.place.replace(place);
        carried.why = why;
        let (piece, port) = (carried.piece, carried.path.ports()[0]);
        match &mut self.sending {
            Sending::Whole if piece.is_none() => self.start(now, row),
            Sending::Chunks(_) => return,
            Sending::Queues(queues, changed) => {
                queues.place(port, row, old.as_ref(), &place);
                changed.insert(port);
            }
            Sending::Whole => {}
        }
        if let Some(piece) = piece {
            let priority = self.enforce.priority(&place);
            self.fabric.network.change(now, piece, |demand| {
                (demand.priority, demand.weight) = (priority, f64::from(place.weight));
                demand.cap = place.rate.unwrap_or(f64::INFINITY);
            });
        }
    }

    /// Sends a flow's remaining bytes as one piece.
    fn start(&mut self, now: Time, row: u32) {
        let Carried { path, left, place, bytes, .. } = *self.row(row);
        let place = place.expect("a flow is placed when it is submitted");
        let demand = Demand {
            priority: self.enforce.priority(&place),
            weight: f64::from(place.weight),
            cap: place.rate.unwrap_or(f64::INFINITY),
            ..Demand::new(path, left.max(1.0))
        };
        let piece = self.fabric.begin(now, demand, Piece { flow: row, bytes });
        self.row(row).piece = Some(piece);
    }

    fn pause(&mut self, now: Time, row: u32) {
        let piece = self.row(row).piece.take().expect("a flow under way has a piece");
        let left = self.fabric.network.left(now, piece);
        self.fabric.end(now, piece);
        self.row(row).left = left;
    }

    /// Asks to send a flow's next chunk, if there is one.
    pub(super) fn ask(&mut self, now: Time, row: u32) {
        let chunk = self.nodes.config().chunk;
        let Carried { node, id, bytes, permitted, .. } = *self.row(row);
        let next = u32::try_from(bytes - permitted).unwrap_or(u32::MAX).min(chunk);
        if next > 0 {
            self.nodes.ask(now, node, id, next);
        }
    }

    /// Sends a chunk, and asks for the next one: at once, so that the port never idles, or when the
    /// flow's rate limit allows.
    pub(super) fn permitted(&mut self, now: Time, row: u32, bytes: u32) {
        let carried = self.row(row);
        carried.permitted += u64::from(bytes);
        assert!(carried.permitted <= carried.bytes, "flow {row} may send more than it has");
        let place = carried.place.expect("a flow is placed when it is submitted");
        let (path, nth) = (carried.path, carried.nth_flow);
        let demand = Demand {
            priority: self.enforce.priority(&place),
            weight: f64::from(place.weight),
            ..Demand::new(path, f64::from(bytes))
        };
        self.fabric.begin(now, demand, Piece { flow: row, bytes: u64::from(bytes) });
        match (&mut self.sending, place.rate) {
            (Sending::Chunks(paced), Some(rate)) => {
                let gap = Duration::try_from_secs_f64(f64::from(bytes) / rate);
                paced.push(now + gap.unwrap_or(Duration::MAX), (row, nth));
            }
            _ => self.ask(now, row),
        }
    }

    /// Carries out what senders' queues decide, and asks for chunks whose time has come.
    pub(super) fn send(&mut self, now: Time) {
        if let Sending::Queues(queues, changed) = &mut self.sending {
            changed.extend(queues.ports_due(now));
            while let Sending::Queues(queues, changed) = &mut self.sending
                && let Some(port) = changed.pop_first()
            {
                let rate = self.rates[(port.0 % self.rates.len() as u32) as usize];
                let Change { pause, start } = queues.settle(now, port, rate);
                pause.into_iter().for_each(|row| self.pause(now, row));
                start.into_iter().for_each(|row| self.start(now, row));
            }
        }
        while let Sending::Chunks(paced) = &mut self.sending
            && let Some((row, nth)) = paced.pop_by(now)
        {
            if self.rows.get(row).is_some_and(|one| one.nth_flow == nth) {
                self.ask(now, row);
                self.follow(now);
            }
        }
    }

    /// When [`Self::send`] has work.
    pub(super) fn sends(&self) -> Option<Time> {
        match &self.sending {
            Sending::Whole => None,
            Sending::Chunks(paced) => paced.next(),
            Sending::Queues(queues, _) => queues.due(),
        }
    }
}
