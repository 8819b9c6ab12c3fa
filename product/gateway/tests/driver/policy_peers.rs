//! Policy changes by the control plane at gateways with peers.

use meridian_config::Gateway as Config;
use meridian_protocol::admin::Status;
use serde_json::{Value, json};

use crate::common::{Fleet, Region, Replica, call, chat, follow};
use crate::plane::Plane;

fn shares(status: &Status) -> bool {
    status.peers[0].state == "up" && status.peers[0].prefixes
}

// A policy that reads no prompts, as an operator might set it in an emergency, takes effect
// although a block size was announced to peers. So does one with another block size. Meanwhile no
// prefixes are shared; with the first block size they are again. Peers stay up and requests
// continue.
#[tokio::test(start_paused = true)]
async fn every_policy_takes_effect_on_gateways_with_peers() {
    let plane = Plane::start("").await;
    let fleet = Fleet::new("prod");
    let replica = Replica::start().await;
    let mut us = fleet.gateway("us", 1, &[&replica]);
    let mut eu = fleet.gateway("eu", 2, &[]);
    follow(&mut us, "eu", fleet.address(2));
    follow(&mut eu, "us", fleet.address(1));
    let meridian = Config::read("version: 1\npolicy: meridian\n").unwrap().policy;
    (us.policy, eu.policy) = (meridian.clone(), meridian);
    let text = format!("version: 1\ncontrol: {{url: '{}', name: us-1, lease: 3s}}\n", plane.url());
    us.control = Config::read(&text).unwrap().control;
    let us = Region::start(us).await;
    let eu = Region::start(eu).await;
    us.until("the peer shares prefixes", |s| s.policy == "meridian" && shares(s)).await;
    us.until("the control plane is followed", |s| s.control.as_ref().unwrap().leased).await;
    eu.until("eu sees the replica of us", |s| s.peers[0].eligible == 1).await;

    let other =
        json!({"name": "expression", "score": "outstanding - matched_tokens", "block_bytes": 128});
    for (policy, name) in [(json!("round_robin"), "round_robin"), (other, "expression")] {
        let (status, said) = plane.ask("PUT", "/admin/regions/us/policy", policy).await;
        assert_eq!(status, 200, "{said}");
        let status = us.until("it is in force", |s| s.policy == name).await;
        assert_eq!(status.control.unwrap().problems, [""; 0]);
        assert_eq!((status.peers[0].state.as_str(), status.peers[0].prefixes), ("up", false));
        for region in [&us, &eu] {
            assert_eq!(call(region.listen, chat("hi")).await.status, 200, "{name}");
        }
    }
    let (status, said) = plane.ask("DELETE", "/admin/regions/us/policy", Value::Null).await;
    assert_eq!(status, 200, "{said}");
    us.until("prefixes are shared again", |s| s.policy == "meridian" && shares(s)).await;
    assert_eq!(us.settled().await.requests.failed, 0);
}
