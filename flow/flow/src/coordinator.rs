//! The coordinator of a cluster: it orders batches by all of their requests, and prunes.
//!
//! A node knows the requests whose bytes it sends. A batch runs on several nodes, and batches of other
//! nodes meet at switches and receivers; only the coordinator knows all of them (MFS, section 5). Nodes
//! report batches, departures and ends. The coordinator answers with one [`Verdict`] for each batch
//! whose order or pruned requests changed. A verdict says everything about its batch. Where one is
//! lost, the node's own order stands until the next change. Reports must arrive in the order in which
//! they were sent, and once; all nodes share one clock.
//!
//! The coordinator hears of no layers. It assumes that a batch computes at its estimated pace and that
//! its bytes leave with its layers.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use meridian_base::{BatchId, PortId, RequestId, Time};

use crate::batch::Batch;
use crate::budget::Budget;
use crate::config::{Config, ConfigError};
use crate::limits::Limits;
use crate::pass::Scratch;
use crate::place::Ladder;
use crate::refusal::{Refusal, Subject};
use crate::tables::{NONE, Standing, World};
use crate::thresholds::Edges;
use crate::why::{Passed, PruneWhy};

/// A report of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// A port is added, or its rate changes.
    Port {
        /// Its row.
        id: PortId,
        /// Its rate, above 0.
        bytes_per_second: f64,
    },
    /// A node takes part in a batch: the requests and collectives that it sends.
    Batch(Batch),
    /// A batch has computed all layers, or is abandoned; with its number.
    Departed(BatchId, u64),
    /// A request has ended.
    Ended(RequestId),
}

/// The coordinator's word on a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The batch.
    pub batch: BatchId,
    /// Its number: a verdict on an earlier batch of the row says nothing of the present one.
    pub number: u64,
    /// Its robust effective deadline.
    pub red: Time,
    /// The number of its requests that the coordinator knows. A node that knows more ignores the
    /// verdict.
    pub requests: u32,
    /// Its requests that should go last, and why.
    pub pruned: Vec<(RequestId, PruneWhy)>,
}

/// An action for the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Ruling {
    /// Send this to all nodes that take part in the batch.
    Verdict(Verdict),
    /// A report, or a part of it, was refused and changed nothing.
    Refused {
        /// The object of the report.
        subject: Subject,
        /// Why.
        why: Refusal,
    },
}

/// A cluster's coordinator.
pub struct Coordinator {
    config: Config,
    world: World,
    scratch: Scratch,
    rulings: VecDeque<Ruling>,
    /// When batches are forgotten, should their departure not be reported.
    expiries: VecDeque<(Time, u32, u64)>,
    moved: Vec<u32>,
    passed: Vec<Passed>,
    /// The time of the last report.
    latest: Time,
    /// By request row: why it was pruned.
    whys: Vec<Option<PruneWhy>>,
}

impl Coordinator {
    /// A coordinator without ports, with the nodes' settings.
    ///
    /// # Errors
    /// When the settings are not consistent.
    pub fn new(config: Config, seed: u64) -> Result<Coordinator, ConfigError> {
        config.validate()?;
        let limits = Limits { flows: 1, ..config.limits };
        let world = World::new(
            limits,
            Ladder { levels: config.levels, arbitration: config.arbitration },
            Edges::new(config.thresholds, config.levels),
            Budget::new(config.drop_share, config.drop_window),
            None,
            seed,
        );
        Ok(Coordinator {
            scratch: Scratch::new(&config),
            rulings: VecDeque::new(),
            expiries: VecDeque::new(),
            moved: Vec::new(),
            passed: Vec::new(),
            latest: Time::ZERO,
            whys: alloc::vec![None; limits.requests as usize],
            world,
            config,
        })
    }

    /// Takes one report. `now` never goes back.
    pub fn handle(&mut self, now: Time, report: Report) {
        self.tick(now);
        match report {
            Report::Port { id, bytes_per_second } => self.port(id, bytes_per_second),
            Report::Batch(batch) => self.batch(now, &batch),
            Report::Departed(batch, number) => self.departed(now, batch, number),
            Report::Ended(request) => self.ended(request),
        }
    }

    /// The next action; call it until `None`.
    pub fn poll(&mut self) -> Option<Ruling> {
        self.rulings.pop_front()
    }

