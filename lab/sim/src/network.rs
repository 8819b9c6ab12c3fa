//! The simulated network: delays, losses, and links that are cut.
//!
//! A message's delay is half of the RTT between its ends, with jitter drawn from the message's name
//! and not from a stream, so that two systems under test see the same network even if one of them
//! sends more. A lost message arrives a retransmission timeout later, as with TCP.

use meridian_base::{Duration, Rng, mix};

use crate::scenario::Wan;

/// TCP's minimum retransmission timeout.
const RETRANSMIT_MS: f64 = 200.0;
/// How long a sender waits before it treats a silent link as broken.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct Network {
    wan: Wan,
    seed: u64,
    /// Cut links, by `from * regions + to`.
    cut: Vec<bool>,
    any_cut: bool,
    /// Additional delay of a message on a slow link.
    slow: Vec<Duration>,
}

impl Network {
    pub(crate) fn new(wan: Wan, seed: u64) -> Network {
        let regions = wan.rtt_ms.len();
        assert!(wan.rtt_ms.iter().all(|row| row.len() == regions), "an RTT between all regions");
        let links = regions * regions;
        let (cut, slow) = (vec![false; links], vec![Duration::ZERO; links]);
        Network { wan, seed: mix(seed, 0x4E45_5457), cut, any_cut: false, slow }
    }

    /// Round-trip time without jitter.
    pub(crate) fn rtt(&self, from: usize, to: usize) -> Duration {
        millis(self.wan.rtt_ms[from][to]) + self.slow_by(from, to) + self.slow_by(to, from)
    }

    /// One way for the message called `name`.
    pub(crate) fn one_way(&self, from: usize, to: usize, name: u64) -> Duration {
        let half = self.wan.rtt_ms[from][to] / 2.0;
        if self.wan.jitter == 0.0 && self.wan.loss == 0.0 {
            return millis(half) + self.slow_by(from, to);
        }
        let mut rng = Rng::new(mix(self.seed, name));
        let jittered = match self.wan.jitter {
            0.0 => half,
            cv => half * rng.lognormal(1.0, cv),
        };
        let lost = self.wan.loss > 0.0 && rng.unit() < self.wan.loss;
        let wan = millis(jittered + if lost { RETRANSMIT_MS.max(2.0 * half) } else { 0.0 });
        wan + self.slow_by(from, to)
    }

    fn slow_by(&self, from: usize, to: usize) -> Duration {
        self.slow[from * self.wan.rtt_ms.len() + to]
    }

    /// Makes one direction of a link slower by this much.
    pub(crate) fn slow_down(&mut self, from: usize, to: usize, by: Duration) {
        let at = from * self.wan.rtt_ms.len() + to;
        self.slow[at] = by;
    }

    /// Whether messages pass from one region to another.
    pub(crate) fn passes(&self, from: usize, to: usize) -> bool {
        !self.any_cut || !self.cut[from * self.wan.rtt_ms.len() + to]
    }

    /// Cuts or mends one direction of a link.
    pub(crate) fn set(&mut self, from: usize, to: usize, passes: bool) {
        let at = from * self.wan.rtt_ms.len() + to;
        self.cut[at] = !passes;
        self.any_cut = self.cut.contains(&true);
    }
}

fn millis(ms: f64) -> Duration {
    Duration::from_nanos((ms * 1e6) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(jitter: f64, loss: f64) -> Network {
        let wan = Wan { rtt_ms: vec![vec![1.0, 100.0], vec![100.0, 1.0]], jitter, loss };
        Network::new(wan, 1)
    }

    // Half the RTT one way; with jitter about that on average, and the same for the same message.
    #[test]
    fn delays() {
        assert_eq!(network(0.0, 0.0).one_way(0, 1, 9), Duration::from_millis(50));
        let jittery = network(0.2, 0.0);
        assert_eq!(jittery.one_way(0, 1, 9), jittery.one_way(0, 1, 9));
        let mean = (0..4000).map(|n| jittery.one_way(0, 1, n).as_secs_f64()).sum::<f64>() / 4e3;
        assert!((mean - 0.05).abs() < 0.001, "{mean}");
    }

    // A lost message arrives late.
    #[test]
    fn losses_are_late() {
        let lossy = network(0.0, 0.1);
        let late = (0..4000).filter(|n| lossy.one_way(0, 1, *n) >= Duration::from_millis(250));
        assert!((300..500).contains(&late.count()));
    }

    // A slow direction takes longer, and with it the round trip; the other direction does not.
    #[test]
    fn slow_links() {
        let mut network = network(0.0, 0.0);
        network.slow_down(0, 1, Duration::from_millis(400));
        assert_eq!(network.one_way(0, 1, 9), Duration::from_millis(450));
        assert_eq!(network.one_way(1, 0, 9), Duration::from_millis(50));
        assert_eq!(network.rtt(1, 0), Duration::from_millis(500));
    }

    // One direction can be cut by itself.
    #[test]
    fn cuts_have_a_direction() {
        let mut network = network(0.0, 0.0);
        network.set(0, 1, false);
        assert!(!network.passes(0, 1) && network.passes(1, 0));
        network.set(0, 1, true);
        assert!(network.passes(0, 1));
    }
}
