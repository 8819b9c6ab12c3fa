//! Theorem 1: on one link, with one request and no handoff, the smallest distance first gives the
//! shortest prefill. The paper claims no more, and this tests no more.

use meridian_base::{BatchId, RequestId, Rng};
use meridian_flow::{Input, Owner, Stage};

use crate::link::{Link, batch, config, flow};

/// A prefill on the link: each layer computes once its reuse and its collective have arrived.
struct Prefill {
    /// By layer: computation, reuse fetched ahead, and the collective that it ends with, in ms.
    layers: Vec<(u32, u32, u32)>,
}

impl Prefill {
    fn random(rng: &mut Rng) -> Prefill {
        let layers = 2 + rng.below(9);
        let mut ms = |most: usize| 1 + rng.below(most) as u32;
        Prefill { layers: (0..layers).map(|_| (ms(8), ms(8), ms(4))).collect() }
    }

    /// When the last layer ends with the machine's precedence, in ms. All reuse is submitted at
    /// once, a collective when its layer has been computed.
    fn with_machine(&self, name: &str) -> f64 {
        let mut link = Link::new(config(name));
        let layers = self.layers.len() as u16;
        link.tell(Input::BatchArrived(batch(1, layers, &[(1, 1e4)])));
        for (layer, (_, reuse, _)) in self.layers.iter().enumerate() {
            let (id, owner) = (layer as u32, Owner::Request(RequestId(1)));
            let units = f64::from(*reuse) / 1e3;
            link.tell(Input::Submit(flow(id, owner, Stage::Reuse, layer as u16, units)));
        }
        for (layer, (compute, _, collective)) in self.layers.iter().enumerate() {
            let (batch, generation) = (BatchId(1), 0);
            link.tell(Input::Layer { batch, generation, layer: layer as u16 });
            Self::until(&mut link, layer as u32);
            let end = link.now + f64::from(*compute) / 1e3;
            link.run(end);
            let id = 100 + layer as u32;
            let units = f64::from(*collective) / 1e3;
            let one = flow(id, Owner::Batch(batch), Stage::Collective, layer as u16, units);
            link.tell(Input::Submit(one));
            Self::until(&mut link, id);
        }
        (link.now * 1e3).round()
    }

    /// Runs until the flow has ended, in steps that divide every length.
    fn until(link: &mut Link, flow: u32) {
        while !link.ended.contains_key(&flow) {
            let step = link.now + 2.5e-4;
            link.run(step);
        }
        link.now = link.now.max(link.ended[&flow]);
    }

    /// The shortest prefill of any order: time is cut into milliseconds, and each goes to a flow of
    /// any layer. A state is the time, the layer, and how much reuse of it and of later layers has
    /// arrived; the search visits all of them.
    fn best(&self) -> f64 {
        let mut memo = std::collections::HashMap::new();
        let left: Vec<u32> = self.layers.iter().map(|(_, reuse, _)| *reuse).collect();
        f64::from(self.search(0, &left, &mut memo))
    }

    /// The time from the moment when `layer` is the current one, with `left` reuse to fetch.
    fn search(
        &self,
        layer: usize,
        left: &[u32],
        memo: &mut std::collections::HashMap<(usize, Vec<u32>), u32>,
    ) -> u32 {
        if layer == self.layers.len() {
            return 0;
        }
        if let Some(&known) = memo.get(&(layer, left.to_vec())) {
            return known;
        }
        let (compute, _, collective) = self.layers[layer];
        // While the layer waits for its own reuse the link may fetch for others instead: up to each
        // amount. The same while it computes, and while its collective is sent.
        let stall = left[layer];
        let mut best = u32::MAX;
        let ahead: u32 = left[layer + 1..].iter().sum();
        for wasted in 0..=ahead.min(3) {
            for after_stall in spread(left, layer, wasted) {
                for after in spread(&after_stall, layer, compute) {
                    let rest = self.search(layer + 1, &after, memo);
                    best = best.min(stall + wasted + compute + collective + rest);
                }
            }
        }
        memo.insert((layer, left.to_vec()), best);
        best
    }
}

/// Every way to spend `ms` of the link on reuse of the layers after `layer`, as much as there is;
/// the layer's own reuse has arrived.
fn spread(left: &[u32], layer: usize, ms: u32) -> Vec<Vec<u32>> {
    fn fill(left: &mut Vec<u32>, at: usize, ms: u32, found: &mut Vec<Vec<u32>>) {
        if at == left.len() || ms == 0 {
            found.push(left.clone());
            return;
        }
        let most = left[at].min(ms);
        let later: u32 = left[at + 1..].iter().sum();
        for take in ms.saturating_sub(later).min(most)..=most {
            left[at] -= take;
            fill(left, at + 1, ms - take, found);
            left[at] += take;
        }
    }
    let mut left = left.to_vec();
    left[layer] = 0;
    let mut found = Vec::new();
    fill(&mut left, layer + 1, ms, &mut found);
    found
}

// Correction 9: Theorem 1 on one link, for one request without handoffs. The machine's order is as
// short as the best of all orders, found by exhaustive search over small prefills.
#[test]
fn correction_9_theorem_1_on_one_link_without_stage_3() {
    let mut rng = Rng::new(9);
    for _ in 0..60 {
        let mut ms = |most: usize| 1 + rng.below(most) as u32;
        let layers = (0..4).map(|_| (ms(3), ms(4), ms(2))).collect();
        let prefill = Prefill { layers };
        assert_eq!(prefill.with_machine("mfs"), prefill.best(), "{:?}", prefill.layers);
    }
}

// No baseline produces a shorter one, on prefills too large to search.
#[test]
fn correction_9_no_baseline_is_shorter() {
    let mut rng = Rng::new(10);
    let (mut shorter, mut sum) = (0, [0.0; 2]);
    for _ in 0..40 {
        let prefill = Prefill::random(&mut rng);
        let ours = prefill.with_machine("mfs");
        for name in ["fair", "sjf", "edf", "karuna", "two_class", "edf_drop"] {
            let theirs = prefill.with_machine(name);
            assert!(ours <= theirs + 1.0, "{name}: {theirs} is shorter than {ours}");
            shorter += u32::from(ours < theirs);
            sum = [sum[0] + ours, sum[1] + theirs];
        }
    }
    assert!(shorter > 100 && sum[0] < 0.95 * sum[1], "the order matters: {shorter}, {sum:?}");
}
