//! Requests that are forwarded to another region.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use meridian_base::Rng;
use meridian_config::{AdmissionMode, Gateway as Config, policies};
use meridian_protocol::admin::{Explanation, Forwards, Status};
use meridian_protocol::units::{Size, Span};
use meridian_routing::policy::{self, Features, Forwarding, Pick, Policy, Spec, View, choose};
use meridian_routing::{Admission, Why};

use crate::common::{
    Fleet, Open, Region, Replica, Script, call, chat, events, eventually, follow, open, peers,
    stream_chat,
};
use crate::tenants::bearing;

const MS: Duration = Duration::from_millis(1);
const EVENT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"w\"}}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

/// Regions that follow each other, each with one replica that takes one request at a time.
pub(crate) struct World {
    /// Keeps the fleet's files.
    _fleet: Fleet,
    pub(crate) configs: Vec<Config>,
}

const NAMES: [&str; 3] = ["us", "eu", "asia"];

impl World {
    pub(crate) fn of(replicas: &[&[&Replica]]) -> World {
        let fleet = Fleet::new("prod");
        let mut configs = Vec::new();
        for (at, own) in replicas.iter().enumerate() {
            let mut config = fleet.gateway(NAMES[at], at as u16 + 1, own);
            config.admission = Some(AdmissionMode::Outstanding(1));
            for other in (0..replicas.len()).filter(|other| *other != at) {
                follow(&mut config, NAMES[other], fleet.address(other as u16 + 1));
            }
            configs.push(config);
        }
        World { _fleet: fleet, configs }
    }

    pub(crate) async fn start(&self) -> Vec<Region> {
        let mut regions = Vec::new();
        for config in &self.configs {
            regions.push(Region::start(config.clone()).await);
        }
        for (region, config) in regions.iter().zip(&self.configs) {
            let own = config.replicas.len();
            let known = |s: &Status| {
                let up = |r: &meridian_protocol::admin::Replica| r.state == "up";
                let seen = |p: &meridian_protocol::admin::Peer| {
                    let others = self.configs.iter().find(|c| c.region == p.region);
                    let all = others.map_or(0, |c| c.replicas.len()) as u32;
                    p.state == "up" && p.eligible == all && p.models.is_some()
                };
                s.replicas.len() == own && s.replicas.iter().all(up) && s.peers.iter().all(seen)
            };
            region.until("all regions are connected", known).await;
        }
        regions
    }
}

/// A request that keeps a replica full until it is dropped.
pub(crate) struct Busy {
    replica: Replica,
    _answer: Open,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.replica.load(0, 0, 0.0);
    }
}

pub(crate) async fn occupy(region: &Region, replica: &Replica) -> Busy {
    occupy_by(region, replica, stream_chat("busy")).await
}

/// The same with a tenant's key.
pub(crate) async fn occupy_with(region: &Region, replica: &Replica, key: &str) -> Busy {
    occupy_by(region, replica, bearing(stream_chat("busy"), key)).await
}

async fn occupy_by(region: &Region, replica: &Replica, request: Request<Full<Bytes>>) -> Busy {
    replica.then(Script::sse().event(EVENT).hang());
    replica.load(0, 1, 0.1);
    let mut busy = open(region.listen, request).await;
    busy.read_to("data").await;
    Busy { replica: replica.clone(), _answer: busy }
}

async fn sent(region: &Region, to: &str) -> Forwards {
    counts(&region.status().await, to, |p| p.sent)
}

async fn taken(region: &Region, from: &str) -> Forwards {
    counts(&region.status().await, from, |p| p.taken)
}

fn counts(
    status: &Status,
    peer: &str,
    of: impl Fn(&meridian_protocol::admin::Peer) -> Forwards,
) -> Forwards {
    let row = status.peers.iter().find(|p| p.region == peer).map(of).unwrap_or_default();
    let ended = row.done + row.client_error + row.refused + row.failed + row.cancelled;
    assert_eq!(row.begun, ended + row.in_flight, "every forward is in exactly one place: {row:?}");
    row
}

/// The counts of `us` for `eu` and of `eu` for `us`, once all requests have ended and both agree.
async fn agreed(us: &Region, eu: &Region) -> Forwards {
    eventually("both gateways count the same", async || {
        let (out, back) = (sent(us, "eu").await, taken(eu, "us").await);
        (out == back && out.in_flight == 0).then_some(out)
    })
    .await
}

