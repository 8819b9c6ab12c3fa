//! A card: a port with a cable, and where its bytes are counted.

use std::path::PathBuf;

use super::sysfs::Host;
use super::{Rate, ethtool};

/// What a card is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ethernet without RDMA.
    Ethernet,
    /// Ethernet with RDMA.
    Roce,
    /// An InfiniBand port.
    InfiniBand,
    /// A port of another kind that only RDMA uses, such as AWS EFA.
    Rdma,
    /// A network device without a cable of its own, watched because it was named.
    Virtual,
}

impl Kind {
    /// Its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ethernet => "Ethernet",
            Kind::Roce => "RoCE",
            Kind::InfiniBand => "InfiniBand",
            Kind::Rdma => "RDMA",
            Kind::Virtual => "virtual",
        }
    }
}

/// A card of this host.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// The network device's name, or device and port: `mlx5_0/1`.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Bytes a second in each direction; `None` if the card does not tell.
    pub rate: Option<Rate>,
    /// Where its bytes are counted, for people.
    pub source: String,
    /// Limits of its counters, for people.
    pub notes: Vec<String>,
    pub(super) sources: Vec<Source>,
}

/// Two counters, of bytes sent and received.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Source {
    /// Two files with a number each, in units of some bytes.
    Files {
        /// Below the root: sent, received.
        paths: [PathBuf; 2],
        /// Bytes of one unit.
        unit: u64,
    },
    /// Two counters of a driver.
    Driver {
        /// The network device.
        netdev: String,
        /// Sent, received.
        names: [&'static str; 2],
    },
}

impl Source {
    /// Bytes of one unit of its counters.
    pub(super) fn unit(&self) -> u64 {
        match self {
            Source::Files { unit, .. } => *unit,
            Source::Driver { .. } => 1,
        }
    }

    pub(super) fn read(&self, host: &Host) -> Option<[u64; 2]> {
        match self {
            Source::Files { paths: [sent, received], .. } => {
                Some([host.sysfs.number(sent)?, host.sysfs.number(received)?])
            }
            Source::Driver { netdev, names } => {
                ethtool::values(&host.driver_counters(netdev)?, *names)
            }
        }
    }
}

/// Raw counters of a card, in the units of its sources: sent and received of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts(pub(super) Vec<[u64; 2]>);

impl Card {
    /// Reads its counters; `None` if the card has left or has no counters of bytes.
    ///
    /// Costs some files, or one run of `ethtool` for a card that needs it.
    #[must_use]
    pub fn read(&self, host: &Host) -> Option<Counts> {
        let all = self.sources.iter().map(|source| source.read(host));
        let all = all.collect::<Option<Vec<_>>>().filter(|all| !all.is_empty());
        all.map(Counts)
    }

    /// Bytes of a unit of each source.
    pub(super) fn units(&self) -> Vec<u64> {
        self.sources.iter().map(Source::unit).collect()
    }
}
