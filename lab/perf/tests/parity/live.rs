//! The live side: gateway, engines and clients on one thread, under paused time.

use std::collections::BTreeSet;
use std::future::Future;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use meridian_engined::{Network, Options};
use meridian_gateway::{Ready, serve};
use meridian_protocol::admin::{AddReplica, RoleName};
use meridian_workload::{Generator, Program, Walk};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::fleet::Fleet;
use crate::work::{self, Decision, Load, Paced, REGIONS, Source};
use crate::{client, pool};

/// A gateway's decisions, and all their reasons.
pub(crate) struct Live {
    pub(crate) decisions: Vec<Decision>,
    pub(crate) reasons: BTreeSet<String>,
}

pub(crate) fn run(policy: &str, load: &Load) -> Live {
    paused(async {
        let start = Instant::now();
        let fleet = Fleet::new();
        let mut gateways = Vec::new();
        for region in 0..load.sources.len() {
            gateways.push(gateway(policy, load, region, &fleet).await);
        }
        let seen = Arc::new(Seen { start, decisions: Mutex::default(), reasons: Mutex::default() });
        let mut clients = JoinSet::new();
        for (at, (source, ready)) in load.sources.iter().zip(&gateways).enumerate() {
            let (at, replicas, gateway) = (at as u32, load.replicas(), ready.listen);
            let region = Region { at, replicas, gateway, seen: seen.clone() };
            start_clients(&mut clients, source, &region);
        }
        while let Some(ended) = clients.join_next().await {
            ended.unwrap();
        }
        for ready in gateways {
            assert_eq!(client::failed_attempts(ready.admin).await, 0.0, "each had one attempt");
        }
        let mut decisions = std::mem::take(&mut *seen.decisions.lock().unwrap());
        decisions.sort();
        let reasons = std::mem::take(&mut *seen.reasons.lock().unwrap());
        Live { decisions, reasons }
    })
}

/// The clients of a region.
fn start_clients(clients: &mut JoinSet<()>, source: &Source, region: &Region) {
    match source {
        Source::Closed { clients: count, programs, generator } => {
            for client in 0..*count {
                let (region, generator) = (region.clone(), Paced(generator.clone()));
                let programs = *programs;
                clients.spawn(async move {
                    for ordinal in 0..programs {
                        let key = work::key(region.at, client, ordinal);
                        walk(&region, generator.program(key)).await;
                    }
                });
            }
        }
        Source::Open { programs, per_second, generator } => {
            for (at, program) in work::arrivals(*programs, *per_second, generator, region.at) {
                let region = region.clone();
                clients.spawn(async move {
                    sleep_until(region.seen.start + Duration::from_nanos(at.as_nanos())).await;
                    walk(&region, program).await;
                });
            }
        }
    }
}

/// Runs `work` on a thread whose clock advances when it is idle. Data in flight over loopback is
/// pending work: a datagram sent after it is awaited first.
fn paused<F: Future>(work: F) -> F::Output {
    let loopback = UdpSocket::bind("127.0.0.1:0").unwrap();
    loopback.connect(loopback.local_addr().unwrap()).unwrap();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).on_thread_park(move || {
        loopback.send(&[0]).unwrap();
        loopback.recv(&mut [0]).unwrap();
    });
    runtime.build().unwrap().block_on(work)
}

#[derive(Clone)]
struct Region {
    at: u32,
    /// Number of replicas in each region.
    replicas: u32,
    gateway: SocketAddr,
    seen: Arc<Seen>,
}

/// The records of all clients.
struct Seen {
    start: Instant,
    decisions: Mutex<Vec<Decision>>,
    reasons: Mutex<BTreeSet<String>>,
}

/// Starts a region's engines and their gateway, without advancing the time.
async fn gateway(policy: &str, load: &Load, region: usize, fleet: &Fleet) -> Ready {
    let mut config = work::config(policy);
    if load.sources.len() > 1 {
        fleet.connect(region, &mut config).await;
    }
    let kv_tokens = u64::from(work::engine(load).kv_blocks) * 16;
    let network = Network::in_memory();
    for role in load.roles {
        let (ready, is_ready) = oneshot::channel();
        let transfer = pool::transfer(*role, &network);
        let options = Options { transfer, ..Options::new(work::engine(load)) };
        let models = vec![options.served_model.clone()];
        let ready = |address: SocketAddr| ready.send(address).unwrap();
        tokio::spawn(async {
            meridian_engined::serve(options, ready, std::future::pending::<()>()).await.unwrap();
        });
        config.replicas.push(AddReplica {
            engine: "vllm".parse().expect("an engine of the table"),
            models,
            kv_tokens: Some(kv_tokens),
            role: RoleName(*role),
            ..AddReplica::at(format!("http://{}", is_ready.await.unwrap()))
        });
    }
    let (ready, is_ready) = oneshot::channel();
    let ready = |at: Ready| ready.send(at).unwrap();
    tokio::spawn(async { serve(config, 0, ready, std::future::pending()).await.unwrap() });
    is_ready.await.unwrap()
}

/// A client runs one program to its end.
async fn walk(region: &Region, program: Program) {
    let mut walk = Walk::<String>::new(program);
    let header = work::session_header(walk.program());
    let mut on = JoinSet::new();
    loop {
        while let Some(node) = walk.take() {
            let (body, think) = (client::body(&walk, node), walk.program().nodes[node].think);
            let (region, header) = (region.clone(), header.clone());
            let session = walk.program().session;
            on.spawn(async move {
                sleep(think).await;
                let sent = Instant::now();
                let answer = client::ask(region.gateway, &header, body).await;
                let peer = answer.peer.as_deref();
                let served = REGIONS.iter().position(|name| peer == Some(*name));
                let at = served.map_or(region.at, |at| at as u32);
                let index = |replica| at * region.replicas + replica;
                let decision = Decision {
                    sent_ms: sent.duration_since(region.seen.start).as_millis(),
                    session,
                    replica: index(answer.replica),
                    prefill: answer.prefill.map(index),
                    forwarded: peer.is_some(),
                    matched: answer.matched,
                    prompt: answer.prompt,
                    cached: answer.cached,
                    ttft_ms: answer.first.duration_since(sent).as_millis(),
                    e2e_ms: Instant::now().duration_since(sent).as_millis(),
                };
                region.seen.decisions.lock().unwrap().push(decision);
                region.seen.reasons.lock().unwrap().insert(answer.reason);
                (node, answer.text)
            });
        }
        let Some(ended) = on.join_next().await else { break };
        let (node, text) = ended.unwrap();
        walk.answered(node, text);
    }
}
