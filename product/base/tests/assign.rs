//! Tests of assignment over random memberships: the permitted effects of each loss and recovery.

use std::collections::{BTreeMap, BTreeSet};

use meridian_base::assign::{Home, Membership, Serving, assign, serving};
use meridian_base::{Duration, Rng};
use proptest::prelude::*;

type Members = Membership<u8, u16, u32>;

/// Up to six regions with most of their distances known, and gateways and replicas anywhere.
fn members(seed: u64) -> Members {
    let mut rng = Rng::new(seed);
    let regions = 1 + rng.below(6) as u8;
    let mut all = Members::default();
    for from in 0..regions {
        for to in 0..regions {
            if rng.below(8) > 0 {
                let rtt = Duration::from_millis(1 + rng.below(5) as u64 * 40);
                all.rtts.insert((from, to), rtt);
            }
        }
    }
    for gateway in 0..rng.below(9) as u16 {
        all.gateways.insert(gateway, rng.below(usize::from(regions)) as u8);
    }
    for replica in 0..rng.below(12) as u32 {
        let region = rng.below(usize::from(regions)) as u8;
        let some = || (0..regions).filter(|_| rng.below(2) == 0).collect::<BTreeSet<u8>>();
        let adopters = (replica % 2 == 0).then(some);
        all.replicas.insert(replica, Home { region, adopters });
    }
    all
}

fn without(members: &Members, lost: &[u16]) -> Members {
    let mut left = members.clone();
    left.gateways.retain(|gateway, _| !lost.contains(gateway));
    left
}

/// A random subset of the gateways.
fn some(members: &Members, seed: u64) -> Vec<u16> {
    let mut rng = Rng::new(seed);
    members.gateways.keys().copied().filter(|_| rng.below(3) == 0).collect()
}

proptest! {
    // Each replica has all living gateways of its own region. If there are none, it has one such
    // that no permitted gateway is nearer, and it has none only if no gateway is permitted.
    #[test]
    fn everybody_is_served_by_the_rule(seed: u64) {
        let all = members(seed);
        let assigned = assign(&all);
        prop_assert_eq!(assigned.len(), all.replicas.len());
        for (key, home) in &all.replicas {
            let of = |at: u8| all.gateways.iter().filter(move |g| *g.1 == at).map(|g| *g.0);
            let may = |at: u8| home.adopters.as_ref().is_none_or(|those| those.contains(&at));
            let far = |at: u8| all.rtts.get(&(at, home.region)).map_or(u128::MAX, |r| r.as_nanos());
            let fosters: Vec<u16> = (0..6).filter(|at| may(*at)).flat_map(of).collect();
            match &assigned[key] {
                Serving::Own(own) => {
                    prop_assert!(!own.is_empty());
                    prop_assert_eq!(own, &of(home.region).collect::<Vec<_>>());
                }
                Serving::Adopted { by, .. } => {
                    prop_assert_eq!(of(home.region).count(), 0);
                    prop_assert!(fosters.contains(by));
                    let place = |g: u16| (far(all.gateways[&g]), g);
                    prop_assert!(fosters.iter().all(|one| place(*by) <= place(*one)));
                }
                Serving::NoGateway => {
                    prop_assert!(fosters.is_empty() && of(home.region).count() == 0);
                }
            }
        }
    }

    // The assignment does not depend on the order in which a gateway learned of the others.
    #[test]
    fn the_order_of_news_does_not_matter(seed: u64) {
        let all = members(seed);
        for home in 0..6u8 {
            let rtt = |from: &u8| all.rtts.get(&(*from, home)).copied();
            let forwards = all.gateways.iter().map(|(g, at)| (*g, *at));
            let one = serving(&home, forwards.clone(), rtt, |_| true);
            prop_assert_eq!(&one, &serving(&home, forwards.clone().rev(), rtt, |_| true));
            let (even, odd): (Vec<_>, Vec<_>) = forwards.partition(|(g, _)| g % 2 == 0);
            prop_assert_eq!(&one, &serving(&home, odd.into_iter().chain(even), rtt, |_| true));
        }
    }

    // When gateways are lost, however many at once, a replica gets a new one only if it lost all of
    // those that it had, and then exactly one more.
    #[test]
    fn a_loss_moves_only_what_it_must(seed: u64, which: u64) {
        let all = members(seed);
        let lost = some(&all, which);
        let (before, after) = (assign(&all), assign(&without(&all, &lost)));
        for (key, was) in &before {
            let served = |by: &Serving<u16>| -> BTreeSet<u16> {
                all.gateways.keys().copied().filter(|gateway| by.includes(gateway)).collect()
            };
            let (had, has) = (served(was), served(&after[key]));
            let kept: BTreeSet<u16> = had.iter().copied().filter(|g| !lost.contains(g)).collect();
            if kept.is_empty() {
                prop_assert!(has.len() <= 1);
            } else {
                prop_assert_eq!(kept, has);
            }
        }
    }

    // Gateways are lost and return in any order, several at a time. At the end the assignment is as
    // at first, and on the way it depends only on which gateways are alive, not on the history.
    #[test]
    fn recovery_hands_everything_back(seed: u64, first: u64, second: u64) {
        let all = members(seed);
        let (one, two) = (some(&all, first), some(&all, second));
        let mut changing = without(&all, &one);
        changing.gateways.retain(|gateway, _| !two.contains(gateway));
        let both: Vec<u16> = one.iter().chain(&two).copied().collect();
        prop_assert_eq!(assign(&changing), assign(&without(&all, &both)));
        for gateway in one.iter().chain(&two) {
            changing.gateways.insert(*gateway, all.gateways[gateway]);
        }
        prop_assert_eq!(assign(&changing), assign(&all));
    }
}

// An example of four regions: the nearest adopts the whole region, a second loss moves it to the
// next nearest, and labels keep it out of regions that may not adopt it.
#[test]
fn adoption_passes_from_near_to_far() {
    let gateways =
        BTreeMap::from([("asia-1", "asia"), ("eu-1", "eu"), ("eu-2", "eu"), ("us-1", "us")]);
    let rtt = |from: &&str| Some(Duration::from_millis(if *from == "eu" { 20 } else { 90 }));
    let who = |lost: &[&str], may: &dyn Fn(&&str) -> bool| {
        let living = gateways.iter().filter(|(gateway, _)| !lost.contains(gateway));
        serving(&"uk", living.map(|(gateway, at)| (*gateway, *at)), rtt, may)
    };
    let anywhere = |_: &&str| true;
    let by = |who: Serving<&'static str>| match who {
        Serving::Adopted { by, .. } => by,
        other => panic!("{other:?}"),
    };
    assert_eq!(by(who(&[], &anywhere)), "eu-1");
    assert_eq!(by(who(&["eu-1"], &anywhere)), "eu-2");
    assert_eq!(by(who(&["eu-1", "eu-2"], &anywhere)), "asia-1");
    assert_eq!(by(who(&[], &|at| *at == "us")), "us-1");
    assert_eq!(who(&["us-1"], &|at| *at == "us"), Serving::NoGateway);
}
