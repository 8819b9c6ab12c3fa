//! `meridian check --live`: it meets replicas and tries addresses as a start would.

use std::time::{Duration, SystemTime};

use meridian_config::Gateway as Config;
use meridian_gateway::{Live, check_live};
use meridian_protocol::admin::AddReplica;

use crate::common::{Fleet, Region, Replica, Script, StandIn, config, follow};
use crate::plane::Plane;

/// An answer of one token, with its cached tokens and at a time of its clock.
fn answer(cached: Option<u32>, date: SystemTime) -> Script {
    let details = cached.map_or(String::new(), |cached| {
        format!(r#","prompt_tokens_details":{{"cached_tokens":{cached}}}"#)
    });
    let body = format!(
        r#"{{"id":"x","choices":[{{"index":0,"message":{{"role":"assistant","content":"a"}}}}],"usage":{{"prompt_tokens":4,"completion_tokens":1{details}}}}}"#
    );
    let headers =
        format!("content-type: application/json\r\ndate: {}\r\n", httpdate::fmt_http_date(date));
    Script::answer(200, &headers, &body)
}

#[expect(clippy::disallowed_methods, reason = "the check compares the clock itself")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// The problems, without those that all replicas of `config` have.
async fn problems(config: &Config) -> Vec<String> {
    check_live(config).await.problems
}

fn has(live: &[String], parts: &[&str]) -> bool {
    live.iter().any(|line| parts.iter().all(|part| line.contains(part)))
}

// A replica that answers, reports cached tokens and has the right time is fine, and so are free
// addresses; the lines name the engine and the model. It gets one request, of one token.
#[tokio::test(start_paused = true)]
async fn what_works() {
    let replica = Replica::start().await;
    replica.always(answer(Some(0), now()));
    let Live { fine, problems } = check_live(&config(&[&replica])).await;
    assert_eq!(problems, Vec::<String>::new());
    assert!(has(&fine, &["listen: ", " is free"]), "{fine:?}");
    assert!(has(&fine, &["replicas[0].url: http://", "engine vllm", "model m"]), "{fine:?}");
    assert_eq!(replica.count(), 1);
    let sent: serde_json::Value = serde_json::from_slice(&replica.last().body).unwrap();
    assert_eq!((&sent["model"], &sent["max_tokens"]), (&"m".into(), &1.into()));
}

// A model without a chat template gets a completion.
#[tokio::test(start_paused = true)]
async fn without_a_chat_template() {
    let replica = Replica::start().await;
    replica.then(Script::json(400, r#"{"error":{"message":"no chat template"}}"#));
    replica.always(answer(Some(0), now()));
    assert_eq!(problems(&config(&[&replica])).await, Vec::<String>::new());
    assert_eq!(replica.last().target, "/v1/completions");
}

// What does not work is named with its field, and with the remedy.
#[tokio::test(start_paused = true)]
async fn what_does_not_work() {
    let hides = Replica::start().await;
    hides.always(answer(None, now()));
    let slow = Replica::start().await;
    slow.always(answer(Some(0), now() - Duration::from_secs(90)));
    let locked = Replica::start().await;
    locked.page("/v1/models", Script::json(401, "{}"));
    let fails = Replica::start().await;
    fails.always(Script::json(500, "{}"));
    let gone = Replica::start().await;
    gone.stop().await;
    let mut config = config(&[&hides, &slow, &locked, &fails, &gone]);
    config.replicas.push(AddReplica::at("https://127.0.0.1:1"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    config.admin = taken.local_addr().unwrap();
    let found = problems(&config).await;
    for parts in [
        ["admin: ", "is in use by another process"],
        ["replicas[0].url: ", "start vLLM with --enable-prompt-tokens-details"],
        ["replicas[1].url: ", "its clock is 9"],
        ["replicas[2].url: ", "the replica needs a key: set engine_key"],
        ["replicas[3].url: ", "500 Internal Server Error for a request of one token"],
        ["replicas[4].url: ", "start it, or correct its address"],
        ["replicas[5].url: https://127.0.0.1:1", "cannot connect: Connection refused"],
    ] {
        assert!(has(&found, &parts), "{parts:?} is not in {found:#?}");
    }
    assert_eq!(found.len(), 7, "{found:#?}");
    config.engine_key = Some("sk-other".into());
    let found = problems(&config).await;
    assert!(
        has(&found, &["replicas[2].url: ", "refuses the key: correct engine_key"]),
        "{found:?}"
    );
    assert!(!has(&found, &["sk-other"]), "{found:?}");
}

// A peer that runs answers; one that does not is named, with its address.
#[tokio::test(start_paused = true)]
async fn peers() {
    let (fleet, replica) = (Fleet::new("live"), Replica::start().await);
    replica.always(answer(Some(0), now()));
    let mut eu = fleet.gateway("eu", 7801, &[]);
    follow(&mut eu, "us", fleet.address(7802));
    let _eu = Region::start(eu).await;
    let mut us = fleet.gateway("us", 7802, &[&replica]);
    follow(&mut us, "eu", fleet.address(7801));
    follow(&mut us, "asia", fleet.address(7803));
    let Live { fine, problems } = check_live(&us).await;
    assert!(has(&fine, &["peers.listen: ", " is free"]), "{fine:?}");
    assert!(has(&fine, &["peers.gateways: ", "eu-1", " answers"]), "{fine:?}");
    let asia = fleet.address(7803).to_string();
    let parts = ["peers.gateways: ", "asia-1", &asia, "start it, or correct its address here"];
    assert!(has(&problems, &parts), "{problems:?}");
    assert_eq!(problems.len(), 1, "{problems:?}");
}

// Every control plane of the list is asked. One that is down is named, and one with another store.
#[tokio::test(start_paused = true)]
async fn control_planes() {
    let replica = Replica::start().await;
    replica.always(answer(Some(0), now()));
    let (plane, other) = (Plane::start("").await, Plane::start("").await);
    let twin = StandIn::of(plane.address()).await;
    let mut gone = StandIn::of(plane.address()).await;
    gone.kill().await;
    let urls = [gone.url(), plane.url(), twin.url(), other.url()];
    let text = format!("version: 1\ncontrol: {{url: ['{}'], name: us-1}}\n", urls.join("', '"));
    let mut config = config(&[&replica]);
    config.control = Config::read(&text).unwrap().control;
    let Live { fine, problems } = check_live(&config).await;
    for (at, url) in [(1, &urls[1]), (2, &urls[2])] {
        let parts = [&*format!("control.url[{at}]: {url}: "), "answers, at revision "];
        assert!(has(&fine, &parts), "{fine:?}");
    }
    let parts =
        ["control.url[0]: ", &urls[0], "cannot connect", "start it, or correct its address here"];
    assert!(has(&problems, &parts), "{problems:?}");
    let parts = ["control.url[3]: ", &urls[3], "has the store ", "and control.url[1] has "];
    assert!(has(&problems, &parts), "{problems:?}");
    assert_eq!(problems.len(), 2, "{problems:?}");
}
