//! Stateful responses: a request that continues one is sent to its replica, if it is of the same
//! tenant.

use meridian_config::Gateway as Config;

use crate::common::{Answer, Region, Replica, Script, call, chat, get, open, post, request};
use crate::forwards::{World, occupy_with};
use crate::tenants::{bearing, tenant};

const KEY: &str = "mk-0123456789abcdefghij";
const OTHER: &str = "mk-zyxwvutsrqponmlkjihg";

async fn respond(region: &Region, previous: Option<&str>) -> Answer {
    post(region.listen, "/v1/responses", &continuing(previous)).await
}

fn continuing(previous: Option<&str>) -> String {
    let previous = previous.map(|id| format!(r#","previous_response_id":"{id}""#));
    format!(r#"{{"model":"m","input":"hi"{}}}"#, previous.unwrap_or_default())
}

/// The same with a tenant's key.
async fn respond_to(region: &Region, key: &str, previous: Option<&str>) -> Answer {
    let request = request("POST", "/v1/responses", &continuing(previous));
    call(region.listen, bearing(request, key)).await
}

fn tenants(config: &mut Config) {
    config.tenants = vec![tenant("acme", KEY), tenant("other", OTHER)];
}

async fn two(ids: [&str; 2]) -> (Replica, Replica, Region) {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::of(&[&a, &b]).await;
    for (replica, id) in [(&a, ids[0]), (&b, ids[1])] {
        replica.always(Script::json(200, &format!(r#"{{"id":"{id}","object":"response"}}"#)));
    }
    (a, b, region)
}

// With strict round robin, a continued response goes to its own replica ten times out of ten.
#[tokio::test(start_paused = true)]
async fn continued_where_it_was_made() {
    let (_a, _b, region) = two(["resp_a", "resp_b"]).await;
    assert_eq!(respond(&region, None).await.header("x-meridian-replica"), "r0");
    assert_eq!(respond(&region, None).await.header("x-meridian-replica"), "r1");
    for _ in 0..10 {
        for (id, replica) in [("resp_b", "r1"), ("resp_a", "r0")] {
            let answer = respond(&region, Some(id)).await;
            assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, replica));
        }
    }
    assert_eq!(region.settled().await.requests.done, 22);
}

// Defect paths-call-by-call: a response is remembered as soon as its stream names it, so a client that leaves can ask
// for it, or cancel it.
#[tokio::test(start_paused = true)]
async fn left_in_mid_stream() {
    let (a, _b, region) = two(["x", "y"]).await;
    let events = [
        "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_s\"}}\n\n",
        "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\n",
    ];
    a.then(Script::sse().event(events[0]).event(events[1]).hang());
    let body = r#"{"model":"m","stream":true,"background":true,"input":"hi"}"#;
    let mut answer = open(region.listen, request("POST", "/v1/responses", body)).await;
    answer.read_to("delta").await;
    for _ in 0..3 {
        let cancel = post(region.listen, "/v1/responses/resp_s/cancel", "").await;
        assert_eq!(cancel.header("x-meridian-replica"), "r0");
    }
    drop(answer);
    for _ in 0..3 {
        let asked = get(region.listen, "/v1/responses/resp_s").await;
        assert_eq!(asked.header("x-meridian-replica"), "r0");
    }
    region.settled().await;
}

// A streamed response is remembered by the id in its events.
#[tokio::test(start_paused = true)]
async fn streamed() {
    let (a, _b, region) = two(["x", "y"]).await;
    let events = [
        "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_s\"}}\n\n",
        "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_s\"}}\n\n",
    ];
    a.then(Script::stream(&events, std::time::Duration::from_millis(1)));
    let body = r#"{"model":"m","stream":true,"input":"hi"}"#;
    let answer = post(region.listen, "/v1/responses", body).await;
    assert_eq!(
        (answer.text(), answer.header("x-meridian-replica")),
        (events.concat().as_str(), "r0")
    );
    for _ in 0..5 {
        assert_eq!(respond(&region, Some("resp_s")).await.header("x-meridian-replica"), "r0");
    }
}

// An unknown response id pins nothing: the engine answers it.
#[tokio::test(start_paused = true)]
async fn unknown_ids_are_free() {
    let (a, b, region) = two(["resp_a", "resp_b"]).await;
    for _ in 0..4 {
        assert_eq!(respond(&region, Some("resp_of_another")).await.status, 200);
    }
    assert_eq!((a.count(), b.count()), (2, 2));
}

// When the replica with a response is gone, its continuation is refused with that reason, even
// after another replica has taken its id.
#[tokio::test(start_paused = true)]
async fn gone() {
    let (_a, b, region) = two(["resp_a", "resp_b"]).await;
    respond(&region, None).await;
    respond(&region, None).await;
    assert_eq!(region.admin("DELETE", "/admin/replicas/0", "").await.status, 200);
    let c = Replica::start().await;
    for joined in [false, true] {
        if joined {
            let body = format!(r#"{{"url":"{}"}}"#, c.url());
            assert_eq!(region.admin("POST", "/admin/replicas", &body).await.status, 201);
            region.until("it is up", |s| s.replicas.iter().all(|r| r.state == "up")).await;
        }
        let answer = respond(&region, Some("resp_a")).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "pinned_gone"));
        assert_eq!(answer.json()["error"]["param"], "previous_response_id");
        assert_eq!(respond(&region, Some("resp_b")).await.header("x-meridian-replica"), "r1");
    }
    assert_eq!((b.count(), c.count()), (3, 0));
    region.settled().await;
}

// A response that ends after its replica was removed belongs to that replica: its continuation is
// refused as gone, and does not go to another replica that has the same id by now.
#[tokio::test(start_paused = true)]
async fn gone_before_its_end() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::of(&[&a]).await;
    let response = r#"{"id":"resp_a","object":"response"}"#;
    a.then(
        Script::head(response.len())
            .send("{")
            .wait(std::time::Duration::from_secs(5))
            .send(&response[1..]),
    );
    let mut running =
        open(region.listen, request("POST", "/v1/responses", &continuing(None))).await;
    running.read_to("{").await;
    assert_eq!(region.admin("DELETE", "/admin/replicas/r0", "").await.status, 200);
    let body = format!(r#"{{"url":"{}"}}"#, b.url());
    assert_eq!(region.admin("POST", "/admin/replicas", &body).await.status, 201);
    region.until("it has the id and serves", |s| s.replicas[0].models == ["m"]).await;
    assert_eq!(running.rest().await.status, 200);
    region.settled().await;
    let answer = respond(&region, Some("resp_a")).await;
    assert_eq!((answer.status, answer.code().as_str(), b.count()), (404, "pinned_gone", 0));
}

// A draining replica still serves continuations of its responses.
#[tokio::test(start_paused = true)]
async fn draining() {
    let (a, _b, region) = two(["resp_a", "resp_b"]).await;
    respond(&region, None).await;
    respond(&region, None).await;
    // A running request keeps it from leaving at once.
    a.then(Script::unfinished().hang());
    let mut running = open(region.listen, chat("hi")).await;
    running.read_to("{").await;
    assert_eq!(region.admin("DELETE", "/admin/replicas/0?drain=true", "").await.status, 202);
    assert_eq!(respond(&region, Some("resp_a")).await.header("x-meridian-replica"), "r0");
    for _ in 0..3 {
        assert_eq!(respond(&region, None).await.header("x-meridian-replica"), "r1");
    }
    drop(running);
    region.until("it is gone", |s| s.replicas.len() == 1).await;
    assert_eq!(respond(&region, Some("resp_a")).await.code(), "pinned_gone");
}

// A tenant can continue only its own responses: another tenant's response id gets the same answer
// as one that never existed, and no replica sees the request. With one replica, which knows both
// tenants' responses, only the gateway can separate them.
#[tokio::test(start_paused = true)]
async fn another_tenants_response_is_unknown() {
    let replica = Replica::start().await;
    replica.always(Script::json(200, r#"{"id":"resp_a","object":"response"}"#));
    let region = Region::with(&[&replica], tenants).await;
    assert_eq!(respond_to(&region, KEY, None).await.status, 200);
    assert_eq!(respond_to(&region, KEY, Some("resp_a")).await.status, 200);
    let theirs = respond_to(&region, OTHER, Some("resp_a")).await;
    let never = respond_to(&region, OTHER, Some("resp_never_given")).await;
    assert_eq!((theirs.status, theirs.code().as_str()), (404, "previous_response_not_found"));
    assert_eq!(theirs.json()["error"]["param"], "previous_response_id");
    assert_eq!((theirs.status, theirs.text()), (never.status, never.text()));
    let names = |answer: &Answer| {
        let id = |name: &&str| !["x-request-id", "date"].contains(name);
        answer.headers.keys().map(|n| n.as_str().to_owned()).filter(|n| id(&n.as_str())).collect()
    };
    let (theirs, never): (Vec<_>, Vec<_>) = (names(&theirs), names(&never));
    assert_eq!(theirs, never);
    assert_eq!(replica.count(), 2);
    // It does not change owners when an engine gives another tenant's response the same id.
    assert_eq!(respond_to(&region, OTHER, None).await.status, 200);
    let theirs = respond_to(&region, OTHER, Some("resp_a")).await;
    assert_eq!((theirs.status, theirs.code().as_str()), (404, "previous_response_not_found"));
    assert_eq!(respond_to(&region, KEY, Some("resp_a")).await.status, 200);
    let page = get(region.admin, "/metrics").await;
    assert!(page.text().contains("meridian_odd_answers_total{kind=\"taken_id\"} 1"));
    region.settled().await;
}

// An engine uses the request's id for the response. A tenant that sends the id of another tenant's
// response still gets a new one: the gateway passes no such id to the engine.
#[tokio::test(start_paused = true)]
async fn no_tenant_names_a_response() {
    let replica = Replica::start().await;
    replica.then(Script::json(200, r#"{"id":"resp_alice","object":"response"}"#));
    let region = Region::with(&[&replica], tenants).await;
    assert_eq!(respond_to(&region, KEY, None).await.status, 200);
    replica.then(Script::json(200, r#"{"id":"resp_bob","object":"response"}"#));
    let named = [
        r#""request_id":"resp_alice","rid":"resp_alice""#,
        r#""extra_body":{"request_id":"resp_alice"}"#,
        r#""request_id":"resp____prefill_addr_10.0.0.9:1___decode_addr_10.0.0.8:2_x""#,
    ];
    for named in named {
        let body = format!(r#"{{"model":"m","input":"hi","store":false,{named}}}"#);
        let request = request("POST", "/v1/responses", &body);
        assert_eq!(call(region.listen, bearing(request, OTHER)).await.status, 200);
        let sent = replica.last();
        assert!(!sent.text().contains("resp_"), "{}", sent.text());
    }
    let theirs = respond_to(&region, OTHER, Some("resp_alice")).await;
    assert_eq!((theirs.status, theirs.code().as_str()), (404, "previous_response_not_found"));
    region.settled().await;
}

// A response from a peer belongs to its tenant, too: it is continued at the peer, and refused to
// another tenant at either gateway.
#[tokio::test(start_paused = true)]
async fn at_a_peer() {
    let (here, there) = (Replica::start().await, Replica::start().await);
    there.always(Script::json(200, r#"{"id":"resp_eu","object":"response"}"#));
    let mut world = World::of(&[&[&here], &[&there]]);
    world.configs.iter_mut().for_each(tenants);
    let regions = world.start().await;
    let busy = occupy_with(&regions[0], &here, KEY).await;
    let answer = respond_to(&regions[0], KEY, None).await;
    assert_eq!((answer.status, answer.header("x-meridian-region")), (200, "eu"));
    drop(busy);
    regions[0].settled().await;
    let answer = respond_to(&regions[0], KEY, Some("resp_eu")).await;
    assert_eq!((answer.status, answer.header("x-meridian-region")), (200, "eu"));
    for region in &regions {
        let answer = respond_to(region, OTHER, Some("resp_eu")).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "previous_response_not_found"));
        assert_eq!(respond_to(&regions[1], KEY, Some("resp_eu")).await.status, 200);
    }
}
