//! The recorded engines over plain HTTP, in paused time.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod client;
mod ends;
mod leases;
mod replay;
mod uncovered;

use client::{Answer, get, post, prefill, recording, with};
use meridian_mock::Fleet;
use serde_json::json;

// The shortest use: a test sends both legs, and then no request was uncovered.
#[tokio::test(start_paused = true)]
async fn two_legs() {
    let fleet = Fleet::pair().await.unwrap();
    let (prefill, decode) = (&fleet.prefill[0], &fleet.decode[0]);
    let recorded = recording("completions");
    let leg = &recorded["prefill_request"];
    let answer = post(prefill, "/v1/completions", &leg["body"]).await.unwrap();
    let params = &answer.json()["kv_transfer_params"];

    let leg = with(&recorded["decode_request"]["body"], "kv_transfer_params", params.clone());
    let answer = post(decode, "/v1/completions", &leg).await.unwrap();
    assert_eq!((answer.status, &answer.json()["usage"]["completion_tokens"]), (200, &json!(6)));
    assert_eq!(fleet.uncovered(), [""; 0]);
    assert_eq!((prefill.counts().held_blocks, decode.counts().fetched_blocks), (0, 12));
}
