//! The scenarios: tables of faults over time, in the syntax of `schedule.rs`, and decks of faults.

use super::super::CENTRAL;
use super::clients::Habits;
use super::deck::Deck;
use super::kinds::{POOLS, RANDOM, REGISTRY, SIBLINGS};
use super::scenario::{Faults, Promise, Scenario};
use super::{kv, siblings};

/// A table of faults for a fleet of three regions with loads.
const fn table(
    name: &'static str,
    what: &'static str,
    promise: Promise,
    lines: &'static [&'static str],
) -> Scenario {
    Scenario {
        name,
        what,
        faults: Faults::Table(lines),
        loads: Some(promise),
        crowd: &[],
        resume: |_| vec![false],
        fleet: |_| {},
    }
}

/// All scenarios.
pub(super) static ALL: &[Scenario] = &[
    table(
        "replicas",
        "replicas are killed, one after the other and two at once",
        Promise::OnlyStarted,
        &[
            "0.0-2.0 kill replica A-engine-0",
            "3.0-6.0 kill replica B-engine-1",
            "3.2-7.0 kill replica B-engine-2",
            "5.0-8.0 kill replica C-engine-3",
            "8.0-10.0 kill replica A-engine-2",
        ],
    ),
    table(
        "gateways",
        "gateways are killed, one after the other and two at once; the others adopt",
        Promise::OnlyStarted,
        &["0.0-6.0 kill gateway A", "11.0-20.0 kill gateway B", "12.0-19.0 kill gateway C"],
    ),
    table(
        "control",
        "the control plane is killed, then a gateway and a replica while it is dead",
        Promise::OnlyStarted,
        &[
            "0.0-7.0 kill control",
            // It comes back with its saved view, including requests that may run in A only.
            "2.0-5.0 kill gateway A",
            "3.0-6.0 kill replica B-engine-0",
            "10.0-11.0 kill control",
        ],
    ),
    table(
        "partition",
        "links drop all traffic both ways, and are reset",
        Promise::OnlyStarted,
        &["0.0-6.0 cut link A/B", "9.0-13.0 kill link A/C", "9.0-13.0 kill link B/C"],
    ),
    table(
        "one-way",
        "links drop all traffic one way",
        Promise::OnlyStarted,
        &["0.0-6.0 cut link A>B", "9.0-17.0 cut link B>C", "10.0-16.0 cut link C>A"],
    ),
    table(
        "slow",
        "links take 400 ms more each way, with jitter, and 256 KiB/s",
        Promise::NothingLost,
        &["0.0-8.0 slow link A/B", "3.0-11.0 slow link B/C"],
    ),
    table(
        "rolling",
        "every process is stopped and started again, one after the other",
        Promise::NothingLost,
        &[
            "0.0 restart control",
            "1.0 restart gateway A",
            "4.0 restart gateway B",
            "7.0 restart gateway C",
            "10.0 restart replica A-engine-0 A-engine-1",
            "11.0 restart replica A-engine-2 A-engine-3",
            "12.0 restart replica B-engine-0 B-engine-1",
            "13.0 restart replica B-engine-2 B-engine-3",
            "14.0 restart replica C-engine-0 C-engine-1",
            "15.0 restart replica C-engine-2 C-engine-3",
        ],
    ),
    table(
        "clocks",
        "wall clocks jump forwards and back, one process at a time",
        Promise::NothingLost,
        &[
            "0.0 clock A-gateway +1800",
            "1.0 clock B-gateway -1800",
            "2.0 clock control +86400",
            "3.0 clock C-engine-0 -86400",
            "4.0 clock control -1800",
            "5.0 clock A-load -86400",
            "5.5 clock wan +86400",
            "6.0 clock A-gateway -1800",
            "7.0 clock B-gateway +1800",
            "9.0 clock A-gateway +0",
            "9.0 clock control +0",
        ],
    ),
    table(
        "regions",
        "whole regions are killed",
        Promise::OnlyStarted,
        &["0.0-6.0 kill region A", "12.0-16.0 kill region B"],
    ),
    table(
        "stopped",
        "replicas, gateways and the control plane are suspended (SIGSTOP) and resumed (SIGCONT)",
        Promise::OnlyStarted,
        &[
            "0.0-3.5 stop replica A-engine-0",
            // Too short for any probe to fail.
            "1.0-1.6 stop replica B-engine-1",
            "3.0 left replica A-engine-0",
            // Its lease runs out, and the others serve its replicas, even after it has resumed,
            // until it has its lease again.
            "5.0-12.0 stop gateway A",
            "8.0 left gateway A",
            "9.0-14.0 stop replica A-engine-1",
            // Too short to be noticed; and about as long as a lease.
            "16.0-16.8 stop gateway B",
            "18.0-20.0 stop gateway C",
            "23.0-29.0 stop control",
            "24.0-26.0 kill replica C-engine-2",
        ],
    ),
    table(
        "signals",
        "processes get SIGTERM and SIGHUP while suspended, and are suspended while they shut down",
        Promise::StartedOrRefused,
        &[
            "0.0-1.5 stop gateway A",
            "0.5 reload gateway A",
            "1.0 edit gateway A",
            "4.0-5.2 stop gateway B",
            "4.6 end gateway B",
            "9.0 end gateway C",
            "9.1-10.5 stop gateway C",
            "14.0-15.2 stop replica A-engine-0",
            "14.6 end replica A-engine-0",
            "16.0 end replica B-engine-1",
            "16.1-20.5 stop replica B-engine-1",
            "22.0-23.2 stop control",
            "22.6 reload control",
            "24.0-25.2 stop control",
            "24.6 end control",
            "26.0 edit gateway A",
            "27.0 reload gateway A",
            "28.0-32.0 stop replica C-engine-3",
            // Its drain ends although one of its replicas is suspended.
            "28.6 restart gateway C",
        ],
    ),
    Scenario {
        faults: Faults::Storm(40.0),
        ..table("storm", "random faults for 40 s", Promise::OnlyStarted, &[])
    },
    Scenario {
        fleet: |up| up.gateways = 2,
        ..table(
            "sibling-clocks",
            "two gateways in each region: clocks a minute off, restarts in turn",
            Promise::NothingLost,
            &[
                "0.0 clock A-2-gateway -60",
                "0.5 clock B-gateway +60",
                // Certificates are checked by these clocks.
                "1.0 restart gateway A-2",
                "4.0 restart gateway B",
                "8.0 clock A-2-gateway +60",
                "9.0 restart gateway A",
                "12.0 restart gateway B-2",
                "15.0 clock A-2-gateway +0",
                "15.0 clock B-gateway +0",
            ],
        )
    },
    table(
        "one-of-three",
        "one of three gateways is killed for ten seconds, to compare with `central`",
        Promise::OnlyStarted,
        &["0.0-10.0 kill gateway us"],
    ),
    Scenario {
        fleet: |up| up.topology = CENTRAL.to_owned(),
        ..table(
            "central",
            "the one gateway that serves all regions is killed for ten seconds",
            Promise::Nothing,
            &["0.0-10.0 kill gateway us"],
        )
    },
];

