//! Metrics of peers. A peer's label is `region/name` from the configuration, so there are as many
//! as configured peers, plus one for all others.

use meridian_protocol::admin::{Forwards, Peer, Sibling, Status};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::labels::{Float, set};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PeerLabel {
    peer: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PeerEnd {
    peer: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PeerBytes {
    peer: String,
    of: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SiblingWay {
    peer: String,
    way: &'static str,
}

/// Metrics of one direction.
#[derive(Default)]
struct Direction {
    ended: Family<PeerEnd, Counter>,
    in_flight: Family<PeerLabel, Float>,
    bytes: Family<PeerBytes, Counter>,
}

#[derive(Default)]
pub(super) struct Peers {
    up: Family<PeerLabel, Float>,
    rtt: Family<PeerLabel, Float>,
    digest_age: Family<PeerLabel, Float>,
    held: Family<PeerLabel, Float>,
    eligible: Family<PeerLabel, Float>,
    sent: Direction,
    taken: Direction,
    sibling_records: Family<SiblingWay, Counter>,
    sibling_bytes: Family<SiblingWay, Counter>,
}

impl Peers {
    pub(super) fn register(&self, r: &mut Registry) {
        r.register("peer_up", "1 when the peer is followed", self.up.clone());
        r.register("peer_rtt_ms", "Smoothed round trip", self.rtt.clone());
        r.register(
            "peer_digest_age_ms",
            "Since its newest digest; none without one",
            self.digest_age.clone(),
        );
        r.register("peer_held", "Requests it holds", self.held.clone());
        r.register("peer_eligible", "Its replicas with room", self.eligible.clone());
        r.register(
            "peer_sent",
            "Requests forwarded to the peer, by outcome",
            self.sent.ended.clone(),
        );
        r.register("peer_sent_in_flight", "Of those, not ended", self.sent.in_flight.clone());
        r.register("peer_sent_bytes", "Bytes of bodies", self.sent.bytes.clone());
        r.register(
            "peer_taken",
            "Requests forwarded by the peer, by outcome",
            self.taken.ended.clone(),
        );
        r.register("peer_taken_in_flight", "Of those, not ended", self.taken.in_flight.clone());
        r.register("peer_taken_bytes", "Bytes of bodies", self.taken.bytes.clone());
        r.register(
            "sibling_records",
            "Records about requests, told to a gateway of the same region and heard from it",
            self.sibling_records.clone(),
        );
        r.register("sibling_bytes", "Bytes of those records", self.sibling_bytes.clone());
    }

    pub(super) fn copy(&self, status: &Status) {
        // A peer that is gone has no digest.
        self.digest_age.clear();
        for row in &status.peers {
            let label = PeerLabel { peer: name(row) };
            self.sent.copy(&label, &row.sent);
            self.taken.copy(&label, &row.taken);
            if let Some(sibling) = &row.sibling {
                self.copy_sibling(&label, sibling);
            }
            let gauges = [
                (&self.up, Some(f64::from(u8::from(row.state == "up")))),
                (&self.rtt, Some(f64::from(row.rtt_ms))),
                (&self.digest_age, row.digest_age_ms),
                (&self.held, Some(f64::from(row.held))),
                (&self.eligible, Some(f64::from(row.eligible))),
            ];
            for (family, value) in gauges {
                if let Some(value) = value {
                    family.get_or_create(&label).set(value);
                }
            }
        }
    }
}

impl Peers {
    fn copy_sibling(&self, label: &PeerLabel, row: &Sibling) {
        for (way, records, bytes) in
            [("told", row.told, row.told_bytes), ("heard", row.heard, row.heard_bytes)]
        {
            let label = SiblingWay { peer: label.peer.clone(), way };
            set(&self.sibling_records.get_or_create(&label), records);
            set(&self.sibling_bytes.get_or_create(&label), bytes);
        }
    }
}

pub(super) fn name(row: &Peer) -> String {
    match row.region.as_str() {
        "" => row.name.clone(),
        region => format!("{region}/{}", row.name),
    }
}

impl Direction {
    fn copy(&self, label: &PeerLabel, row: &Forwards) {
        let peer = || label.peer.clone();
        for (outcome, n) in [
            ("done", row.done),
            ("client_error", row.client_error),
            ("refused", row.refused),
            ("failed", row.failed),
            ("cancelled", row.cancelled),
        ] {
            set(&self.ended.get_or_create(&PeerEnd { peer: peer(), outcome }), n);
        }
        self.in_flight.get_or_create(label).set(row.in_flight as f64);
        for (of, n) in [("requests", row.request_bytes), ("answers", row.answer_bytes)] {
            set(&self.bytes.get_or_create(&PeerBytes { peer: peer(), of }), n);
        }
    }
}
