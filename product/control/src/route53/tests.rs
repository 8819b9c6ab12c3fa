//! Plans carried out on a model of Route 53, which refuses what Route 53 refuses.
//!
//! moto, with which `lab/cli/tests/foreign/route53.rs` tests the requests, accepts nearly everything: two latency
//! records of one region, aliases without a target, batches of any size, health checks that are not
//! there. So these rules are checked here.

mod model;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use meridian_config::Control;
use proptest::prelude::*;

use self::model::Model;
use super::{Body, Change, Fleet, Key, Kind, Names, Region, plan};

const ADDRESSES: [&str; 7] = [
    "203.0.113.1",
    "203.0.113.2",
    "203.0.113.3",
    "203.0.113.4",
    "2001:db8::1",
    "2001:db8::2",
    "2001:db8::3",
];

fn names(regions: &str, more: &str) -> Names {
    let yaml = format!(
        "version: 1\nstore: a\nroute53:\n  zone: Z1\n  name: llm.example.org\n  regions: {regions}\n{more}"
    );
    Names { config: Control::read(&yaml).unwrap().route53.unwrap() }
}

fn both() -> Names {
    names("{eu: eu-central-1, us: us-east-1}", "")
}

fn ips(which: &[usize]) -> BTreeSet<IpAddr> {
    which.iter().map(|&at| ADDRESSES[at].parse().unwrap()).collect()
}

fn open(living: &[usize]) -> Region {
    Region { open: true, living: ips(living), leaving: BTreeSet::new() }
}

fn fleet<const N: usize>(regions: [(&str, Region); N]) -> Fleet {
    regions.map(|(name, region)| (name.to_owned(), region)).into()
}

/// A zone in order for this fleet.
fn settled(names: &Names, of: &Fleet) -> Model {
    let mut model = Model::default();
    model.settle(names, of);
    model
}

// Two regions get a latency record each and type of addresses, and each address gets a record with a
// health check of its own. A second plan is empty.
#[test]
fn records_of_two_regions() {
    let names = both();
    let model = settled(&names, &fleet([("eu", open(&[0, 1, 4])), ("us", open(&[2]))]));
    let shown: Vec<_> =
        model.records.keys().map(|k| format!("{} {} {}", k.name, k.kind.name(), k.id)).collect();
    assert_eq!(
        shown,
        [
            "eu.llm.example.org A meridian/eu/203.0.113.1",
            "eu.llm.example.org A meridian/eu/203.0.113.2",
            "eu.llm.example.org AAAA meridian/eu/2001:db8::1",
            "llm.example.org A meridian/eu/A",
            "llm.example.org A meridian/us/A",
            "llm.example.org AAAA meridian/eu/AAAA",
            "us.llm.example.org A meridian/us/203.0.113.3",
        ]
    );
    assert_eq!(model.checks.len(), 4);
    assert!(names.reference().starts_with("meridian/") && names.reference().len() <= 50);
}

// A lost gateway's record goes, unless it is the last one of its region: then the health check decides. A
// gateway that says that it leaves is taken out in either case.
#[test]
fn lost_and_leaving_gateways() {
    let names = both();
    let start = settled(&names, &fleet([("eu", open(&[0, 1])), ("us", open(&[2]))]));
    let after = |eu: Region| {
        let mut model = start.clone();
        model.settle(&names, &fleet([("eu", eu), ("us", open(&[2]))]));
        (model.answers(&names, "eu", Kind::A), model.has_alias(&names, "eu", Kind::A))
    };
    assert_eq!(after(open(&[1])), (ips(&[1]), true));
    assert_eq!(after(open(&[])), (ips(&[0, 1]), true));
    assert_eq!(after(Region { leaving: ips(&[0]), ..open(&[]) }), (ips(&[1]), true));
    assert_eq!(after(Region { leaving: ips(&[0, 1]), ..open(&[]) }), (ips(&[]), false));
    let drained = Region { open: false, ..open(&[0, 1]) };
    assert_eq!(after(drained), (ips(&[0, 1]), false), "its own name still leads to it");
}

// An empty registry changes nothing, nor does one in which all regions drain or all gateways leave.
#[test]
fn an_empty_registry_changes_nothing() {
    let names = both();
    let of = fleet([("eu", open(&[0, 4])), ("us", open(&[2]))]);
    let start = settled(&names, &of);
    let drained = of.iter().map(|(n, r)| (n.clone(), Region { open: false, ..r.clone() }));
    let gone = of.iter().map(|(name, region)| {
        (name.clone(), Region { leaving: region.living.clone(), ..open(&[]) })
    });
    for other in [Fleet::new(), drained.collect(), gone.collect()] {
        let mut model = start.clone();
        model.settle(&names, &other);
        assert_eq!(model, start, "{other:?}");
    }
}

