//! Residency: a request is served where its rule permits, and nowhere else.

use std::collections::BTreeMap;
use std::time::Duration;

use meridian_config::{AdmissionMode, Gateway as Config, ResidencyRule, TellClients, Topology};
use meridian_gateway::Given;
use meridian_protocol::admin::{Explanation, Status};
use meridian_protocol::units::Span;

use crate::common::{
    Answer, Fleet, Region, Replica, Script, call, chat, config, eventually, follow, open, peers,
    request, stream_chat,
};
use crate::tenants::{bearing, tenant};

pub(crate) const KEY: &str = "mk-0123456789abcdefghij";
pub(crate) const OTHER: &str = "mk-zyxwvutsrqponmlkjihg";
const NAMES: [&str; 3] = ["us", "eu", "asia"];

fn rule(run_in: &[&str]) -> ResidencyRule {
    ResidencyRule {
        name: "kept".to_owned(),
        tenants: vec!["acme".to_owned()],
        labels: BTreeMap::new(),
        models: Vec::new(),
        from: Vec::new(),
        run_in: run_in.iter().map(|place| (*place).to_owned()).collect(),
    }
}

/// `acme`'s requests may be served in these places; `other`'s anywhere.
pub(crate) fn kept(config: &mut Config, run_in: &[&str]) {
    config.tenants = vec![tenant("acme", KEY), tenant("other", OTHER)];
    config.residency.rules = vec![rule(run_in)];
    config.tell_clients = Some(TellClients::All);
}

/// Regions that follow each other, each with one replica that takes one request at a time.
pub(crate) struct World {
    pub(crate) fleet: Fleet,
    pub(crate) configs: Vec<Config>,
    pub(crate) replicas: Vec<Replica>,
}

impl World {
    pub(crate) async fn of(regions: usize) -> World {
        let (fleet, mut configs, mut replicas) = (Fleet::new("prod"), Vec::new(), Vec::new());
        for (at, name) in NAMES.iter().enumerate().take(regions) {
            let replica = Replica::start().await;
            let mut config = fleet.gateway(name, at as u16 + 1, &[&replica]);
            config.admission = Some(AdmissionMode::Outstanding(1));
            for other in (0..regions).filter(|other| *other != at) {
                follow(&mut config, NAMES[other], fleet.address(other as u16 + 1));
            }
            configs.push(config);
            replicas.push(replica);
        }
        World { fleet, configs, replicas }
    }

    pub(crate) fn each(mut self, change: impl Fn(&mut Config)) -> World {
        self.configs.iter_mut().for_each(change);
        self
    }

    pub(crate) async fn start(&self) -> Vec<Region> {
        let mut regions = Vec::new();
        for config in &self.configs {
            regions.push(Region::start(config.clone()).await);
        }
        for region in &regions {
            let known = |s: &Status| {
                let up = s.replicas.iter().all(|r| r.state == "up");
                let seen = |p: &meridian_protocol::admin::Peer| p.state == "up" && p.eligible > 0;
                up && s.peers.iter().all(seen)
            };
            region.until("all regions are connected", known).await;
        }
        regions
    }

    pub(crate) fn counts(&self) -> Vec<usize> {
        self.replicas.iter().map(Replica::count).collect()
    }
}

pub(crate) async fn ask(region: &Region, key: &str) -> Answer {
    call(region.listen, bearing(chat("hi"), key)).await
}

/// Counts of the rule: served, sent and refused. Breaches must be 0.
async fn books(region: &Region) -> (u64, u64, u64) {
    let residency = region.status().await.residency.expect("there are rules");
    assert_eq!(residency.breaches, 0);
    let row = &residency.rules[0];
    (row.served, row.sent, row.refused)
}

