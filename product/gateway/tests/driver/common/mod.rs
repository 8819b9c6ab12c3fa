//! A complete region inside one test: scripted replicas, a gateway, clients, and paused time.

mod api_server;
mod certs;
mod client;
mod dns;
mod issuer;
mod ocean;
mod region;
mod replica;
mod script;
mod stand_in;
mod tokens;

pub(crate) use api_server::ApiServer;
pub(crate) use certs::{Fleet, follow, peers};
pub(crate) use client::{
    Answer, Open, Pieces, call, chat, events, get, open, post, request, stream_chat,
};
pub(crate) use dns::Dns;
pub(crate) use issuer::Issuer;
pub(crate) use ocean::Ocean;
pub(crate) use region::{Region, config};
pub(crate) use replica::{Replica, Seen};
pub(crate) use script::{Script, chunk};
pub(crate) use stand_in::{Does, StandIn};
pub(crate) use tokens::{Signer, unsigned};

use std::time::Duration;

/// Polls until `found` returns a value. Time is paused, so waiting is free.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut found: impl FnMut() -> F,
) -> T {
    for _ in 0..4000 {
        if let Some(value) = found().await {
            return value;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("within 20 s of paused time this did not come true: {what}");
}