// If the own replica is full, the request is forwarded as the client sent it, with its headers and
// its trace, and the answer's headers name the replica. The peer's replica receives none
// of the headers between gateways.
#[tokio::test(start_paused = true)]
async fn goes_on_when_full() {
    let (here, there) = (Replica::start().await, Replica::start().await);
    let world = World::of(&[&[&here], &[&there]]);
    let regions = world.start().await;
    let [us, eu] = &regions[..] else { panic!("two regions") };
    let busy = occupy(us, &here).await;
    let usage = r#"{"id":"x","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}"#;
    there.then(Script::answer(200, "content-type: application/json\r\nx-engine: e\r\n", usage));
    let mut request = chat("hello there");
    let headers = request.headers_mut();
    headers.insert("traceparent", "00-aa-bb-01".parse().unwrap());
    headers.insert("authorization", "Bearer k".parse().unwrap());
    headers.insert("x-tenant-id", "acme".parse().unwrap());
    headers.insert("x-slo-ttft-ms", "60000".parse().unwrap());
    let answer = call(us.listen, request).await;
    assert_eq!((answer.status, answer.text()), (200, usage));
    assert_eq!(answer.header("x-meridian-peer"), "eu/eu-1");
    assert_eq!(answer.header("x-meridian-replica"), "r0");
    assert_eq!(answer.header("x-meridian-reason"), "nearest-peer");
    assert_eq!(answer.header("x-engine"), "e");
    let seen = there.last();
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hello there"}]}"#;
    assert_eq!((seen.text(), seen.target.as_str()), (body, "/v1/chat/completions"));
    assert_eq!(seen.header("traceparent"), Some("00-aa-bb-01"));
    assert_eq!(seen.header("authorization"), Some("Bearer k"));
    assert_eq!(seen.header("x-request-id"), Some(answer.header("x-request-id")));
    let ours = |(name, _): &&(String, String)| name.starts_with("x-meridian");
    assert_eq!(seen.headers.iter().find(ours), None);

    let both = agreed(us, eu).await;
    assert_eq!((both.begun, both.done, both.answer_bytes), (1, 1, usage.len() as u64));
    assert_eq!(both.request_bytes, body.len() as u64);
    drop(busy);
    let (entry, served) = (us.settled().await, eu.settled().await);
    assert_eq!((entry.requests.accepted, entry.requests.done, entry.requests.cancelled), (2, 1, 1));
    assert_eq!((served.requests.accepted, served.requests.done), (1, 1));
    assert_eq!((entry.prefix.known_prompt_tokens, entry.prefix.cached_tokens), (9, 4));
}

// Both the region that made the decision and the one that served the request explain it under the
// id that the client saw, with the peer by its name.
#[tokio::test(start_paused = true)]
async fn is_explained_in_both_regions() {
    let (here, there) = (Replica::start().await, Replica::start().await);
    let world = World::of(&[&[&here], &[&there]]);
    let regions = world.start().await;
    let _busy = occupy(&regions[0], &here).await;
    let answer = call(regions[0].listen, chat("why")).await;
    let path = format!("/admin/explain/{}", answer.header("x-request-id"));
    let explain = async |region: &Region| -> Explanation {
        serde_json::from_slice(&region.admin("GET", &path, "").await.body).unwrap()
    };
    let entry = explain(&regions[0]).await;
    assert_eq!(entry.picked.as_deref(), Some("eu/eu-1"), "{entry:?}");
    assert_eq!((entry.peers[0].name.as_str(), entry.peers[0].eligible), ("eu/eu-1", 1));
    assert_eq!(entry.candidates[0].ineligible.as_deref(), Some("full"));
    assert_eq!(entry.ending.outcome.as_deref(), Some("done"), "{entry:?}");
    let served = explain(&regions[1]).await;
    assert_eq!(served.picked, Some(there.url()));
    assert_eq!(served.ending.outcome.as_deref(), Some("done"), "{served:?}");
}