// A tenant with a rule is served where the rule permits, although the own replica is idle. The
// answer, the decision and the counts name the place and the rule. A tenant without a rule stays.
#[tokio::test(start_paused = true)]
async fn served_where_permitted() {
    for topology in ["two_layer", "waterfall"] {
        let world = World::of(3).await.each(|config| {
            kept(config, &["eu"]);
            config.topology = Topology { name: topology.to_owned(), above: None };
        });
        let regions = world.start().await;
        let answer = ask(&regions[0], KEY).await;
        assert_eq!(answer.status, 200, "{topology}: {}", answer.text());
        assert_eq!(answer.header("x-meridian-region"), "eu");
        assert_eq!(answer.header("x-meridian-residency"), "kept");
        assert_eq!(answer.header("x-meridian-peer"), "eu/eu-1");
        let free = ask(&regions[0], OTHER).await;
        assert_eq!((free.status, free.header("x-meridian-region")), (200, "us"));
        assert_eq!(free.header("x-meridian-residency"), "");
        let at_home = ask(&regions[1], KEY).await;
        assert_eq!((at_home.status, at_home.header("x-meridian-region")), (200, "eu"));
        assert_eq!(world.counts(), [1, 2, 0]);
        assert_eq!(books(&regions[0]).await, (0, 1, 0));
        assert_eq!(books(&regions[1]).await, (2, 0, 0));
        let id = answer.header("x-request-id");
        let answer = regions[0].admin("GET", &format!("/admin/explain/{id}"), "").await;
        let explained: Explanation = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(explained.rules, ["kept"]);
        assert_eq!(explained.candidates[0].ineligible.as_deref(), Some("not-permitted"));
        let asia = explained.peers.iter().find(|p| p.name == "asia/asia-1").unwrap();
        assert_eq!(asia.unavailable.as_deref(), Some("not-permitted"));
        let metrics = regions[0].admin("GET", "/metrics", "").await;
        assert!(
            metrics.text().contains("meridian_residency_total{rule=\"kept\",outcome=\"sent\"} 1")
        );
        assert!(metrics.text().contains("meridian_residency_breaches_total 0"));
    }
}

// If no permitted replica exists, the request is refused at once with the rule and the remedy, not
// as overload, and reaches no replica; also in the topology without forwards.
#[tokio::test(start_paused = true)]
async fn refused_where_nobody_may() {
    for topology in ["two_layer", "region_local"] {
        let world = World::of(2).await.each(|config| {
            kept(config, &["mars", "jurisdiction=mars"]);
            config.topology = Topology { name: topology.to_owned(), above: None };
        });
        let regions = world.start().await;
        let answer = ask(&regions[0], KEY).await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "not_permitted"));
        assert_eq!(answer.header("x-meridian-refused"), "not_permitted");
        assert_eq!(answer.header("x-meridian-residency"), "kept");
        assert_eq!(answer.json()["error"]["type"], "permission_error");
        let text = answer.text();
        assert!(text.contains("rule `kept` (in mars, jurisdiction=mars)"), "{text}");
        assert!(text.contains("residency.rules"), "{text}");
        let page = regions[0].admin("GET", "/admin/decisions?last=1", "").await;
        assert!(page.text().contains("no replica here is permitted"), "{}", page.text());
        assert_eq!((world.counts(), books(&regions[0]).await), (vec![0, 0], (0, 0, 1)));
    }
}

// A permitted region that is full, or gone, is waited for as long as a request may be queued. The
// refusal names the rule and the time to retry, and the idle replica here serves neither.
#[tokio::test(start_paused = true)]
async fn what_passes_is_waited_for() {
    let world = World::of(2).await.each(|config| {
        kept(config, &["eu"]);
        config.held.max_wait = Span::secs(2);
    });
    let mut regions = world.start().await;
    world.replicas[1].then(Script::sse().hang());
    world.replicas[1].load(0, 1, 0.1);
    let busy = open(regions[1].listen, bearing(chat("busy"), OTHER));
    let busy = tokio::spawn(busy);
    eventually("eu is full", async || (world.replicas[1].count() == 1).then_some(())).await;
    regions[0].until("us sees that eu is full", |s| s.peers[0].eligible == 0).await;
    let answer = ask(&regions[0], KEY).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "held_too_long"));
    busy.abort();
    regions[1].shut_down();
    drop(regions.pop());
    regions[0].until("eu is gone", |s| s.peers[0].state == "gone").await;
    let answer = ask(&regions[0], KEY).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "held_too_long"));
    let said = answer.text();
    assert!(said.contains("rule `kept` (in eu)"), "{said}");
    assert!(
        said.contains("peer eu/eu-1 is not connected") && said.contains("/admin/status"),
        "{said}"
    );
    assert_eq!(answer.header("x-meridian-residency"), "kept");
    assert!(answer.header("retry-after").parse::<u32>().is_ok_and(|seconds| seconds > 0));
    assert_eq!(world.counts()[0], 0);
    assert_eq!(books(&regions[0]).await, (0, 0, 0));
}

