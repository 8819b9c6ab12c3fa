//! Answers that live at a replica: whoever continues one is sent there.

use crate::common::{Answer, Region, Replica, Script, chat, open, post};

async fn respond(region: &Region, previous: Option<&str>) -> Answer {
    let previous = previous.map(|id| format!(r#","previous_response_id":"{id}""#));
    let body = format!(r#"{{"model":"m","input":"hi"{}}}"#, previous.unwrap_or_default());
    post(region.listen, "/v1/responses", &body).await
}

async fn two(ids: [&str; 2]) -> (Replica, Replica, Region) {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::of(&[&a, &b]).await;
    for (replica, id) in [(&a, ids[0]), (&b, ids[1])] {
        replica.always(Script::json(200, &format!(r#"{{"id":"{id}","object":"response"}}"#)));
    }
    (a, b, region)
}

// With turns taken strictly, a continued response goes to its own replica ten times of ten.
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

// An id that this gateway never saw binds to nothing: the engines know what to say to it.
#[tokio::test(start_paused = true)]
async fn unknown_ids_are_free() {
    let (a, b, region) = two(["resp_a", "resp_b"]).await;
    for _ in 0..4 {
        assert_eq!(respond(&region, Some("resp_of_another")).await.status, 200);
    }
    assert_eq!((a.count(), b.count()), (2, 2));
}

// When the replica that held a response is gone, its continuation is refused by name, also after
// another replica has taken its place.
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

// A draining replica still serves what lives there.
#[tokio::test(start_paused = true)]
async fn draining() {
    let (a, _b, region) = two(["resp_a", "resp_b"]).await;
    respond(&region, None).await;
    respond(&region, None).await;
    // Something runs there, or it would be gone at once.
    a.then(Script::head(2).send("{").hang());
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