    /// When to call [`Self::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.expiries.front().map(|due| due.0)
    }

    /// Forgets batches whose departure was never reported.
    pub fn handle_timeout(&mut self, now: Time) {
        self.tick(now);
        while let Some(&(at, batch, number)) = self.expiries.front()
            && at <= now
        {
            self.expiries.pop_front();
            self.departed(now, BatchId(batch), number);
        }
    }

    /// The queue of expiries is in order only because `now` never goes back.
    fn tick(&mut self, now: Time) {
        assert!(now >= self.latest, "the time of a coordinator never goes back");
        self.latest = now;
    }

    fn port(&mut self, id: PortId, rate: f64) {
        match self.world.rates.get_mut(id.index()) {
            Some(slot) if rate > 0.0 && rate.is_finite() => *slot = rate,
            Some(_) => self.refuse(Subject::Port(id), Refusal::DeadPort(rate)),
            None => {
                let (field, limit) = ("limits.ports", u64::from(self.config.limits.ports));
                let why = Refusal::BeyondTable { field, value: u64::from(id.0), limit };
                self.refuse(Subject::Port(id), why);
            }
        }
    }

    /// A node's part of a batch: the first part enters the batch, the others complete it.
    fn batch(&mut self, now: Time, batch: &Batch) {
        let row = self.world.batches.get(batch.id.index());
        let gone = row.filter(|row| !row.live && row.sequence > 0);
        if gone.is_some_and(|row| row.number >= batch.number) {
            return;
        }
        match row.filter(|row| row.live).map(|row| row.number) {
            Some(number) if number > batch.number => return,
            Some(number) if number == batch.number => {
                let known = self.world.known(batch.collectives.iter().map(|(port, _)| *port));
                if let Err(why) = known {
                    return self.refuse(Subject::Batch(batch.id), why);
                }
                let row = &mut self.world.batches[batch.id.index()];
                row.collectives.extend_from_slice(&batch.collectives);
            }
            known => {
                if known.is_some() {
                    self.forget(batch.id.0);
                }
                if let Err(why) = self.world.check_batch(batch) {
                    return self.refuse(Subject::Batch(batch.id), why);
                }
                let at = self.world.enter_batch(now, batch);
                // A batch computes from its arrival on, as far as the coordinator knows.
                self.world.batches[at as usize].computes = true;
                let over = now + self.config.drop_window;
                let last = self.expiries.back();
                assert!(last.is_none_or(|last| last.0 <= over), "expiries are queued by time");
                self.expiries.push_back((over, at, batch.number));
            }
        }
        for member in &batch.requests {
            if let Err(why) = self.member(now, batch, member) {
                self.refuse(Subject::Request(member.id), why);
            }
        }
        self.pass(now);
    }

    fn member(&mut self, now: Time, batch: &Batch, member: &crate::Member) -> Result<(), Refusal> {
        let Some(request) = self.world.find_request(member.id) else {
            let request = self.world.enter_member(now, batch.id.0, member)?;
            self.whys[request as usize] = None;
            return Ok(());
        };
        // Another node has reported its part of the request.
        if self.world.request(request).batch != batch.id.0 {
            return Err(Refusal::Taken);
        }
        self.world.check_plan(member)?;
        self.world.add_plan(request, member);
        Ok(())
    }

    fn departed(&mut self, now: Time, batch: BatchId, number: u64) {
        let row = self.world.batches.get(batch.index());
        if row.is_some_and(|row| row.live && row.number == number) {
            self.forget(batch.0);
            self.pass(now);
        }
    }

    fn ended(&mut self, request: RequestId) {
        if let Some(row) = self.world.find_request(request) {
            let batch = self.world.request(row).batch;
            assert!(batch != NONE, "a request of the coordinator ends before its batch");
            self.world.batches[batch as usize].requests.retain(|one| *one != row);
            self.world.end_request(row);
        }
    }

    /// Removes a batch with its requests.
    fn forget(&mut self, batch: u32) {
        for request in core::mem::take(&mut self.world.batches[batch as usize].requests) {
            self.world.end_request(request);
        }
        self.world.leave_batch(batch);
    }

    /// Orders and checks all batches, and issues the verdicts that changed.
    fn pass(&mut self, now: Time) {
        for nth in 0..self.world.arrived.len() {
            self.advance(now, self.world.arrived[nth]);
        }
        let (mut moved, mut passed) =
            (core::mem::take(&mut self.moved), core::mem::take(&mut self.passed));
        self.scratch.rank(&mut self.world, now, &mut moved);
        if self.config.terms.prune {
            self.scratch.prune(&mut self.world, now, &mut passed);
        }
        for event in passed.drain(..) {
            let (request, why) = match event {
                Passed::Pruned { request, why, .. } => (request, Some(why)),
                Passed::Reinstated { request } => (request, None),
            };
            self.whys[request as usize] = why;
            moved.push(self.world.request(request).batch);
        }
        moved.sort_unstable();
        moved.dedup();
        let known = |batch: &u32| *batch != NONE && !self.world.batch(*batch).requests.is_empty();
        for batch in moved.drain(..).filter(known) {
            let verdict = self.verdict(batch);
            self.rulings.push_back(Ruling::Verdict(verdict));
        }
        (self.moved, self.passed) = (moved, passed);
    }

    /// Moves a batch to the layer that it should compute by now.
    fn advance(&mut self, now: Time, batch: u32) {
        let row = &mut self.world.batches[batch as usize];
        let passed = now.since(row.layer_began).as_nanos() / row.pace.as_nanos().max(1);
        let before = row.layers_left();
        let layers = u16::try_from(passed).unwrap_or(u16::MAX).min(before - 1);
        row.layer += layers;
        row.layer_began = row.layer_began + row.pace.saturating_mul(u32::from(layers));
        assert!(row.layer_began <= now, "a layer starts when it is reached");
        let left = u64::from(row.layers_left());
        let share = |bytes: u64| {
            let bytes = u128::from(bytes) * u128::from(left) / u128::from(before);
            u64::try_from(bytes).unwrap_or(u64::MAX)
        };
        for nth in 0..if layers > 0 { self.world.batch(batch).requests.len() } else { 0 } {
            let mut at = self.world.request(self.world.batch(batch).requests[nth]).uses;
            while at != NONE {
                let one = &mut self.world.uses[at as usize];
                (one.coming, one.reuse) = (share(one.coming), share(one.reuse));
                at = one.next;
            }
        }
    }

    fn verdict(&self, batch: u32) -> Verdict {
        let row = self.world.batch(batch);
        let pruned = row.requests.iter().filter_map(|at| {
            let request = self.world.request(*at);
            let why = self.whys[*at as usize].filter(|_| request.standing == Standing::Pruned)?;
            Some((request.id, why))
        });
        let pruned = pruned.collect();
        let requests = row.requests.len() as u32;
        Verdict { batch: BatchId(batch), number: row.number, red: row.red, requests, pruned }
    }

    fn refuse(&mut self, subject: Subject, why: Refusal) {
        self.rulings.push_back(Ruling::Refused { subject, why });
    }
}
