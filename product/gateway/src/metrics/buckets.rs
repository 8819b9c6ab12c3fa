//! Buckets of the histograms, in seconds. Those of tokens are the ones of vLLM and of OpenTelemetry's
//! conventions for generative AI (`gen_ai.server.time_to_first_token`, `.time_per_output_token`,
//! `.request.duration`), continued upwards, so that a gateway's and an engine's quantiles compare.

use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

/// Times until something starts: the first token, the end of the queue.
const FIRST_TOKEN: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];
const PER_TOKEN: [f64; 16] =
    [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0];

pub(super) fn first_token() -> Histogram {
    Histogram::new(FIRST_TOKEN)
}

pub(super) fn per_token() -> Histogram {
    Histogram::new(PER_TOKEN)
}

/// Whole requests: 10 ms to 1311 s by doubling. A long chain of thought takes minutes.
pub(super) fn whole() -> Histogram {
    Histogram::new(exponential_buckets(0.01, 2.0, 18))
}

/// Steps of a request: 1 ms to 131 s by doubling.
pub(super) fn step() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 18))
}
