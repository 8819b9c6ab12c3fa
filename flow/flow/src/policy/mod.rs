//! Policies, which place flows. Each is one file and one line in [`ALL`].
//!
//! A policy turns a flow's row into a [`Place`]. The machine manages flows, requests, ports and
//! permits, so all policies see the same state.

use alloc::boxed::Box;
use alloc::vec::Vec;
use meridian_base::Time;

use crate::config::Config;
use crate::place::Place;
use crate::tables::World;
use crate::why::{Passed, Why};

mod edf;
mod edf_drop;
mod fair;
mod heads;
mod karuna;
mod mfs;
mod sjf;
mod tent;
mod two_class;
mod two_class_floor;

/// Every policy, in the order in which they are listed.
pub static ALL: &[&Spec] = &[
    &mfs::SPEC,
    &fair::SPEC,
    &sjf::SPEC,
    &edf::SPEC,
    &karuna::SPEC,
    &two_class::SPEC,
    &two_class_floor::SPEC,
    &tent::SPEC,
    &edf_drop::SPEC,
];

/// The policy called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Spec> {
    ALL.iter().find(|spec| spec.name == name).copied()
}

/// A policy's declaration.
#[derive(Debug)]
pub struct Spec {
    /// Its name in configurations and reports.
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// Source of the rule.
    pub source: &'static str,
    pub(crate) needs: Needs,
    pub(crate) build: fn(&Config) -> Box<dyn Policy>,
}

/// The state that the machine keeps for a policy, so that no policy pays for state it does not use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    /// Update handoffs when a layer starts and at fixed times.
    pub(crate) updates: bool,
    /// Place early flows again when a layer starts.
    pub(crate) layers: bool,
    /// Order batches when one arrives or departs.
    pub(crate) passes: bool,
    /// Keep running means of the ports' loads.
    pub(crate) loads: bool,
    /// Raise flows without progress.
    pub(crate) aging: bool,
    /// Report ends of flows, which make others the first of their queue.
    pub(crate) heads: bool,
}

impl Needs {
    /// A rule that looks at a flow once.
    pub(crate) const NONE: Needs = Needs {
        updates: false,
        layers: false,
        passes: false,
        loads: false,
        aging: false,
        heads: false,
    };
}

/// Flows that move because another was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    None,
    /// One flow.
    Flow(u32),
    /// All handoffs of its request.
    Handoffs,
}

impl From<Option<u32>> for Others {
    fn from(flow: Option<u32>) -> Others {
        flow.map_or(Others::None, Others::Flow)
    }
}

/// A scheduling rule.
pub(crate) trait Policy: Send {
    /// The flow's place now, and why.
    fn place(&self, world: &World, now: Time, flow: u32) -> (Place, Why);

    /// A flow was submitted: updates the policy's state before the flow is placed. Returns which
    /// others' places may change because of it.
    fn submitted(&mut self, _world: &mut World, _now: Time, _flow: u32) -> Others {
        Others::None
    }

    /// A flow has ended and is about to be removed. Returns another flow whose place changes because
    /// of it.
    fn ended(&mut self, _world: &World, _now: Time, _flow: u32) -> Option<u32> {
        None
    }

    /// A layer of the request's batch started, or time has passed: true if the places of its
    /// handoffs may have changed. Its standing may change.
    fn update(&mut self, _world: &mut World, _now: Time, _request: u32) -> bool {
        false
    }

    /// A new generation of the request's batch started: promotions may be undone.
    fn restarted(&mut self, _world: &mut World, _request: u32) {}

    /// A batch arrived or departed. Batches whose rank changed go into `moved`.
    fn pass(
        &mut self,
        _world: &mut World,
        _now: Time,
        _moved: &mut Vec<u32>,
        _passed: &mut Vec<Passed>,
    ) {
    }
}
