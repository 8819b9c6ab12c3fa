//! Three gateways of one region, as processes, in front of the same model engines. They reach each other
//! through a relay, so that one can be cut off.

use std::time::Duration;

use meridian_fleet::{
    Client, Distance, EngineCounts, EngineSpec, Error, Fleet, Gateway, GatewaySpec, PeersSpec,
    Process,
};
use meridian_protocol::admin::Status;
use meridian_protocol::units::Span;
use meridian_wan::config::{LinkSpec, LinkState, Rate, SetLink};
use serde_json::json;

use crate::common::{LIMIT, fleet, must, status_when};

pub(crate) const GATEWAYS: usize = 3;
/// The address of an ended gateway may be another process's for a moment.
const TRIES: usize = 50;

pub(crate) struct Trio {
    // Dropped in this order.
    pub(crate) gateways: Vec<Gateway>,
    pub(crate) engines: Vec<Process>,
    relay: Distance,
    specs: Vec<GatewaySpec>,
    pub(crate) fleet: Fleet,
    pub(crate) client: Client,
}

fn name(at: usize) -> String {
    format!("us-{}", at + 1)
}

fn route(from: usize, to: usize) -> String {
    format!("{}-{}", name(from), name(to))
}

/// All ordered pairs of gateways.
fn pairs() -> impl Iterator<Item = (usize, usize)> {
    let all = (0..GATEWAYS).flat_map(|from| (0..GATEWAYS).map(move |to| (from, to)));
    all.filter(|(from, to)| from != to)
}

async fn relay(fleet: &Fleet) -> Distance {
    let link = |(from, to)| LinkSpec {
        from: name(from),
        to: name(to),
        delay: Some(Span::millis(0)),
        jitter: Span::millis(0),
        rate: Rate(None),
    };
    let routes: Vec<_> = pairs().map(|(a, b)| (route(a, b), name(a), name(b))).collect();
    must(fleet.distance(&routes, pairs().map(link).collect()).await)
}

impl Trio {
    /// Starts the engines, so many times as fast as real ones, and the gateways. `further` is a part of
    /// their configuration.
    pub(crate) async fn start(engines: usize, time_scale: f64, further: &str) -> Trio {
        let fleet = fleet();
        let mut running = Vec::new();
        for n in 0..engines {
            let spec = EngineSpec { time_scale, ..EngineSpec::default() };
            running.push(must(fleet.engine(&format!("engine-{n}"), &spec).await));
        }
        let gateways: Vec<_> = (0..GATEWAYS).map(|at| (name(at), "us".to_owned())).collect();
        let certificates = must(fleet.certificates(&gateways).await);
        let relay = relay(&fleet).await;
        let spec = |at| {
            let (certificate, key) = certificates.of(&name(at));
            let others = (0..GATEWAYS).filter(|to| *to != at);
            let one = |to| (name(to), "us".to_owned(), relay.listens(&route(at, to)));
            GatewaySpec {
                region: "us".into(),
                replicas: running.iter().map(|engine| engine.said(0).to_owned()).collect(),
                peers: Some(PeersSpec {
                    listen: "127.0.0.1:0".into(),
                    files: [certificates.ca(), certificate, key],
                    gateways: others.map(one).collect(),
                    accept: Vec::new(),
                    digests: None,
                }),
                further: further.to_owned(),
                ..GatewaySpec::default()
            }
        };
        let specs = (0..GATEWAYS).map(spec).collect();
        let (gateways, client) = (Vec::new(), Client::new());
        let mut trio = Trio { gateways, engines: running, relay, specs, fleet, client };
        for at in 0..GATEWAYS {
            let gateway = must(trio.fleet.gateway(&name(at), &trio.specs[at]).await);
            trio.keep_addresses(at, &gateway).await;
            trio.gateways.push(gateway);
        }
        for at in 0..GATEWAYS {
            trio.until_up(at).await;
        }
        trio
    }

    /// Later starts of this gateway use the same addresses.
    async fn keep_addresses(&mut self, at: usize, gateway: &Gateway) {
        let address = |url: &str| url.trim_start_matches("http://").to_owned();
        let peers = gateway.peers.expect("it has siblings");
        let spec = &mut self.specs[at];
        (spec.listen, spec.admin) = (address(&gateway.url), address(&gateway.admin));
        spec.peers.as_mut().expect("it has siblings").listen = peers.to_string();
        for (from, to) in pairs().filter(|(_, to)| *to == at) {
            must(self.relay.leads_to(&route(from, to), peers).await);
        }
    }

    /// Starts a gateway again that has ended.
    pub(crate) async fn revive(&mut self, at: usize) {
        let mut tries = 0;
        self.gateways[at] = loop {
            tries += 1;
            match self.fleet.gateway(&name(at), &self.specs[at]).await {
                Err(Error::EndedEarly { .. }) if tries < TRIES => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                other => break must(other),
            }
        };
    }

    /// Ends a gateway as an operator would, and starts it again.
    pub(crate) async fn restart(&mut self, at: usize) {
        let process = &mut self.gateways[at].process;
        process.terminate();
        let status = must(process.wait(LIMIT).await);
        assert!(status.success(), "{status}: {}", process.log_tail());
        self.revive(at).await;
        self.until_up(at).await;
    }

    /// Waits until a gateway has found the engines and its siblings.
    pub(crate) async fn until_up(&self, at: usize) {
        let engines = self.engines.len();
        self.until(at, "engines and siblings are up", |status| {
            let siblings = status.peers.iter().filter(|p| p.state == "up" && p.sibling.is_some());
            crate::common::up(engines)(status) && siblings.count() == GATEWAYS - 1
        })
        .await;
    }

    pub(crate) async fn until(
        &self,
        at: usize,
        what: &str,
        is: impl Fn(&Status) -> bool,
    ) -> Status {
        let what = format!("{}: {what}", name(at));
        status_when(&self.client, &self.gateways[at], &what, is).await
    }

    /// Cuts a gateway off from the others, or connects it again.
    pub(crate) async fn set_links(&self, at: usize, state: LinkState) {
        for (from, to) in pairs().filter(|(from, to)| [from, to].contains(&&at)) {
            let set = SetLink { state: Some(state), ..SetLink::default() };
            must(self.relay.set_way(&name(from), &name(to), set).await);
        }
    }

    /// Where clients reach the gateways.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.gateways.iter().map(|gateway| gateway.url.clone()).collect()
    }

    /// What the engines have counted.
    pub(crate) async fn engines(&self) -> EngineCounts {
        let urls = self.engines.iter().map(|engine| engine.said(0));
        must(EngineCounts::ask(&self.client, urls).await)
    }
}

/// The requests of siblings that a gateway counts at its replicas.
pub(crate) fn of_siblings(status: &Status) -> u32 {
    status.replicas.iter().map(|replica| replica.of_siblings).sum()
}

/// A chat request for the engines' model.
pub(crate) fn chat(prompt: &str, tokens: u32, stream: bool) -> String {
    json!({
        "model": "llama-3.1-8b",
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": tokens,
        "stream": stream,
        "stream_options": stream.then(|| json!({"include_usage": true})),
    })
    .to_string()
}
