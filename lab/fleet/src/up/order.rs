//! Orders to break or repair a part of the fleet, from the page and the chaos tables.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The name that stands for all members of etcd.
pub(super) const ALL: &str = "all";

/// An order for a part of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    /// The action.
    pub(super) act: Act,
    /// The kind of part.
    pub(super) what: What,
    /// `us-engine-0`, a region for `gateway` and `region`, `control` or `control-1`, `etcd-1`; for `link`,
    /// `us/eu` in both directions and `us>eu` in one.
    pub(super) name: String,
}

/// The action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Act {
    /// Kill it with SIGKILL; for a link: reset its connections.
    Kill,
    /// Start it again at its old address, or resume it; for a link: restore it.
    Revive,
    /// End it with SIGTERM, and start it again afterwards.
    Restart,
    /// Suspend it with SIGSTOP: it keeps its connections and answers nothing.
    Stop,
    /// End it with SIGTERM, without waiting.
    End,
    /// Make it reload its files, with SIGHUP.
    Reload,
    /// For a gateway: change its file without effect on its clients.
    Edit,
    /// For a link: nothing arrives, and no connection is reset.
    Cut,
    /// For a link: much longer delay and low rate; for a member of etcd: suspend it most of the time.
    Slow,
    /// For a replica: answer every second request with a 500.
    Fail,
    /// For a replica: tell an error inside every second answer.
    Tell,
    /// For a replica: make no progress, and answer probes.
    Stall,
    /// For a replica: close a connection when its second request arrives.
    Close,
}

/// The kinds of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
    /// A control plane.
    Control,
    /// A member of etcd, or `all`.
    Etcd,
    /// The paths of KV between the engines of a region.
    Path,
}

impl Order {
    fn is_way(&self) -> bool {
        matches!(self.what, What::Link | What::Path)
    }

    /// Whether the action applies to this kind of part.
    pub(super) fn makes_sense(&self) -> bool {
        match self.act {
            Act::Kill | Act::Revive => true,
            Act::Cut => self.is_way(),
            Act::Slow => self.is_way() || self.what == What::Etcd,
            Act::Restart | Act::Stop | Act::End | Act::Reload => !self.is_way(),
            Act::Edit => self.what == What::Gateway,
            Act::Fail | Act::Tell | Act::Stall | Act::Close => self.what == What::Replica,
        }
    }
}

impl Act {
    /// Whether the part keeps running, and has to be asked to misbehave.
    pub(super) fn is_asked_for(self) -> bool {
        matches!(self, Act::Fail | Act::Tell | Act::Stall | Act::Close)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let act = match self.act {
            Act::Kill => "killed",
            Act::Revive => "revived",
            Act::Restart => "restarted",
            Act::Stop => "stopped",
            Act::End => "sent SIGTERM to",
            Act::Reload => "reloaded",
            Act::Edit => "edited the configuration of",
            Act::Cut => "cut",
            Act::Slow => "slowed down",
            Act::Fail => "every second request fails at",
            Act::Tell => "errors inside answers of",
            Act::Stall => "no progress at",
            Act::Close => "connections are closed by",
        };
        let what = match self.what {
            What::Replica => "replica",
            What::Gateway => "gateway of",
            What::Region => "region",
            What::Link => "link",
            What::Control if self.name == "control" => return write!(f, "{act} the control plane"),
            What::Control => "control plane",
            What::Etcd if self.name == ALL => return write!(f, "{act} all members of etcd"),
            What::Etcd => "member",
            What::Path => return write!(f, "{act} the paths of KV"),
        };
        write!(f, "{act} {what} {}", self.name)
    }
}