// A stream passes piece by piece, as the replica sends it. Afterwards both gateways know the usage,
// although the first gateway did not ask for it.
#[tokio::test(start_paused = true)]
async fn streams_piece_by_piece() {
    let (here, there) = (Replica::start().await, Replica::start().await);
    let world = World::of(&[&[&here], &[&there]]);
    let regions = world.start().await;
    let [us, eu] = &regions[..] else { panic!("two regions") };
    let _busy = occupy(us, &here).await;
    let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":5}}}\n\n";
    there.then(Script::stream(&[EVENT, EVENT, EVENT, usage, DONE], 100 * MS));
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let request = crate::common::request("POST", "/v1/chat/completions", body);
    let mut answer = open(us.listen, request).await;
    let mut text = String::new();
    let mut at = Vec::new();
    let began = tokio::time::Instant::now();
    while let Some(piece) = answer.piece().await {
        text.push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
        at.push(began.elapsed().as_millis() / 100);
    }
    assert_eq!(
        events(&text),
        [&EVENT[6..EVENT.len() - 2]; 3].into_iter().chain(["[DONE]"]).collect::<Vec<_>>()
    );
    let distinct: std::collections::BTreeSet<_> = at.iter().collect();
    assert!(distinct.len() >= 4, "pieces 100 ms apart come apart: {at:?}");
    assert!(there.last().text().contains("include_usage"), "the peer asks for usage");
    assert_eq!(agreed(us, eu).await.done, 1);
    for region in [us, eu] {
        let prefix = region.status().await.prefix;
        assert_eq!((prefix.known_prompt_tokens, prefix.cached_tokens), (7, 5));
    }
}

// If a client disconnects, before the first byte or after, the peer's replica is notified, too.
#[tokio::test(start_paused = true)]
async fn a_cancel_travels() {
    let (here, there) = (Replica::start().await, Replica::start().await);
    let world = World::of(&[&[&here], &[&there]]);
    let regions = world.start().await;
    let [us, eu] = &regions[..] else { panic!("two regions") };
    let _busy = occupy(us, &here).await;
    there.then(Script::sse().event(EVENT).hang());
    let mut answer = open(us.listen, stream_chat("hi")).await;
    answer.read_to("data").await;
    drop(answer);
    eventually("the connection is closed", async || (there.hangups() == 1).then_some(())).await;
    eu.until("it has capacity again", |s| s.replicas[0].outstanding == 0).await;
    us.until("us sees that it has capacity", |s| s.peers[0].eligible == 1).await;

    there.then(Script::silence());
    let listen = us.listen;
    let waiting = tokio::spawn(async move { call(listen, chat("hi")).await.status });
    eventually("it is at the replica", async || (there.count() == 2).then_some(())).await;
    waiting.abort();
    eventually("the connection is closed", async || (there.hangups() == 2).then_some(())).await;
    let both = agreed(us, eu).await;
    assert_eq!((both.begun, both.cancelled), (2, 2));
    assert_eq!(eu.settled().await.requests.cancelled, 2);
}

// A forwarded request is never forwarded again, however full the region is: it waits in the queue
// there.
#[tokio::test(start_paused = true)]
async fn one_hop_and_no_more() {
    let replicas = [Replica::start().await, Replica::start().await, Replica::start().await];
    let world = World::of(&[&[&replicas[0]], &[&replicas[1]], &[&replicas[2]]]);
    let regions = world.start().await;
    let [us, eu, asia] = &regions[..] else { panic!("three regions") };
    let _busy = [occupy(us, &replicas[0]).await, occupy(asia, &replicas[2]).await];
    us.until("asia is full", |s| s.peers.iter().all(|p| p.eligible == u32::from(p.region == "eu")))
        .await;
    // Two at once: the first takes eu's replica, the second finds it full there and waits.
    let slow = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    replicas[1].then(Script::default().wait(1000 * MS).send(slow));
    let (first, second) = tokio::join!(call(us.listen, chat("one")), call(us.listen, chat("two")));
    assert_eq!((first.status, second.status), (200, 200));
    assert_eq!((replicas[0].count(), replicas[2].count()), (1, 1), "only eu served");
    let at = async |from: &Region, to: &str| sent(from, to).await.begun;
    assert_eq!((at(eu, "us").await, at(eu, "asia").await), (0, 0), "eu forwarded nothing");
    assert_eq!((at(asia, "us").await, at(asia, "eu").await), (0, 0));
    assert_eq!(agreed(us, eu).await.done, 2);
}

