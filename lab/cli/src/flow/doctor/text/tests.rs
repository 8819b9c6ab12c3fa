//! Whole reports over made-up readings.

use std::time::Duration;

use meridian_cards::counters::{Host, Sysfs, Use, find};
use meridian_cards::worth::Layers;
use meridian_protocol::signals::{EngineTotals, GatewayTotals};

use super::super::report::{EngineReport, GatewayReport, Report, report};
use super::text;

/// A report on a host of two cards, the second of which does not tell its rate.
fn of(share: f64, servers: (Vec<EngineReport>, Vec<GatewayReport>), layers: Layers) -> Report {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../flow/cards/tests/fixtures/ethernet");
    let host = Host::new(Sysfs::new(root), |_| Err(std::io::Error::other("no ethtool")));
    let found = find(&host, &[], &[]).unwrap();
    let measured = Duration::from_secs(10);
    let bytes = [(share * 31.25e9) as u64, 1_250_000_000];
    let first = Use {
        measured,
        bytes,
        mean: Some([share, 0.04]),
        busiest_second: Some(2.0 * share),
        above: Some(0.03),
        ..Use::default()
    };
    let second = Use { measured, bytes: [7_000_000, 8_000_000], ..Use::default() };
    report(&found, &[first, second], measured, servers, layers)
}

fn servers() -> (Vec<EngineReport>, Vec<GatewayReport>) {
    let before = EngineTotals { bytes: Some(5e6), transfers: Some(1.0), ..EngineTotals::default() };
    let after = EngineTotals {
        bytes: Some(1.005e9),
        transfers: Some(21.0),
        seconds: Some(2.0),
        failed: Some(1.0),
        ..EngineTotals::default()
    };
    let engine = |url: &str, before, after| EngineReport::of(url.to_owned(), &before, &after, 10.0);
    let refused = EngineReport {
        url: "http://p2:8000".to_owned(),
        error: Some("connection refused".to_owned()),
        ..EngineReport::default()
    };
    let zero = EngineTotals::default();
    let engines = vec![
        engine("http://d1:8000", before, after),
        engine("http://p1:8000", zero, zero),
        engine("http://d2:8000", after, before),
        refused,
    ];
    let legs = |seconds: f64, count: f64| GatewayTotals {
        legs: Some(count),
        leg_seconds: Some(4.0 * seconds),
        handovers: Some(count),
        handover_seconds: Some(seconds),
        first_tokens: Some(2.0 * count),
        ttft_seconds: Some(10.0 * seconds),
        fallbacks: Some(count - 1.0),
        ..GatewayTotals::default()
    };
    let gateway =
        GatewayReport::of("http://gw:8081".to_owned(), &legs(1.0, 1.0), &legs(3.0, 21.0), 10.0);
    (engines, vec![gateway])
}

fn none() -> (Vec<EngineReport>, Vec<GatewayReport>) {
    (Vec::new(), Vec::new())
}

