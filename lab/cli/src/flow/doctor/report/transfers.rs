//! Transfers of KV between two readings of an engine's page.

use meridian_protocol::signals::EngineTotals;
use serde::Serialize;

/// An engine's transfers. Each rank of a tensor-parallel engine makes and counts its own.
#[derive(Default, Serialize)]
pub(in crate::flow::doctor) struct EngineReport {
    pub(in crate::flow::doctor) url: String,
    /// Why the other fields are empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::flow::doctor) error: Option<String>,
    /// `None` if the engine counts no transfers.
    pub(in crate::flow::doctor) transfers: Option<f64>,
    pub(in crate::flow::doctor) transfers_per_second: Option<f64>,
    pub(in crate::flow::doctor) bytes_per_transfer: Option<f64>,
    pub(in crate::flow::doctor) seconds_per_transfer: Option<f64>,
    /// Bytes of all transfers over their time: the rate while a transfer runs.
    pub(in crate::flow::doctor) gbps_per_transfer: Option<f64>,
    /// The busiest card, and that rate as a share of the card's.
    pub(in crate::flow::doctor) card: Option<String>,
    pub(in crate::flow::doctor) percent_of_card: Option<f64>,
    pub(in crate::flow::doctor) failed: Option<f64>,
    pub(in crate::flow::doctor) expired: Option<f64>,
    /// KV that our engine model put on sockets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::flow::doctor) sent_bytes: Option<f64>,
    /// KV that our engine model read from sockets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::flow::doctor) received_bytes: Option<f64>,
}

/// The growth of a total; `None` if either reading lacks it.
pub(super) fn grown(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    Some(after? - before?)
}

/// A mean; `None` without a count above 0.
pub(super) fn per(total: Option<f64>, count: Option<f64>) -> Option<f64> {
    let count = count.filter(|count| *count > 0.0)?;
    Some(total? / count)
}

/// The error of a page whose totals went backwards.
pub(super) const RESTARTED: &str = "it was restarted while it was watched; run this again";

impl EngineReport {
    /// The growth of an engine's totals in `seconds`.
    pub(in crate::flow::doctor) fn of(
        url: String,
        before: &EngineTotals,
        after: &EngineTotals,
        seconds: f64,
    ) -> EngineReport {
        // A page has a counter from its first event on, so one that was absent was 0.
        let of = |get: fn(&EngineTotals) -> Option<f64>| {
            grown(get(before).or(get(after).map(|_| 0.0)), get(after))
        };
        let transfers = of(|moves| moves.transfers);
        let (bytes, time) = (of(|moves| moves.bytes), of(|moves| moves.seconds));
        let all = [transfers, bytes, time, of(|moves| moves.sent), of(|moves| moves.received)];
        if all.iter().flatten().any(|growth| *growth < 0.0) {
            return EngineReport { url, error: Some(RESTARTED.to_owned()), ..Default::default() };
        }
        EngineReport {
            url,
            error: None,
            transfers,
            transfers_per_second: transfers.map(|count| count / seconds),
            bytes_per_transfer: per(bytes, transfers),
            seconds_per_transfer: per(time, transfers),
            gbps_per_transfer: per(bytes, time).map(|rate| rate / 125e6),
            failed: of(|moves| moves.failed),
            expired: of(|moves| moves.expired),
            sent_bytes: all[3],
            received_bytes: all[4],
            ..Default::default()
        }
    }

    /// Adds the share of a card's rate.
    pub(super) fn compare(&mut self, card: &str, gbps: f64) {
        self.percent_of_card = self.gbps_per_transfer.map(|own| 100.0 * own / gbps);
        self.card = self.percent_of_card.map(|_| card.to_owned());
    }
}
