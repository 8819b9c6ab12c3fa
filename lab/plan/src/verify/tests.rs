use super::*;
use crate::topology::{Direction, LinkId, Topology};
use crate::{PlanFile, Subject, TopologySpec};

/// Servers of one card each, under one switch.
fn flat(servers: u32) -> Topology {
    let yaml = format!(
        "version: 1\nunits:\n- servers:\n  - {{count: {servers}, gpu: l40s, gpus: 2, name: s, cards: \
         1, card_rate: 100Gb/s}}\n"
    );
    TopologySpec::read(&yaml).unwrap().build().unwrap()
}

/// Two units of three servers, and a core.
fn units() -> Topology {
    let yaml = "version: 1\nunits:\n- count: 2\n  servers:\n  - {count: 3, gpu: l40s, gpus: 2, name: \
                s, cards: 1, card_rate: 100Gb/s}\ncore: {switches: 2, oversubscription: 1}\n";
    TopologySpec::read(yaml).unwrap().build().unwrap()
}

fn ports(topology: &Topology) -> Vec<Port> {
    let of = |server: u32| {
        let cards = topology.servers()[server as usize].cards.len() as u32;
        (0..cards).map(move |card| Port { server, card })
    };
    (0..topology.servers().len() as u32).flat_map(of).collect()
}

/// What a network with these links in a slow state measures: a link's share of its rate, and noise
/// of up to a tenth, from a seed.
fn measured(topology: &Topology, slow: &[(LinkId, f64)], seed: u64) -> Vec<Pair> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        0.9 + 0.2 * (state % 1000) as f64 / 1000.0
    };
    let all = pairs(topology, &ports(topology), None);
    let all = all.into_iter().map(|(from, to)| {
        let share = |link: &LinkId| {
            let found = slow.iter().find(|(one, _)| one == link);
            topology.usable(*link) * found.map_or(1.0, |(_, share)| *share)
        };
        let links = super::pairs::path(topology, from, to).unwrap();
        let goodput = links.iter().map(share).fold(f64::INFINITY, f64::min) * noise();
        Measured { from, to, goodput, rtt: 1e-4, busy: 0.1 }
    });
    compared(topology, &all.collect::<Vec<_>>())
}

fn places(topology: &Topology, found: &[Slow]) -> Vec<String> {
    found.iter().map(|one| one.text(topology)).collect()
}

// One slow direction of a card is found in a network of three to six servers, with noise, and its
// rate is measured.
#[test]
fn one_slow_direction_is_found() {
    for servers in 3..=6 {
        let topology = flat(servers);
        for seed in 0..200 {
            let server = (seed % u64::from(servers)) as u32;
            let way = if seed % 2 == 0 { Direction::Out } else { Direction::In };
            let share = 0.1 + 0.5 * (seed % 10) as f64 / 10.0;
            let link = topology.card(server, 0, way);
            let found = slow(&topology, &measured(&topology, &[(link, share)], seed + 1));
            assert_eq!(places(&topology, &found), [topology.link_text(link)], "seed {seed}");
            assert!((found[0].share() / share - 1.0).abs() < 0.11, "seed {seed}: {found:?}");
            assert_eq!(found[0].pairs.len(), servers as usize - 1);
        }
    }
}

// A card that is slow in both directions is one finding.
#[test]
fn a_slow_card_is_found() {
    let topology = flat(4);
    for seed in 0..200 {
        let server = (seed % 4) as u32;
        let links = [Direction::Out, Direction::In].map(|way| topology.card(server, 0, way));
        let pairs = measured(&topology, &links.map(|link| (link, 0.3)), seed + 1);
        let found = slow(&topology, &pairs);
        let expected = format!("s-{server} card 0 in both directions");
        assert_eq!(places(&topology, &found), [expected], "seed {seed}");
    }
}

// Two slow links, also on one path and of different rates, are two findings.
#[test]
fn two_slow_links_are_found() {
    let topology = flat(5);
    for seed in 0..300_u64 {
        let (a, b) = ((seed % 5) as u32, ((seed + 1 + seed / 5 % 4) % 5) as u32);
        let links = [
            (topology.card(a, 0, Direction::Out), 0.33),
            (topology.card(b, 0, Direction::In), 0.5),
        ];
        let found = slow(&topology, &measured(&topology, &links, seed + 1));
        let mut texts = places(&topology, &found);
        let mut expected = links.map(|(link, _)| topology.link_text(link)).to_vec();
        texts.sort();
        expected.sort();
        assert_eq!(texts, expected, "seed {seed}: {found:?}");
    }
}