// A request refused by a peer is not lost: it is retried elsewhere, here at the third region, and
// the refusal does not count as an attempt.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_tried_elsewhere() {
    let replicas = [Replica::start().await, Replica::start().await, Replica::start().await];
    let mut world = World::of(&[&[&replicas[0]], &[&replicas[1]], &[&replicas[2]]]);
    world.configs[0].attempts = 1;
    // It has the model and capacity, but accepts no body longer than this.
    world.configs[1].limits.body = Size(10);
    let regions = world.start().await;
    let [us, eu, asia] = &regions[..] else { panic!("three regions") };
    let _busy = occupy(us, &replicas[0]).await;
    let mut served_by = Vec::new();
    for text in ["one", "two", "three"] {
        let answer = call(us.listen, chat(text)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        served_by.push(answer.header("x-meridian-peer").to_owned());
    }
    assert_eq!(served_by, ["asia/asia-1"; 3]);
    assert_eq!(replicas[1].count(), 0);
    let refused = agreed(us, eu).await;
    assert_eq!(refused.begun, refused.refused);
    assert_eq!(sent(us, "asia").await.done, 3);
    assert_eq!(asia.settled().await.requests.done, 3);
}

// A client's mistake that the peer's engine detects is returned with the engine's message; it
// counts as no replica's failure.
#[tokio::test(start_paused = true)]
async fn a_clients_mistake_comes_back() {
    let (here, there) = (Replica::start().await, Replica::start().await);
    let world = World::of(&[&[&here], &[&there]]);
    let regions = world.start().await;
    let [us, eu] = &regions[..] else { panic!("two regions") };
    let _busy = occupy(us, &here).await;
    there.then(Script::answer(
        422,
        "content-type: application/json\r\nretry-after: 7\r\n",
        "{\"no\":1}",
    ));
    let answer = call(us.listen, chat("hi")).await;
    assert_eq!((answer.status, answer.text()), (422, "{\"no\":1}"));
    assert_eq!(answer.header("retry-after"), "7");
    assert_eq!(answer.header("x-meridian-peer"), "eu/eu-1");
    let both = agreed(us, eu).await;
    assert_eq!((both.begun, both.client_error), (1, 1));
}

// If a peer's replicas fail before the first byte, the request is retried here.
#[tokio::test(start_paused = true)]
async fn a_failure_there_is_tried_again() {
    let (here, there) = (Replica::start().await, Replica::start().await);
    let world = World::of(&[&[&here], &[&there]]);
    let regions = world.start().await;
    let [us, eu] = &regions[..] else { panic!("two regions") };
    let busy = occupy(us, &here).await;
    there.always(Script::json(500, "{}"));
    let listen = us.listen;
    let waiting = tokio::spawn(async move { call(listen, chat("hi")).await });
    us.until("it is back", |s| s.held == 1).await;
    drop(busy);
    let answer = waiting.await.unwrap();
    assert_eq!((answer.status, answer.header("x-meridian-peer")), (200, ""));
    let both = agreed(us, eu).await;
    assert_eq!((both.failed, both.begun), (1, 1));
    assert_eq!(eu.settled().await.requests.failed, 1);
}

// If a peer is killed before the first byte, the request is retried elsewhere. If it is killed
// later, the client gets an error event, as with a broken replica.
#[tokio::test(start_paused = true)]
async fn a_killed_peer() {
    let replicas = [Replica::start().await, Replica::start().await];
    let world = World::of(&[&[&replicas[0]], &[&replicas[1]]]);
    let regions = world.start().await;
    let [us, eu] = &regions[..] else { panic!("two regions") };
    let busy = occupy(us, &replicas[0]).await;
    replicas[1].then(Script::sse().event(EVENT).hang()).then(Script::silence());
    let mut stream = open(us.listen, stream_chat("hi")).await;
    stream.read_to("data").await;
    // The second request does not fit there, so it gets capacity here.
    let listen = us.listen;
    eu.served.abort();
    let rest = stream.rest().await;
    assert!(!rest.cut && rest.text().contains("replica_failed"), "{}", rest.text());
    assert_eq!(rest.text().matches("data: {\"error\"").count(), 1, "{}", rest.text());
    let waiting = tokio::spawn(async move { call(listen, chat("hi")).await });
    us.until("the second request is queued", |s| s.held == 1).await;
    drop(busy);
    assert_eq!(waiting.await.unwrap().status, 200);
    let out = sent(us, "eu").await;
    assert_eq!(out.failed, out.begun);
    let status = us.settled().await;
    assert_eq!((status.requests.failed, status.requests.done), (1, 1));
}

