//! Repeats the procedure of a disaggregated point with the engine model.
//!
//! The clients are those of the colocated points ([`campaign`](super::super::campaign)). A request
//! passes through these stages:
//!
//! ```text
//! client -> prefill replica: prompt computed, blocks held
//!        -> decode replica: blocks read at the rate of one NIC, a slot, the first token,
//!           the rest of the reply
//! ```
//! Each router gives requests to its replicas in turn: the frontend of these runs (Dynamo) does so
//! unless told otherwise, and no recipe tells it otherwise.
//!
//! It does not model contention between transfers (the KV of 8,192 tokens of DeepSeek takes 6 ms),
//! nor the time of the routers and of setting up a transfer.

use std::collections::{BTreeMap, BTreeSet};

use meridian_base::{Duration, RequestId, Time};
use meridian_engine::{BLOCK_TOKENS, ConfigError, Input, Leg, Output, Tuned};

use super::deployment::{Deployment, Pool};
use super::replica::{Replica, Role, with_kv_format};
use crate::calibration::campaign::{Clients, Latency, submission};

/// Bytes a second between two nodes, one direction, for each GPU: a NIC of 400 Gb/s
/// (aiconfigurator's `inter_node_bw` of both systems).
const NIC: f64 = 50e9;

/// Longer than any run.
const LEASE: Duration = Duration::from_secs(1 << 20);

/// Measures a point with these coefficients and decode steps that take `pace` times as long.
///
/// # Errors
/// When the model does not fit.
pub fn measure(it: &Deployment, tuned: &Tuned, pace: f64) -> Result<Latency, ConfigError> {
    let mut run = Run::new(it, tuned, pace)?;
    run.run();
    Ok(run.clients.latency())
}

/// What happens outside the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A request reaches the first router.
    Arrives(u64),
    /// It reaches the second, at once when its prompt has been computed.
    HandedOver(u64),
    /// Its blocks have been read.
    Fetched(u64),
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
struct Request {
    sent: Time,
    lengths: [u32; 2],
    /// The replica of each leg.
    at: [usize; 2],
}

struct Run {
    /// The prefill replicas, then the decode replicas.
    replicas: Vec<Replica>,
    /// How many of them prefill.
    prefill: usize,
    /// Requests that each router has sent to a replica.
    turns: [usize; 2],
    events: BTreeSet<(Time, Event)>,
    requests: BTreeMap<u64, Request>,
    clients: Clients,
    /// Time to read one block.
    block: f64,
}

impl Run {
    fn new(it: &Deployment, tuned: &Tuned, pace: f64) -> Result<Run, ConfigError> {
        let pool = |pool: &Pool, role| {
            let replica = Replica::new(pool, role, tuned, pace)?;
            Ok(vec![replica; pool.replicas as usize])
        };
        let mut replicas = pool(&it.prefill, Role::Prefill)?;
        replicas.extend(pool(&it.decode, Role::Decode)?);
        let point = &it.point;
        let model = with_kv_format(point.model, tuned.software);
        let mut run = Run {
            replicas,
            prefill: it.prefill.replicas as usize,
            turns: [0; 2],
            events: BTreeSet::new(),
            requests: BTreeMap::new(),
            clients: Clients::new(point, point.clients, tuned.front),
            block: f64::from(BLOCK_TOKENS) * model.kv_bytes(it.decode.gpus) / NIC,
        };
        (0..point.clients).for_each(|_| run.start(Time::ZERO));
        Ok(run)
    }

    /// A client sends its next request.
    fn start(&mut self, now: Time) {
        let Some(id) = self.clients.send() else { return };
        let lengths = self.clients.lengths();
        self.requests.insert(id, Request { sent: now, lengths, at: [0; 2] });
        self.events.insert((now + self.clients.way(), Event::Arrives(id)));
    }

    fn run(&mut self) {
        loop {
            let due = |(at, replica): (usize, &Replica)| Some((replica.poll_timeout()?, at));
            let due = self.replicas.iter().enumerate().filter_map(due).min();
            let event = self.events.first().copied();
            match (event, due) {
                (Some((at, event)), due) if due.is_none_or(|(due, _)| at <= due) => {
                    self.events.pop_first();
                    self.happen(at, event);
                }
                (_, Some((now, at))) => {
                    self.replicas[at].handle_timeout(now);
                    self.hear(at);
                }
                (_, None) => break,
            }
        }
    }

    fn happen(&mut self, now: Time, event: Event) {
        let (at, input) = match event {
            Event::Arrives(id) => {
                let at = self.choose(id, 0);
                let leg = Leg::Prefill { lease: LEASE };
                let [prompt, _] = self.requests[&id].lengths;
                (at, Input::SubmitLeg(submission(id, [prompt, 1]), leg))
            }
            Event::HandedOver(id) => {
                let at = self.choose(id, 1);
                (at, Input::SubmitLeg(submission(id, self.requests[&id].lengths), Leg::Decode))
            }
            Event::Fetched(id) => {
                let [prefill, decode] = self.requests[&id].at;
                self.replicas[prefill].handle(now, Input::Release(RequestId(id)));
                self.hear(prefill);
                (decode, Input::Fetched(RequestId(id)))
            }
        };
        self.replicas[at].handle(now, input);
        self.hear(at);
    }

    /// The replica of a leg, in turn.
    fn choose(&mut self, id: u64, leg: usize) -> usize {
        let pools = [0..self.prefill, self.prefill..self.replicas.len()];
        let at = pools[leg].start + self.turns[leg] % pools[leg].len();
        self.turns[leg] += 1;
        self.requests.get_mut(&id).expect("a request stays until it ends").at[leg] = at;
        at
    }

    fn hear(&mut self, at: usize) {
        while let Some(output) = self.replicas[at].poll() {
            match output {
                Output::Held { id, at, .. } => {
                    self.events.insert((at, Event::HandedOver(id.0)));
                }
                Output::Deferred { id, at, missing_blocks, .. } => {
                    let time = Duration::from_secs_f64(f64::from(missing_blocks) * self.block);
                    self.events.insert((at + time, Event::Fetched(id.0)));
                }
                Output::Tokens { id, at: now, .. } if at >= self.prefill => {
                    let sent = self.requests[&id.0].sent;
                    self.clients.first_token(now.since(sent).as_secs_f64());
                }
                Output::Finished { id, at: now, usage, timings, .. } if at >= self.prefill => {
                    self.clients.answered(&usage, &timings);
                    self.requests.remove(&id.0);
                    self.start(now);
                }
                _ => {}
            }
        }
    }
}