// A region that the settings no longer list goes. Its health checks go after its records.
#[test]
fn an_unlisted_region_goes() {
    let of = fleet([("eu", open(&[0])), ("us", open(&[2]))]);
    let mut model = settled(&both(), &of);
    model.settle(&names("{us: us-east-1}", ""), &of);
    assert!(model.records.keys().all(|key| !key.id.contains("/eu/")));
    assert_eq!((model.records.len(), model.checks.len()), (2, 1));
}

// Two regions trade places in AWS, and one takes the place of another.
#[test]
fn regions_move_in_aws() {
    let of = fleet([("eu", open(&[0])), ("us", open(&[2]))]);
    let mut model = settled(&both(), &of);
    model.settle(&names("{eu: us-east-1, us: eu-central-1}", ""), &of);
    let renamed = fleet([("de", open(&[0])), ("us", open(&[2]))]);
    let other = names("{de: us-east-1, us: eu-central-1}", "");
    model.settle(&other, &renamed);
    assert!(model.has_alias(&other, "de", Kind::A) && !model.has_alias(&other, "eu", Kind::A));
}

// A region that drains stays until another one has its health check: the name always has an answer. The
// same holds for one that is no longer listed, and for a mistyped one as long as nothing else is there.
#[test]
fn the_name_always_has_an_answer() {
    let names_of_both = both();
    let start = settled(&names_of_both, &fleet([("eu", open(&[0]))]));
    let drained = Region { open: false, ..open(&[0]) };
    let other = names("{us: us-east-1}", "");
    let cases = [
        (&names_of_both, fleet([("eu", drained.clone()), ("us", open(&[2]))])),
        (&other, fleet([("eu", open(&[0])), ("us", open(&[2]))])),
    ];
    for (names, of) in cases {
        let mut model = start.clone();
        while model.step(names, &of) {
            assert!(!model.answering().is_empty(), "{of:?}");
        }
        assert_eq!(model.answering(), [("us.llm.example.org".to_owned(), Kind::A)].into());
    }
    let mut model = start.clone();
    model.settle(&names("{ue: eu-central-1}", ""), &fleet([("eu", open(&[0]))]));
    assert_eq!(model, start);
}

// Another fleet with the same owner has a name below: its records are not own ones.
#[test]
fn fleets_below_are_others() {
    let names = both();
    assert!(names.owns("llm.example.org", "meridian/eu/A"));
    assert!(names.owns("eu.llm.example.org", "meridian/eu/203.0.113.1"));
    for (name, id) in [
        ("eu.x.llm.example.org", "meridian/eu/203.0.113.1"),
        ("x.llm.example.org", "meridian/eu/A"),
        ("llm.example.org", "meridianx/eu/A"),
        ("llm.example.org", "meridian"),
    ] {
        assert!(!names.owns(name, id), "{name} {id}");
    }
}

// Other settings of health checks make new ones; a record keeps its old one until the new one is there.
#[test]
fn other_health_checks() {
    let of = fleet([("eu", open(&[0, 1]))]);
    let mut model = settled(&both(), &of);
    let other = names("{eu: eu-central-1}", "  ttl: 5s\n  health_check: {interval: 10s}\n");
    model.settle(&other, &of);
    assert!(model.checks.values().all(|probe| probe.as_ref().unwrap().interval == 10));
    assert_eq!(model.checks.len(), 2);
}

// Names with records of others are left alone and named; the rest is made.
#[test]
fn records_of_others_are_in_the_way() {
    let (names, of) = (both(), fleet([("eu", open(&[0])), ("us", open(&[2, 4]))]));
    let mut model = Model::default();
    model.foreign("eu.llm.example.org", Kind::A);
    model.settle(&names, &of);
    assert!(!model.has_alias(&names, "eu", Kind::A) && model.has_alias(&names, "us", Kind::A));
    let conflicts = plan(&names, &of, &model.zone(&names)).conflicts;
    assert_eq!(conflicts, [("eu.llm.example.org".to_owned(), Kind::A)]);
    let mut model = Model::default();
    model.foreign("llm.example.org", Kind::A);
    model.settle(&names, &of);
    assert!(!model.has_alias(&names, "us", Kind::A) && model.has_alias(&names, "us", Kind::Aaaa));
}

// Hundreds of records are made in batches that Route 53 accepts; the model refuses others.
#[test]
fn large_fleets_take_several_batches() {
    let address =
        |n: u32| IpAddr::V6((0x2001_0db8_u128 << 96 | u128::from(n) << 16 | 0xffff).into());
    let living = (0..900).map(address).collect();
    let of = fleet([("eu", Region { living, ..open(&[]) })]);
    let names = both();
    let mut model = settled(&names, &of);
    assert_eq!(model.records.len(), 901);
    model.settle(&names, &fleet([("eu", open(&[0]))]));
    assert_eq!(model.records.len(), 2);
}

