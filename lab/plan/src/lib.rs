//! Planner of GPU placement and collectives: HeroServe's planner ("Scalable and Fast Inference
//! Serving via Hybrid Communication Scheduling on Heterogeneous Networks").
//!
//! A pure library: text and values in, values and text out. The caller reads files.

mod advice;
mod aggregated;
mod assign;
mod cell;
mod check;
pub mod collective;
mod cost;
pub mod discover;
mod document;
mod drift;
mod explain;
mod fleet;
mod forecast;
mod group;
mod handover;
mod import;
mod improve;
mod instance;
mod known;
mod laying;
mod level;
mod loads;
mod model;
mod names;
mod network;
pub mod online;
mod pack;
mod paper;
mod pool;
mod printed;
mod problem;
mod queue;
mod recut;
mod render;
mod revise;
pub mod rivals;
mod route;
mod search;
mod shape;
mod splits;
mod spread;
mod started;
mod sweep;
mod table;
mod task;
mod topology;
mod traffic;
mod transfer;
pub mod units;
pub mod verify;

pub use advice::{Advice, Step, advice, step_in, step_out};
pub use aggregated::{Aggregated, Bound, Whole, aggregated, beside, verdict};
pub use cell::{Found, Ranked, Smallest};
pub use check::{check, task_of};
pub use cost::{Bill, Prices, prices_by_kind};
pub use document::{
    CellFile, InstanceFile, LengthsFile, PLAN_VERSION, PhaseName, PlanFile, RowFile, SloFile,
};
pub use drift::{Averages, RECENT};
pub use explain::idle;
pub use fleet::{FULL, Fleet, Limit, Times, Verdict};
pub use forecast::{Forecast, forecast};
pub use handover::Handing;
pub use import::{
    AccessSpec, AggregationSpec, CoreSpec, MOST_GPUS, MeasuredSpec, ServerSpec, TopologySpec,
    UnitSpec, VERSION, from_nccl, from_smi,
};
pub use instance::{Instance, Parallel, Parts, Phase, Rated, StageParts, Unfit};
pub use known::TOPOLOGIES;
pub use loads::Loads;
pub use model::Subject;
pub use names::names;
pub use network::network;
pub use paper::{Printed, paper};
pub use printed::{printed_heterogeneous, printed_homogeneous, printed_ring};
pub use problem::{Problem, Problems, one_of};
pub use queue::{Queue, Wait, largest};
pub use render::{GATEWAY, GatewaySettings, model_id, rendered};
pub use revise::{Change, Revised, revise};
pub use route::{Route, hop, route};
pub use search::{Plan, plan};
pub use spread::Spread;
pub use started::{KvWay, KvWays, Started, kv_ways, started};
pub use sweep::{Point, Side, rates, sweep};
pub use table::{GroupPolicy, PolicyTable};
pub use task::{Lengths, Network, Slo, Task};
pub use topology::{
    Access, Aggregation, CARD_SHARE, Card, Core, Direction, GpuId, LinkId, LinkName, Server,
    Topology,
};
pub use transfer::{Transfer, transfer};
