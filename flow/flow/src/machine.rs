//! The flow machine: its inputs, its outputs and its five methods. The modules next to it handle
//! batches and their layers, flows, permits, and timed work.

mod batches;
mod due;
mod flows;
mod permits;
mod stalls;
mod verdicts;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use meridian_base::{BatchId, FlowId, PortId, RequestId, Time};

use self::due::Due;
use self::stalls::Stalls;
use crate::batch::Batch;
use crate::budget::Budget;
use crate::config::{Config, ConfigError};
use crate::coordinator::Verdict;
use crate::gate::Gates;
use crate::place::{Ladder, Place};
use crate::policy::Policy;
use crate::refusal::{Refusal, Subject};
use crate::stage::Flow;
use crate::tables::{NONE, World};
use crate::thresholds::Edges;
use crate::why::{Lever, Passed, PermitWhy, PruneWhy, Why};

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A port is added, or its rate changes.
    Port {
        /// Its row.
        id: PortId,
        /// Its rate, above 0.
        bytes_per_second: f64,
    },
    /// A batch's service starts.
    BatchArrived(Batch),
    /// A batch reaches a layer: it computes it once the layer's fetches have arrived.
    Layer {
        /// The batch.
        batch: BatchId,
        /// Which run through the layers this is: a new chunk of a prompt, or a restart after
        /// preemption, is a new generation. Events of an older one are ignored.
        generation: u32,
        /// The layer, from 0; within a generation never an earlier one.
        layer: u16,
    },
    /// A batch has computed all layers, or is abandoned. Its flows of stages 1 and 2 end with it;
    /// its requests remain for their handoffs.
    BatchDeparted(BatchId),
    /// A request has ended, with all of its flows.
    Ended(RequestId),
    /// A flow is ready to be sent.
    Submit(Flow),
    /// A flow asks to send its next chunk.
    Ask {
        /// The flow.
        flow: FlowId,
        /// The chunk's bytes; anything beyond the largest chunk is not permitted.
        bytes: u32,
    },
    /// Bytes of a flow have been transferred. With its last byte the flow ends and its row is free.
    Completed {
        /// The flow.
        flow: FlowId,
        /// Bytes since the last report.
        bytes: u64,
    },
    /// The client abandons a flow. Its row is free.
    Withdrawn {
        /// The flow.
        flow: FlowId,
        /// Permitted bytes that the client has not started to send.
        unused: u64,
    },
    /// The coordinator has ordered a batch. Ignored for a batch that is not there any more.
    Verdict(Verdict),
}

/// An action for the driver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Output {
    /// A flow's place changes.
    Placed {
        /// The flow.
        flow: FlowId,
        /// Its precedence.
        place: Place,
        /// Why.
        why: Why,
    },
    /// The flow may send a chunk.
    Permit {
        /// The flow.
        flow: FlowId,
        /// Its bytes.
        bytes: u32,
        /// The traffic class to send it with.
        traffic: u8,
        /// Why now.
        why: PermitWhy,
    },
    /// A pass found that this request would make others late. Its handoff goes last; the lever is
    /// a further remedy for the driver.
    Pruned {
        /// The request.
        request: RequestId,
        /// The remedy for the driver.
        lever: Lever,
        /// The finding of the pass.
        why: PruneWhy,
    },
    /// The request cannot meet its deadline, or has missed it: its handoff goes last.
    Demoted {
        /// The request.
        request: RequestId,
        /// [`Why::Infeasible`] or [`Why::Late`].
        why: Why,
    },
    /// A request that was pruned or demoted can meet its deadline after all.
    Reinstated(RequestId),
    /// An input was refused. Nothing has changed, except as the refusal itself says.
    Refused {
        /// The object of the input.
        subject: Subject,
        /// Why.
        why: Refusal,
    },
}

/// The flow scheduler of a host, or of a cluster. See the crate's documentation for the contract.
pub struct Flows {
    config: Config,
    world: World,
    policy: Box<dyn Policy>,
    gates: Gates,
    due: Due,
    stalls: Stalls,
    outputs: VecDeque<Output>,
    /// The time of the last input.
    latest: Time,
    /// Working lists, kept to reuse their memory.
    list: Vec<u32>,
    moved: Vec<u32>,
    passed: Vec<Passed>,
}

impl Flows {
    /// A machine without ports. The seed makes the positions of ids in its maps unpredictable; no
    /// decision depends on it.
    ///
    /// # Errors
    ///
    /// When the settings are not consistent.
    pub fn new(config: Config, seed: u64) -> Result<Flows, ConfigError> {
        config.validate()?;
        let limits = config.limits;
        Ok(Flows {
            policy: (config.policy.build)(&config),
            gates: Gates::new(limits.ports, limits.flows, config.window),
            due: Due::new(&config),
            stalls: Stalls::new(limits.ports),
            outputs: VecDeque::with_capacity(limits.flows as usize),
            latest: Time::ZERO,
            list: Vec::with_capacity(limits.flows as usize),
            moved: Vec::with_capacity(limits.batches as usize),
            passed: Vec::new(),
            world: World::new(
                limits,
                Ladder { levels: config.levels, arbitration: config.arbitration },
                Edges::new(config.thresholds, config.levels),
                Budget::new(config.drop_share, config.drop_window),
                config.policy.needs.loads.then_some(config.load_window),
                seed,
            ),
            config,
        })
    }