// A peer applies its own rules to a forwarded request and refuses it before any replica sees it.
// The two files may soon agree again, so the sender waits, retries once a second and not with every
// digest, and finally reports that there was no capacity.
#[tokio::test(start_paused = true)]
async fn a_peer_refuses_what_it_may_not_serve() {
    let mut world = World::of(2).await.each(|config| kept(config, &["us", "eu"]));
    world.configs[0].residency.rules[0].name = "ours".to_owned();
    world.configs[0].residency.rules[0].run_in = vec!["eu".to_owned()];
    world.configs[1].residency.rules[0].run_in = vec!["us".to_owned()];
    let regions = world.start().await;
    let answer = ask(&regions[0], KEY).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "held_too_long"));
    assert_eq!(world.counts(), [0, 0]);
    let refused = regions[1].status().await.peers[0].taken.refused;
    assert!((4..=11).contains(&refused), "{refused} times in 10 s");
    assert_eq!(books(&regions[1]).await, (0, 0, refused));
    assert_eq!(books(&regions[0]).await, (0, 0, 0));
}

// The first gateway's rules also hold at a peer that does not have them: the peer's replica in
// another place is not used, though it is the only one with free capacity.
#[tokio::test(start_paused = true)]
async fn rules_travel_with_the_request() {
    let mut world = World::of(2).await;
    kept(&mut world.configs[0], &["eu"]);
    let elsewhere = Replica::start().await;
    let mut spec = elsewhere.spec();
    spec.region = Some("asia".to_owned());
    world.configs[1].replicas.insert(0, spec);
    let regions = world.start().await;
    for n in 1..=3 {
        let answer = ask(&regions[0], KEY).await;
        assert_eq!((answer.status, answer.header("x-meridian-region")), (200, "eu"));
        assert_eq!((elsewhere.count(), world.replicas[1].count()), (0, n));
    }
    let residency = regions[1].status().await.residency.expect("rules were brought");
    assert_eq!((residency.rules[0].rule.as_str(), residency.rules[0].served), ("others", 3));
}

// Defect believed-places: a gateway of us that says its replicas are in eu gets no request that may
// only run in eu, not even while eu's own gateway is down. It gets them if the asker's file lists eu
// as a place of that peer. Labels of its replicas are believed no more than regions.
#[tokio::test(start_paused = true)]
async fn places_need_more_than_a_word() {
    for (claims, listed) in [("region", false), ("label", false), ("region", true), ("label", true)]
    {
        let mut world = World::of(3).await.each(|config| kept(config, &["eu", "jurisdiction=eu"]));
        let spec = &mut world.configs[0].replicas[0];
        let place = match claims {
            "region" => {
                spec.region = Some("eu".to_owned());
                "eu"
            }
            _ => {
                spec.labels.insert("jurisdiction".to_owned(), "eu".to_owned());
                "jurisdiction=eu"
            }
        };
        if listed {
            peers(&mut world.configs[2]).gateways[0].places = vec![place.to_owned()];
        }
        let mut regions = world.start().await;
        regions.remove(1).served.abort();
        let (us, asia) = (&regions[0], &regions[1]);
        let gone = |s: &Status| s.peers.iter().any(|p| p.region == "eu" && p.state == "gone");
        asia.until("eu is gone", gone).await;
        us.until("eu is gone", gone).await;
        let answer = ask(asia, KEY).await;
        let expected = if listed { (200, 1) } else { (503, 0) };
        assert_eq!((answer.status, world.counts()[0]), expected, "{claims}: {}", answer.text());
        let breaches = asia.status().await.residency.map_or(0, |residency| residency.breaches);
        assert_eq!(breaches, 0);
    }
}

