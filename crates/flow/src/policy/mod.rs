//! Policies: where flows stand. One file and one line in [`ALL`] each.
//!
//! A policy turns a flow's row into a [`Place`]. Flows, requests, ports and permits are the
//! machine's, so that all policies see the same.

use alloc::boxed::Box;
use alloc::vec::Vec;
use meridian_base::Time;

use crate::config::Config;
use crate::place::Place;
use crate::tables::World;
use crate::why::{Lever, PruneWhy, Why};

mod edf;
mod edf_drop;
mod fair;
mod karuna;
mod mfs;
mod sjf;
mod two_class;

/// Every policy, in the order in which they are listed.
pub static ALL: &[&Spec] = &[
    &mfs::SPEC,
    &fair::SPEC,
    &sjf::SPEC,
    &edf::SPEC,
    &karuna::SPEC,
    &two_class::SPEC,
    &edf_drop::SPEC,
];

/// The policy called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Spec> {
    ALL.iter().find(|spec| spec.name == name).copied()
}

/// What a policy declares of itself.
#[derive(Debug)]
pub struct Spec {
    /// Its name in configurations and reports.
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// Where the rule comes from.
    pub source: &'static str,
    pub(crate) needs: Needs,
    pub(crate) build: fn(&Config) -> Box<dyn Policy>,
}

/// What the machine keeps for a policy, so that none pays for what it does not look at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    /// Handoffs are looked at when a layer begins and at fixed times.
    pub(crate) updates: bool,
    /// Early flows are looked at when a layer begins.
    pub(crate) layers: bool,
    /// Batches are ordered when one arrives or departs.
    pub(crate) passes: bool,
    /// Running means of the ports' loads.
    pub(crate) loads: bool,
    /// Flows without progress rise.
    pub(crate) aging: bool,
}

/// What a pass did to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Passed {
    Pruned { request: u32, lever: Lever, why: PruneWhy },
    Reinstated { request: u32 },
}

/// A scheduling rule.
pub(crate) trait Policy: Send {
    /// Where the flow stands now, and why.
    fn place(&self, world: &World, now: Time, flow: u32) -> (Place, Why);

    /// A flow was entered: what depends on it is brought up to date before it is placed.
    fn submitted(&mut self, _world: &mut World, _now: Time, _flow: u32) {}

    /// A layer of the request's batch began, or time has passed: true where its handoffs may stand
    /// elsewhere now. Its standing may change.
    fn update(&mut self, _world: &mut World, _now: Time, _request: u32) -> bool {
        false
    }

    /// A new generation of the request's batch began: what rose may fall.
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

/// Set in an order, it comes after all orders without it.
pub(crate) const BEHIND: u64 = 1 << 63;

/// A time as an order: microseconds (of some four years), and 16 bits below for the layer.
pub(crate) fn order(at: Time, layer: u16) -> u64 {
    let micros = (at.as_nanos() / 1000).min((1 << 47) - 1);
    micros << 16 | u64::from(layer)
}
