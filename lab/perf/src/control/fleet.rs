//! Simulated gateways: to a control plane they look like real ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use meridian_base::{Rng, quantile};
use meridian_fleet::Client;
use meridian_protocol::admin::AddReplica;
use meridian_protocol::registry::{
    Announce, Export, Gateway, Leased, Load, Region, Renew, Replica, Seen, Snapshot,
};
use meridian_protocol::units::Span;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Options;

/// The gateways' default.
pub(super) const LEASE: Duration = Duration::from_secs(5);
const SEED: u64 = 1;

/// All gateways; they end when this is dropped.
pub(super) struct Gateways {
    _tasks: JoinSet<()>,
    seen: Arc<Mutex<SeenByAll>>,
}

#[derive(Default)]
struct SeenByAll {
    counts: Counts,
    /// When each renewal was sent, and how long it took.
    renewals: Vec<(Instant, Duration)>,
    why: String,
}

/// Counted by all gateways.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) renewed: u64,
    pub(super) failed: u64,
    /// Events of the watch.
    pub(super) events: u64,
    /// Their bytes.
    pub(super) bytes: u64,
}

impl Counts {
    pub(super) fn since(self, then: Counts) -> Counts {
        Counts {
            renewed: self.renewed - then.renewed,
            failed: self.failed - then.failed,
            events: self.events - then.events,
            bytes: self.bytes - then.bytes,
        }
    }
}

struct One {
    name: String,
    region: String,
    replicas: Vec<String>,
    admin: String,
    client: Client,
    rng: Rng,
    seen: Arc<Mutex<SeenByAll>>,
}

fn region(nth: u16) -> String {
    format!("region-{nth}")
}

fn replica(nth: u16, of: u16) -> String {
    format!("region-{nth}-{of}")
}

/// The records that operators write.
fn records(options: &Options) -> Export {
    let mut export = Export { version: 1, ..Export::default() };
    for nth in 0..options.gateways {
        export.regions.insert(region(nth), Region::default());
        for of in 0..options.replicas {
            let url = format!("http://10.{}.{}.{}:8000", nth, of / 250, of % 250 + 1);
            let spec = AddReplica::at(url);
            let record = Replica {
                region: region(nth),
                spec,
                labels: BTreeMap::new(),
                wanted: Default::default(),
            };
            export.replicas.insert(replica(nth, of), record);
        }
    }
    export
}

fn lock(seen: &Mutex<SeenByAll>) -> MutexGuard<'_, SeenByAll> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gateways {
    /// Writes the records of all replicas, and starts all gateways.
    pub(super) async fn start(options: &Options, admin: &str) -> anyhow::Result<Gateways> {
        let client = Client::new();
        let records = serde_json::to_string(&records(options))?;
        let answer = client.post(&format!("{admin}/admin/import"), records).await?;
        ensure!(answer.status == 200, "the import was refused: {}", answer.value());
        let (mut tasks, seen) = (JoinSet::new(), Arc::new(Mutex::new(SeenByAll::default())));
        for nth in 0..options.gateways {
            let one = || One {
                name: format!("gateway-{nth}"),
                region: region(nth),
                replicas: (0..options.replicas).map(|of| replica(nth, of)).collect(),
                admin: admin.to_owned(),
                client: client.clone(),
                rng: Rng::new(SEED).fork(nth.into()),
                seen: seen.clone(),
            };
            tasks.spawn(one().renew_forever());
            tasks.spawn(one().follow_forever());
        }
        Ok(Gateways { _tasks: tasks, seen })
    }

    pub(super) fn counts(&self) -> Counts {
        lock(&self.seen).counts
    }

    /// Why the last renewal failed.
    pub(super) fn why(&self) -> String {
        lock(&self.seen).why.clone()
    }

    /// The median and the 99th percentile of renewals that were sent since, in ms.
    pub(super) fn renewals(&self, since: Instant) -> [f64; 2] {
        let seen = lock(&self.seen);
        let times = seen.renewals.iter().filter(|(at, _)| *at >= since).map(|(_, took)| *took);
        let times: Vec<f64> = times.map(|took| took.as_secs_f64() * 1000.0).collect();
        [0.5, 0.99].map(|share| quantile(&times, share).unwrap_or(f64::NAN))
    }
}

impl One {
    async fn renew_forever(mut self) {
        // Gateways do not renew all at the same moment.
        tokio::time::sleep(LEASE.mul_f64(self.rng.unit() / 3.0)).await;
        let mut lease = None;
        loop {
            let began = Instant::now();
            match self.renew(lease.clone()).await {
                Ok(granted) => {
                    let mut seen = lock(&self.seen);
                    if lease.replace(granted).is_some() {
                        seen.counts.renewed += 1;
                        seen.renewals.push((began, began.elapsed()));
                    }
                }
                Err(error) => {
                    let mut seen = lock(&self.seen);
                    seen.counts.failed += 1;
                    seen.why = format!("{error:#}");
                    lease = None;
                }
            }
            tokio::time::sleep_until(began + LEASE / 3).await;
        }
    }

    /// Registers, or renews with a report.
    async fn renew(&mut self, lease: Option<String>) -> anyhow::Result<String> {
        let url = format!("{}/admin/gateways/{}", self.admin, self.name);
        let answer = match lease {
            None => {
                let gateway = Gateway {
                    region: self.region.clone(),
                    address: "http://10.0.0.1:8080".into(),
                    version: env!("CARGO_PKG_VERSION").into(),
                    ..Gateway::default()
                };
                let said = Announce { gateway, lease: Span(LEASE) };
                self.client.post(&url, serde_json::to_string(&said)?).await?
            }
            Some(lease) => {
                let report = self.report(lease);
                self.client.put(&url, serde_json::to_string(&report)?).await?
            }
        };
        ensure!((200..300).contains(&answer.status), "{}: {}", answer.status, answer.value());
        Ok(serde_json::from_slice::<Leased>(&answer.body)?.lease)
    }

    fn report(&mut self, lease: String) -> Renew {
        let rng = &mut self.rng;
        let mut load = || Load {
            seen: Seen { state: "up".into(), cause: "probed".into(), adopted: false },
            utilisation: rng.unit() as f32,
            running: rng.below(40) as u32,
            pending: rng.below(4) as u32,
        };
        let replicas = self.replicas.iter().map(|name| (name.clone(), load())).collect();
        Renew { lease, held: 0, replicas, rtt_ms: BTreeMap::new() }
    }

    /// Reads the registry and its changes; a broken watch begins again.
    async fn follow_forever(self) {
        loop {
            if let Err(error) = self.follow().await {
                lock(&self.seen).why = format!("{error:#}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn follow(&self) -> anyhow::Result<()> {
        let registry: Snapshot =
            self.client.json(&format!("{}/admin/registry", self.admin)).await?;
        let from = registry.revision + 1;
        let url = format!("{}/admin/watch?from={from}&store={}", self.admin, registry.store);
        let mut watch = self.client.follow(&url).await?;
        ensure!(watch.status == 200, "the watch was refused with {}", watch.status);
        while let Some(bytes) = watch.bytes().await? {
            // An event ends with an empty line.
            let events = bytes.windows(2).filter(|two| two == b"\n\n").count();
            let counts = &mut lock(&self.seen).counts;
            counts.events += events as u64;
            counts.bytes += bytes.len() as u64;
        }
        Ok(())
    }
}