// One gateway with the replicas of all regions: each replica has its own place, by region and by
// label, and a replica's label overrides its region's.
#[tokio::test(start_paused = true)]
async fn one_gateway_with_all_replicas() {
    let (us, eu, odd) = (Replica::start().await, Replica::start().await, Replica::start().await);
    let mut all = config(&[&us, &eu, &odd]);
    kept(&mut all, &["jurisdiction=eu"]);
    all.region = "us".to_owned();
    all.replicas[1].region = Some("eu".to_owned());
    all.replicas[2].region = Some("eu".to_owned());
    all.replicas[2].labels.insert("jurisdiction".to_owned(), "elsewhere".to_owned());
    let labels = BTreeMap::from([("jurisdiction".to_owned(), "eu".to_owned())]);
    all.residency.labels.insert("eu".to_owned(), labels);
    let region = Region::start(all).await;
    region.until("all are up", |s| s.replicas.iter().all(|r| r.state == "up")).await;
    for _ in 0..6 {
        let answer = ask(&region, KEY).await;
        assert_eq!((answer.status, answer.header("x-meridian-region")), (200, "eu"));
    }
    assert_eq!((us.count(), eu.count(), odd.count()), (0, 6, 0));
    assert_eq!(books(&region).await, (6, 0, 0));
    // The last permitted replica is removed: no permitted place is left in this configuration.
    let drained = region.admin("DELETE", "/admin/replicas/1?drain=true", "").await;
    assert_eq!(drained.status, 202);
    region.until("it is gone", |s| s.replicas.len() == 2).await;
    let answer = ask(&region, KEY).await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "not_permitted"));
}

// A failed attempt is retried where the rule permits, never elsewhere.
#[tokio::test(start_paused = true)]
async fn retries_stay_within() {
    let (here, one, two) = (Replica::start().await, Replica::start().await, Replica::start().await);
    let mut all = config(&[&here, &one, &two]);
    kept(&mut all, &["eu"]);
    all.region = "us".to_owned();
    for spec in &mut all.replicas[1..] {
        spec.region = Some("eu".to_owned());
    }
    let region = Region::start(all).await;
    region.until("all are up", |s| s.replicas.iter().all(|r| r.state == "up")).await;
    one.always(Script::json(500, "{\"error\":1}"));
    two.always(Script::json(500, "{\"error\":2}"));
    let answer = ask(&region, KEY).await;
    assert_eq!((answer.status, answer.code().as_str()), (502, "retries_exhausted"));
    assert_eq!((here.count(), one.count(), two.count()), (0, 1, 1));
}

// A stream that breaks is resumed where the rule permits, never elsewhere. Without a permitted
// replica it ends as broken, though another replica has free capacity.
#[tokio::test(start_paused = true)]
async fn broken_streams_stay_within() {
    let (here, one, two) = (Replica::start().await, Replica::start().await, Replica::start().await);
    let mut all = config(&[&here, &one, &two]);
    kept(&mut all, &["eu"]);
    all.region = "us".to_owned();
    all.resume = Some(Default::default());
    all.probe.down_after = 1_000_000;
    for spec in &mut all.replicas[1..] {
        spec.region = Some("eu".to_owned());
    }
    let region = Region::start(all).await;
    region.until("all are up", |s| s.replicas.iter().all(|r| r.state == "up")).await;
    let word = "data: {\"id\":\"a\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"w\"},\"finish_reason\":null}]}\n\n";
    for replica in [&one, &two] {
        replica.always(
            Script::sse().event(word).event("data: {\"id").wait(Duration::from_millis(1)).close(),
        );
    }
    let answer = call(region.listen, bearing(stream_chat("hi"), KEY)).await;
    assert_eq!((answer.status, answer.header("x-meridian-region")), (200, "eu"));
    assert!(answer.text().contains("error"), "{}", answer.text());
    assert_eq!((here.count(), one.count() + two.count()), (0, 2));
    assert_eq!(books(&region).await, (1, 0, 0));
}

