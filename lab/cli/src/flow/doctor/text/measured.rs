//! The measurements: cards, transfers, prefill legs.

use super::{number, table};
use crate::flow::doctor::report::{CardReport, Report};

/// The use of each card, notes, and the cards that are not watched.
pub(super) fn cards(report: &Report) -> String {
    if report.cards.is_empty() {
        return "No card of this host has a cable and a link; name one with --card.\n".to_owned();
    }
    let heads = ["", "Gb/s", "sent, %", "received, %", "busiest second, %", "time above 80 %, %"];
    let row = |card: &CardReport| {
        vec![
            card.card.clone(),
            card.gbps.map_or("-".to_owned(), |gbps| gbps.to_string()),
            number(card.sent_percent, 1),
            number(card.received_percent, 1),
            number(card.busiest_second_percent, 1),
            number(card.time_above_80_percent, 1),
        ]
    };
    let rows = report.cards.iter().map(row).collect();
    let mut text = format!("Cards, over {:.1} s\n{}", report.seconds, table(&heads, rows));
    for card in &report.cards {
        text += &format!(" {}: {}, counted by {}", card.card, card.kind, card.counted_by);
        if card.gbps.is_none() {
            let megabytes = [card.sent_bytes, card.received_bytes].map(|bytes| bytes as f64 / 1e6);
            text += &format!("; {:.1} MB sent, {:.1} MB received", megabytes[0], megabytes[1]);
        }
        text.push('\n');
        text.extend(card.notes.iter().map(|note| format!("   {note}\n")));
    }
    for one in &report.not_watched {
        text += &format!(" {}: not watched, as {}\n", one.card, one.reason);
    }
    text
}

/// Transfers as the engines count them.
pub(super) fn engines(report: &Report) -> String {
    if report.engines.is_empty() {
        return String::new();
    }
    let heads = ["", "per s", "MB each", "ms each", "Gb/s each", "failed", "expired"];
    let mut text = "Transfers of KV, as engines count them\n".to_owned();
    let counting = report.engines.iter().filter(|engine| engine.transfers.is_some());
    let rows: Vec<Vec<String>> = counting
        .map(|engine| {
            vec![
                engine.url.clone(),
                number(engine.transfers_per_second, 2),
                number(engine.bytes_per_transfer.map(|bytes| bytes / 1e6), 1),
                number(engine.seconds_per_transfer.map(|seconds| seconds * 1e3), 1),
                number(engine.gbps_per_transfer, 2),
                number(engine.failed, 0),
                number(engine.expired, 0),
            ]
        })
        .collect();
    if !rows.is_empty() {
        text += &table(&heads, rows);
    }
    for engine in &report.engines {
        let url = &engine.url;
        if let Some(error) = &engine.error {
            text += &format!(" {url}: not read: {error}\n");
        } else if engine.transfers.is_none() {
            text += &format!(" {url}: it counts no transfers; only NIXL's connector does\n");
        }
        if let (Some(card), Some(percent)) = (&engine.card, engine.percent_of_card) {
            text += &match percent {
                ..=100.0 => {
                    format!(" {url}: one transfer runs at {percent:.0} % of the rate of {card}\n")
                }
                _ => {
                    format!(" {url}: its transfers are faster than {card}: they do not cross it\n")
                }
            };
        }
    }
    text
}

/// Prefill legs as the gateways count them.
pub(super) fn gateways(report: &Report) -> String {
    if report.gateways.is_empty() {
        return String::new();
    }
    let heads =
        ["", "legs/s", "leg, ms", "handover, ms", "of TTFT, %", "KV, MB/s", "fallbacks", "whole"];
    let mut text = "Prefill legs, as gateways count them\n".to_owned();
    let read = report.gateways.iter().filter(|gateway| gateway.error.is_none());
    let rows: Vec<Vec<String>> = read
        .map(|gateway| {
            vec![
                gateway.url.clone(),
                number(gateway.legs_per_second, 2),
                number(gateway.seconds_per_leg.map(|seconds| seconds * 1e3), 1),
                number(gateway.seconds_per_handover.map(|seconds| seconds * 1e3), 1),
                number(gateway.handover_percent_of_ttft, 1),
                number(gateway.kv_bytes_per_second.map(|bytes| bytes / 1e6), 1),
                number(gateway.fallbacks.or(Some(0.0)), 0),
                number(gateway.whole.or(Some(0.0)), 0),
            ]
        })
        .collect();
    if !rows.is_empty() {
        text += &table(&heads, rows);
        text +=
            " handover: end of the prefill leg to the first piece of the answer, with the decode\n";
        text += " replica's queue and first step; its share is of the TTFT of all requests\n";
    }
    for gateway in &report.gateways {
        if let Some(error) = &gateway.error {
            text += &format!(" {}: not read: {error}\n", gateway.url);
        }
    }
    text
}
