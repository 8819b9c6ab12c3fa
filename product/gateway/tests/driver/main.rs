//! Tests of the gateway in one process: real sockets on both sides; only the replicas are
//! scripted.
//!
//! Everything here runs on one thread under paused time, so a timeout of minutes passes at once and
//! no test waits for a clock.

#![allow(clippy::unwrap_used, reason = "a test says best by failing what it did not expect")]

mod access;
mod adapters;
mod admin;
mod admin_access;
mod admin_browser;
mod admin_kept;
mod aliases;
mod attempts;
mod cancel;
mod client_tls;
mod common;
mod contexts;
mod discovery;
mod drain;
mod dry_runs;
mod engine_errors;
mod engine_fields;
mod failover;
mod fallbacks;
mod forms;
mod forwards;
mod from_zero;
mod front;
mod h2;
mod handed_back;
mod health;
mod hung;
mod intervals;
mod kept;
mod kubernetes;
mod leg_ends;
mod legs;
mod legs_kept;
mod legs_resumed;
mod legs_where;
mod limits;
mod listed;
mod live_check;
mod malformed;
mod misbehaving;
mod model_limits;
mod names;
mod ocean;
mod oidc;
mod outcomes;
mod page;
mod page_stream;
mod passing;
mod passthrough;
mod paths;
mod peers;
#[path = "../../../control/tests/all/plane/mod.rs"]
mod plane;
mod policy_peers;
mod pools;
#[path = "../../../control/tests/all/ports.rs"]
mod ports;
mod priority;
mod rates;
mod recorded;
mod records;
mod registry;
mod reload;
mod request_metrics;
mod residency;
mod resume;
mod retries;
mod revoked;
mod salts;
mod scaled_to_zero;
mod secured;
mod sessions;
mod shadow;
mod shared_limits;
mod siblings;
mod siblings_found;
mod siblings_older;
mod siblings_secret;
mod signals;
mod stateful;
mod status_pages;
mod tells;
mod tenants;
mod timeouts;
mod traces;
mod verdicts;

use common::{Region, Replica, call, chat};

// The minimal case: a request passes through, is answered, and leaves no state.
#[tokio::test(start_paused = true)]
async fn one_request() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    let status = region.settled().await;
    assert_eq!((status.requests.accepted, status.requests.done), (1, 1));
    assert_eq!((status.replicas[0].dispatched, status.replicas[0].done), (1, 1));
}
