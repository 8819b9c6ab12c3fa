//! Configuration of a flow machine.

use core::fmt;
use meridian_base::Duration;

use crate::limits::{Limits, MOST_ROWS};
use crate::place::Arbitration;
use crate::policy::Spec;
use crate::thresholds::{MOST_LEVELS, Thresholds};

/// The terms of MFS; each can be switched off to measure its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Handoffs rise with their minimal link utilisation; without this term they stay in the last
    /// level.
    pub mlu: bool,
    /// Reuse is placed by its distance from the computation; without this term, all of it is in
    /// level 1.
    pub rli: bool,
    /// Batches are ordered by their robust effective deadline; without this term, by arrival.
    pub red: bool,
    /// Infeasible requests are demoted.
    pub prune: bool,
}

/// How RED orders batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedOrder {
    /// By RED alone, as published.
    Deadline,
    /// By RED less the batch's estimated remaining service: by laxity.
    Laxity,
}

/// A flow machine's settings.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The policy.
    pub policy: &'static Spec,
    /// K, without the scavenger's level: 2 to 16.
    pub levels: u8,
    /// Utilisation at which each level starts.
    pub thresholds: Thresholds,
    /// How flows of early and last stages are ordered against each other.
    pub arbitration: Arbitration,
    /// The terms of MFS that are enabled.
    pub terms: Terms,
    /// How RED orders.
    pub red: RedOrder,
    /// A loose deadline counts no later than this many SLOs after the tight one.
    pub red_clip: f64,
    /// How often a handoff is updated once its request has no layers to compute.
    pub update: Duration,
    /// Time constant of the load ahead of a flow; zero ignores the load.
    pub load_window: Duration,
    /// Most of a port that the load ahead may be assumed to use, in [0, 1).
    pub load_most: f64,
    /// A utilisation above 1 by more than this is infeasible, and feasible again only this much
    /// below 1.
    pub margin: f64,
    /// Consecutive updates before a request is demoted or reinstated.
    pub strikes: u8,
    /// Share of the requests within `drop_window` that may be demoted as infeasible.
    pub drop_share: f64,
    /// The window of `drop_share`.
    pub drop_window: Duration,
    /// Whether the driver can defer a request, or recompute its prefix, before its fetch starts.
    pub can_defer: bool,
    /// A flow without progress for this long rises one level; zero never.
    pub aging: Duration,
    /// Largest chunk of one permit, bytes.
    pub chunk: u32,
    /// Most bytes of a traffic class and those above it that are permitted and not completed on a
    /// port, at least a chunk.
    pub window: u32,
    /// A collective that has waited this long gets its permit unconditionally, and a port where
    /// nothing has moved for this long is stalled: its permits expire. A slow port has longer.
    pub max_hold: Duration,
    /// Bounds of the tables.
    pub limits: Limits,
}

impl Config {
    /// `policy` with the settings of the paper, corrected if necessary.
    #[must_use]
    pub fn new(policy: &'static Spec) -> Config {
        Config {
            policy,
            levels: 8,
            thresholds: Thresholds::Corrected,
            arbitration: Arbitration::Hierarchical,
            terms: Terms { mlu: true, rli: true, red: true, prune: true },
            red: RedOrder::Deadline,
            red_clip: 3.0,
            update: Duration::from_millis(1),
            load_window: Duration::from_millis(10),
            load_most: 0.95,
            margin: 0.05,
            strikes: 2,
            drop_share: 0.05,
            drop_window: Duration::from_secs(10),
            can_defer: false,
            aging: Duration::from_secs(1),
            chunk: 256 << 10,
            window: 512 << 10,
            max_hold: Duration::from_millis(5),
            limits: Limits {
                flows: 16_384,
                requests: 8_192,
                batches: 2_048,
                ports: 8_192,
                uses: 131_072,
                layers: 256,
            },
        }
    }

    /// Checks that the settings are consistent.
    ///
    /// # Errors
    ///
    /// If they are not; the error names the first such field.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let within = |field, value: f64, least: f64, most: f64| {
            let fits = value >= least && value <= most;
            if fits { Ok(()) } else { Err(ConfigError { field, value, least, most }) }
        };
        let micros = |d: Duration| d.as_secs_f64() * 1e6;
        within("levels", f64::from(self.levels), 2.0, f64::from(MOST_LEVELS))?;
        match self.thresholds {
            Thresholds::Paper | Thresholds::Corrected => {}
            Thresholds::Geometric { top, ratio } => {
                within("thresholds.top", top, 1e-6, 1.0)?;
                within("thresholds.ratio", ratio, 1.01, 1e6)?;
            }
            Thresholds::Known { most, least } => {
                within("thresholds.most", most, 1e-6, 1.0)?;
                within("thresholds.least", least, 1e-9, most * 0.99)?;
            }
        }
        within("red_clip", self.red_clip, 0.0, 1e6)?;
        within("update_us", micros(self.update), 10.0, 1e9)?;
        within("load_window_us", micros(self.load_window), 0.0, 1e9)?;
        within("load_most", self.load_most, 0.0, 0.999)?;
        within("margin", self.margin, 0.0, 10.0)?;
        within("strikes", f64::from(self.strikes), 1.0, 255.0)?;
        within("drop_share", self.drop_share, 0.0, 1.0)?;
        within("drop_window_us", micros(self.drop_window), 1e3, 1e12)?;
        within("chunk", f64::from(self.chunk), 1.0, 1e9)?;
        within("window", f64::from(self.window), f64::from(self.chunk), 4e9)?;
        within("max_hold_us", micros(self.max_hold), 1.0, 1e9)?;
        let Limits { flows, requests, batches, ports, uses, layers } = self.limits;
        let tables = [
            ("limits.flows", flows),
            ("limits.requests", requests),
            ("limits.batches", batches),
            ("limits.ports", ports),
            ("limits.uses", uses),
        ];
        for (field, value) in tables {
            within(field, f64::from(value), 1.0, f64::from(MOST_ROWS))?;
        }
        within("limits.layers", f64::from(layers), 1.0, f64::from(u16::MAX - 1))
    }
}

/// Why a machine cannot be configured this way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfigError {
    /// The field.
    pub field: &'static str,
    /// Its value.
    pub value: f64,
    /// The smallest allowed value.
    pub least: f64,
    /// The largest allowed value.
    pub most: f64,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigError { field, value, least, most } = self;
        write!(f, "{field} {value} is out of range: use {least} to {most}")
    }
}

impl core::error::Error for ConfigError {}
