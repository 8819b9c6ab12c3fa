//! What the admin page and the metrics show of the hosted zone.

use std::sync::{Mutex, MutexGuard};

use meridian_config as config;
use meridian_protocol::registry::{Hosted, HostedRecord};
use tokio::time::Instant;

use super::super::ServeError;
use super::super::metrics::HostedFigures;
use super::failure::Failure;
use crate::route53::{Body, Change, Key, Names, Plan, Zone};

/// The settings, and the state of the work.
pub(in super::super) struct Route53 {
    pub(super) names: Names,
    state: Mutex<Route53State>,
}

#[derive(Default)]
struct Route53State {
    /// When the records were last seen as the fleet needs them: here, and in ms since 1970.
    in_order: Option<(Instant, u64)>,
    error: Option<String>,
    /// Of the fleet, and of the zone.
    problems: [Vec<String>; 2],
    records: Vec<HostedRecord>,
    counts: Counts,
}

/// Changes since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Counts {
    pub(in super::super) upserts: u64,
    pub(in super::super) deletes: u64,
    pub(in super::super) checks_created: u64,
    pub(in super::super) checks_deleted: u64,
    pub(in super::super) failures: u64,
}

impl Route53 {
    /// The settings were checked when the file was read.
    pub(in super::super) fn load(config: &config::Route53) -> Result<Route53, ServeError> {
        let names = Names { config: config.clone() };
        Ok(Route53 { names, state: Mutex::default() })
    }

    /// `GET /admin/route53`.
    pub(in super::super) fn page(&self, leads: bool) -> Hosted {
        let state = self.state();
        let ms = |since: Instant| u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        Hosted {
            zone: self.names.config.zone.clone(),
            name: self.names.config.name.clone(),
            leads,
            in_order_ms_ago: state.in_order.map(|(since, _)| ms(since)),
            error: state.error.clone(),
            problems: state.problems.concat(),
            records: state.records.clone(),
        }
    }

    /// For the metrics page.
    pub(in super::super) fn figures(&self, leads: bool) -> HostedFigures {
        let state = self.state();
        let Counts { upserts, deletes, checks_created, checks_deleted, failures } = state.counts;
        HostedFigures {
            leads,
            records: state.records.len(),
            last_success_ms: state.in_order.map(|(_, date)| date),
            changes: [
                ("record_written", upserts),
                ("record_deleted", deletes),
                ("health_check_created", checks_created),
                ("health_check_deleted", checks_deleted),
            ],
            failures,
        }
    }

    fn state(&self) -> MutexGuard<'_, Route53State> {
        self.state.lock().expect("no panic while held")
    }

    /// Counts changes.
    pub(super) fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.state().counts);
    }

    /// Counts the changes of a batch.
    pub(super) fn changed(&self, batch: &[Change]) {
        let upserts = batch.iter().filter(|one| matches!(one, Change::Upsert(..))).count() as u64;
        self.count(|counts| {
            counts.upserts += upserts;
            counts.deletes += batch.len() as u64 - upserts;
        });
    }

    /// Gateways that are left out; new ones are logged.
    pub(super) fn left_out(&self, problems: Vec<String>) {
        report(&mut self.state().problems[0], problems);
    }

    /// The zone as it is now, and the names at which a plan changes nothing.
    pub(super) fn saw(&self, zone: &Zone, plan: &Plan) {
        let problem = |(name, kind): &(String, _)| {
            let kind = crate::route53::Kind::name(*kind);
            format!(
                "{name} {kind}: the zone has a record there that Meridian did not make, so nothing is changed; delete it, or choose another route53.name"
            )
        };
        let mut state = self.state();
        report(&mut state.problems[1], plan.conflicts.iter().map(problem).collect());
        state.records = zone.records.iter().map(row).collect();
    }

    /// The records are as the fleet needs them.
    pub(super) fn in_order(&self, date_ms: u64) {
        let mut state = self.state();
        if state.error.take().is_some() {
            tracing::info!("route53: the records are in order again");
        }
        state.in_order = Some((Instant::now(), date_ms));
    }

    /// An attempt failed. The same failure is logged once.
    pub(super) fn failed(&self, failure: &Failure) {
        let mut state = self.state();
        state.counts.failures += 1;
        let text = failure.to_string();
        if state.error.as_ref() != Some(&text) {
            tracing::error!("{text}");
            state.error = Some(text);
        }
    }

    /// Another control plane leads.
    pub(super) fn stopped_leading(&self) {
        let counts = self.state().counts;
        *self.state() = Route53State { counts, ..Route53State::default() };
    }
}

fn report(before: &mut Vec<String>, now: Vec<String>) {
    for problem in now.iter().filter(|problem| !before.contains(problem)) {
        tracing::warn!("route53: {problem}");
    }
    *before = now;
}

fn row((key, body): (&Key, &Body)) -> HostedRecord {
    let (answer, aws_region, health_check) = match body {
        Body::Region { aws, target } => (target.clone(), Some(aws.clone()), None),
        Body::Gateway { address, check, .. } => (address.to_string(), None, Some(check.clone())),
        Body::Other => ("changed by another program".to_owned(), None, None),
    };
    let (name, kind, id) = (key.name.clone(), key.kind.name().to_owned(), key.id.clone());
    HostedRecord { name, kind, id, answer, aws_region, health_check }
}
