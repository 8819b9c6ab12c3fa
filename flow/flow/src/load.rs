//! The load of a port: bytes a second by class, decaying exponentially.
//!
//! The paper's rho, the traffic ahead of a flow, is undefined there, and would depend on itself if
//! it included the flow's own class. Here it is a running mean of completed bytes of *higher*
//! classes only. There is a table for each port and for each request on each port, so that a
//! request's own bytes can be subtracted.

use alloc::vec;
use alloc::vec::Vec;
use meridian_base::{Duration, Time};

/// Rows of running means.
#[derive(Debug)]
pub(crate) struct Loads {
    classes: usize,
    window: f64,
    at: Vec<Time>,
    /// Bytes a second, `classes` for each row.
    rates: Vec<f32>,
}

impl Loads {
    pub(crate) fn new(rows: usize, classes: u8, window: Duration) -> Loads {
        let classes = usize::from(classes);
        let (at, rates) = (vec![Time::ZERO; rows], vec![0.0; rows * classes]);
        Loads { classes, window: window.as_secs_f64(), at, rates }
    }

    /// Whether there are no rows, because the policy does not use the load.
    pub(crate) fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    /// Counts `bytes` of `class` as completed.
    pub(crate) fn add(&mut self, row: usize, class: u8, now: Time, bytes: u64) {
        if self.window <= 0.0 {
            return;
        }
        assert!(self.at[row] <= now, "the time of a load never goes back");
        let keep = self.keep(row, now) as f32;
        self.at[row] = now;
        let rates = &mut self.rates[row * self.classes..][..self.classes];
        rates.iter_mut().for_each(|rate| *rate *= keep);
        rates[usize::from(class)] += (bytes as f64 / self.window) as f32;
    }

    /// Bytes a second of the classes above `class`.
    pub(crate) fn above(&self, row: usize, class: u8, now: Time) -> f64 {
        let rates = &self.rates[row * self.classes..][..usize::from(class)];
        let sum: f32 = rates.iter().sum();
        if sum <= 0.0 { 0.0 } else { f64::from(sum) * self.keep(row, now) }
    }

    /// Forgets a row.
    pub(crate) fn clear(&mut self, row: usize) {
        self.rates[row * self.classes..][..self.classes].fill(0.0);
    }

    fn keep(&self, row: usize, now: Time) -> f64 {
        libm::exp(-now.since(self.at[row]).as_secs_f64() / self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A port that carries 1,000 bytes a second settles at that value, as seen from lower classes
    // only, and decays with the window as time constant.
    #[test]
    fn a_steady_port_settles_at_its_rate() {
        let window = Duration::from_millis(10);
        let mut loads = Loads::new(2, 4, window);
        for ms in 0..200 {
            loads.add(1, 1, Time::from_millis(ms), 1);
        }
        let now = Time::from_millis(199);
        assert!((loads.above(1, 2, now) / 1000.0 - 1.0).abs() < 0.06);
        assert_eq!(loads.above(1, 1, now), 0.0, "the class itself does not count");
        assert_eq!(loads.above(0, 3, now), 0.0, "nor do other ports");
        let later = loads.above(1, 3, now + window);
        assert!((later / loads.above(1, 3, now) - libm::exp(-1.0)).abs() < 1e-6);
    }
}
