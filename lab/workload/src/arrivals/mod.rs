//! Arrival processes of programs. A closed loop needs no clock: a client starts its next program
//! when the last one ends. An open loop has a clock, which does not depend on the answers.
//!
//! Each process is an iterator of times since the start, determined by its seed; it does not depend
//! on the programs it starts. [`ArrivalProcess`] is one with its parameters, and [`open_loop`]
//! assigns programs to the times. A list of recorded times is also such an iterator.

mod bursts;
mod day;
mod diurnal;
mod gaps;
mod poisson;
mod servegen;
mod stepped;

use std::sync::Arc;
use std::time::Duration;

use meridian_base::Time;

pub use bursts::Bursts;
pub use day::Day;
pub use diurnal::{Diurnal, DiurnalArrivals, DiurnalRegion};
pub use gaps::{Gaps, Renewal};
pub use poisson::Poisson;
pub use servegen::{ServeGen, servegen_clients, servegen_hourly, servegen_steps};
pub use stepped::{Step, Stepped};

use crate::{Generator, Program, ProgramKey};

/// Days or steps without an arrival after which a process counts as over.
const MOST_TRIES: u32 = 1_000_000;

/// One arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// Since the start.
    pub at: Duration,
    /// The client; 0 if the process has no separate clients.
    pub client: u32,
}

impl From<Duration> for Arrival {
    fn from(at: Duration) -> Arrival {
        Arrival { at, client: 0 }
    }
}

/// An arrival process with its parameters, for one region.
#[derive(Clone, Debug, PartialEq)]
pub enum ArrivalProcess {
    /// Exponential gaps.
    Poisson {
        /// Programs a second.
        per_second: f64,
    },
    /// Gamma gaps: burstier than Poisson above a `cv` of 1, steadier below.
    Gamma {
        /// Programs a second.
        per_second: f64,
        /// Coefficient of variation of the gaps.
        cv: f64,
    },
    /// Recorded times.
    Times(Arc<[Duration]>),
    /// A rate that follows the hour of the day in the region.
    Diurnal {
        /// The profiles of all regions; the region's index in the list is its number.
        profile: Diurnal,
        /// Programs a second over all regions, in the mean of a day.
        per_second: f64,
    },
    /// The busiest clients of a production service, each with its own bursts.
    ServeGen {
        /// Programs a second over all clients, in the mean of a day.
        per_second: f64,
        /// Clients, the busiest first; at most 20.
        clients: u32,
    },
}

impl ArrivalProcess {
    /// The arrivals of `region`: the same for the same seed and region.
    #[must_use]
    pub fn start(&self, seed: u64, region: u32) -> Box<dyn Iterator<Item = Arrival> + Send> {
        // The diurnal process itself distinguishes regions.
        let own = meridian_base::mix(seed, u64::from(region));
        match self {
            ArrivalProcess::Poisson { per_second } => {
                Box::new(Poisson::new(own, *per_second).map(Arrival::from))
            }
            ArrivalProcess::Gamma { per_second, cv } => {
                Box::new(Renewal::new(own, *per_second, Gaps::gamma(*cv)).map(Arrival::from))
            }
            ArrivalProcess::Times(times) => {
                let times = Arc::clone(times);
                Box::new((0..times.len()).map(move |i| Arrival::from(times[i])))
            }
            ArrivalProcess::Diurnal { profile, per_second } => {
                let region = region as usize;
                Box::new(profile.arrivals(seed, region, *per_second).map(Arrival::from))
            }
            ArrivalProcess::ServeGen { per_second, clients } => {
                Box::new(ServeGen::busiest(own, *clients as usize, *per_second))
            }
        }
    }
}

/// The programs of an open loop in `region`: the n-th arrival of a client starts that client's n-th
/// program.
pub fn open_loop<A: Into<Arrival>>(
    generator: Arc<dyn Generator>,
    arrivals: impl Iterator<Item = A> + Send,
    seed: u64,
    region: u32,
) -> impl Iterator<Item = (Time, Program)> + Send {
    let mut ordinals = std::collections::BTreeMap::<u32, u64>::new();
    arrivals.map(move |arrival| {
        let Arrival { at, client } = arrival.into();
        let next = ordinals.entry(client).or_default();
        let key = ProgramKey { seed, region, client, ordinal: *next };
        *next += 1;
        (Time::ZERO + at, generator.program(key))
    })
}
