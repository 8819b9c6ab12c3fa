//! The generators of programs, one shape per file; [`GENERATORS`](crate::GENERATORS) lists them.

pub(crate) mod agents;
pub(crate) mod chat;
pub(crate) mod first_prompts;
pub(crate) mod lengths;
pub(crate) mod mixed;
mod openings;
pub(crate) mod rag;
pub(crate) mod region_chat;
pub(crate) mod served;
pub(crate) mod sessions;
pub(crate) mod tiers;
pub(crate) mod tool_loop;
pub(crate) mod trees;
