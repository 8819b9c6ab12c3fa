//! One direction between two regions: its settings, its state, and its traffic.
//!
//! The rate belongs to the link and is shared by all its connections: bytes leave one after the
//! other, in the order in which they were sent. The delay is added to that. A link holds no bytes;
//! each connection's [`Flow`](super::Flow) does, and detects changes of the link here.

use std::num::NonZeroU64;
use std::time::Duration;

use meridian_base::Time;

/// The settings of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Delay of a byte.
    pub delay: Duration,
    /// Upper bound of the extra delay, drawn uniformly for each packet.
    pub jitter: Duration,
    /// Bytes a second; none for no limit.
    pub rate: Option<NonZeroU64>,
}

/// Whether a direction works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// It works.
    #[default]
    Up,
    /// Nothing arrives and nothing is reported: connections hang, including new ones.
    Cut,
    /// Connections over it are reset, including new ones.
    Down,
}

/// Traffic of a direction since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Connections over it now, whichever side opened them.
    pub open: u64,
    /// Connections that were opened in this direction.
    pub opened: u64,
    /// Of those, refused: nothing listened behind the link.
    pub refused: u64,
    /// Connections over it that ended with a reset, by either side or by the loss of the link.
    pub resets: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes delivered.
    pub bytes_out: u64,
    /// Bytes received but never delivered: their connection was reset.
    pub dropped: u64,
}

impl LinkCounts {
    /// Bytes in transit or waiting.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.bytes_in - self.bytes_out - self.dropped
    }
}

/// The last change of one kind, so that each connection can tell whether it has seen it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Number of such changes.
    pub(super) number: u64,
    /// Time of the last one.
    pub(super) at: Time,
}

impl Change {
    fn again(&mut self, now: Time) {
        *self = Change { number: self.number + 1, at: now };
    }
}

/// One direction between two regions.
#[derive(Clone, Debug, Default)]
pub struct Link {
    figures: Figures,
    state: LinkState,
    /// Its traffic.
    pub counts: LinkCounts,
    /// When the last byte sent so far has left.
    free_at: Time,
    /// Of settings: bytes that have not left yet use the new ones.
    pub(super) set: Change,
    /// From up to another state: bytes that have not arrived yet do not arrive.
    pub(super) broken: Change,
    /// Back to up.
    pub(super) mended: Change,
    /// Losses: existing connections are reset.
    pub(super) lost: Change,
}

impl Link {
    /// A link that works.
    #[must_use]
    pub fn new(figures: Figures) -> Link {
        Link { figures, ..Link::default() }
    }

    /// Its figures.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Whether it works.
    #[must_use]
    pub fn state(&self) -> LinkState {
        self.state
    }

    /// Whether bytes arrive.
    pub(super) fn is_up(&self) -> bool {
        self.state == LinkState::Up
    }

    /// Changes the settings. Bytes that have left keep the old ones.
    pub fn set(&mut self, now: Time, figures: Figures) {
        if figures != self.figures {
            self.figures = figures;
            self.free_at = now;
            self.set.again(now);
        }
    }

    /// Changes the state; setting a link down again resets its connections once more.
    pub fn turn(&mut self, now: Time, state: LinkState) {
        match state {
            LinkState::Up if self.state != LinkState::Up => self.mended.again(now),
            LinkState::Up => {}
            LinkState::Cut | LinkState::Down => {
                self.broken.again(now);
                self.free_at = now;
            }
        }
        if state == LinkState::Down {
            self.lost.again(now);
        }
        self.state = state;
    }

    /// Sends bytes after all earlier ones; returns when the last of them leaves.
    pub(super) fn send(&mut self, now: Time, len: usize) -> Time {
        let Some(rate) = self.figures.rate else { return now };
        let nanos = (len as u128 * 1_000_000_000).div_ceil(u128::from(rate.get()));
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.free_at = self.free_at.max(now) + takes;
        self.free_at
    }

    /// The largest piece that travels as one: a millisecond of the rate, in whole segments.
    pub(super) fn piece(&self) -> usize {
        const MOST: usize = 64 << 10;
        let Some(rate) = self.figures.rate else { return MOST };
        let segments = usize::try_from(rate.get() / 1000).unwrap_or(MOST) / super::SEGMENT;
        (segments.max(1) * super::SEGMENT).min(MOST)
    }
}