// Before the first byte a lost peer costs only time.
#[tokio::test(start_paused = true)]
async fn a_peer_killed_before_the_first_byte() {
    let replicas = [Replica::start().await, Replica::start().await];
    let world = World::of(&[&[&replicas[0]], &[&replicas[1]]]);
    let regions = world.start().await;
    let [us, eu] = &regions[..] else { panic!("two regions") };
    let busy = occupy(us, &replicas[0]).await;
    replicas[1].then(Script::silence());
    let listen = us.listen;
    let waiting = tokio::spawn(async move { call(listen, chat("hi")).await });
    eventually("it is there", async || (replicas[1].count() == 1).then_some(())).await;
    eu.served.abort();
    us.until("it is back", |s| s.held == 1).await;
    drop(busy);
    assert_eq!(waiting.await.unwrap().status, 200);
    assert_eq!(sent(us, "eu").await.failed, 1);
    assert_eq!(us.settled().await.requests.failed, 0);
}

// Headers between gateways have no effect when a client sends them: the request does not count as
// forwarded, its tenant and key are its own, and the replica receives none of them.
#[tokio::test(start_paused = true)]
async fn clients_cannot_pass_for_peers() {
    let (here, there) = (Replica::start().await, Replica::start().await);
    let world = World::of(&[&[&here], &[&there]]);
    let regions = world.start().await;
    let [us, eu] = &regions[..] else { panic!("two regions") };
    let spoofed = || {
        let mut request = chat("hi");
        for (name, value) in [
            ("x-meridian-forward", "1"),
            ("x-meridian-hops", "1"),
            ("x-meridian-tenant", "other"),
            ("x-meridian-key", "7"),
            ("x-meridian-budget-ms", "0"),
            ("x-meridian-model", "n"),
        ] {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        request
    };
    assert_eq!(call(us.listen, spoofed()).await.status, 200);
    let ours = |(name, _): &&(String, String)| name.starts_with("x-meridian");
    assert_eq!(here.last().headers.iter().find(ours), None);
    // A request with a hop could not leave the region; this one does.
    let _busy = occupy(us, &here).await;
    let answer = call(us.listen, spoofed()).await;
    assert_eq!((answer.status, answer.header("x-meridian-peer")), (200, "eu/eu-1"));
    assert_eq!(there.last().headers.iter().find(ours), None);
    let both = agreed(us, eu).await;
    assert_eq!((both.begun, both.done), (1, 1));
}

// A region without replicas of its own serves its peers' models, and lists them.
#[tokio::test(start_paused = true)]
async fn a_region_without_replicas() {
    let there = Replica::start().await;
    let world = World::of(&[&[], &[&there]]);
    let regions = world.start().await;
    let us = &regions[0];
    let answer = call(us.listen, chat("hi")).await;
    assert_eq!((answer.status, answer.header("x-meridian-peer")), (200, "eu/eu-1"));
    assert!(crate::common::get(us.listen, "/v1/models").await.text().contains("\"m\""));
    let mut other = chat("hi");
    *other.body_mut() = r#"{"model":"unknown","messages":[]}"#.into();
    assert_eq!(call(us.listen, other).await.status, 503, "no model list is known here");
}

// A peer that does not serve a model gets no request for it.
#[tokio::test(start_paused = true)]
async fn only_who_serves_the_model() {
    let here = Replica::of(&["m", "n"]).await;
    let there = Replica::of(&["n"]).await;
    let world = World::of(&[&[&here], &[&there]]);
    let regions = world.start().await;
    let us = &regions[0];
    let busy = occupy(us, &here).await;
    let listen = us.listen;
    let waiting = tokio::spawn(async move { call(listen, chat("hi")).await });
    us.until("it waits here", |s| s.held == 1).await;
    drop(busy);
    assert_eq!(waiting.await.unwrap().header("x-meridian-peer"), "");
    assert_eq!(there.count(), 0);
}

// A conversation with its state at a peer continues there, with or without free capacity here. If
// the peer is gone, the client gets an error.
#[tokio::test(start_paused = true)]
async fn state_at_a_peer() {
    let (here, there) = (Replica::start().await, Replica::start().await);
    let world = World::of(&[&[&here], &[&there]]);
    let regions = world.start().await;
    let [us, eu] = &regions[..] else { panic!("two regions") };
    let busy = occupy(us, &here).await;
    there.then(Script::json(
        200,
        r#"{"id":"resp_1","object":"response","status":"completed","output":[]}"#,
    ));
    let ask = |previous: &str| {
        let body = format!(r#"{{"model":"m","input":"hi"{previous}}}"#);
        crate::common::request("POST", "/v1/responses", &body)
    };
    assert_eq!(call(us.listen, ask("")).await.header("x-meridian-peer"), "eu/eu-1");
    drop(busy);
    us.until("us has capacity", |s| s.replicas[0].outstanding == 0).await;
    let next = r#","previous_response_id":"resp_1""#;
    us.until("eu has capacity", |s| s.peers[0].eligible == 1).await;
    assert_eq!(call(us.listen, ask(next)).await.header("x-meridian-peer"), "eu/eu-1");
    assert_eq!(there.count(), 2);
    eu.served.abort();
    us.until("eu is gone", |s| s.peers[0].state == "gone").await;
    let answer = call(us.listen, ask(next)).await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "pinned_gone"));
}

