//! Gateways of one region, which tell each other of their requests.

use std::net::SocketAddr;
use std::time::Duration;

use meridian_config::{Gateway as Config, Peer};
use meridian_protocol::admin::{self, Status};
use meridian_protocol::peer::Identity;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};

use crate::common::{Fleet, Region, Replica, Script, call, chat, eventually, get, peers, post};

/// A prompt of some hundred blocks.
fn prompt() -> String {
    "a long way to go ".repeat(400)
}

/// The gateway `us-N`, at the peer port N, with a policy that has a prefix index.
pub(crate) fn gateway(fleet: &Fleet, number: u16, replicas: &[&Replica]) -> Config {
    let name = format!("us-{number}");
    let identity = Identity::new("prod", "us", &name).unwrap();
    let mut config = fleet.gateway_of(&identity, &name, number, replicas);
    config.policy = Config::read("version: 1\npolicy: meridian\n").unwrap().policy;
    config
}

pub(crate) fn lists(config: &mut Config, number: u16, address: SocketAddr) {
    peers(config).gateways.push(Peer {
        name: format!("us-{number}"),
        region: "us".to_owned(),
        continent: None,
        address: address.to_string(),
        places: Vec::new(),
    });
}

/// Two gateways of one region that list each other. Both have the replicas, in other orders.
pub(crate) fn two(fleet: &Fleet, replicas: [&Replica; 2]) -> (Config, Config) {
    let [a, b] = replicas;
    let (mut first, mut second) = (gateway(fleet, 1, &[a, b]), gateway(fleet, 2, &[b, a]));
    lists(&mut first, 2, fleet.address(2));
    lists(&mut second, 1, fleet.address(1));
    (first, second)
}

pub(crate) fn is_up(status: &Status) -> bool {
    let replica = |r: &admin::Replica| r.state == "up" && !r.models.is_empty();
    status.peers[0].state == "up" && status.replicas.iter().all(replica)
}

pub(crate) fn of_siblings(status: &Status) -> u32 {
    status.replicas.iter().map(|replica| replica.of_siblings).sum()
}

fn sibling(status: &Status) -> admin::Sibling {
    status.peers[0].sibling.expect("is a sibling")
}

/// What a gateway would do with the prompt.
async fn explained(region: &Region, prompt: &str) -> admin::Explanation {
    let mut request = chat(prompt);
    request.headers_mut().insert("x-meridian-dry-run", "true".parse().unwrap());
    let answer = call(region.listen, request).await;
    assert_eq!(answer.status, 200);
    serde_json::from_slice(&answer.body).unwrap()
}

/// The replica that a gateway would choose for the prompt, and the share that it expects to be cached.
async fn expects(region: &Region, prompt: &str) -> (String, f64) {
    let explained = explained(region, prompt).await;
    let picked = explained.picked.unwrap();
    let candidate = explained.candidates.iter().find(|c| c.url == picked).unwrap();
    (picked, f64::from(candidate.matched_tokens) / f64::from(candidate.prompt_tokens))
}

// A prompt that one gateway sent is known at the other one: where it is, and that it has ended. No
// request is forwarded between them.
#[tokio::test(start_paused = true)]
async fn prompts_are_known() {
    let fleet = Fleet::new("prod");
    let both = [Replica::start().await, Replica::start().await];
    let (first, second) = two(&fleet, [&both[0], &both[1]]);
    let (first, second) = (Region::start(first).await, Region::start(second).await);
    for region in [&first, &second] {
        region.until("its sibling and replicas are up", is_up).await;
    }
    let (_, before) = expects(&second, &prompt()).await;
    assert!(before < 0.1, "{before}");
    assert_eq!(call(first.listen, chat(&prompt())).await.status, 200);
    let read = both.iter().find(|replica| replica.count() == 1).unwrap();
    let told = second.until("three records are heard", |s| sibling(s).heard == 3).await;
    let (picked, matched) = expects(&second, &prompt()).await;
    assert!(picked == read.url() && matched > 0.9, "{picked}: {matched}");
    assert_eq!(of_siblings(&told), 0);

    let teller = sibling(&first.status().await);
    assert_eq!((teller.told, teller.told_bytes), (3, sibling(&told).heard_bytes));
    assert_eq!((told.peers[0].digests, told.peers[0].eligible), (0, 0));
    assert!(told.peers[0].rtt_ms >= 0.0 && told.peers[0].prefixes);
    let page = String::from_utf8(get(second.admin, "/metrics").await.body.to_vec()).unwrap();
    let line = r#"meridian_sibling_records_total{peer="us/us-1",way="heard"} 3"#;
    assert!(page.contains(line), "{page}");
}

