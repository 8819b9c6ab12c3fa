//! Orders to break or mend something of the fleet, as the page and the chaos tables give them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What is to happen to something of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    /// Break or mend.
    pub(super) act: Act,
    /// What of.
    pub(super) what: What,
    /// `us-engine-0`, a region for `gateway` and `region`, `control` for itself; for `link` `us/eu`
    /// both ways and `us>eu` one way.
    pub(super) name: String,
}

/// Break or mend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Act {
    /// Kill it, with SIGKILL; of a link: reset what is open on it.
    Kill,
    /// Start it again, where it was, or let it go on; of a link: as it was.
    Revive,
    /// Tell it to end, with SIGTERM, and start it again when it has.
    Restart,
    /// Suspend it, with SIGSTOP: it keeps its connections and answers nothing.
    Stop,
    /// Tell it to end, with SIGTERM, and wait for nothing.
    End,
    /// Have it read its files again, with SIGHUP.
    Reload,
    /// Of a gateway: change its file in a way that changes nothing for its clients.
    Edit,
    /// Of a link: nothing arrives, and nobody is told.
    Cut,
    /// Of a link: far longer, and narrow.
    Slow,
}

/// The kinds of things that break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum What {
    /// One replica.
    Replica,
    /// A region's gateway.
    Gateway,
    /// A region's replicas and gateway.
    Region,
    /// The link between two regions.
    Link,
    /// The control plane.
    Control,
}

impl Order {
    /// Whether such a thing can be done to such a thing.
    pub(super) fn makes_sense(&self) -> bool {
        match self.act {
            Act::Kill | Act::Revive => true,
            Act::Cut | Act::Slow => self.what == What::Link,
            Act::Restart | Act::Stop | Act::End | Act::Reload => self.what != What::Link,
            Act::Edit => self.what == What::Gateway,
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let act = match self.act {
            Act::Kill => "killed",
            Act::Revive => "revived",
            Act::Restart => "restarted",
            Act::Stop => "stopped",
            Act::End => "told to end:",
            Act::Reload => "reloaded",
            Act::Edit => "edited the file of",
            Act::Cut => "cut",
            Act::Slow => "slowed down",
        };
        let what = match self.what {
            What::Replica => "replica",
            What::Gateway => "gateway of",
            What::Region => "region",
            What::Link => "link",
            What::Control => return write!(f, "{act} the control plane"),
        };
        write!(f, "{act} {what} {}", self.name)
    }
}
