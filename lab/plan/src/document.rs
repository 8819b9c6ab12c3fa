//! A plan as a file: the task, the placement of the instances, and their expected performance.
//!
//! The file has everything that `check` needs in addition to the topology and the model, so a plan
//! can be saved, edited by hand and checked again.

use serde::{Deserialize, Serialize};

use crate::instance::{Parallel, Phase};
use crate::problem::Problems;
use crate::search::Plan;
use crate::table::PolicyTable;
use crate::task::{Lengths, Slo, Task};
use crate::topology::Topology;
use crate::units::{Size, Span};

/// The schema version that this program reads.
pub const PLAN_VERSION: u32 = 1;

/// A plan file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// Schema version: 1.
    pub version: u32,
    /// The topology's name.
    pub topology: String,
    /// The model's name.
    pub model: String,
    /// Lengths of prompts in tokens.
    pub prompt: LengthsFile,
    /// Lengths of replies.
    pub output: LengthsFile,
    /// The objectives.
    pub slo: SloFile,
    /// Expected goodput of all cells together, in requests a second within both objectives.
    pub goodput: f64,
    /// Groups of instances that exchange KV.
    pub cells: Vec<CellFile>,
}

/// Lengths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthsFile {
    /// Mean.
    pub mean: f64,
    /// Coefficient of variation.
    pub cv: f64,
}

/// Objectives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SloFile {
    /// Time to the first token.
    pub ttft: Span,
    /// Time of each further token.
    pub tpot: Span,
    /// Share of requests that must meet both.
    pub attainment: f64,
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellFile {
    /// Its expected goodput, in requests a second.
    pub goodput: f64,
    /// Its instances.
    pub instances: Vec<InstanceFile>,
}

/// An instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceFile {
    /// Its phase.
    pub phase: PhaseName,
    /// GPUs of a stage.
    pub tp: u32,
    /// Stages.
    pub pp: u32,
    /// Whether the GPUs of its single stage share experts.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub ep: bool,
    /// GPUs of each stage by rank, as `server/nth`.
    pub stages: Vec<Vec<String>>,
    /// Requests a second that it receives.
    #[serde(default)]
    pub rate: f64,
    /// For each stage, the all-reduce to use up to each size; the last row has no limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collectives: Vec<Vec<RowFile>>,
}

/// A phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PhaseName {
    /// Computes prompts.
    Prefill,
    /// Generates replies.
    Decode,
}

/// A row of the policy table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowFile {
    /// Up to this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<Size>,
    /// The algorithm: ring, tree, relayed, in-network.
    pub algorithm: String,
}

impl PhaseName {
    pub(crate) fn phase(self) -> Phase {
        match self {
            PhaseName::Prefill => Phase::Prefill,
            PhaseName::Decode => Phase::Decode,
        }
    }
}

impl InstanceFile {
    pub(crate) fn parallel(&self) -> Parallel {
        Parallel { tp: self.tp, pp: self.pp, ep: self.ep }
    }
}

impl PlanFile {
    /// The file of a plan.
    #[must_use]
    pub fn of(task: &Task<'_>, plan: &Plan) -> PlanFile {
        let lengths = |of: Lengths| LengthsFile { mean: of.mean, cv: of.cv };
        let Slo { ttft, tpot, attainment } = task.slo;
        PlanFile {
            version: PLAN_VERSION,
            topology: task.topology.name.clone(),
            model: task.subject.name.clone(),
            prompt: lengths(task.prompt),
            output: lengths(task.output),
            slo: SloFile { ttft: Span(ttft), tpot: Span(tpot), attainment },
            goodput: digits(plan.goodput()),
            cells: plan.cells.iter().map(|cell| cell_file(task.topology, cell)).collect(),
        }
    }

    /// The objectives.
    #[must_use]
    pub fn slo(&self) -> Slo {
        let SloFile { ttft, tpot, attainment } = self.slo;
        Slo { ttft: ttft.0, tpot: tpot.0, attainment }
    }

    /// Reads a file, without checking it.
    ///
    /// # Errors
    ///
    /// If it is not a plan.
    pub fn read(yaml: &str) -> Result<PlanFile, Problems> {
        serde_saphyr::from_str(yaml).map_err(|error| {
            Problems::one("plan", error, "give a file that `meridian plan --out` wrote")
        })
    }

    /// The file of it.
    ///
    /// # Panics
    /// Never: every field can be written.
    #[must_use]
    pub fn print(&self) -> String {
        serde_saphyr::to_string(self).expect("plain fields can be written as YAML")
    }
}

impl LengthsFile {
    /// The lengths.
    #[must_use]
    pub fn lengths(self) -> Lengths {
        Lengths { mean: self.mean, cv: self.cv }
    }
}

fn cell_file(topology: &Topology, cell: &crate::cell::Ranked) -> CellFile {
    let verdict = &cell.verdict;
    let instances = cell.fleet.all().map(|rated| {
        let instance = &rated.instance;
        let (phase, total) = match instance.phase {
            Phase::Prefill => {
                (PhaseName::Prefill, cell.fleet.prefill.iter().map(|one| one.rate).sum::<f64>())
            }
            Phase::Decode => (PhaseName::Decode, verdict.decode),
        };
        let names = |stage: &Vec<_>| stage.iter().map(|gpu| topology.gpu_name(*gpu)).collect();
        let table = PolicyTable::of(core::iter::once(rated.as_ref()));
        let row = |(end, algorithm): &(f64, crate::collective::Algorithm)| RowFile {
            up_to: end.is_finite().then_some(Size(*end)),
            algorithm: algorithm.name().to_owned(),
        };
        InstanceFile {
            phase,
            tp: instance.parallel.tp,
            pp: instance.parallel.pp,
            ep: instance.parallel.ep,
            stages: instance.stages.iter().map(names).collect(),
            rate: digits(verdict.goodput * rated.rate / total),
            collectives: table
                .groups
                .iter()
                .map(|group| group.rows.iter().map(row).collect())
                .collect(),
        }
    });
    CellFile { goodput: digits(verdict.goodput), instances: instances.collect() }
}

/// Rounds to six digits, more than the accuracy of any prediction.
fn digits(value: f64) -> f64 {
    format!("{value:.6}").parse().unwrap_or(value)
}
