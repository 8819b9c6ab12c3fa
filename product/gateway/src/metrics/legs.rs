//! Metrics of requests whose prompt is computed by another replica than the one that answers.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::labels::{Kind, Reason};
use super::{Metrics, buckets};

pub(super) struct Legs {
    whole: Family<Reason, Counter>,
    fallbacks: Family<Reason, Counter>,
    alarms: Family<Kind, Counter>,
    prefill: Histogram,
    transfer: Histogram,
}

/// A sign that an answer was written from KV that is not its prompt's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KvAlarm {
    /// A prefill engine released KV that no decode engine had fetched.
    Expired,
    /// A decode engine reported the end of a transfer after the KV had been released.
    Late,
    /// An answer's usage has more cached tokens than prompt tokens.
    Cached,
}

impl KvAlarm {
    pub(crate) fn word(self) -> &'static str {
        match self {
            KvAlarm::Expired => "expired",
            KvAlarm::Late => "late",
            KvAlarm::Cached => "cached_beyond_prompt",
        }
    }
}

impl Default for Legs {
    fn default() -> Legs {
        Legs {
            whole: Family::default(),
            fallbacks: Family::default(),
            alarms: Family::default(),
            prefill: buckets::step(),
            transfer: buckets::step(),
        }
    }
}

impl Legs {
    pub(super) fn register(&self, r: &mut Registry) {
        let help = "Requests that one replica has to serve whole, by cause";
        r.register("unsplit", help, self.whole.clone());
        let help = "Prefill legs whose KV was not used, by cause";
        r.register("prefill_fallbacks", help, self.fallbacks.clone());
        let help = "Signs that KV of another prompt was used, by kind";
        r.register("kv_alarms", help, self.alarms.clone());
        let help = "Prefill leg sent to its end";
        r.register_with_unit("prefill_leg", help, Unit::Seconds, self.prefill.clone());
        let help = "End of the prefill leg to the first piece of the answer";
        r.register_with_unit("kv_transfer", help, Unit::Seconds, self.transfer.clone());
    }
}

impl Metrics {
    /// Counts a request that has no prefill leg although there are prefill replicas.
    pub(crate) fn stays_whole(&self, reason: &'static str) {
        self.legs.whole.get_or_create(&Reason { reason }).inc();
    }

    /// Counts a prefill leg whose KV is not used.
    pub(crate) fn fell_back(&self, reason: &'static str) {
        self.legs.fallbacks.get_or_create(&Reason { reason }).inc();
    }

    /// Counts signs of one kind that KV of another prompt was used.
    pub(crate) fn kv_alarm(&self, kind: KvAlarm, times: u64) {
        self.legs.alarms.get_or_create(&Kind { kind: kind.word() }).inc_by(times);
    }

    pub(crate) fn prefilled(&self, took: Duration) {
        self.legs.prefill.observe(took.as_secs_f64());
    }

    pub(crate) fn transferred(&self, took: Duration) {
        self.legs.transfer.observe(took.as_secs_f64());
    }
}
