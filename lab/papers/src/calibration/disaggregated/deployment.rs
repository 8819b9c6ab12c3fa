//! The measured points with prefill and decode on different replicas, and how they were deployed.
//!
//! The published list has the number of replicas for a few of its rows, and for none the sequence
//! slots, which decide the TTFT when there are fewer slots than clients. Both are in the recipes
//! of the runs. `disaggregated.csv` has the deployment of each measurement whose recipe can be
//! told, and the reason for every other (see `reduce.py` there for the rules).
//!
//! As in the list of colocated points, only the first of equal measurements counts.

use crate::calibration::points::{Point, point, rows};

/// The replicas of one role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// How many.
    pub replicas: u32,
    /// GPUs of each.
    pub gpus: u32,
    /// Schedulers of each: one with tensor parallel attention, one a GPU with data parallel
    /// attention.
    pub ranks: u32,
    /// Most sequences in the batch of a rank.
    pub slots: u32,
    /// Most tokens in a step of a rank; `None` if the recipe does not set it.
    pub tokens: Option<u32>,
}

/// A measured point and its two pools.
#[derive(Clone, Copy, Debug)]
pub struct Deployment {
    /// What was measured. `tp` is that of the decoding replicas.
    pub point: Point,
    /// Replicas that compute prompts.
    pub prefill: Pool,
    /// Replicas that compute replies.
    pub decode: Pool,
}

/// Why a point's deployment is not modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unmodelled {
    /// Several draft tokens a step (DeepSeek's multi-token prediction).
    Speculative,
    /// Several recipes, or none, have the labels of the row.
    Unclear,
    /// The number of requests in flight was not recorded.
    NoConcurrency,
    /// An earlier row has the same measurement.
    Repeated,
}

impl Unmodelled {
    /// The reason in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Unmodelled::Speculative => "speculative decoding, whose acceptance is not published",
            Unmodelled::Unclear => "the columns do not tell which deployment it was",
            Unmodelled::NoConcurrency => "requests in flight not recorded",
            Unmodelled::Repeated => "repeats an earlier row's measurement",
        }
    }
}

const CSV: &str = include_str!("../../../data/calibration/disaggregated.csv");

/// Every disaggregated point in the order of the list, or the reason why it is not modelled.
#[must_use]
pub fn deployments() -> Vec<Result<Deployment, Unmodelled>> {
    numbered().into_iter().map(|row| row.known).collect()
}

/// A disaggregated point of the list.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its number in `silicon.csv`, from 0.
    pub number: usize,
    /// The GPU's short name, and the engine's.
    pub labels: [&'static str; 2],
    /// Its deployment, or why it is not modelled.
    pub known: Result<Deployment, Unmodelled>,
}

/// The same points with their numbers in the list.
#[must_use]
pub fn numbered() -> Vec<Row> {
    let mut known = CSV.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>()).peekable();
    let rows = rows().filter(|(_, cells)| cells[3] == "disagg");
    rows.map(|(index, cells)| {
        let first = |known: &Vec<&str>| known[0] == index.to_string();
        let known = known.next_if(first).ok_or(Unmodelled::Repeated);
        let known = known.and_then(|known| deployment(index, &cells, &known));
        Row { number: index, labels: [cells[0], cells[1]], known }
    })
    .collect()
}

fn deployment(index: usize, cells: &[&str], known: &[&str]) -> Result<Deployment, Unmodelled> {
    match known[1] {
        "speculative" => return Err(Unmodelled::Speculative),
        "unclear" => return Err(Unmodelled::Unclear),
        "clients" => return Err(Unmodelled::NoConcurrency),
        _ => {}
    }
    let (prefill, decode) = (pool(&known[2..7]), pool(&known[7..12]));
    let point = point(index, cells, |_| Ok(decode.gpus));
    let point = point.expect("a row with a recipe has a known model and its clients");
    Ok(Deployment { point, prefill, decode })
}

fn pool(cells: &[&str]) -> Pool {
    let count = |at: usize| cells[at].parse::<u32>().expect("the file holds counts there");
    Pool {
        replicas: count(0),
        gpus: count(1),
        ranks: count(2),
        slots: count(3),
        tokens: Some(count(4)).filter(|tokens| *tokens > 0),
    }
}
