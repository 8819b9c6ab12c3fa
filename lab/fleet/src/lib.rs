//! Fleets of real processes on one machine: model engines, real llama.cpp servers, gateways, load.
//!
//! Everything here starts programs and uses their own sockets. No program is linked in or imitated,
//! so a fleet shows the programs' real behaviour. A [`Fleet`] owns one run: a directory with every
//! program's log, and a process group that ends with it, however that happens. `meridian up` is
//! [`up::run`]; the tests with real processes use the same parts.
//!
//! It deliberately contains no policy, no clock but the machine's and no format but those that the
//! programs use over HTTP.

mod base64;
mod certs;
mod client;
pub mod clocks;
mod control;
mod counts;
mod cpu;
mod distance;
mod engine;
mod error;
pub mod etcd;
mod fleet;
mod gateway;
mod keeper;
mod legs;
pub mod llamacpp;
mod load;
pub mod node;
mod operator;
mod page;
mod ports;
pub mod probe;
mod process;
mod resolver;
mod rundir;
mod scrape;
mod sse;
pub mod ssh;
mod stage;
mod table;
mod total;
pub mod up;
pub mod venv;

pub use certs::Certificates;
pub use client::{Answer, Client, Stream};
pub use control::{Control, ControlSpec};
pub use counts::{Count, Counts, EngineCounts};
pub use cpu::Busy;
pub use distance::Distance;
pub use engine::{EngineSpec, PlannedInstance};
pub use error::{Error, Result};
pub use fleet::{Fleet, meridian};
pub use gateway::{Gateway, GatewaySpec, PeersSpec};
pub use load::{ClientCounts, Live, LoadSpec, Report};
pub use operator::Operator;
pub use ports::free_port;
pub use process::{Process, Program};
pub use resolver::Resolver;
pub use scrape::Scrape;
pub use sse::{Event, Lines, TooLong};
pub use stage::{Killed, OneRun, Played, PlayedRuns, Post, Runs, Stage, StageLoad};
pub use table::{lined, table};
pub use total::total_of;
