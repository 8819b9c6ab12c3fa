//! The registry under faults: three regions with three control planes on an etcd of three members, whose
//! members, control planes and gateways are killed, suspended and slowed, while operators change
//! replicas and regions at any control plane.
//!
//! Afterwards every change that was acknowledged is in the registry, all control planes show the same
//! one, and the gateways agree with it. Meanwhile no replica is served by two regions for longer than a
//! lease (`owners.rs` says what counts).

mod agree;
mod operators;
mod owners;

use meridian_protocol::registry::Snapshot;

use super::super::planes::Planes;
use super::super::world::World;
use super::checks::Checks;
use crate::{Error, Result};
use operators::Operators;
use owners::Owners;

/// The operators of a run, and the owners of replicas during it.
pub(super) struct Registry {
    /// The registry before the first fault.
    before: Snapshot,
    owners: Owners,
    operators: Operators,
}

impl Registry {
    pub(super) async fn start(world: &World, seed: u64) -> Result<Registry> {
        let planes = planes(world)?;
        let before = agree::snapshot(&planes.operator()?, &planes.all[0].admin).await?;
        let owners = Owners::start(world, &before)?;
        let operators = Operators::start(planes, &before, seed)?;
        Ok(Registry { before, owners, operators })
    }

    /// Ends the work of the operators.
    pub(super) async fn end(&mut self) {
        self.operators.end().await;
    }

    /// Checks that all views of the registry are the same, and that each replica had one owner. Returns
    /// the figures as tables.
    pub(super) async fn check(self, world: &World, checks: &mut Checks) -> Result<Vec<String>> {
        let books = self.operators.books();
        let agreement = agree::check(world, &self.before, &books, checks).await?;
        let figures = self.owners.end();
        figures.judge(checks);
        Ok(vec![agreement, figures.table()])
    }
}

/// The control planes of this fleet.
fn planes(world: &World) -> Result<&Planes> {
    let missing =
        || Error::Missing { what: "a control plane".into(), remedy: "use several regions".into() };
    world.planes.as_ref().ok_or_else(missing)
}