// A gateway that shuts down accepts no new forwards and waits for the current ones.
#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_peers() {
    let (here, there) = (Replica::start().await, Replica::start().await);
    let world = World::of(&[&[&here], &[&there]]);
    let mut regions = world.start().await;
    let busy = occupy(&regions[0], &here).await;
    there.then(Script::stream(&[EVENT, EVENT, EVENT, DONE], 500 * MS));
    let mut answer = open(regions[0].listen, stream_chat("hi")).await;
    answer.read_to("data").await;
    regions[1].shut_down();
    let us = &regions[0];
    us.until("it has no capacity", |s| s.peers[0].usable == 0).await;
    let rest = answer.rest().await;
    assert!(!rest.cut && rest.text().ends_with(DONE), "{}", rest.text());
    regions.remove(1).served.await.unwrap().unwrap();
    drop(busy);
    assert_eq!(sent(&regions[0], "eu").await.done, 1);
}

/// A policy whose idle regions ask for the requests queued in others.
struct Asks;

impl Policy for Asks {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        Pick::unscored(choose::least_outstanding(view, draw).1, Why::NoMatch)
    }

    fn features(&self) -> Features {
        let forwarding = Forwarding { steals_above: Some(1), ..Forwarding::default() };
        Features { forwarding, ..Features::default() }
    }
}

static ASKS: Spec = Spec {
    name: "asks",
    summary: "fewest outstanding requests; an idle region asks others for queued ones",
    source: "this test",
    params: &[],
    admission: Admission::Pending,
    index: |_| None,
    head_bytes: |_| 0,
    build: |_| Box::new(Asks),
};

// An idle region asks a region with a long queue for work, and receives queued requests.
#[tokio::test(start_paused = true)]
async fn held_requests_are_handed_over() {
    let (here, there) = (Replica::start().await, Replica::start().await);
    let mut world = World::of(&[&[&here], &[&there]]);
    let known = policy::ALL.iter().copied().chain([&ASKS]);
    policies::install(Vec::leak(known.collect()));
    for config in &mut world.configs {
        config.policy.name = ASKS.name.to_owned();
    }
    // Its news is so rare that no peer forwards anything to it unasked.
    let seldom = peers(&mut world.configs[1]);
    (seldom.push, seldom.beat) = (Span::secs(10), Span::secs(10));
    (seldom.gone, seldom.stale) = (Span::secs(30), Span::secs(30));
    let regions = world.start().await;
    let [us, eu] = &regions[..] else { panic!("two regions") };
    let busy = [occupy(us, &here).await, occupy(eu, &there).await];
    tokio::time::sleep(Duration::from_secs(3)).await;
    let calls: Vec<_> = (0..4)
        .map(|n| {
            let listen = us.listen;
            tokio::spawn(async move { call(listen, chat(&format!("request {n}"))).await })
        })
        .collect();
    us.until("all are held", |s| s.held == 4).await;
    let [kept, given] = busy;
    drop(given);
    let stolen = eventually("some are handed over", async || {
        let sent = sent(us, "eu").await;
        (sent.done >= 1).then_some(sent.done)
    })
    .await;
    assert!(stolen >= 1);
    drop(kept);
    let mut reasons = Vec::new();
    for call in calls {
        let answer = call.await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        reasons.push(answer.header("x-meridian-reason").to_owned());
    }
    assert!(reasons.iter().any(|r| r == "stolen"), "{reasons:?}");
    let both = agreed(us, eu).await;
    assert_eq!(both.done + us.settled().await.replicas[0].done, 4);
}