// Cards, transfers, legs, gains and a recommendation, with each server that could not be read.
#[test]
fn a_busy_host() {
    let text = text(&of(0.25, servers(), Layers::All));
    expect_test::expect![[r#"
        Cards, over 10.0 s
                Gb/s  sent, %  received, %  busiest second, %  time above 80 %, %
          eth0    25     25.0          4.0               50.0                 3.0
          eth2     -        -            -                  -                   -
         eth0: Ethernet, counted by kernel
         eth2: Ethernet, counted by kernel; 7.0 MB sent, 8.0 MB received
           it does not tell its rate; give it, as in --rate eth2=25Gbps
         bond0: not watched, as it is virtual
         eth1: not watched, as its link is down
         lo: not watched, as it is the loopback
         veth0: not watched, as it is virtual

        Transfers of KV, as engines count them
                          per s  MB each  ms each  Gb/s each  failed  expired
          http://d1:8000   2.00     50.0    100.0       4.00       1        -
         http://d1:8000: one transfer runs at 16 % of the rate of eth0
         http://p1:8000: it counts no transfers; only NIXL's connector does
         http://d2:8000: not read: it was restarted while it was watched; run this again
         http://p2:8000: not read: connection refused

        Prefill legs, as gateways count them
                          legs/s  leg, ms  handover, ms  of TTFT, %  KV, MB/s  fallbacks  whole
          http://gw:8081    2.00    400.0         100.0        10.0         -         20      0
         handover: end of the prefill leg to the first piece of the answer, with the decode
         replica's queue and first step; its share is of the TTFT of all requests

        Worth, at 25.0 % mean use of eth0, the busiest card
         Simulated requests in time relative to fair sharing, KV of all layers in one transfer
                         no change          two classes  two classes with a floor                  MFS
          agents              1.00  1.04 (1.01 to 1.08)       1.08 (1.05 to 1.11)  1.08 (1.05 to 1.12)
          conversations       1.00  1.18 (1.09 to 1.46)       1.18 (1.08 to 1.42)  1.24 (1.11 to 1.57)

        Recommendation: two classes with a floor (`meridian flow qdisc`): collectives above KV, and a
        part of the card for fetches.

        Limits
         The gains are simulated: Mixtral 8x7B on 16 prefill GPUs whose expert exchange shares the cards
         with KV (`meridian experiment mfs-load`). Another model or cluster gains more or less.
         If no collective crosses your cards, as with tensor parallelism inside a server, classes have
         nothing to separate, and the gain does not apply.
         The use is a mean over the time watched, as in the simulation. Watch at the load that matters;
         a quiet minute hides the bursts of a busy one. Hosts that were not watched may be busier.
    "#]].assert_eq(&text);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

// A quiet host gets no gain and no change.
#[test]
fn a_quiet_host() {
    expect_test::expect![[r#"
        Cards, over 10.0 s
                Gb/s  sent, %  received, %  busiest second, %  time above 80 %, %
          eth0    25      5.0          4.0               10.0                 3.0
          eth2     -        -            -                  -                   -
         eth0: Ethernet, counted by kernel
         eth2: Ethernet, counted by kernel; 7.0 MB sent, 8.0 MB received
           it does not tell its rate; give it, as in --rate eth2=25Gbps
         bond0: not watched, as it is virtual
         eth1: not watched, as its link is down
         lo: not watched, as it is the loopback
         veth0: not watched, as it is virtual

        Worth, at 5.0 % mean use of eth0, the busiest card
         Simulated requests in time relative to fair sharing, KV of all layers in one transfer
                         no change  two classes  two classes with a floor   MFS
          agents              1.00         1.00                      1.00  1.00
          conversations       1.00         1.00                      1.00  1.00
         agents: no use below 8.1 % was simulated, so no gain is claimed
         conversations: no use below 8.4 % was simulated, so no gain is claimed

        Recommendation: change nothing. At this use no order of transfers has a clear gain.

        Limits
         The gains are simulated: Mixtral 8x7B on 16 prefill GPUs whose expert exchange shares the cards
         with KV (`meridian experiment mfs-load`). Another model or cluster gains more or less.
         If no collective crosses your cards, as with tensor parallelism inside a server, classes have
         nothing to separate, and the gain does not apply.
         The use is a mean over the time watched, as in the simulation. Watch at the load that matters;
         a quiet minute hides the bursts of a busy one. Hosts that were not watched may be busier.
    "#]].assert_eq(&text(&of(0.05, none(), Layers::All)));
}

// Beyond the table the last row stands, and the text says so.
#[test]
fn beyond_the_table() {
    let text = text(&of(0.45, none(), Layers::One));
    let worth = text.split_once("Worth").unwrap().1;
    expect_test::expect![[r#"
        , at 45.0 % mean use of eth0, the busiest card
         Simulated requests in time relative to fair sharing, KV layer by layer
                         no change          two classes  two classes with a floor                  MFS
          agents              1.00  1.79 (1.63 to 2.03)       2.02 (1.83 to 2.30)  2.14 (1.91 to 2.48)
          conversations       1.00  2.19 (1.93 to 2.62)       2.67 (2.26 to 3.48)  3.34 (2.82 to 4.46)
         agents: at least these, from 29.9 %, the highest simulated use
         conversations: at least these, from 30.1 %, the highest simulated use

        Recommendation: first two classes with a floor (`meridian flow qdisc`), then a gate that orders KV
        transfers by deadline. The difference is that between the last two columns.

    "#]].assert_eq(worth.split_once("Limits").unwrap().0);
}

// The JSON has the same numbers under stable names.
#[test]
fn json() {
    let value = serde_json::to_value(of(0.25, servers(), Layers::All)).unwrap();
    assert_eq!(value["cards"][0]["card"], "eth0");
    assert_eq!(value["cards"][0]["sent_percent"], 25.0);
    assert_eq!(value["cards"][1]["sent_percent"], serde_json::Value::Null);
    assert_eq!(value["engines"][0]["bytes_per_transfer"], 50e6);
    assert_eq!(value["engines"][0]["card"], "eth0");
    assert_eq!(value["engines"][3]["error"], "connection refused");
    assert_eq!(value["gateways"][0]["handover_percent_of_ttft"], 10.0);
    assert_eq!(value["worth"]["recommendation"], "two_classes_with_floor");
    assert_eq!(value["worth"]["workloads"][0]["place"], "within");
}
