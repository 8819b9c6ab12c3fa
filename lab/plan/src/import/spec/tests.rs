use super::*;
use crate::route::route;
use crate::topology::GpuId;

const TESTBED: &str = include_str!("../../../topologies/heroserve-testbed.yaml");

fn broken(yaml: &str) -> Vec<String> {
    let problems = TopologySpec::read(yaml).unwrap_err();
    problems.0.iter().map(ToString::to_string).collect()
}

// HeroServe's testbed has sixteen GPUs, and each card two servers away is one switch away.
#[test]
fn the_testbed_is_built() {
    let topology = TopologySpec::read(TESTBED).unwrap().build().unwrap();
    assert_eq!((topology.gpus(), topology.servers().len(), topology.access().len()), (16, 4, 2));
    assert_eq!(topology.kind(GpuId(0)).name, "a100-40g");
    assert_eq!(topology.kind(GpuId(15)).name, "v100");
    assert_eq!(topology.gpu_named("v100-1/3"), Some(GpuId(15)));
    let way = route(&topology, GpuId(0), GpuId(4), 1e6).unwrap();
    assert!(!way.relayed);
    let text: Vec<String> = way.links.iter().map(|link| topology.link_text(*link)).collect();
    assert_eq!(
        text,
        [
            "a100-40g-0/0 pcie out",
            "a100-40g-0 card 0 out",
            "a100-40g-1 card 0 in",
            "a100-40g-1/0 pcie in",
        ]
    );
}

// GPUs on different rails connect over NVLink and one switch, not over a missing core.
#[test]
fn other_rails_are_reached_over_nvlink() {
    let topology = TopologySpec::read(TESTBED).unwrap().build().unwrap();
    let way = route(&topology, GpuId(0), GpuId(5), 1e6).unwrap();
    assert!(way.relayed);
    assert_eq!(topology.link_text(way.links[0]), "a100-40g-0/0 nvlink out");
    assert_eq!(way.links.len(), 6);
}

// Every link of a path between two GPUs exists, with a rate.
#[test]
fn every_pair_has_a_way() {
    let topology = TopologySpec::read(TESTBED).unwrap().build().unwrap();
    for from in topology.all_gpus() {
        for to in topology.all_gpus().filter(|to| *to != from) {
            assert!(route(&topology, from, to, 1.0).unwrap().rate(&topology) > 1e9);
        }
    }
}

// All problems are reported at once, with field, value and remedy.
#[test]
fn problems_come_all_at_once() {
    let yaml = "version: 2\nunits:\n- servers:\n  - {gpu: a1000, gpus: 0, cards: 1, card_rate: 0Gb/s}\n  \
                - {gpu: a100, gpus: 2, nvlink: 0GB/s, numa: [0]}\n";
    let text = broken(yaml).join("\n");
    expect_test::expect![[r#"
        version: 2; use 1
        units[0].servers[0].gpu: a1000; use a100; known are l4, l4-slow, l4-fast, a100, a100-40g, v100, l40s, rtx-pro-6000, rtx-4090, h100, h200
        units[0].servers[0].gpus: 0; use 1 to 64
        units[0].servers[0].card_rate: 0B/s; nothing gets through; use 1MB/s or more, or leave the field out
        units[0].servers[1].nvlink: 0B/s; nothing gets through; use 1MB/s or more, or leave the field out
        units[0].servers[1].numa: 1 nodes; give one for each GPU, 2 in all
        units[0].servers[1].cards: 0; the server is disconnected; give it a card and a card_rate, or leave it out: 0 GPUs have cards"#]]
    .assert_eq(&text);
}

// Units without a core, and rails without a common switch, are disconnected.
#[test]
fn disconnected_topologies_are_refused() {
    let server = "{gpu: a100, gpus: 2, cards: 1, card_rate: 100Gb/s}";
    let apart = broken(&format!("version: 1\nunits:\n- {{count: 2, servers: [{server}]}}\n"));
    assert_eq!(
        apart,
        [
            "core: none; nothing joins the 2 units; give core.switches, or plan each unit by itself, of 2 GPUs at most"
        ]
    );
    let rails =
        format!("version: 1\nunits:\n- access: {{count: 2}}\n  servers: [{server}, {server}]\n");
    assert!(broken(&rails)[0].starts_with("units[0].access.count: 2; servers with fewer cards"));
}

// A text that is not a topology is reported with its position.
#[test]
fn an_unknown_key_has_its_line() {
    let found = broken("version: 1\nunits: []\nnvswitch: 3\n");
    assert!(found[0].contains("nvswitch"), "{found:?}");
}

// A written specification reads back as the same.
#[test]
fn a_topology_is_written_as_it_reads() {
    let spec = TopologySpec::read(TESTBED).unwrap();
    assert_eq!(TopologySpec::read(&spec.print()), Ok(spec));
}

// An access switch's uplink is its cards' rate divided by the oversubscription.
#[test]
fn uplinks_are_oversubscribed() {
    let text = include_str!("../../../topologies/heroserve-2track.yaml");
    let topology = TopologySpec::read(text).unwrap().build().unwrap();
    assert_eq!((topology.gpus(), topology.access().len()), (9600, 400));
    assert_eq!(topology.core().unwrap().switches, 27);
    let text = include_str!("../../../topologies/heroserve-8track.yaml");
    let other = TopologySpec::read(text).unwrap().build().unwrap();
    assert_eq!((other.gpus(), other.access().len()), (9600, 600));
}
