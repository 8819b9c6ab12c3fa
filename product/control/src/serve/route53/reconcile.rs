//! The leader's work: it reads the zone, and changes it until it is as the fleet needs it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::super::Shared;
use super::aws::{Aws, AwsFound};
use super::failure::Failure;
use super::state::Route53;
use crate::route53::{Body, Change, Fleet, Kind, Plan, Probe, plan};

/// Health checks that are created before the fleet is looked at again.
const AT_ONCE: usize = 20;
/// How long Route 53 takes to show a new health check in its list, with room to spare.
const LISTED: Duration = Duration::from_secs(120);
/// How long it takes to have a change on all its servers, with room to spare. It says 60 s.
const SPREAD: Duration = Duration::from_secs(90);
/// Most changes that one line of the log names.
const SHOWN: usize = 20;

/// One term of a leader.
pub(super) struct Reconciler<'a> {
    shared: &'a Shared,
    route53: &'a Route53,
    aws: &'a Aws,
    since: Instant,
    /// Id of the newest change of records.
    newest: Option<String>,
    /// Health checks that it created lately. Others might not be listed yet.
    created: BTreeMap<String, (Probe, Instant)>,
    /// The newest number of a health check.
    unique: u64,
    /// Health checks that Route 53 refuses, and why it does not take the last of them.
    refused: BTreeSet<Probe>,
    failure: Option<Failure>,
    /// The account has no room for more.
    is_full: bool,
}

/// When the zone is looked at again.
pub(super) enum Next {
    /// When the fleet changes.
    Done,
    /// Shortly: unused health checks remain.
    Soon,
    /// At once: there is more to do.
    Now,
    /// Not any more: another control plane leads.
    Lost,
}

impl<'a> Reconciler<'a> {
    pub(super) fn new(shared: &'a Shared, route53: &'a Route53, aws: &'a Aws) -> Reconciler<'a> {
        Reconciler {
            shared,
            route53,
            aws,
            since: Instant::now(),
            newest: None,
            created: BTreeMap::new(),
            unique: 0,
            refused: BTreeSet::new(),
            failure: None,
            is_full: false,
        }
    }

    /// Reads the zone and makes all changes for this fleet.
    pub(super) async fn round(&mut self, fleet: &Fleet) -> Result<Next, Failure> {
        let mut found = self.aws.read().await?;
        self.created.retain(|_, (_, when)| when.elapsed() < LISTED);
        for (id, (probe, _)) in &self.created {
            found.zone.checks.entry(id.clone()).or_insert(Some(probe.clone()));
        }
        let mut created = false;
        loop {
            let mut plan = plan(&self.route53.names, fleet, &found.zone);
            self.route53.saw(&found.zone, &plan);
            plan.missing.retain(|probe| !self.is_full && !self.refused.contains(probe));
            if !self.shared.leads() {
                return Ok(Next::Lost);
            }
            if !plan.batches.is_empty() {
                self.change(&plan, &mut found).await?;
            } else if plan.missing.is_empty() {
                // Also after a failure: a health check that goes makes room for another one.
                let released = self.release(plan.unused).await;
                return self.finished(released);
            } else if created {
                // The fleet may have changed meanwhile.
                return Ok(Next::Now);
            } else {
                self.create_some(plan.missing, &mut found).await?;
                created = true;
            }
        }
    }

    /// Everything possible was done. What Route 53 refused is sent again in a later round.
    fn finished(&mut self, released: Result<Next, Failure>) -> Result<Next, Failure> {
        self.refused.clear();
        self.is_full = false;
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let next = released?;
        self.route53.in_order(self.shared.date_ms());
        Ok(next)
    }

    /// Creates health checks, except those that Route 53 refuses.
    async fn create_some(
        &mut self,
        missing: Vec<Probe>,
        found: &mut AwsFound,
    ) -> Result<(), Failure> {
        for probe in missing.into_iter().take(AT_ONCE) {
            match self.create(&probe, found).await {
                Err(error) if error.is_refusal => {
                    self.failure = Some(error.about(probe.address));
                    self.refused.insert(probe);
                }
                Err(error) if error.is_full => {
                    (self.failure, self.is_full) = (Some(error), true);
                    return Ok(());
                }
                done => done?,
            }
        }
        Ok(())
    }

    /// Changes records, batch by batch.
    async fn change(&mut self, plan: &Plan, found: &mut AwsFound) -> Result<(), Failure> {
        for batch in &plan.batches {
            if !self.shared.leads() {
                return Ok(());
            }
            self.newest = Some(self.aws.change(batch, found).await?);
            batch.iter().for_each(|change| found.zone.apply(change));
            self.route53.changed(batch);
            let shown: Vec<String> = batch.iter().take(SHOWN).map(text).collect();
            tracing::info!(changes = batch.len(), "route53: {}", shown.join(", "));
        }
        Ok(())
    }

    async fn create(&mut self, probe: &Probe, found: &mut AwsFound) -> Result<(), Failure> {
        if !self.shared.leads() {
            return Ok(());
        }
        self.unique = self.shared.date_ms().max(self.unique + 1);
        let id = self.aws.create(probe, self.unique).await?;
        tracing::info!(id, address = %probe.address, "route53: a health check was created");
        self.route53.count(|counts| counts.checks_created += 1);
        self.created.insert(id.clone(), (probe.clone(), Instant::now()));
        found.zone.checks.insert(id, Some(probe.clone()));
        Ok(())
    }

    /// Deletes health checks that no record uses, once all servers of Route 53 know the records: what
    /// Route 53 does with a record whose health check is gone is not defined.
    async fn release(&mut self, unused: Vec<String>) -> Result<Next, Failure> {
        if unused.is_empty() {
            return Ok(Next::Done);
        }
        let spread = match &self.newest {
            Some(change) => self.aws.has_spread(change).await?,
            // An earlier leader may just have changed something.
            None => self.since.elapsed() >= SPREAD,
        };
        if !spread {
            return Ok(Next::Soon);
        }
        for id in unused {
            if !self.shared.leads() {
                return Ok(Next::Lost);
            }
            self.aws.delete(&id).await?;
            tracing::info!(id, "route53: an unused health check was deleted");
            self.route53.count(|counts| counts.checks_deleted += 1);
            self.created.remove(&id);
        }
        Ok(Next::Done)
    }
}

/// A change, for the log.
fn text(change: &Change) -> String {
    match change {
        Change::Upsert(key, Body::Region { aws, target }) => {
            format!("{} {} in {aws} is {target}", key.name, key.kind.name())
        }
        Change::Upsert(key, Body::Gateway { address, .. }) => {
            format!("{} {} has {address}", key.name, key.kind.name())
        }
        Change::Upsert(key, Body::Other) | Change::Delete(key) => {
            format!("{} {} without {}", key.name, Kind::name(key.kind), key.id)
        }
    }
}
