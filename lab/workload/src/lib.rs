//! Workloads: programs of dependent requests, and their arrival times.
//!
//! A [`Program`] is one conversation or one tree of thoughts: a tree of [`Node`]s, each a request
//! whose prompt is everything on the path from the root, replies included. Lengths and shape are
//! drawn when the program is created; only the replies come from outside, through a [`Walk`]. A
//! load generator uses text and a simulator hash ids for the same programs, because a [`Segment`]
//! is an id and a length, and the id determines its text.
//!
//! Every program is drawn from its own [`ProgramKey`] (seed, region, client, ordinal) and every
//! node from its own path, so one draw never shifts another: two policies under test get the same
//! requests even if one of them answers sooner.
//!
//! Nothing here opens a socket, reads a clock or needs a data file.
#![deny(missing_docs)]

mod arrivals;
mod content;
mod generators;
mod key;
mod lengths;
mod measure;
mod program;
mod registry;
mod similarity;
mod spec;
mod text;
pub mod trace;
mod walk;

pub use arrivals::{
    Arrival, ArrivalProcess, Bursts, Day, Diurnal, DiurnalArrivals, DiurnalRegion, Gaps, Poisson,
    Renewal, ServeGen, Step, Stepped, open_loop, servegen_clients, servegen_hourly, servegen_steps,
};
pub use content::content_blocks;
pub use generators::chat::Chat;
pub use generators::mixed::Mixed;
pub use generators::sessions::Sessions;
pub use generators::tiers::Tiers;
pub use generators::trees::Tree;
pub use key::ProgramKey;
pub use measure::{Measured, Sample, measure, prompt_of};
pub use program::{Node, Program, Reply, Role, Segment};
pub use registry::{GENERATORS, find_generator};
pub use similarity::{Asked, Similarity, asked, pair_similarity, similarity, similarity_heatmap};
pub use spec::{GeneratorError, GeneratorParam, GeneratorSpec, PublishedLoad};
pub use text::write_text;
pub use walk::{Piece, Walk};

/// Bytes per token when no tokenizer is available.
pub const BYTES_PER_TOKEN: u32 = 4;

/// Generates programs. One generator serves every client of a run.
pub trait Generator: Send + Sync {
    /// The program of `key`. The same key always gives the same program.
    fn program(&self, key: ProgramKey) -> Program;

    /// The mean number of requests of a program, which converts a rate of requests into one of
    /// programs.
    fn mean_requests(&self) -> f64;
}
