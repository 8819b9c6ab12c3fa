//! The cluster that decisions of the flow machine are measured on.

use anyhow::Context;
use meridian_base::{BatchId, Duration, FlowId, PortId, RequestId, Rng, Time};
use meridian_flow::{Batch, Config, Flow, Flows, Input, Member, Owner, PortPlan, Ports, Stage};

/// Layers of the model.
const LAYERS: u16 = 64;
/// Requests of a batch, and ports that each uses.
const REQUESTS: u64 = 4;
const USES: u32 = 16;
/// Bytes of a flow.
const BYTES: u64 = 1 << 20;

/// Batches, their flows, and the machine.
pub(super) struct Cluster {
    pub(super) flows: Flows,
    pub(super) now: Time,
    rng: Rng,
    batches: u32,
    ports: u32,
    /// First request of each batch.
    first: Vec<u64>,
    requests: u64,
    /// Rows in use, and those that are free.
    live: Vec<u32>,
    free: Vec<u32>,
}

impl Cluster {
    /// All batches have arrived and compute their first layer.
    pub(super) fn new(
        config: Config,
        seed: u64,
        batches: u32,
        ports: u32,
    ) -> anyhow::Result<Cluster> {
        let rows = config.limits.flows;
        let flows = Flows::new(config, seed).context("the settings of the measurement")?;
        let mut cluster = Cluster {
            flows,
            now: Time::from_millis(1000),
            rng: Rng::new(seed),
            batches,
            ports,
            first: vec![0; batches as usize],
            requests: 0,
            live: vec![],
            free: (0..rows).rev().collect(),
        };
        for id in 0..ports {
            let port = Input::Port { id: PortId(id), bytes_per_second: 25e9 };
            cluster.flows.handle(cluster.now, port);
        }
        for id in 0..batches {
            let batch = cluster.batch(id);
            cluster.flows.handle(cluster.now, Input::BatchArrived(batch));
            let layer = cluster.layer(id, 0);
            cluster.flows.handle(cluster.now, layer);
        }
        while cluster.flows.poll().is_some() {}
        Ok(cluster)
    }

    /// Submits flows until this many are live.
    pub(super) fn fill(&mut self, flows: u32) -> anyhow::Result<()> {
        for _ in 0..flows {
            let flow = self.flow().context("rows for all flows")?;
            self.flows.handle(self.now, Input::Submit(flow));
            while self.flows.poll().is_some() {}
        }
        anyhow::ensure!(self.flows.len() == flows, "{} of {flows} flows", self.flows.len());
        Ok(())
    }

    /// The end of a random flow, and a new one that takes a row.
    pub(super) fn turnover(&mut self) -> (Input, Flow) {
        let nth = self.rng.below(self.live.len());
        let old = self.live.swap_remove(nth);
        let new = self.flow().expect("a quarter of the rows is free");
        self.free.push(old);
        (Input::Completed { flow: FlowId(old), bytes: BYTES }, new)
    }

    fn flow(&mut self) -> Option<Flow> {
        let id = self.free.pop()?;
        self.live.push(id);
        let batch = self.rng.below(self.batches as usize) as u32;
        let request = RequestId(self.first[batch as usize] + self.rng.next_u64() % REQUESTS);
        let (owner, stage) = match self.rng.below(10) {
            0 => (Owner::Batch(BatchId(batch)), Stage::Collective),
            1..=5 => (Owner::Request(request), Stage::Reuse),
            _ => (Owner::Request(request), Stage::Handoff),
        };
        let from = self.port(batch);
        let ports = Ports::new(&[from, PortId((from.0 + self.ports / 2) % self.ports)])?;
        let layer = self.rng.below(usize::from(LAYERS)) as u16;
        Some(Flow { id: FlowId(id), owner, stage, layer, bytes: BYTES, ports })
    }

    /// One of the ports that a batch uses.
    fn port(&mut self, batch: u32) -> PortId {
        PortId((batch * USES + self.rng.below(USES as usize) as u32) % self.ports)
    }

    fn batch(&mut self, id: u32) -> Batch {
        self.first[id as usize] = self.requests;
        let ports = || (0..USES).map(|n| PortId((id * USES + n) % self.ports));
        let plan: Vec<PortPlan> =
            ports().map(|port| PortPlan { port, reuse: BYTES, handoff: 16 * BYTES }).collect();
        let collectives = ports().map(|port| (port, 16 * BYTES)).collect();
        let mut requests = vec![];
        for nth in 0..REQUESTS {
            let slo = Duration::from_millis(200 + self.rng.below(800) as u64);
            requests.push(Member {
                id: RequestId(self.requests + nth),
                deadline: Some(self.now + slo),
                slo,
                decode: Duration::from_millis(20),
                plan: plan.clone(),
            });
        }
        self.requests += REQUESTS;
        let layer_time = Duration::from_millis(2);
        Batch {
            id: BatchId(id),
            number: self.requests,
            layers: LAYERS,
            layer_time,
            collectives,
            requests,
        }
    }

    pub(super) fn layer(&self, batch: u32, layer: u16) -> Input {
        Input::Layer { batch: BatchId(batch), generation: 0, layer }
    }

    /// Every batch has computed its last layer.
    pub(super) fn depart_all(&mut self) {
        for id in 0..self.batches {
            self.flows.handle(self.now, Input::BatchDeparted(BatchId(id)));
            while self.flows.poll().is_some() {}
        }
    }

    /// A batch departs with its requests; another arrives in its row.
    pub(super) fn next_batch(&mut self) -> (Input, Input) {
        let id = self.rng.below(self.batches as usize) as u32;
        for nth in 0..REQUESTS {
            let request = RequestId(self.first[id as usize] + nth);
            self.flows.handle(self.now, Input::Ended(request));
        }
        let batch = self.batch(id);
        (Input::BatchDeparted(BatchId(id)), Input::BatchArrived(batch))
    }
}
