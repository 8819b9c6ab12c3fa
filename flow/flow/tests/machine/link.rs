//! A fluid link that drives the machine: strict priority by place, equal shares on a tie, rate
//! limits if a place sets them. It has one port, so expected values can be worked out by hand.

use std::collections::BTreeMap;

use meridian_base::{BatchId, Duration, FlowId, PortId, RequestId, Time};
use meridian_flow::{
    Batch, Config, Flow, Flows, Input, Member, Output, Owner, Place, Ports, Stage, policy,
};

pub(crate) const PORT: PortId = PortId(0);
/// Bytes of one unit of size; the link carries one unit a second.
pub(crate) const UNIT: f64 = 1e6;

/// A time in seconds.
pub(crate) fn at(seconds: f64) -> Time {
    Time::from_nanos((seconds * 1e9).round() as u64)
}

/// Settings with small tables.
pub(crate) fn config(name: &str) -> Config {
    let mut config = Config::new(policy::find(name).expect("a policy of that name"));
    config.limits.flows = 256;
    config.limits.requests = 256;
    config.limits.batches = 64;
    config.limits.ports = 16;
    config.limits.uses = 1024;
    config
}

/// A batch of `layers` layers with the given requests and deadlines in seconds.
pub(crate) fn batch(id: u32, layers: u16, requests: &[(u64, f64)]) -> Batch {
    let member = |(id, deadline): &(u64, f64)| Member {
        id: RequestId(*id),
        deadline: Some(at(*deadline)),
        slo: Duration::from_secs_f64(*deadline),
        decode: Duration::ZERO,
        plan: vec![],
    };
    Batch {
        id: BatchId(id),
        number: 0,
        layers,
        layer_time: Duration::ZERO,
        collectives: vec![],
        requests: requests.iter().map(member).collect(),
    }
}

/// A flow of `units` over the one port.
pub(crate) fn flow(id: u32, owner: Owner, stage: Stage, layer: u16, units: f64) -> Flow {
    let bytes = (units * UNIT) as u64;
    Flow { id: FlowId(id), owner, stage, layer, bytes, ports: Ports::one(PORT) }
}

struct Sending {
    place: Place,
    size: u64,
    left: f64,
    /// Bytes reported to the machine.
    reported: u64,
}

/// The link, the machine and the active flows.
pub(crate) struct Link {
    pub(crate) flows: Flows,
    pub(crate) now: f64,
    /// Whether to report bytes at each of the machine's updates, not only at a flow's end.
    pub(crate) reports: bool,
    sending: BTreeMap<u32, Sending>,
    /// When each flow ended, in seconds.
    pub(crate) ended: BTreeMap<u32, f64>,
    pub(crate) outputs: Vec<Output>,
}

impl Link {
    pub(crate) fn new(config: Config) -> Link {
        let mut flows = Flows::new(config, 1).expect("the settings are right");
        flows.handle(Time::ZERO, Input::Port { id: PORT, bytes_per_second: UNIT });
        let (sending, ended) = (BTreeMap::new(), BTreeMap::new());
        Link { flows, now: 0.0, reports: false, sending, ended, outputs: vec![] }
    }

    /// Passes in an event and carries out the outputs.
    pub(crate) fn tell(&mut self, input: Input) {
        let submitted = match &input {
            Input::Submit(flow) => Some((flow.id.0, flow.bytes)),
            _ => None,
        };
        self.flows.handle(at(self.now), input);
        if let Some((id, size)) = submitted {
            let place = self.flows.place(FlowId(id)).expect("the flow was taken");
            self.sending.insert(id, Sending { place, size, left: size as f64, reported: 0 });
        }
        self.follow();
    }

    fn follow(&mut self) {
        while let Some(output) = self.flows.poll() {
            if let Output::Placed { flow, place, .. } = output
                && let Some(sending) = self.sending.get_mut(&flow.0)
            {
                sending.place = place;
            }
            self.outputs.push(output);
        }
        self.flows.check_invariants();
    }

    /// Bytes a second of each flow now: strictly by place, equal places equally.
    fn rates(&self) -> BTreeMap<u32, f64> {
        let mut order: Vec<(&u32, &Sending)> = self.sending.iter().collect();
        order.sort_by_key(|(_, one)| (one.place.class, one.place.order));
        let mut left = UNIT;
        let mut rates = BTreeMap::new();
        for equals in order.chunk_by(|a, b| {
            (a.1.place.class, a.1.place.order) == (b.1.place.class, b.1.place.order)
        }) {
            // Flows with the smallest caps first: the rest share the remaining rate.
            let mut equals: Vec<_> = equals.to_vec();
            let cap = |one: &Sending| one.place.rate.unwrap_or(f64::INFINITY);
            equals.sort_by(|a, b| cap(a.1).total_cmp(&cap(b.1)));
            for (nth, (id, one)) in equals.iter().enumerate() {
                let rate = (left / (equals.len() - nth) as f64).min(cap(one));
                rates.insert(**id, rate);
                left -= rate;
            }
        }
        rates
    }

    /// Runs until `end`, in seconds.
    pub(crate) fn run(&mut self, end: f64) {
        while self.now < end {
            let rates = self.rates();
            let soonest = self.sending.iter().map(|(id, one)| one.left / rates[id]);
            let done = self.now + soonest.fold(f64::INFINITY, f64::min);
            let due = self.flows.poll_timeout().map_or(f64::INFINITY, |due| due.as_secs_f64());
            let next = done.min(due.max(self.now)).min(end);
            for (id, one) in &mut self.sending {
                one.left -= rates[id] * (next - self.now);
            }
            self.now = next;
            self.report();
            if due <= next {
                self.flows.handle_timeout(at(next));
                self.follow();
            }
        }
    }

    /// Reports flows that have ended, and with `reports` all progress.
    fn report(&mut self) {
        let ids: Vec<u32> = self.sending.keys().copied().collect();
        for id in ids {
            let one = self.sending.get_mut(&id).expect("is under way");
            let (flow, over) = (FlowId(id), one.left < 0.5);
            let sent = if over { one.size } else { one.size - one.left.ceil() as u64 };
            let bytes = sent - one.reported;
            if over {
                self.sending.remove(&id);
                self.ended.insert(id, (self.now * 1e6).round() / 1e6);
            } else if !self.reports || bytes == 0 {
                continue;
            } else {
                one.reported = sent;
            }
            self.tell(Input::Completed { flow, bytes });
        }
    }
}