fn region() -> impl Strategy<Value = Region> {
    let some = || prop::collection::btree_set(0..ADDRESSES.len(), 0..5);
    (prop::bool::weighted(0.8), some(), some()).prop_map(|(open, living, leaving)| {
        let leaving: Vec<usize> = leaving.difference(&living).copied().collect();
        let living: Vec<usize> = living.into_iter().collect();
        Region { open, living: ips(&living), leaving: ips(&leaving) }
    })
}

fn fleets() -> impl Strategy<Value = Fleet> {
    let names = prop::sample::select(vec!["eu", "us", "uk"]).prop_map(str::to_owned);
    prop::collection::btree_map(names, region(), 0..4)
}

fn settings() -> impl Strategy<Value = Names> {
    let regions = prop::sample::select(vec![
        "{eu: eu-central-1, us: us-east-1}",
        "{eu: eu-west-1, us: us-east-1, uk: eu-west-2}",
        "{us: us-east-1}",
        "{eu: us-east-1, us: eu-central-1, uk: eu-west-1}",
    ]);
    let more = prop::sample::select(vec!["", "  ttl: 5s\n", "  health_check: {interval: 10s}\n"]);
    (regions, more).prop_map(|(regions, more)| names(regions, more))
}

/// What another program does to the zone.
#[derive(Clone, Debug)]
enum Harm {
    LosesRecord(usize),
    ChangesRecord(usize),
    LosesCheck(usize),
    Foreign(usize, bool),
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        (0..20_usize).prop_map(Harm::LosesRecord),
        (0..20_usize).prop_map(Harm::ChangesRecord),
        (0..20_usize).prop_map(Harm::LosesCheck),
        (0..5_usize, any::<bool>()).prop_map(|(at, v4)| Harm::Foreign(at, v4)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    // From any zone that earlier fleets, other settings, crashes and other programs left, the steps reach a zone
    // in order, in which nothing more is planned. Each single step is accepted and leaves records of
    // others alone, and no region that had an answer and gets one is without one in between.
    #[test]
    fn any_zone_is_put_in_order(
        past in prop::collection::vec((settings(), fleets(), 0..12_usize), 0..3),
        harms in prop::collection::vec(harm(), 0..3),
        names in settings(),
        now in fleets(),
    ) {
        let mut model = Model::default();
        for (names, fleet, steps) in &past {
            (0..*steps).all(|_| model.step(names, fleet));
        }
        harms.iter().for_each(|harm| model.harm(harm));
        let start = model.clone();
        let mut trail = vec![model.answering()];
        while model.step(&names, &now) {
            trail.push(model.answering());
            prop_assert!(trail.len() < 200, "it does not end");
        }
        for place in trail[0].intersection(&trail[trail.len() - 1]) {
            prop_assert!(trail.iter().all(|step| step.contains(place)), "{place:?} had no answer");
        }
        // Nor is the name without an answer of a family.
        for kind in Kind::ALL {
            let has = |step: &BTreeSet<(String, Kind)>| step.iter().any(|(_, one)| *one == kind);
            if has(&trail[0]) && has(&trail[trail.len() - 1]) {
                prop_assert!(trail.iter().all(has), "the name had no {}", kind.name());
            }
        }
        prop_assert_eq!(model.of_others(), start.of_others());
        check(&names, &now, &model)?;
    }
}

/// The records that must be there, said in another way than the plan does.
fn check(names: &Names, fleet: &Fleet, model: &Model) -> Result<(), TestCaseError> {
    let free = |name: &str, kind| {
        !model.of_others().iter().any(|key| key.name == name && key.kind == kind)
    };
    for (region, of) in fleet.iter().filter(|(name, _)| names.config.regions.contains_key(*name)) {
        for kind in Kind::ALL {
            let is_free = free(&names.config.name, kind) && free(&names.region(region), kind);
            if of.living.is_empty() || !is_free {
                continue;
            }
            let wanted: BTreeSet<IpAddr> =
                of.living.iter().copied().filter(|ip| Kind::of(ip) == kind).collect();
            prop_assert_eq!(&model.answers(names, region, kind), &wanted);
            if of.open {
                prop_assert_eq!(model.has_alias(names, region, kind), !wanted.is_empty());
            }
        }
    }
    let used: BTreeSet<&String> = model.records.values().filter_map(model::check_of).collect();
    prop_assert!(model.checks.keys().all(|id| used.contains(id)), "unused health checks remain");
    Ok(())
}