/// Leads connections to a gateway until it is dropped, which cuts them off.
struct Cable {
    door: SocketAddr,
    task: JoinHandle<()>,
}

impl Cable {
    async fn to(target: SocketAddr, door: SocketAddr) -> Cable {
        let listener = TcpListener::bind(door).await.unwrap();
        let door = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            let mut all = JoinSet::new();
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                all.spawn(async move {
                    let Ok(mut far) = TcpStream::connect(target).await else { return };
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        Cable { door, task }
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// What a sibling has in flight counts at its replica until it ends, or until the sibling is lost. If that
// one is connected again, it tells everything again.
#[tokio::test(start_paused = true)]
async fn requests_in_flight_count() {
    let fleet = Fleet::new("prod");
    let both = [Replica::start().await, Replica::start().await];
    let cable = Cable::to(fleet.address(1), "127.0.0.1:0".parse().unwrap()).await;
    let (first, mut second) = two(&fleet, [&both[0], &both[1]]);
    peers(&mut second).gateways[0].address = cable.door.to_string();
    let (first, second) = (Region::start(first).await, Region::start(second).await);
    for region in [&first, &second] {
        region.until("its sibling and replicas are up", is_up).await;
    }
    both.iter().for_each(|replica| {
        replica.always(Script::silence());
    });
    let listen = first.listen;
    let client = tokio::spawn(async move { call(listen, chat(&prompt())).await });
    let status = second.until("it counts", |s| of_siblings(s) == 1).await;
    let busy = status.replicas.iter().find(|replica| replica.of_siblings == 1).unwrap();
    let read = eventually("it arrives", async || both.iter().find(|r| r.count() == 1)).await;
    assert_eq!((&busy.url, busy.outstanding), (&read.url(), 0));
    for c in explained(&second, "another").await.candidates {
        let theirs = c.of_siblings.map(|of| (of.outstanding, of.waiting, of.front_tokens));
        let all = (c.outstanding > 0).then_some((1, 1, c.front_tokens));
        assert_eq!((theirs, theirs.is_some()), (all, c.url == read.url()));
    }

    let door = cable.door;
    drop(cable);
    second.until("the sibling is lost", |s| s.peers[0].state == "gone").await;
    let status = second.until("it no longer counts", |s| of_siblings(s) == 0).await;
    assert!(status.peers[0].problem.is_some());
    let cable = Cable::to(fleet.address(1), door).await;
    second.until("it counts again", |s| of_siblings(s) == 1).await;
    assert_eq!(second.status().await.peers[0].problem, None);
    client.abort();
    second.until("its client left", |s| of_siblings(s) == 0).await;
    drop(cable);
}

// A gateway that starts knows the prefixes that its sibling knows, and what it has in flight.
#[tokio::test(start_paused = true)]
async fn a_restart_keeps_what_is_known() {
    let fleet = Fleet::new("prod");
    let both = [Replica::start().await, Replica::start().await];
    let (first, second) = two(&fleet, [&both[0], &both[1]]);
    let first = Region::start(first).await;
    first.until("the replicas are up", |s| s.replicas.iter().all(|r| r.state == "up")).await;
    assert_eq!(call(first.listen, chat(&prompt())).await.status, 200);
    let read = both.iter().find(|replica| replica.count() == 1).unwrap();
    both.iter().for_each(|replica| {
        replica.always(Script::silence());
    });
    let listen = first.listen;
    let client = tokio::spawn(async move { call(listen, chat("another")).await });
    first.until("one is in flight", |s| s.requests.in_flight == 1).await;
    for _ in 0..2 {
        let started = Instant::now();
        let mut again = Region::start(second.clone()).await;
        again.until("its sibling and replicas are up", is_up).await;
        let knows = async || Some(expects(&again, &prompt()).await).filter(|(_, m)| *m > 0.9);
        let (picked, _) = eventually("it knows the prompt", knows).await;
        assert_eq!(picked, read.url());
        again.until("it counts what is in flight", |s| of_siblings(s) == 1).await;
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
        again.shut_down();
        again.served.await.unwrap().unwrap();
    }
    client.abort();
}

// Without a common secret, gateways of one region share load but not prefixes.
#[tokio::test(start_paused = true)]
async fn other_secrets_share_load() {
    let fleet = Fleet::new("prod");
    let both = [Replica::start().await, Replica::start().await];
    let (first, mut second) = two(&fleet, [&both[0], &both[1]]);
    second.secret = Some("another".into());
    let (first, second) = (Region::start(first).await, Region::start(second).await);
    for region in [&first, &second] {
        region.until("its sibling and replicas are up", is_up).await;
    }
    assert_eq!(call(first.listen, chat(&prompt())).await.status, 200);
    let status = second.until("three records are heard", |s| sibling(s).heard == 3).await;
    assert!(sibling(&status).heard_bytes < 200, "{:?}", sibling(&status));
    let (_, matched) = expects(&second, &prompt()).await;
    assert!(matched < 0.1, "{matched}");
    assert!(status.peers[0].problem.as_deref().is_some_and(|p| p.contains("the same `secret`")));
}

// Queries for a model that no replica serves do not wait for a sibling, which gets no requests; and a gateway
// whose sibling has never answered serves as without one.
#[tokio::test(start_paused = true)]
async fn a_sibling_gets_no_requests() {
    let fleet = Fleet::new("prod");
    let both = [Replica::start().await, Replica::start().await];
    let (first, _) = two(&fleet, [&both[0], &both[1]]);
    let first = Region::start(first).await;
    let up = |s: &Status| s.replicas.iter().all(|r| r.state == "up" && !r.models.is_empty());
    let status = first.until("the replicas are up", up).await;
    assert_eq!(status.peers[0].state, "gone");
    assert_eq!(call(first.listen, chat("hi")).await.status, 200);
    let body = r#"{"model": "none", "messages": [{"role": "user", "content": "hi"}]}"#;
    let answer = post(first.listen, "/v1/chat/completions", body).await;
    assert_eq!(answer.status, 404, "{}", answer.text());
    assert_eq!(first.settled().await.peers[0].sent.begun, 0);
}

// A gateway is ready when its sibling has told what it knows. One that reaches no sibling is ready after
// `peers.gone`, and serves requests before.
#[tokio::test(start_paused = true)]
async fn ready_with_what_others_know() {
    let fleet = Fleet::new("prod");
    let both = [Replica::start().await, Replica::start().await];
    let (first, second) = two(&fleet, [&both[0], &both[1]]);
    let first = Region::start(first).await;
    let up = |s: &Status| s.replicas.iter().all(|r| r.state == "up" && !r.models.is_empty());
    first.until("the replicas are up", up).await;
    for port in [first.listen, first.admin] {
        let early = get(port, "/ready").await;
        assert_eq!(early.status, 503);
        assert!(early.text().contains("what the other gateways"), "{}", early.text());
    }
    assert_eq!(call(first.listen, chat(&prompt())).await.status, 200);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(get(first.listen, "/ready").await.status, 200);

    let started = Instant::now();
    let second = Region::start(second).await;
    let is_ready = async || Some(get(second.listen, "/ready").await.status).filter(|s| *s == 200);
    eventually("it is ready", is_ready).await;
    let (_, matched) = expects(&second, &prompt()).await;
    assert!(matched > 0.9, "{matched}");
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
}
