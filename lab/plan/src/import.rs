//! Imports topologies from text: our own YAML, NCCL's topology dump, `nvidia-smi topo -m`.

mod measured;
mod nccl;
mod smi;
mod spec;

pub use measured::MeasuredSpec;
pub use nccl::from_nccl;
pub use smi::from_smi;
pub(crate) use spec::socket;
pub use spec::{
    AccessSpec, AggregationSpec, CoreSpec, MOST_GPUS, ServerSpec, TopologySpec, UnitSpec, VERSION,
};