// A region that accepts forwards but sends none: requests that entered there stay, full or not;
// others may be forwarded there.
#[tokio::test(start_paused = true)]
async fn takes_in_and_sends_nothing_out() {
    let world = World::of(2).await.each(|config| {
        config.held.max_wait = Span::secs(1);
        config.residency.rules = vec![ResidencyRule {
            tenants: Vec::new(),
            from: vec!["eu".to_owned()],
            ..rule(&["eu"])
        }];
    });
    let regions = world.start().await;
    for at in 0..2 {
        world.replicas[at].then(Script::sse().event("data: {}\n\n").hang());
        world.replicas[at].load(0, 1, 0.1);
        let mut busy = open(regions[at].listen, stream_chat("busy")).await;
        busy.read_to("data").await;
        let answer = call(regions[at].listen, chat("hi")).await;
        match at {
            0 => assert_eq!((answer.status, answer.header("x-meridian-region")), (200, "eu")),
            _ => assert_eq!((answer.status, answer.code().as_str()), (503, "held_too_long")),
        }
        drop(busy);
        world.replicas[at].load(0, 0, 0.0);
        regions[0].settled().await;
        regions[1 - at].until("there is capacity again", |s| s.peers[0].eligible == 1).await;
    }
}

// A response stored at a peer bypasses no rule: a rule added later keeps its tenant from continuing
// it there.
#[tokio::test(start_paused = true)]
async fn state_elsewhere_is_no_way_round() {
    let mut world = World::of(2).await.each(|config| kept(config, &["us"]));
    let later = world.configs[0].clone();
    for config in &mut world.configs {
        config.residency.rules[0].tenants = vec!["other".to_owned()];
    }
    let id = std::process::id();
    let file = std::env::temp_dir().join(format!("meridian-residency-state-{id}.yaml"));
    std::fs::write(&file, world.configs[0].print_with_secrets().unwrap()).unwrap();
    let given = Given { file: Some(file.clone()), ..Given::from(world.configs[0].clone()) };
    let regions = [Region::start(given).await, Region::start(world.configs[1].clone()).await];
    regions[0].until("eu is known", |s| s.peers[0].state == "up" && s.peers[0].eligible > 0).await;
    world.replicas[0].then(Script::sse().event("data: {}\n\n").hang());
    world.replicas[0].load(0, 1, 0.1);
    let mut busy = open(regions[0].listen, bearing(stream_chat("busy"), OTHER)).await;
    busy.read_to("data").await;
    world.replicas[1].always(Script::json(200, r#"{"id":"resp_a","object":"response"}"#));
    let respond = |previous: &str| {
        let body = format!(r#"{{"model":"m","input":"hi"{previous}}}"#);
        call(regions[0].listen, bearing(request("POST", "/v1/responses", &body), KEY))
    };
    let first = respond("").await;
    assert_eq!((first.status, first.header("x-meridian-region")), (200, "eu"));
    let previous = r#","previous_response_id":"resp_a""#;
    let on = respond(previous).await;
    assert_eq!((on.status, on.header("x-meridian-region")), (200, "eu"));
    std::fs::write(&file, later.print_with_secrets().unwrap()).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let refused = respond(previous).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "not_permitted"));
    assert_eq!(world.replicas[1].count(), 2);
    drop(busy);
    let _ = std::fs::remove_file(&file);
}

// A peer that never connected has not reported the places of its replicas. It gets no requests, and
// is waited for, since the configuration lists it.
#[tokio::test(start_paused = true)]
async fn an_unknown_peer_gets_nothing() {
    let mut world = World::of(2).await.each(|config| kept(config, &["eu"]));
    let unused = world.fleet.address(9).to_string();
    peers(&mut world.configs[0]).gateways[0].address = unused;
    let region = Region::start(world.configs[0].clone()).await;
    region.until("it is up", |s| s.replicas.iter().all(|r| r.state == "up")).await;
    let answer = ask(&region, KEY).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "held_too_long"));
    assert_eq!(world.counts(), [0, 0]);
}
