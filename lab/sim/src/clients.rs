//! Clients: their programs, and when they continue them.

use std::sync::Arc;

use meridian_base::Time;
use meridian_workload::{Day, Generator, Program, Reply, Segment, Walk};

use crate::scenario::Programs;

/// The state of all clients.
#[derive(Default)]
pub(crate) struct Clients {
    pub(crate) loads: Vec<Sender>,
    pub(crate) closed: Vec<Client>,
    pub(crate) programs: Vec<Option<Running>>,
    pub(crate) vacant: Vec<u32>,
    pub(crate) segments: Vec<Segment>,
}

/// One load of the scenario.
pub(crate) struct Sender {
    pub(crate) region: usize,
    pub(crate) may_run_in: Option<Vec<usize>>,
    /// The next program, for an open load.
    pub(crate) next: Option<(Time, Program)>,
    pub(crate) open: Option<Programs>,
}

/// A client of a closed load.
pub(crate) struct Client {
    pub(crate) load: u16,
    pub(crate) number: u32,
    pub(crate) ordinal: u64,
    pub(crate) most: u64,
    pub(crate) generator: Arc<dyn Generator>,
    /// The day of its load, and how many clients that has.
    pub(crate) day: Option<(Day, u32)>,
}

impl Client {
    pub(crate) fn sleeps(&self, now: Time) -> bool {
        let sleeps =
            |(day, clients): (Day, u32)| self.number >= day.awake(clients, now.since(Time::ZERO));
        self.day.is_some_and(sleeps)
    }
}

/// A program in progress.
pub(crate) struct Running {
    pub(crate) load: u16,
    pub(crate) client: Option<u32>,
    pub(crate) walk: Walk<Reply>,
}
