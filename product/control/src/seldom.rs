//! Limits a message of the log: while etcd is lost, its members fail many times a second, and a
//! client may be refused as often as it likes.

use meridian_base::Duration;
use tokio::time::Instant;

/// Interval between two messages.
const REST: Duration = Duration::from_secs(1);

/// When the last message was, and how many have been left out since.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    last: Option<Instant>,
    left_out: u64,
}

impl Seldom {
    /// Whether a message is due, with the number of those that were left out before it.
    pub(crate) fn is_due(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now < last + REST) {
            self.left_out += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The first message comes at once, further ones once a second, and none goes uncounted.
    #[test]
    fn one_a_second() {
        let (mut seldom, start) = (Seldom::default(), Instant::now());
        let mut at = |ms| seldom.is_due(start + Duration::from_millis(ms));
        assert_eq!(at(0), Some(0));
        assert_eq!([at(1), at(500), at(999)], [None; 3]);
        assert_eq!(at(1000), Some(3));
        assert_eq!(at(1999), None);
        assert_eq!(at(5000), Some(1));
    }
}