/// A mix of all faults, for every run of the tests.
pub(super) static SHORT: &[Scenario] = &[table(
    "brief",
    "a sample of all faults",
    Promise::OnlyStarted,
    &[
        "0.0-2.0 kill replica A-engine-1",
        "0.5-4.5 cut link B>C",
        "1.5 clock B-gateway +1800",
        "3.0-5.5 kill control",
        "3.5-9.0 kill gateway A",
        "4.0 restart replica C-engine-0",
        "10.0 restart gateway B",
        "11.5-13.0 kill link A/B",
        "6.5-13.0 slow link B/C",
        "12.5 clock B-gateway +0",
    ],
)];

/// A deck of faults for a fleet of three regions with clients that compare every answer.
const fn deck(
    name: &'static str,
    what: &'static str,
    deck: &'static Deck,
    crowd: &'static [Habits],
) -> Scenario {
    Scenario {
        faults: Faults::Deck(deck),
        loads: None,
        crowd,
        ..table(name, what, Promise::Nothing, &[])
    }
}

/// Decks of faults, for any time.
pub(super) static LONG: &[Scenario] = &[
    Scenario {
        // The seed decides which comes first, so an aborted short run may be of either kind.
        resume: |seed| vec![seed.is_multiple_of(2), !seed.is_multiple_of(2)],
        ..deck(
            "random",
            "random faults every few seconds, for the time in --for; every answer is compared",
            &RANDOM,
            &[Habits::USUAL],
        )
    },
    Scenario {
        fleet: kv::fleet,
        ..deck(
            "pools",
            "faults of prefill and decode replicas, for the time in --for; every answer is compared",
            &POOLS,
            &[kv::HABITS],
        )
    },
    Scenario {
        resume: |seed| vec![seed.is_multiple_of(2)],
        fleet: siblings::fleet,
        ..deck(
            "siblings",
            "faults of three gateways in each region, for the time in --for; every answer is compared",
            &SIBLINGS,
            &[siblings::HABITS],
        )
    },
    Scenario {
        resume: |seed| vec![seed.is_multiple_of(2)],
        fleet: |up| up.etcd = true,
        ..deck(
            "registry",
            "faults of three control planes and of etcd, for the time in --for; the registry is \
             compared, too",
            &REGISTRY,
            &[Habits::USUAL, Habits::BY_NAME],
        )
    },
];
