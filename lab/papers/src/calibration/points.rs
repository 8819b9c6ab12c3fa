//! The 1,244 measured points of H100 and H200, and those among them that one replica of the engine
//! model can describe.
//!
//! Points that it cannot describe are counted by reason and shown; none is dropped silently. The
//! published list repeats measurements (the same export read on several days, one model under two
//! names): of equal measurements only the first counts, so that none is on both sides of the split
//! into fitted and judged.

use std::collections::BTreeSet;

use meridian_engine::{Model, Precision, Software};

/// The source of the measurement, which determines its procedure. See `procedure.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Campaign {
    /// NVIDIA's runs for aiconfigurator.
    Nvidia,
    /// SemiAnalysis InferenceX.
    InferenceX,
}

/// The side of the split that a point is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Odd rows: the coefficients were fitted on them.
    Fitted,
    /// Even rows: judged, and visible while the model was developed.
    Judged,
    /// Every other even row: judged once, when the model was finished.
    Blind,
}

/// A point that the engine model can describe.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// The GPU's short name.
    pub gpu: &'static str,
    /// The engine.
    pub software: Software,
    /// The model, in the format in which it was served.
    pub model: Model,
    /// Tensor parallel degree.
    pub tp: u32,
    /// The source of the measurement.
    pub campaign: Campaign,
    /// Requested prompt length, in tokens.
    pub isl: u32,
    /// Requested reply length, in tokens.
    pub osl: u32,
    /// Requests kept in flight.
    pub clients: u32,
    /// Measured TTFT, in ms.
    pub ttft: f64,
    /// Measured TPOT, in ms.
    pub tpot: f64,
    /// Its side.
    pub side: Side,
}

impl Point {
    /// The key of one set of coefficients: GPU, engine, model, format.
    #[must_use]
    pub fn group(&self) -> (&'static str, &'static str, &'static str, &'static str) {
        let precision = self.model.precision.name();
        (self.gpu, self.software.name(), self.model.name, precision)
    }
}

/// Why a point cannot be described.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Uncovered {
    /// Prefill and decode on different replicas: see
    /// [`disaggregated`](super::disaggregated).
    Disaggregated,
    /// Several schedulers in lock step, each with part of the batch.
    AttentionDataParallel,
    /// Sparse or linear attention.
    Attention,
    /// Several draft tokens a step (DeepSeek's multi-token prediction).
    Speculative,
    /// The number of requests in flight was not recorded.
    NoConcurrency,
    /// An earlier row has the same measurement.
    Repeated,
}

impl Uncovered {
    /// The reason in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Uncovered::Disaggregated => "prefill and decode on different replicas, compared apart",
            Uncovered::AttentionDataParallel => "data-parallel attention: schedulers in lock step",
            Uncovered::Attention => "sparse or linear attention (GLM-5, Qwen3.5)",
            Uncovered::Speculative => "speculative decoding, whose acceptance is not published",
            Uncovered::NoConcurrency => "requests in flight not recorded",
            Uncovered::Repeated => "repeats an earlier row's measurement",
        }
    }
}

const CSV: &str = include_str!("../../data/calibration/silicon.csv");

/// Every point in the order of the file, or the reason why it is not described.
#[must_use]
pub fn points() -> Vec<Result<Point, Uncovered>> {
    let mut seen = BTreeSet::new();
    rows()
        .map(|(index, cells)| {
            let point = describe(index, &cells)?;
            let measurement = (cells[0], cells[14], cells[15]);
            if seen.insert(measurement) { Ok(point) } else { Err(Uncovered::Repeated) }
        })
        .collect()
}

/// The rows of the file, each as its number and its cells.
pub(super) fn rows() -> impl Iterator<Item = (usize, Vec<&'static str>)> {
    CSV.lines().skip(1).map(|row| row.split(',').collect()).enumerate()
}

fn describe(index: usize, cells: &[&str]) -> Result<Point, Uncovered> {
    if cells[3] == "disagg" {
        return Err(Uncovered::Disaggregated);
    }
    if cells[16] == "1" {
        return Err(Uncovered::Speculative);
    }
    point(index, cells, |model| {
        let count = |at: usize| cells[at].parse::<u32>().ok();
        tensor_parallel(model, [9, 10, 11, 12].map(count))
    })
}

/// The point of a row, with the degree that `tp` gives its model.
pub(super) fn point(
    index: usize,
    cells: &[&str],
    tp: impl Fn(&Model) -> Result<u32, Uncovered>,
) -> Result<Point, Uncovered> {
    let count = |at: usize| cells[at].parse::<u32>().ok();
    let measured = |at: usize| cells[at].parse::<f64>().expect("the file holds numbers there");
    let model = model(cells[2], cells[5]).ok_or(Uncovered::Attention)?;
    let clients = count(8).ok_or(Uncovered::NoConcurrency)?;
    Ok(Point {
        gpu: if cells[0] == "h100" { "h100" } else { "h200" },
        software: Software::named(cells[1]).expect("the file holds known engines"),
        tp: tp(&model)?,
        model,
        campaign: if cells[4] == "nvidia" { Campaign::Nvidia } else { Campaign::InferenceX },
        isl: count(6).expect("the file holds lengths"),
        osl: count(7).expect("the file holds lengths"),
        clients,
        ttft: measured(14),
        tpot: measured(15),
        side: match index % 4 {
            1 | 3 => Side::Fitted,
            0 => Side::Judged,
            _ => Side::Blind,
        },
    })
}

fn model(name: &str, format: &str) -> Option<Model> {
    let name = match name {
        "llama-3.1-8b-instruct" | "llama-3.1-8b-instruct-fp8" => "llama-3.1-8b",
        "qwen3-235b-a22b-fp8" => "qwen3-235b-a22b",
        "deepseek-r1" | "deepseek-v3" => "deepseek-v3",
        other => other,
    };
    let precision = match format {
        "bf16" => Precision::Bf16,
        // gpt-oss keeps its experts in 4 bits whatever the label says.
        _ if name == "gpt-oss-120b" => Precision::Int4Experts,
        "int4_wo" => Precision::Int4Experts,
        _ => Precision::Fp8,
    };
    Model::named(name).map(|model| model.with_precision(precision))
}

/// The tensor parallel degree, from the columns tp, attention dp, expert tp and expert ep. Degrees
/// above a node's eight GPUs are labels of the export (tp times ep): the same measurements appear
/// again under tp 8.
fn tensor_parallel(model: &Model, columns: [Option<u32>; 4]) -> Result<u32, Uncovered> {
    let [tp, dp, expert_tp, expert_ep] = columns;
    let tp = tp.expect("a colocated point has a degree");
    let ep = expert_ep.unwrap_or(1).max(1);
    let single = if tp > 8 { tp / ep } else { tp };
    let experts = expert_tp.unwrap_or(1).max(1) * ep;
    let replicated = model.experts.is_some() && tp <= 8 && experts > tp;
    if dp.unwrap_or(1) > 1 || replicated {
        return Err(Uncovered::AttentionDataParallel);
    }
    Ok(single)
}
