//! One direction of a connection over a link: bytes that wait, travel, and have arrived.
//!
//! The driver pushes bytes it read and takes bytes that have arrived, as lengths; it keeps the
//! bytes themselves, which never overtake each other. In between they leave as the window and the
//! link's rate allow and arrive one delay later. After a delay in the other direction, their
//! acknowledgement frees capacity in the window. Events are processed at their own times, however
//! late the driver polls, so a late timer delays only its own deliveries.
//!
//! A cut takes back bytes that had not arrived, and a change of settings takes back bytes that had
//! not left; both are sent again. Acknowledgements do not arrive while the other direction is cut,
//! so a one-way partition passes one window of bytes and then stops that direction too, as with
//! TCP.

use std::collections::VecDeque;
use std::time::Duration;

use meridian_base::{Rng, Time};

use super::{Figures, Link, Window, WindowSpec};

/// Signals sent in addition to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A step of the handshake; it does not wait behind bytes.
    Open,
    /// No more bytes follow.
    End,
    /// The connection was reset.
    Reset,
}

/// Most packets in transit at once; smaller pieces beyond that wait and are merged.
const MOST_PACKETS: usize = 4096;
/// How far ahead of the link's rate a connection sends. Further bytes wait here, not in the link,
/// where all other connections would wait behind them.
const AHEAD: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug)]
struct Packet {
    len: usize,
    mark: Option<Mark>,
    leaves: Time,
    arrives: Time,
}

/// One direction of a connection.
#[derive(Clone, Debug)]
pub struct Flow {
    window: Window,
    rng: Rng,
    /// Most bytes held in total.
    buffer: usize,
    /// Bytes pushed and not taken: waiting, in transit and arrived.
    held: usize,
    /// Steps of the handshake that have not left.
    opens: u32,
    /// Bytes wait until the handshake is complete.
    is_open: bool,
    waiting: usize,
    /// The mark after the waiting bytes.
    end: Option<Mark>,
    has_sent_end: bool,
    travelling: VecDeque<Packet>,
    /// Acknowledgements in transit, with their arrival times.
    acknowledged: VecDeque<(Time, usize)>,
    arrived: usize,
    arrived_opens: u32,
    /// The mark after the arrived bytes.
    arrived_end: Option<Mark>,
    seen_set: u64,
    seen_broken: u64,
}

impl Flow {
    /// A direction of a new connection over a link. Bytes leave once it is opened.
    #[must_use]
    pub fn new(link: &Link, window: WindowSpec, buffer: usize, rng: Rng) -> Flow {
        Flow {
            window: Window::new(window),
            rng,
            buffer,
            held: 0,
            opens: 0,
            is_open: false,
            waiting: 0,
            end: None,
            has_sent_end: false,
            travelling: VecDeque::new(),
            acknowledged: VecDeque::new(),
            arrived: 0,
            arrived_opens: 0,
            arrived_end: None,
            seen_set: link.set.number,
            seen_broken: link.broken.number,
        }
    }

    /// How many bytes may be pushed now.
    #[must_use]
    pub fn room(&self) -> usize {
        if self.end.is_some() { 0 } else { self.buffer - self.held }
    }

    /// Bytes pushed and not taken.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Bytes that have arrived and were not taken.
    #[must_use]
    pub fn arrived(&self) -> usize {
        self.arrived
    }

    /// The current window.
    #[must_use]
    pub fn window(&self) -> usize {
        self.window.size()
    }

    /// Accepts bytes: at most [`Flow::room`].
    pub fn push(&mut self, now: Time, len: usize, link: &mut Link, back: &Link) {
        debug_assert!(len <= self.room(), "{len} bytes do not fit");
        self.advance(now, link, back);
        self.waiting += len;
        self.held += len;
        link.counts.bytes_in += len as u64;
        self.send(now, link);
    }

    /// Sends a mark: the handshake's at once, the others behind the bytes. A reset replaces bytes
    /// that have not left.
    pub fn mark(&mut self, now: Time, mark: Mark, link: &mut Link, back: &Link) {
        self.advance(now, link, back);
        match mark {
            Mark::Open => self.opens += 1,
            Mark::End => self.end = self.end.or(Some(Mark::End)),
            Mark::Reset if self.end == Some(Mark::Reset) => {}
            Mark::Reset => {
                link.counts.dropped += self.waiting as u64;
                self.held -= self.waiting;
                self.waiting = 0;
                // It may follow an end: a side that closed can still be reset.
                self.end = Some(Mark::Reset);
                self.has_sent_end = false;
                self.is_open = true;
            }
        }
        self.send(now, link);
    }

    /// The handshake is complete: bytes may leave.
    pub fn open(&mut self, now: Time, link: &mut Link) {
        self.is_open = true;
        self.send(now, link);
    }

    /// Delivers bytes: at most [`Flow::arrived`].
    pub fn take(&mut self, len: usize, link: &mut Link) {
        debug_assert!(len <= self.arrived, "{len} bytes have not arrived");
        self.arrived -= len;
        self.held -= len;
        link.counts.bytes_out += len as u64;
    }

    /// Whether a step of the handshake has arrived since the last call.
    pub fn take_open(&mut self) -> bool {
        let there = self.arrived_opens > 0;
        self.arrived_opens -= u32::from(there);
        there
    }

