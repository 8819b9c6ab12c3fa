//! Requests in progress: one row each, from the client's send to the client's end.
//!
//! A request may try several replicas, and messages of an abandoned attempt may still be on the
//! wire. Each attempt has a number; messages of other attempts are dropped.

use meridian_base::{Duration, RequestId, Time};

use crate::legs::Split;
use crate::report::Crossing;

/// A request in progress.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) load: u16,
    pub(crate) region: u16,
    pub(crate) program: u32,
    pub(crate) node: u32,
    /// The name of its messages, equal for all systems under test.
    pub(crate) name: u64,
    pub(crate) session: u64,
    pub(crate) tenant: u64,
    pub(crate) slo: Option<Duration>,
    pub(crate) sent: Time,
    /// The gateway where it entered, and the peer it was forwarded to.
    pub(crate) entry: u16,
    pub(crate) peer: Option<u16>,
    /// The replica of the current attempt.
    pub(crate) replica: Option<u32>,
    /// The two legs of the current attempt, and what its KV took to cross, if it has two.
    pub(crate) split: Option<Split>,
    pub(crate) crossing: Option<Crossing>,
    /// The newest attempt; messages carry theirs.
    pub(crate) attempt: u32,
    pub(crate) prompt_tokens: u32,
    pub(crate) reply_tokens: u32,
    /// Whole blocks of 16 tokens, prompt and reply.
    pub(crate) blocks: Vec<u64>,
    /// The prompt's blocks in the policy's own granularity, if that differs.
    pub(crate) own_blocks: Option<Vec<u64>>,
    pub(crate) head: u64,
    /// Its end is on the way to the client.
    pub(crate) ending: bool,
    /// Bytes of the answer went out: no retry is possible after that.
    pub(crate) streamed: bool,
    /// When the first token reaches, or will reach, the client.
    pub(crate) first_token: Option<Time>,
    pub(crate) held_since: Option<Time>,
    pub(crate) held: Duration,
    /// Of that, at the peer it was forwarded to.
    pub(crate) held_away: Duration,
    /// Forwards that a peer sent back for lack of capacity.
    pub(crate) sent_back: u16,
    pub(crate) cached: u32,
    pub(crate) matched: u32,
    pub(crate) dispatches: u32,
    pub(crate) forwarded: bool,
    /// The last message towards the client: streams do not overtake themselves.
    pub(crate) last_message: Time,
}

impl Flight {
    /// The gateway that dispatches it.
    pub(crate) fn sender(&self) -> u16 {
        self.peer.unwrap_or(self.entry)
    }

    /// Whether its current attempt needs this replica.
    pub(crate) fn uses(&self, replica: u32) -> bool {
        let pair = self.split.is_some_and(|split| [split.from, split.to].contains(&replica));
        pair || self.replica == Some(replica)
    }

    /// It leaves the queue.
    pub(crate) fn leave_queue(&mut self, now: Time) {
        if let Some(since) = self.held_since.take() {
            self.held += now.since(since);
            if self.peer.is_some() {
                self.held_away += now.since(since);
            }
        }
    }
}

/// The rows, with ids that are never reused.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    rows: Vec<FlightSlot>,
    vacant: Vec<u32>,
    len: usize,
    started: u64,
}

#[derive(Debug)]
struct FlightSlot {
    generation: u32,
    flight: Option<Box<Flight>>,
}

impl Flights {
    /// Number of requests in progress.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number of requests started so far.
    pub(crate) fn started(&self) -> u64 {
        self.started
    }

    pub(crate) fn insert(&mut self, flight: Flight) -> RequestId {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.rows.push(FlightSlot { generation: 0, flight: None });
            self.rows.len() as u32 - 1
        });
        let row = &mut self.rows[slot as usize];
        row.flight = Some(Box::new(flight));
        self.len += 1;
        self.started += 1;
        RequestId(u64::from(row.generation) << 32 | u64::from(slot))
    }

    /// `None` when the request has ended.
    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut Flight> {
        let row = self.rows.get_mut(slot(id))?;
        if row.generation != generation(id) { None } else { row.flight.as_deref_mut() }
    }

    /// `None` when the request has ended.
    pub(crate) fn get(&self, id: RequestId) -> Option<&Flight> {
        let row = self.rows.get(slot(id))?;
        if row.generation != generation(id) { None } else { row.flight.as_deref() }
    }

    /// Ends a request; `None` when it has ended before.
    pub(crate) fn remove(&mut self, id: RequestId) -> Option<Box<Flight>> {
        let row = self.rows.get_mut(slot(id)).filter(|r| r.generation == generation(id))?;
        let flight = row.flight.take()?;
        row.generation = row.generation.wrapping_add(1);
        self.vacant.push(slot(id) as u32);
        self.len -= 1;
        Some(flight)
    }

    /// Ids of the requests for which `of` is true, in order of slots.
    pub(crate) fn ids(&self, of: impl Fn(&Flight) -> bool) -> Vec<RequestId> {
        let all = self.rows.iter().enumerate();
        all.filter(|(_, row)| row.flight.as_deref().is_some_and(&of))
            .map(|(at, row)| RequestId(u64::from(row.generation) << 32 | at as u64))
            .collect()
    }
}

fn slot(id: RequestId) -> usize {
    (id.0 & 0xFFFF_FFFF) as usize
}

fn generation(id: RequestId) -> u32 {
    (id.0 >> 32) as u32
}
