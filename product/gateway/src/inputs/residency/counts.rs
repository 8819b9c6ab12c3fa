//! Counts the outcomes of requests that a rule names.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use meridian_base::residency::{Residence, Rule};
use meridian_protocol::admin;

/// The outcome of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleOutcome {
    /// Answered by a replica of this gateway.
    Served,
    /// Forwarded and answered by a peer.
    Sent,
    /// Refused: no permitted replica could serve it.
    Refused,
}

#[derive(Debug, Default)]
struct RuleRow([AtomicU64; 3]);

/// Counts by rule.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Rows of every rule that was ever in the file.
    rows: RwLock<Vec<(String, RuleRow)>>,
    /// Rules that only other gateways know.
    others: RuleRow,
    breaches: AtomicU64,
}

impl Counts {
    /// Adds rows for the rules of the file.
    pub(super) fn begin(&self, rules: &[Arc<Rule>]) {
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        for rule in rules {
            if !rows.iter().any(|(name, _)| *name == rule.name) {
                rows.push((rule.name.clone(), RuleRow::default()));
            }
        }
    }

    fn rows(&self) -> RwLockReadGuard<'_, Vec<(String, RuleRow)>> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request under each rule that names it.
    pub(crate) fn count(&self, residence: &Residence, kept: RuleOutcome) {
        if residence.is_free() {
            return;
        }
        let rows = self.rows();
        for rule in residence.rules() {
            let row = rows.iter().find(|(name, _)| *name == rule.name);
            let row = row.map_or(&self.others, |(_, row)| row);
            row.0[kept as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a breach of a rule.
    pub(crate) fn breach(&self) {
        self.breaches.fetch_add(1, Ordering::Relaxed);
    }

    /// For the status page; none without rules.
    pub(crate) fn read(&self) -> Option<admin::Residency> {
        let of = |row: &RuleRow, kept: RuleOutcome| row.0[kept as usize].load(Ordering::Relaxed);
        let counts = |name: &str, row: &RuleRow| admin::RuleCounts {
            rule: name.to_owned(),
            served: of(row, RuleOutcome::Served),
            sent: of(row, RuleOutcome::Sent),
            refused: of(row, RuleOutcome::Refused),
        };
        let mut rules: Vec<_> = self.rows().iter().map(|(name, row)| counts(name, row)).collect();
        let others = counts("others", &self.others);
        if others.served + others.sent + others.refused > 0 {
            rules.push(others);
        }
        let breaches = self.breaches.load(Ordering::Relaxed);
        (!rules.is_empty() || breaches > 0).then_some(admin::Residency { rules, breaches })
    }
}