// A slow access switch is found, and not the cards on it; so is a slow uplink. Pairs
// of one unit distinguish both.
#[test]
fn slow_switches_are_found() {
    let topology = units();
    for seed in 0..100 {
        let cards = Place::Access(1).links(&topology);
        assert_eq!(cards.len(), 6);
        let all: Vec<(LinkId, f64)> = cards.into_iter().map(|link| (link, 0.4)).collect();
        let found = slow(&topology, &measured(&topology, &all, seed + 1));
        assert_eq!(places(&topology, &found), ["access switch 1"], "seed {seed}");
        // An uplink has three times the rate of a card: a tenth of it is less than a card's.
        let link = topology.uplink(1, Direction::In);
        let found = slow(&topology, &measured(&topology, &[(link, 0.1)], seed + 1));
        let into = topology.link_text(link);
        let out = topology.link_text(topology.uplink(0, Direction::Out));
        assert_eq!(places(&topology, &found), [format!("{out}, or {into}")], "seed {seed}");
    }
}

// With two servers, the sender's and the receiver's card can't be told apart, and both are named.
#[test]
fn two_servers_leave_a_choice() {
    let topology = flat(2);
    let link = topology.card(0, 0, Direction::Out);
    let found = slow(&topology, &measured(&topology, &[(link, 0.3)], 1));
    assert_eq!(places(&topology, &found), ["s-0 card 0 out, or s-1 card 0 in"]);
}

// A network as planned has no finding, whatever the noise.
#[test]
fn nothing_slow_is_nothing() {
    for seed in 0..300 {
        let topology = if seed % 2 == 0 { flat(2 + (seed % 4) as u32) } else { units() };
        assert_eq!(slow(&topology, &measured(&topology, &[], seed + 1)), []);
    }
}

// A pair that is slow alone, while its links are fast in other pairs, is reported as that.
#[test]
fn a_slow_pair_alone_is_no_link() {
    let topology = flat(4);
    let mut pairs = measured(&topology, &[], 1);
    pairs[2].measured.goodput *= 0.2;
    let found = slow(&topology, &pairs);
    assert_eq!(
        places(&topology, &found),
        ["only s-2 to s-3; each of its links is faster in other pairs"]
    );
    let spec = TopologySpec::read(
        "version: 1\nunits:\n- servers:\n  - {count: 4, gpu: l40s, gpus: 2, \
                                   name: s, cards: 1, card_rate: 100Gb/s}\n",
    );
    assert_eq!(with_measured(&spec.unwrap(), &found, &[]).measured, []);
}

// A pair whose probe lacked a processor shows no slow link, but its rate still clears its links.
#[test]
fn a_busy_processor_is_no_slow_link() {
    let topology = flat(3);
    let mut pairs = measured(&topology, &[(topology.card(1, 0, Direction::Out), 0.3)], 1);
    for pair in &mut pairs {
        pair.measured.busy = 0.9;
    }
    assert_eq!(slow(&topology, &pairs), []);
    assert_eq!(pairs.iter().filter(|pair| pair.is_cpu_bound()).count(), 2);
}

// Cards of several rates: the faster one is tested up to the rate of the slower only, and that is
// said.
#[test]
fn untested_rates_are_said() {
    let yaml = "version: 1\nunits:\n- servers:\n  - {gpu: l40s, gpus: 2, cards: 1, card_rate: \
                100Gb/s}\n  - {count: 2, gpu: l4, gpus: 2, cards: 1, card_rate: 25Gb/s}\n";
    let topology = TopologySpec::read(yaml).unwrap().build().unwrap();
    let pairs = measured(&topology, &[], 3);
    assert_eq!(slow(&topology, &pairs), []);
    let texts: Vec<String> = untested(&topology, &pairs)
        .iter()
        .map(|one| {
            format!("{} {:.2e} {:.2e}", topology.link_text(one.link), one.tested, one.usable)
        })
        .collect();
    let expected = ["l40s-0 card 0 out 2.81e9 1.12e10", "l40s-0 card 0 in 2.81e9 1.12e10"];
    assert_eq!(texts, expected);
}

