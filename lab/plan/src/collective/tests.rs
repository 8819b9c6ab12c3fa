use super::*;
use crate::import::TopologySpec;

fn topology(servers: u32, gpus: u32, more: &str) -> Topology {
    let yaml = format!(
        "version: 1\nunits:\n- access: {{aggregation: {{rate: 100Gb/s}}}}\n  servers:\n  - \
         {{count: {servers}, gpu: a100, gpus: {gpus}, {more}}}\n"
    );
    TopologySpec::read(&yaml).unwrap().build().unwrap()
}

fn of(choices: &[Choice], algorithm: Algorithm) -> Option<&Choice> {
    choices.iter().find(|choice| choice.algorithm == algorithm)
}

fn all(topology: &Topology) -> Vec<Choice> {
    choices(topology, &topology.all_gpus().collect::<Vec<_>>())
}

// Inside a server an all-reduce costs as much as in the engine's calibrated step.
#[test]
fn one_server_is_the_engines_calibration() {
    let topology = topology(1, 4, "nvlink: 300GB/s");
    let choices = all(&topology);
    let kind = topology.kind(GpuId(0));
    let bytes = 1e6;
    let engine = kind.efficiency.reduce + 2.0 * 0.75 * bytes / (kind.link * kind.efficiency.link);
    assert_eq!(choices.len(), 1);
    assert!((choices[0].seconds(bytes) / engine - 1.0).abs() < 1e-9);
}

// Correction 6: a transfer over two links of one rate takes the time of one link, not of two.
#[test]
fn correction_6_switches_cut_through() {
    let topology = topology(2, 1, "cards: 1, card_rate: 100Gb/s");
    let way = route(&topology, GpuId(0), GpuId(1), 1e6).unwrap();
    let ethernet = 1e6 / (12.5e9 * crate::topology::CARD_SHARE);
    assert!((way.seconds(&topology, 1e6) - way.latency - ethernet).abs() < 1e-12);
    let store_and_forward: f64 =
        way.links.iter().map(|link| 1e6 / topology.usable(*link)).sum::<f64>();
    assert!(store_and_forward > 2.0 * ethernet);
}

// Correction 7: four GPUs behind one card put four times the bytes on it.
#[test]
fn correction_7_a_group_is_in_its_own_way() {
    let shared = all(&topology(2, 4, "nvlink: 300GB/s, cards: 1, card_rate: 100Gb/s"));
    let own = all(&topology(2, 4, "nvlink: 300GB/s, cards: 4, card_rate: 100Gb/s"));
    let ratio = |choice| {
        let of = |choices: &[Choice]| of(choices, choice).unwrap().per_byte;
        of(&shared) / of(&own)
    };
    assert!((ratio(Algorithm::InNetwork) - 4.0).abs() < 0.01, "{}", ratio(Algorithm::InNetwork));
    assert!(ratio(Algorithm::Tree) > 2.0);
}

// Correction 9: a ring's latency is one of 2 (P - 1) hops, node after node, so a short message goes
// by tree and a long one by NVLink and all cards; in the network it is some 30 us at least.
#[test]
fn correction_9_short_messages_are_bound_by_latency() {
    let topology = topology(8, 2, "nvlink: 300GB/s, cards: 2, card_rate: 100Gb/s");
    let choices = all(&topology);
    let ring = of(&choices, Algorithm::Ring).unwrap();
    // Each of eight rings' hops between servers is over two cards and a switch.
    let hop = 2.0 * (hop::CARD + hop::PCIE) + hop::SWITCH;
    let around = 8.0 * (hop + hop::NVLINK);
    let base = topology.kind(GpuId(0)).efficiency.reduce;
    let relay = 8.0 * 2.0 * hop::NVLINK;
    let hops = (ring.latency - base) / (2.0 * 15.0 / 16.0);
    assert!(hops > around * 0.999 && hops < (around + relay) * 1.001, "{hops} {around}");
    assert!(of(&choices, Algorithm::Tree).unwrap().latency < ring.latency / 2.0);
    assert!(of(&choices, Algorithm::InNetwork).unwrap().latency >= 30e-6);
    assert_eq!(best(&choices, 16e3).unwrap().algorithm, Algorithm::InNetwork);
    let relayed = of(&choices, Algorithm::Relayed).unwrap();
    assert!(relayed.per_byte <= ring.per_byte * 1.001);
}

// A switch with slow slots is not used for large messages.
#[test]
fn slots_limit_what_a_switch_adds() {
    let yaml = "version: 1\nunits:\n- access: {aggregation: {rate: 1Gb/s}}\n  servers:\n  - \
                {count: 2, gpu: a100, gpus: 1, cards: 1, card_rate: 100Gb/s}\n";
    let topology = TopologySpec::read(yaml).unwrap().build().unwrap();
    let choices = all(&topology);
    assert_eq!(of(&choices, Algorithm::InNetwork).unwrap().per_byte, 1.0 / 125e6);
    assert_eq!(best(&choices, 1e6).unwrap().algorithm, Algorithm::Ring);
}

// One GPU needs no collective.
#[test]
fn one_gpu_reduces_nothing() {
    assert!(choices(&topology(1, 1, "pcie: 32GB/s"), &[GpuId(0)]).is_empty());
}

// The formula's bottleneck matches the flow-level network: a ring's transfers, started at once, end
// at the predicted time.
#[test]
fn the_fabric_agrees_on_the_bottleneck() {
    use meridian_base::{FlowId, PortId, Time};
    use meridian_fabric::{Demand, Network, Path};
    let topology = topology(2, 4, "cards: 2, card_rate: 100Gb/s");
    let members: Vec<GpuId> = topology.all_gpus().collect();
    let ring = &all(&topology)[0];
    let rates: Vec<f64> =
        (0..topology.link_count()).map(|at| topology.usable(LinkId(at)).max(1.0)).collect();
    let mut network = Network::new(&rates);
    let bytes = 1e8;
    for ring in 0..4 {
        let turn = |at: usize| members[at / 4 * 4 + (at + ring) % 4];
        for at in 0..8 {
            let way = route(&topology, turn(at), turn((at + 1) % 8), TYPICAL).unwrap();
            let ports: Vec<PortId> = way.links.iter().map(|link| PortId(link.0)).collect();
            let path = Path::new(&ports).expect("a way inside one unit has six links at most");
            let part = 2.0 * 7.0 / 8.0 * bytes / 4.0;
            network.begin(Time::ZERO, FlowId((ring * 8 + at) as u32), Demand::new(path, part));
        }
    }
    network.settle(Time::ZERO);
    let mut now = Time::ZERO;
    while let Some(end) = network.next_end() {
        now = end;
        while network.ended(now).is_some() {}
        network.settle(now);
    }
    let simulated = now.since(Time::ZERO).as_secs_f64();
    assert!((simulated / (ring.per_byte * bytes) - 1.0).abs() < 1e-6, "{simulated}");
}
