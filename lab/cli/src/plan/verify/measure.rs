//! Measures pairs of cards, one after the other or all at once.

use std::time::Duration;

use anyhow::Context;
use meridian_plan::verify::{Measured, Port};

use super::servers::Servers;

/// A pair that could not be measured.
pub(super) type Failed = ((Port, Port), anyhow::Error);

/// How to measure.
pub(super) struct Asked {
    pub(super) time: Duration,
    pub(super) streams: u32,
    pub(super) trips: u32,
}

impl Servers {
    /// Goodput and round trip from one card to another.
    pub(super) fn measure(&self, from: Port, to: Port, asked: &Asked) -> anyhow::Result<Measured> {
        let (sender, receiver) = (self.remotes.get(&from), self.remotes.get(&to));
        let sender = sender.context("it has no probe")?;
        let (to_address, from_address) =
            (receiver.context("it has no probe")?.address(), sender.address().ip());
        // First the trips, while the link is idle.
        let rtt = match asked.trips {
            0 => 0.0,
            trips => sender.trips(to_address, from_address, trips)?.median.as_secs_f64(),
        };
        let sent = sender.send(to_address, from_address, asked.streams, asked.time)?;
        Ok(Measured { from, to, goodput: sent.goodput, rtt, busy: sent.busy })
    }

    /// Goodput of all pairs at the same time, and the pairs that failed.
    pub(super) fn at_once(
        &self,
        pairs: &[(Port, Port)],
        asked: &Asked,
    ) -> anyhow::Result<(Vec<Measured>, Vec<Failed>)> {
        let asked = &Asked { trips: 0, ..*asked };
        std::thread::scope(|scope| {
            let started: Vec<_> = pairs
                .iter()
                .map(|(from, to)| scope.spawn(move || self.measure(*from, *to, asked)))
                .collect();
            let (mut measured, mut failed) = (Vec::new(), Vec::new());
            for (pair, one) in pairs.iter().zip(started) {
                match one.join().map_err(|_| anyhow::anyhow!("a thread panicked"))? {
                    Ok(one) => measured.push(one),
                    Err(error) => failed.push((*pair, error)),
                }
            }
            Ok((measured, failed))
        })
    }
}
