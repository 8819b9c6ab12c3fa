//! A connection through the WAN: its handshake and its two directions.
//!
//! The near side is the client, the far side the target. The first step of the handshake travels to
//! the far side, where the driver then dials. The second one travels back, after which the near
//! side's bytes may leave. The third one travels to the far side again, after which the far side's
//! may. So a request's first byte arrives one and a half round trips after the connect, as with
//! TCP.
//!
//! A near side that ends while the handshake hangs on a broken link has given up, since a
//! connection can't be half-closed before it is open: nothing of it ever reaches the far side.

use meridian_base::{Rng, Time};

use super::{Flow, Link, LinkState, Mark, WindowSpec};

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The client.
    Near,
    /// The target.
    Far,
}

impl Side {
    /// The other end.
    #[must_use]
    pub fn other(self) -> Side {
        match self {
            Side::Near => Side::Far,
            Side::Far => Side::Near,
        }
    }

    fn index(self) -> usize {
        usize::from(self == Side::Far)
    }
}

/// An action for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Connect to the far side and report it with [`Pair::dialled`].
    Dial,
    /// Shut this side down for writing: the other one has ended.
    End(Side),
    /// The connection has ended. Sides marked true are reset if open.
    Over {
        /// Of the near side.
        reset_near: bool,
        /// Of the far side.
        reset_far: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first step travels.
    First,
    /// The driver dials.
    Dialling,
    /// The second step travels.
    Second,
    /// The third step travels; the near side is connected.
    Third,
    /// Both sides are connected.
    Open,
    /// Nothing more arrives.
    Over,
}

/// The two directions between the two regions, as seen by a connection.
#[derive(Debug)]
pub struct Links<'a> {
    /// From the near side to the far side.
    pub there: &'a mut Link,
    /// From the far side to the near side.
    pub back: &'a mut Link,
}

/// A connection.
#[derive(Clone, Debug)]
pub struct Pair {
    phase: Phase,
    there: Flow,
    back: Flow,
    /// Whether the near and the far side's end was reported to the other side.
    reported_end: [bool; 2],
    near_ended: bool,
    /// Whether the near and the far side were reset.
    is_broken: [bool; 2],
    lost: u64,
}

impl Pair {
    /// A new connection.
    #[must_use]
    pub fn new(now: Time, links: &mut Links, window: WindowSpec, buffer: usize, rng: &Rng) -> Pair {
        let Links { there, back } = links;
        let mut pair = Pair {
            phase: Phase::First,
            there: Flow::new(there, window, buffer, rng.fork(0)),
            back: Flow::new(back, window, buffer, rng.fork(1)),
            reported_end: [false; 2],
            near_ended: false,
            is_broken: [false; 2],
            lost: there.lost.number + back.lost.number,
        };
        there.counts.opened += 1;
        there.counts.open += 1;
        back.counts.open += 1;
        pair.there.mark(now, Mark::Open, there, back);
        pair
    }

    /// How many bytes of a side may be read now. Those of the near side may be read before they may
    /// leave, so that its end is noticed.
    #[must_use]
    pub fn room(&self, from: Side) -> usize {
        if self.is_broken[from.index()] {
            return 0;
        }
        match (self.phase, from) {
            (Phase::Over, _) => 0,
            (Phase::Open, Side::Far) => self.back.room(),
            (_, Side::Far) => 0,
            (_, Side::Near) => self.there.room(),
        }
    }

    /// How many bytes may be written to a side now.
    #[must_use]
    pub fn arrived(&self, to: Side) -> usize {
        if self.is_broken[to.index()] { 0 } else { self.towards(to).arrived() }
    }

    /// Bytes held, of both directions.
    #[must_use]
    pub fn held(&self) -> usize {
        self.there.held() + self.back.held()
    }

    /// Bytes were read from a side.
    pub fn read(&mut self, now: Time, from: Side, len: usize, links: &mut Links) {
        let (flow, link, back) = self.from(from, links);
        flow.push(now, len, link, back);
    }

    /// Bytes were written to a side.
    pub fn wrote(&mut self, to: Side, len: usize, links: &mut Links) {
        let (flow, link, _) = self.from(to.other(), links);
        flow.take(len, link);
    }

    /// A side will send no more.
    pub fn ended(&mut self, now: Time, side: Side, links: &mut Links) {
        self.near_ended |= side == Side::Near;
        let (flow, link, back) = self.from(side, links);
        flow.mark(now, Mark::End, link, back);
    }

    /// A side was reset: it neither sends nor receives any more.
    pub fn broke(&mut self, now: Time, side: Side, links: &mut Links) {
        self.is_broken[side.index()] = true;
        let (flow, link, back) = self.from(side, links);
        flow.mark(now, Mark::Reset, link, back);
    }

