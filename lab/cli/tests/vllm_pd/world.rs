//! The engines, the gateways, and what they have counted.

use meridian_fleet::{Client, Fleet, Gateway, GatewaySpec};

use super::ask::{Asked, COMPLETION, Said};
use super::engines::{self, Engine, LEASE, Parts, Place};
use crate::common::{fleet, must, status_when, text, up};

/// The policy splits every request that can be split, and takes decode replicas in turn.
const POLICY: &str = "round_robin";
/// Health checks wait for a suspended engine, so that a case and not a health check ends it.
pub(super) const PATIENT: &str = "probe: {down_after: 30}\ntimeouts: {probe: 5s}\n";

/// A pair, a control engine, and a gateway in front of the pair.
pub(super) struct World {
    pub(super) prefill: Engine,
    pub(super) decode: Engine,
    pub(super) control: Engine,
    pub(super) gateway: Gateway,
    pub(super) client: Client,
    pub(super) parts: Parts,
    // Dropped last: it ends all processes.
    pub(super) fleet: Fleet,
}

impl World {
    /// Installs and starts everything; returns when the first pair of legs has succeeded.
    pub(super) async fn start() -> World {
        let fleet = fleet();
        let parts = engines::install(&fleet).await;
        let mut prefill = Place::new("prefill", true).start(&fleet, &parts).await;
        let mut decode = Place::new("decode", true).start(&fleet, &parts).await;
        let mut control = Place::new("control", false).start(&fleet, &parts).await;
        for engine in [&mut prefill, &mut decode, &mut control] {
            engine.ready().await;
            warm_up(engine).await;
        }
        let client = Client::new();
        let gateway = start_gateway(&fleet, "gateway", &[&prefill, &decode], "").await;
        status_when(&client, &gateway, "both engines", up(2)).await;
        let world = World { prefill, decode, control, gateway, client, parts, fleet };
        world.warm_up(&world.gateway).await;
        world
    }

    /// Waits until the gateway uses the pair. The first transfer includes a handshake.
    pub(super) async fn warm_up(&self, gateway: &Gateway) {
        for n in 0..100 {
            let asked = Asked::new(COMPLETION, &text(9000 + n, 40), 2, false);
            if asked.at(&gateway.url).await.prefill.is_some() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
        panic!("the gateway splits no request\n{}", gateway.process.log_tail());
    }

    /// Another gateway of the pair, with further lines of configuration.
    pub(super) async fn another(&self, name: &str, engines: &[&Engine], lines: &str) -> Gateway {
        let gateway = start_gateway(&self.fleet, name, engines, lines).await;
        status_when(&self.client, &gateway, "all engines", up(engines.len())).await;
        gateway
    }

    /// The sum of a metric of the pair's gateway, 0 if it is not there.
    pub(super) async fn counted(&self, name: &str) -> u64 {
        self.counted_by(&self.gateway, name).await
    }

    /// The same for another gateway.
    pub(super) async fn counted_by(&self, gateway: &Gateway, name: &str) -> u64 {
        must(self.client.scrape(&gateway.admin).await).count(name).unwrap_or(0)
    }

    /// A request of some length, with an answer that the control engine gives too.
    pub(super) async fn known(&self, seed: u64, words: usize) -> (Asked, Said) {
        let asked = Asked::new(COMPLETION, &text(seed, words), 16, false);
        let said = asked.at(&self.control.url).await;
        assert_eq!(said.status, 200, "the control engine answers");
        (asked, said)
    }

    /// Asserts that the gateway's answer to a request is right.
    pub(super) async fn is_right(&self, gateway: &Gateway, seed: u64) -> Said {
        let (asked, control) = self.known(seed, 60).await;
        let said = asked.at(&gateway.url).await;
        assert!(said.is(&control), "status {}, code {:?}", said.status, said.code);
        said
    }
}

/// The first request takes an engine long, on a busy machine a minute.
pub(super) async fn warm_up(engine: &Engine) {
    let first = Asked::new(COMPLETION, &text(8000, 40), 2, false);
    assert_eq!(first.at(&engine.url).await.status, 200, "{}", engine.place.name);
}

/// Prints a row of the table of cases.
pub(super) fn row(case: &str, client: &str, engines: &str) {
    println!("| {case} | {client} | {engines} |");
}

/// The gateway's roles follow from the engines' places: those without a connector serve whole
/// requests.
async fn start_gateway(fleet: &Fleet, name: &str, engines: &[&Engine], lines: &str) -> Gateway {
    let mut spec = GatewaySpec {
        policy: POLICY.into(),
        admission: Some("blind".into()),
        replicas: engines.iter().map(|engine| engine.url.clone()).collect(),
        kv_lease: Some(LEASE),
        further: PATIENT.into(),
        ..GatewaySpec::default()
    };
    spec.further.push_str(lines);
    for engine in engines {
        let role = match engine.place.name {
            "prefill" => "prefill",
            "decode" => "decode",
            _ => continue,
        };
        spec.roles.insert(engine.url.clone(), role);
    }
    must(fleet.gateway(name, &spec).await)
}