    /// Takes one event. `now` never goes back.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.advance(now);
        match input {
            Input::Port { id, bytes_per_second } => self.port(id, bytes_per_second),
            Input::BatchArrived(batch) => self.batch_arrived(now, &batch),
            Input::Layer { batch, generation, layer } => self.layer(now, batch, generation, layer),
            Input::BatchDeparted(batch) => self.batch_departed(now, batch),
            Input::Ended(request) => self.ended(now, request),
            Input::Submit(flow) => self.submit(now, &flow),
            Input::Ask { flow, bytes } => self.ask(now, flow, bytes),
            Input::Completed { flow, bytes } => self.completed(now, flow, bytes),
            Input::Withdrawn { flow, unused } => self.withdrawn(now, flow, unused),
            Input::Verdict(verdict) => self.verdict(now, &verdict),
        }
    }

    /// The next action; call it until `None`.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call [`Self::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        [self.due.next(), self.stalls.next()].into_iter().flatten().min()
    }

    /// The place of a live flow.
    #[must_use]
    pub fn place(&self, flow: FlowId) -> Option<Place> {
        let row = self.world.flows.get(flow.index()).filter(|row| row.live)?;
        Some(row.place)
    }

    /// Live flows.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.world.live_flows
    }

    /// Whether no flow is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.world.live_flows == 0
    }

    /// Requests that arrived, and those given up as infeasible or pruned, within the window of the
    /// drop budget.
    #[must_use]
    pub fn budget(&self) -> (u32, u32) {
        self.world.budget.totals()
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Updates every request each time, as a reference for tests.
    #[doc(hidden)]
    pub fn look_always(&mut self) {
        self.due.always = true;
    }

    /// Checks the whole state, in time proportional to the tables.
    ///
    /// # Panics
    /// When an invariant does not hold, which is a defect of the machine.
    pub fn check_invariants(&self) {
        let (mut live, mut released) = (0, 0);
        for (id, row) in self.world.flows.iter().enumerate() {
            let waits = self.gates.waits(id as u32);
            assert!(row.live || !waits, "a request that waits for a permit is live");
            if !row.live {
                continue;
            }
            live += 1;
            assert!(row.left > 0 && row.left <= row.size, "a live flow has bytes left");
            if row.stage.is_early() {
                assert!(self.world.batch(row.batch).live, "an early flow's batch is there");
            } else {
                assert!(self.world.request(row.request).live, "a handoff's request is there");
                released += row.left * row.ports.as_slice().len() as u64;
            }
        }
        assert_eq!(live, self.world.live_flows, "live flows are counted");
        let live_uses = self.world.requests.iter().filter(|row| row.live);
        let mut sum = 0;
        for row in live_uses {
            let mut at = row.uses;
            while at != NONE {
                sum += self.world.uses[at as usize].released;
                at = self.world.uses[at as usize].next;
            }
        }
        assert_eq!(sum, released, "the released bytes are those that handoffs have left");
        for port in 0..self.world.rates.len() as u32 {
            let most = u64::from(self.config.window);
            // Collectives that waited too long come on top: the gate fails open.
            let open = self.due.failed_open();
            let permitted = self.gates.permitted(port).iter();
            // Bytes count in a higher class once a flow with bytes under way has risen.
            assert!(permitted.max() <= Some(&(2 * most + open)), "permits are bounded");
        }
    }

    fn port(&mut self, id: PortId, rate: f64) {
        let (field, limit) = ("limits.ports", u64::from(self.config.limits.ports));
        let subject = Subject::Port(id);
        if u64::from(id.0) >= limit {
            let why = Refusal::BeyondTable { field, value: u64::from(id.0), limit };
            return self.refuse(subject, why);
        }
        if !(rate > 0.0 && rate.is_finite()) {
            return self.refuse(subject, Refusal::DeadPort(rate));
        }
        self.world.rates[id.index()] = rate;
        // Predictions for this port's users were made with its old rate.
        self.world.requests.iter_mut().for_each(|row| row.look_again = Time::ZERO);
    }

    /// The queues of timed work are in order only because `now` never goes back.
    fn advance(&mut self, now: Time) {
        assert!(now >= self.latest, "the time of a flow machine never goes back");
        self.latest = now;
    }

    fn refuse(&mut self, subject: Subject, why: Refusal) {
        self.outputs.push_back(Output::Refused { subject, why });
    }
}
