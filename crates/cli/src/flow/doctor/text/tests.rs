//! Whole reports over made-up readings.

use std::time::Duration;

use meridian_cards::counters::{Host, Sysfs, Use, find};
use meridian_cards::worth::Layers;
use meridian_wire::signals::{EngineMoves, GatewayMoves};

use super::super::report::{EngineReport, GatewayReport, Report, report};
use super::text;

/// A report on a host of two cards, the second of which does not tell its rate.
fn of(share: f64, servers: (Vec<EngineReport>, Vec<GatewayReport>), layers: Layers) -> Report {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../cards/tests/fixtures/ethernet");
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
    let before = EngineMoves { bytes: Some(5e6), transfers: Some(1.0), ..EngineMoves::default() };
    let after = EngineMoves {
        bytes: Some(1.005e9),
        transfers: Some(21.0),
        seconds: Some(2.0),
        failed: Some(1.0),
        ..EngineMoves::default()
    };
    let engine = |url: &str, before, after| EngineReport::of(url.to_owned(), &before, &after, 10.0);
    let refused = EngineReport {
        url: "http://p2:8000".to_owned(),
        error: Some("connection refused".to_owned()),
        ..EngineReport::default()
    };
    let zero = EngineMoves::default();
    let engines = vec![
        engine("http://d1:8000", before, after),
        engine("http://p1:8000", zero, zero),
        engine("http://d2:8000", after, before),
        refused,
    ];
    let legs = |seconds: f64, count: f64| GatewayMoves {
        legs: Some(count),
        leg_seconds: Some(4.0 * seconds),
        handovers: Some(count),
        handover_seconds: Some(seconds),
        first_tokens: Some(2.0 * count),
        ttft_seconds: Some(10.0 * seconds),
        fallbacks: Some(count - 1.0),
        ..GatewayMoves::default()
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
    expect_test::expect![[""]].assert_eq(&text);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

// A quiet host gets no gain and no change.
#[test]
fn a_quiet_host() {
    expect_test::expect![[""]].assert_eq(&text(&of(0.05, none(), Layers::All)));
}

// Beyond the table the last row stands, and the text says so.
#[test]
fn beyond_the_table() {
    let text = text(&of(0.45, none(), Layers::One));
    let worth = text.split_once("Worth").unwrap().1;
    expect_test::expect![[""]].assert_eq(worth.split_once("Limits").unwrap().0);
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
