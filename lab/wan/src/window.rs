//! Slow start: how many bytes of a connection may be in transit without acknowledgement.
//!
//! A new connection may send ten segments (RFC 6928) and as much again for all acknowledged bytes,
//! so the window doubles in each round trip, up to a limit that stands for the receiver's buffer.
//! An unused window does not grow, as in Linux.
//!
//! It deliberately never shrinks because of loss: no segment is lost on this WAN.

/// A segment's bytes: an Ethernet frame without the headers of IP and TCP.
pub const SEGMENT: usize = 1460;

/// Start and limit of a connection's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSpec {
    /// Bytes of a new connection's window.
    pub start: usize,
    /// Largest window in bytes.
    pub most: usize,
}

impl Default for WindowSpec {
    fn default() -> WindowSpec {
        WindowSpec { start: 10 * SEGMENT, most: 4 << 20 }
    }
}

/// One direction's window.
#[derive(Clone, Debug)]
pub struct Window {
    spec: WindowSpec,
    size: usize,
    in_flight: usize,
}

impl Window {
    /// A new connection's window.
    #[must_use]
    pub fn new(spec: WindowSpec) -> Window {
        Window { spec, size: spec.start, in_flight: 0 }
    }

    /// Bytes that may be sent now.
    #[must_use]
    pub fn room(&self) -> usize {
        self.size.saturating_sub(self.in_flight)
    }

    /// Bytes that may be unacknowledged at once.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Bytes leave.
    pub fn sent(&mut self, len: usize) {
        self.in_flight += len;
    }

    /// Bytes are acknowledged. The window grows if it was at least half used.
    pub fn acknowledged(&mut self, len: usize) {
        if self.in_flight >= self.size / 2 {
            self.size = self.spec.most.min(self.size + len);
        }
        self.in_flight -= len;
    }

    /// Bytes were taken back before they left.
    pub fn unsent(&mut self, len: usize) {
        self.in_flight -= len;
    }

    /// Starts again, as after a retransmission timeout.
    pub fn restart(&mut self) {
        self.size = self.spec.start;
    }
}
