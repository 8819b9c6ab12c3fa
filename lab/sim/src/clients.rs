//! Clients: their programs, and when they continue them.

mod send;

use std::sync::Arc;

use meridian_base::Time;
use meridian_workload::{Day, Generator, Program, Reply, Segment, Walk};

use crate::scenario::Programs;

/// The state of all clients.
#[derive(Default)]
pub(crate) struct Clients {
    pub(crate) loads: Vec<Sender>,
    closed: Vec<Client>,
    programs: Vec<Option<Running>>,
    vacant: Vec<u32>,
    segments: Vec<Segment>,
}

/// One load of the scenario.
pub(crate) struct Sender {
    pub(crate) region: usize,
    pub(crate) may_run_in: Option<Vec<usize>>,
    /// The next program, for an open load.
    next: Option<(Time, Program)>,
    open: Option<Programs>,
}

/// A client of a closed load.
struct Client {
    load: u16,
    number: u32,
    ordinal: u64,
    most: u64,
    generator: Arc<dyn Generator>,
    /// The day of its load, and how many clients that has.
    day: Option<(Day, u32)>,
}

impl Client {
    fn sleeps(&self, now: Time) -> bool {
        let sleeps =
            |(day, clients): (Day, u32)| self.number >= day.awake(clients, now.since(Time::ZERO));
        self.day.is_some_and(sleeps)
    }
}

/// A program in progress.
struct Running {
    load: u16,
    client: Option<u32>,
    walk: Walk<Reply>,
}