// All pairs of servers with all partners, each card once a pair; with one partner a ring.
#[test]
fn pairs_are_complete() {
    let topology = flat(4);
    assert_eq!(pairs(&topology, &ports(&topology), None).len(), 12);
    assert_eq!(pairs(&topology, &ports(&topology), Some(1)).len(), 4);
    assert_eq!(pairs(&topology, &ports(&topology)[..1], None), []);
    let yaml = "version: 1\nunits:\n- access: {count: 2}\n  servers:\n  - {count: 2, gpu: h100, gpus: \
                2, cards: 2, card_rate: 100Gb/s}\n";
    let rails = TopologySpec::read(yaml).unwrap().build().unwrap();
    let all = pairs(&rails, &ports(&rails), None);
    assert!(all.iter().all(|(from, to)| from.card == to.card), "rails have no core: {all:?}");
    assert_eq!(all.len(), 4);
    assert_eq!(port(&rails, "h100-1/1"), Ok(Port { server: 1, card: 1 }));
    assert_eq!(port(&rails, "h100-1"), Ok(Port { server: 1, card: 0 }));
    for (name, expected) in [
        ("h100-7", "--at: h100-7; use a server of the topology, h100-1; known are"),
        ("h100-1/2", "--at: h100-1/2; h100-1 has 2 cards, numbered from 0; use h100-1/0"),
        ("h100-1/x", "--at: h100-1/x; h100-1 has 2 cards"),
    ] {
        let error = port(&rails, name).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

// All cards at once: each sends and receives once, over the core; an uplink that carries a third of
// what its flows carry alone is slow.
#[test]
fn an_oversubscribed_core_is_found() {
    let topology = units();
    let flows = together(&topology, &ports(&topology));
    assert_eq!(flows.len(), 6);
    assert!(flows.iter().all(|(from, to)| from.server / 3 != to.server / 3), "{flows:?}");
    let at_once = |share: f64| -> Vec<Measured> {
        let card = topology.usable(topology.card(0, 0, Direction::Out));
        let one = |(from, to): &(Port, Port)| {
            let goodput = if from.server < 3 { card * share } else { card };
            Measured { from: *from, to: *to, goodput, rtt: 0.0, busy: 0.0 }
        };
        flows.iter().map(one).collect()
    };
    let found = uplinks(&topology, &at_once(1.0 / 3.0), &measured(&topology, &[], 1));
    let slow: Vec<String> =
        found.iter().filter(|one| one.is_slow()).map(|one| topology.link_text(one.link)).collect();
    assert_eq!(slow, ["access 0 uplink out", "access 1 uplink in"]);
    assert!(found.iter().all(|one| one.flows == 3));
    assert!(!uplinks(&topology, &at_once(1.0), &[]).iter().any(Uplink::is_slow));
}

/// The testbed's topology, model and plan.
fn planned() -> (TopologySpec, Subject, PlanFile) {
    let yaml = "version: 1\nunits:\n- servers:\n  - {count: 2, gpu: l40s, gpus: 2, name: s, cards: 1, \
                card_rate: 25Gb/s}\n";
    let spec = TopologySpec::read(yaml).unwrap();
    let topology = spec.build().unwrap();
    let subject = Subject::named("llama-3.1-8b").unwrap();
    let lengths = |mean| crate::Lengths { mean, cv: 1.0 };
    let slo = crate::Slo { ttft: 2.5, tpot: 0.15, attainment: 0.9 };
    let task = crate::Task::new(&topology, &subject, (lengths(2000.0), lengths(100.0)), slo);
    let mut plan = crate::plan(&task).unwrap();
    let file = PlanFile::of(&task, &plan.remove(0));
    (spec, subject, file)
}

// The measured topology reads as it is written, and a plan whose KV crosses the slow link loses
// goodput; a topology as planned costs nothing.
#[test]
fn a_slow_link_costs_a_plan() {
    let (spec, subject, file) = planned();
    let topology = spec.build().unwrap();
    let none = cost(&file, &spec, &spec, &subject).unwrap();
    assert_eq!(none.planned, none.measured);
    let links = [0, 1].map(|server| (topology.card(server, 0, Direction::Out), 0.02));
    let found = slow(&topology, &measured(&topology, &links, 1));
    let changed = with_measured(&spec, &found, &[]);
    assert!(!changed.measured.is_empty());
    assert_eq!(
        TopologySpec::read(&changed.print()).unwrap().measured.len(),
        changed.measured.len()
    );
    let cost = cost(&file, &spec, &changed, &subject).unwrap();
    assert!(cost.measured.goodput < 0.9 * cost.planned.goodput, "{cost:?}");
    assert!(cost.measured.times.ttft > 1.1 * cost.planned.times.ttft, "{cost:?}");
    assert!(cost.replanned.unwrap() >= cost.measured.goodput * 0.999, "{cost:?}");
}