    /// How it ended, once all bytes before the end were taken. A reset does not wait for that.
    #[must_use]
    pub fn ended(&self) -> Option<Mark> {
        self.arrived_end.filter(|end| *end == Mark::Reset || self.arrived == 0)
    }

    /// Drops all its bytes.
    pub fn drop_all(&mut self, link: &mut Link) {
        link.counts.dropped += self.held as u64;
        self.held = 0;
        self.waiting = 0;
        self.arrived = 0;
        self.travelling.clear();
        self.acknowledged.clear();
    }

    /// Processes all events up to `now`.
    pub fn advance(&mut self, now: Time, link: &mut Link, back: &Link) {
        self.catch_up(link);
        while let Some(at) = self.event(link, back).filter(|at| *at <= now) {
            self.arrive(at, back);
            self.acknowledge(at, back);
            self.send(at, link);
        }
    }

    /// Time of the next event that changes anything without a call.
    #[must_use]
    pub fn next(&self, link: &Link, back: &Link) -> Option<Time> {
        if self.waiting > 0 && self.is_open { self.event(link, back) } else { self.arrival() }
    }

    fn event(&self, link: &Link, back: &Link) -> Option<Time> {
        [self.arrival(), self.room_at(back), self.turn(link)].into_iter().flatten().min()
    }

    fn arrival(&self) -> Option<Time> {
        self.travelling.front().map(|packet| packet.arrives)
    }

    /// When bytes that wait only for the link's rate may leave.
    fn turn(&self, link: &Link) -> Option<Time> {
        let waits = link.is_up() && self.waiting > 0 && self.is_open && self.window.room() > 0;
        let last = self.travelling.back().filter(|_| waits && !self.is_crowded())?;
        Some(last.leaves - AHEAD)
    }

    fn is_crowded(&self) -> bool {
        self.travelling.len() + self.acknowledged.len() >= MOST_PACKETS
    }

    /// When the next acknowledgement arrives. One caught by a cut arrives after the repair.
    fn room_at(&self, back: &Link) -> Option<Time> {
        let (at, _) = *self.acknowledged.front()?;
        match at <= back.broken.at {
            true => Some(at),
            false => back.is_up().then(|| at.max(back.mended.at)),
        }
    }

    /// Takes back bytes that a change of the link caught before they arrived or before they left.
    fn catch_up(&mut self, link: &mut Link) {
        let (set, broken) = (link.set, link.broken);
        if self.seen_broken != broken.number {
            self.seen_broken = broken.number;
            self.take_back(|packet| packet.arrives > broken.at);
            self.window.restart();
        }
        if self.seen_set != set.number {
            self.seen_set = set.number;
            self.take_back(|packet| packet.leaves > set.at);
        }
        self.send(broken.at.max(set.at), link);
    }

    fn take_back(&mut self, is_caught: impl Fn(&Packet) -> bool) {
        while let Some(packet) = self.travelling.pop_back_if(|packet| is_caught(packet)) {
            self.waiting += packet.len;
            self.window.unsent(packet.len);
            match packet.mark {
                Some(Mark::Open) => self.opens += 1,
                Some(_) => self.has_sent_end = false,
                None => {}
            }
        }
    }

    fn arrive(&mut self, at: Time, back: &Link) {
        while let Some(packet) = self.travelling.pop_front_if(|packet| packet.arrives <= at) {
            self.arrived += packet.len;
            match packet.mark {
                None => {
                    let back_at = packet.arrives + back.figures().delay;
                    self.acknowledged.push_back((back_at, packet.len));
                }
                Some(Mark::Open) => self.arrived_opens += 1,
                Some(end) => self.arrived_end = Some(end),
            }
        }
    }

    fn acknowledge(&mut self, at: Time, back: &Link) {
        while self.room_at(back).is_some_and(|room| room <= at) {
            let (_, len) = self.acknowledged.pop_front().expect("one is due");
            self.window.acknowledged(len);
        }
    }

    /// Sends the bytes that may leave at `at`, or at the repair if that was later.
    fn send(&mut self, at: Time, link: &mut Link) {
        if !link.is_up() {
            return;
        }
        let at = at.max(link.mended.at);
        while self.opens > 0 {
            self.opens -= 1;
            self.launch(at, 0, Some(Mark::Open), link);
        }
        if !self.is_open {
            return;
        }
        let is_ahead = |packet: &Packet| packet.leaves > at + AHEAD;
        while self.waiting > 0
            && !self.is_crowded()
            && !self.travelling.back().is_some_and(is_ahead)
        {
            let len = self.waiting.min(self.window.room()).min(link.piece());
            if len == 0 {
                break;
            }
            self.waiting -= len;
            self.window.sent(len);
            self.launch(at, len, None, link);
        }
        if self.waiting == 0 && self.end.is_some() && !self.has_sent_end {
            self.has_sent_end = true;
            self.launch(at, 0, self.end, link);
        }
    }

    fn launch(&mut self, at: Time, len: usize, mark: Option<Mark>, link: &mut Link) {
        let leaves = link.send(at, len);
        let Figures { delay, jitter, .. } = link.figures();
        let jitter = if jitter.is_zero() { jitter } else { jitter.mul_f64(self.rng.unit()) };
        let before = self.travelling.back().map_or(Time::ZERO, |packet| packet.arrives);
        let arrives = before.max(leaves + delay + jitter);
        self.travelling.push_back(Packet { len, mark, leaves, arrives });
    }
}

#[cfg(test)]
mod tests;
