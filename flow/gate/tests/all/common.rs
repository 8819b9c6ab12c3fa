//! A gate whose time a test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use meridian_base::Time;
use meridian_flow::Stage;
use meridian_gate::{Clock, Gate, Handle, NewFlow};
use meridian_messages::{Batch, Port, Request, Settings};

/// The time of a test.
#[derive(Clone, Default)]
pub(crate) struct Hand(Arc<AtomicU64>);

impl Hand {
    pub(crate) fn clock(&self) -> Clock {
        let hand = self.clone();
        Clock::new(move || Time::from_nanos(hand.0.load(Ordering::SeqCst)))
    }

    pub(crate) fn set_ms(&self, ms: u64) {
        self.0.store(ms * 1_000_000, Ordering::SeqCst);
    }
}

/// One card, 8 Gb/s each way: a byte takes a nanosecond.
pub(crate) fn settings() -> Settings {
    let port = |name: &str| Port { name: name.to_owned(), gbps: 8.0 };
    Settings::new(vec![port("out"), port("in")])
}

pub(crate) fn gate() -> (Gate, Hand) {
    let hand = Hand::default();
    (Gate::new(&settings(), hand.clock()).expect("they are right"), hand)
}

/// A batch of one layer whose requests have these budgets in ms.
pub(crate) fn batch(batch: u64, requests: &[(u64, f64)]) -> Batch {
    let request = |(request, left): &(u64, f64)| Request {
        request: *request,
        ttft_left_ms: Some(*left),
        slo_ms: None,
        decode_ms: 0.0,
        plan: vec![],
    };
    let requests = requests.iter().map(request).collect();
    Batch { batch, layers: 1, layer_us: 0.0, collectives: vec![], requests }
}

pub(crate) const CHUNK: u32 = 256 << 10;

/// A handoff of `chunks` chunks by the first port.
pub(crate) fn handoff(gate: &Gate, request: u64, chunks: u64) -> Handle {
    let bytes = chunks * u64::from(CHUNK);
    let flow = NewFlow { stage: Stage::Handoff, owner: request, layer: 0, bytes, ports: &[0] };
    gate.submit(flow).expect("its request is there")
}

/// Whether the transfer's permit comes now.
pub(crate) fn permitted(gate: &Gate, transfer: Handle) -> bool {
    let waker = std::task::Waker::noop();
    let poll = gate.poll_permit(transfer, CHUNK, &mut std::task::Context::from_waker(waker));
    match poll {
        std::task::Poll::Ready(permit) => {
            permit.map(|permit| assert_eq!(permit.bytes, CHUNK)).is_ok()
        }
        std::task::Poll::Pending => false,
    }
}
