//! Tests of a cluster's ports and of its paths.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use meridian_base::{FlowId, PortId, Time};
use meridian_fabric::{Cluster, Demand, Gpu, Network, PortName, Shape, Topology, Uplinks};

fn cluster(shape: Shape, uplinks: Uplinks) -> Cluster {
    Cluster { servers: 8, gpus: 4, cards: 2, card_rate: 10.0, nvlink_rate: 100.0, shape, uplinks }
}

fn names(topology: &Topology, from: u32, to: u32, salt: u64) -> String {
    let path = topology.path(Gpu(from), Gpu(to), salt).unwrap();
    let name = |port: &PortId| topology.name(*port).unwrap().to_string();
    path.ports().iter().map(name).collect::<Vec<_>>().join(", ")
}

// Inside a server bytes take NVLink; outside, a card that two GPUs share; a switch adds no port.
#[test]
fn one_switch() {
    let topology = Topology::new(cluster(Shape::SingleSwitch, Uplinks::Hashed)).unwrap();
    assert_eq!(names(&topology, 0, 3, 0), "gpu 0 nvlink out, gpu 3 nvlink in");
    assert_eq!(names(&topology, 1, 31, 0), "server 0 card 0 out, server 7 card 1 in");
    assert_eq!(topology.rates().len(), 2 * (16 + 32));
    assert_eq!(topology.path(Gpu(5), Gpu(5), 0), None);
    assert_eq!(topology.path(Gpu(5), Gpu(32), 0), None);
}

// Leaf and spine: within a leaf a path uses nothing above it, otherwise one uplink and the same
// spine's downlink.
#[test]
fn leaf_and_spine() {
    let shape = Shape::LeafSpine { leaf_servers: 2, oversubscription: 2.0 };
    let topology = Topology::new(cluster(shape, Uplinks::Pooled)).unwrap();
    assert_eq!(names(&topology, 0, 7, 0), "server 0 card 0 out, server 1 card 1 in");
    assert_eq!(
        names(&topology, 0, 8, 0),
        "server 0 card 0 out, edge 0 up 0, edge 1 down 0, server 2 card 0 in"
    );
    let up = topology.path(Gpu(0), Gpu(8), 0).unwrap().ports()[1];
    assert_eq!(topology.rates()[up.index()], 20.0, "four cards of 10, oversubscribed by 2");
}

// A fat tree has three tiers; with hashed uplinks flows spread over all of them, and a flow keeps its
// own.
#[test]
fn fat_tree() {
    let shape = Shape::FatTree { edge_servers: 2, pod_edges: 2, oversubscription: 1.0 };
    let topology = Topology::new(cluster(shape, Uplinks::Hashed)).unwrap();
    let lengths = [4, 8, 16].map(|to| topology.path(Gpu(0), Gpu(to), 3).unwrap().ports().len());
    assert_eq!(lengths, [2, 4, 6], "same edge, same pod, another pod");
    let mut ups = std::collections::BTreeSet::new();
    for salt in 0..200 {
        let path = topology.path(Gpu(0), Gpu(16), salt).unwrap();
        assert_eq!(Some(path), topology.path(Gpu(0), Gpu(16), salt));
        let named: Vec<_> = path.ports().iter().map(|port| topology.name(*port).unwrap()).collect();
        let (PortName::PodUp(0, a), PortName::PodDown(1, b)) = (named[2], named[3]) else {
            panic!("{named:?} does not cross the cores");
        };
        assert_eq!(a, b, "one core, so the same link of both pods");
        ups.insert(a);
    }
    assert_eq!(ups.len(), 8, "four uplinks an edge, two cores each");
}

/// The least rate of flows from every GPU of the first half of the cluster to its twin in the second,
/// for one GPU a card.
fn permutation(shape: Shape, uplinks: Uplinks) -> f64 {
    let topology = Topology::new(cluster(shape, uplinks)).unwrap();
    let mut network = Network::new(topology.rates());
    for gpu in (0..16).step_by(2) {
        let path = topology.path(Gpu(gpu), Gpu(gpu + 16), 0).unwrap();
        network.begin(Time::ZERO, FlowId(gpu), Demand::new(path, 1e3));
    }
    network.settle(Time::ZERO);
    (0..16).step_by(2).map(|gpu| network.rate(FlowId(gpu))).fold(f64::INFINITY, f64::min)
}

// Full bisection if packets are spread: a permutation of all cards runs at their rate; at 4:1 it
// runs at a quarter. With hashed uplinks some flows collide even at 1:1.
#[test]
fn bisection() {
    let tree =
        |oversubscription| Shape::FatTree { edge_servers: 2, pod_edges: 2, oversubscription };
    let leaves = |oversubscription| Shape::LeafSpine { leaf_servers: 2, oversubscription };
    assert_eq!(permutation(Shape::SingleSwitch, Uplinks::Pooled), 10.0);
    for (full, quarter) in [(tree(1.0), tree(4.0)), (leaves(1.0), leaves(4.0))] {
        assert_eq!(permutation(full, Uplinks::Pooled), 10.0);
        assert_eq!(permutation(quarter, Uplinks::Pooled), 2.5);
        assert!(permutation(full, Uplinks::Hashed) < 10.0);
    }
}

// The default cluster of the MFS paper: 2,048 GPUs, 200 Gb/s each.
#[test]
fn the_paper_s_cluster() {
    let topology = Topology::new(Cluster::mfs()).unwrap();
    assert_eq!(topology.gpus(), 2048);
    let path = topology.path(Gpu(0), Gpu(2047), 1).unwrap();
    assert!(path.ports().iter().all(|port| topology.rates()[port.index()] == 25e9));
    // Cards, NVLink, and as many links at each of the two tiers as there are cards.
    assert_eq!(topology.rates().len(), 2 * 2048 * 4);
}

// An invalid cluster's error names the field, the value and the range; a dead port is one of these.
#[test]
fn bad_clusters() {
    let said = |change: &dyn Fn(&mut Cluster)| {
        let mut bad = cluster(Shape::SingleSwitch, Uplinks::Hashed);
        change(&mut bad);
        Topology::new(bad).unwrap_err().to_string()
    };
    assert_eq!(said(&|c| c.servers = 0), "servers 0 is out of range: use 1 to 65536");
    assert_eq!(said(&|c| c.cards = 5), "cards 5 is out of range: use 1 to 4");
    assert!(said(&|c| c.card_rate = 0.0).starts_with("card_rate 0 is out of range"));
    assert!(said(&|c| c.nvlink_rate = f64::NAN).starts_with("nvlink_rate NaN"));
    let shape = Shape::LeafSpine { leaf_servers: 2, oversubscription: 0.5 };
    assert_eq!(said(&|c| c.shape = shape), "oversubscription 0.5 is out of range: use 1 to 64");
    let mut topology = Topology::new(cluster(Shape::SingleSwitch, Uplinks::Hashed)).unwrap();
    let dead = topology.set_rate(PortId(3), 0.0).unwrap_err();
    assert!(dead.to_string().starts_with("rate of a port 0 is out of range"));
    assert!(topology.set_rate(PortId(96), 1.0).is_err(), "there is no such port");
    topology.set_rate(PortId(3), 5.0).unwrap();
    assert_eq!(topology.rates()[3], 5.0);
}