    /// The driver has connected to the far side, or failed to.
    pub fn dialled(&mut self, now: Time, is_connected: bool, links: &mut Links) {
        debug_assert_eq!(self.phase, Phase::Dialling);
        self.phase = Phase::Second;
        links.there.counts.refused += u64::from(!is_connected);
        let mark = if is_connected { Mark::Open } else { Mark::Reset };
        self.back.mark(now, mark, links.back, links.there);
    }

    /// Processes all events up to `now` and returns one action at a time: call again until there is
    /// none.
    pub fn advance(&mut self, now: Time, links: &mut Links) -> Option<Step> {
        if self.phase == Phase::Over {
            return None;
        }
        loop {
            self.there.advance(now, links.there, links.back);
            self.back.advance(now, links.back, links.there);
            if let Some((reset_near, reset_far)) = self.end(links) {
                self.close(links, reset_near || reset_far);
                return Some(Step::Over { reset_near, reset_far });
            }
            if !self.shake(now, links) {
                return self.pass_end();
            }
            if self.phase == Phase::Dialling {
                return Some(Step::Dial);
            }
        }
    }

    /// Time of the next event.
    #[must_use]
    pub fn next(&self, links: &Links) -> Option<Time> {
        if self.phase == Phase::Over {
            return None;
        }
        let (there, back) =
            (self.there.next(links.there, links.back), self.back.next(links.back, links.there));
        there.map_or(back, |at| Some(back.map_or(at, |back| back.min(at))))
    }

    /// The driver gives up the connection, for example when the program ends.
    pub fn close(&mut self, links: &mut Links, is_reset: bool) {
        if self.phase == Phase::Over {
            return;
        }
        self.phase = Phase::Over;
        self.there.drop_all(links.there);
        self.back.drop_all(links.back);
        for link in [&mut *links.there, &mut *links.back] {
            link.counts.open -= 1;
            link.counts.resets += u64::from(is_reset);
        }
    }

    fn towards(&self, to: Side) -> &Flow {
        match to {
            Side::Near => &self.back,
            Side::Far => &self.there,
        }
    }

    fn from<'a>(
        &mut self,
        side: Side,
        links: &'a mut Links,
    ) -> (&mut Flow, &'a mut Link, &'a mut Link) {
        match side {
            Side::Near => (&mut self.there, links.there, links.back),
            Side::Far => (&mut self.back, links.back, links.there),
        }
    }

    /// Advances the handshake by one step, if that has arrived.
    fn shake(&mut self, now: Time, links: &mut Links) -> bool {
        match self.phase {
            Phase::First if self.there.take_open() => self.phase = Phase::Dialling,
            Phase::Second if self.back.take_open() => {
                self.phase = Phase::Third;
                self.there.mark(now, Mark::Open, links.there, links.back);
                self.there.open(now, links.there);
            }
            Phase::Third if self.there.take_open() => {
                self.phase = Phase::Open;
                self.back.open(now, links.back);
            }
            _ => return false,
        }
        true
    }

    /// Forwards the end of a side whose bytes have all been written.
    fn pass_end(&mut self) -> Option<Step> {
        [Side::Near, Side::Far].into_iter().find_map(|to| {
            let is_due = self.towards(to).ended() == Some(Mark::End);
            let was_reported = &mut self.reported_end[to.index()];
            (is_due && !std::mem::replace(was_reported, is_due)).then_some(Step::End(to))
        })
    }

    /// Whether it has ended, and which sides have to be reset then.
    fn end(&self, links: &Links) -> Option<(bool, bool)> {
        let is_down = |link: &Link| link.state() == LinkState::Down;
        let lost = links.there.lost.number + links.back.lost.number;
        if lost != self.lost || is_down(links.there) || is_down(links.back) {
            return Some((true, true));
        }
        let is_up = |link: &Link| link.state() == LinkState::Up;
        let is_shaking = matches!(self.phase, Phase::First | Phase::Dialling | Phase::Second);
        let is_hanging = !is_up(links.there) || !is_up(links.back);
        let has_given_up = self.near_ended && is_hanging || self.is_broken[Side::Near.index()];
        if is_shaking && has_given_up {
            return Some((true, self.phase == Phase::Second));
        }
        match (self.back.ended(), self.there.ended()) {
            (Some(Mark::Reset), _) | (_, Some(Mark::Reset)) => Some((true, true)),
            (Some(Mark::End), Some(Mark::End)) if self.reported_end == [true; 2] => {
                Some((false, false))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
