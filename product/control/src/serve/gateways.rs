//! Requests of gateways: register, renew and report, deregister.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::StatusCode;
use meridian_base::Duration;
use meridian_config::public_problems;
use meridian_protocol::peer::Party;
use meridian_protocol::registry::{Announce, Leased, Renew};

use super::Shared;
use super::answer::{Answered, Refusal, page, status_page};
use super::api::{Asked, read, unknown};
use super::secured::may_serve;
use crate::Error;
use crate::limits::TTL;
use crate::registry::{Key, Refused, region_name};
use crate::store::{LeaseId, Store};

const ANNOUNCE: &str = r#"{"gateway": {"region": "eu", "address": "http://host:port", "version": "0.1.0"}, "lease": "5s"}"#;
const RENEW: &str =
    r#"{"lease": "1f"}, with the lease as it was granted, held, replicas and rtt_ms"#;
/// Longest lease, and the longest texts in a gateway's record.
const MOST_LEASE: Duration = Duration::from_secs(3600);
const MOST_TEXT: usize = 512;
const _: () = assert!(MOST_LEASE.as_secs() <= TTL.as_secs(), "a store grants the longest lease");
/// A round trip is stored again when it differs by this share and by this many ms.
const DIFFERS: (f64, f64) = (0.25, 2.0);

/// Answers one request of the gateway `name`.
pub(super) async fn answer(
    shared: &Arc<Shared>,
    party: Option<&Party>,
    method: &str,
    name: &str,
    asked: &Asked,
) -> Answered {
    match method {
        "POST" => {
            let said: Announce = read(&asked.body, ANNOUNCE)?;
            may_serve(party, &said.gateway.region)?;
            announce(shared, name, said).await
        }
        "PUT" => renew(shared, name, read(&asked.body, RENEW)?).await,
        "DELETE" => {
            let lease = asked.query.text("lease").unwrap_or_default();
            shared.registry.retire(name, parse(lease)?).await?;
            tracing::info!(gateway = name, "a gateway left");
            Ok(page(&"left"))
        }
        _ => Err(unknown()),
    }
}

async fn announce(shared: &Shared, name: &str, said: Announce) -> Answered {
    let lease = said.lease.0;
    if lease.is_zero() || lease > MOST_LEASE {
        let message = format!("lease: {} s is out of range; use 1s to 1h", lease.as_secs_f64());
        return Err(Refusal::bad("invalid_lease", message));
    }
    let gateway = said.gateway;
    let peer = gateway.peer_address.as_deref().unwrap_or_default();
    if [&gateway.address, &gateway.version, peer].iter().any(|text| text.len() > MOST_TEXT) {
        let message = format!(
            "gateway: an address or version is longer than {MOST_TEXT} bytes; use a shorter one"
        );
        return Err(Refusal::bad("invalid_record", message));
    }
    let problems = public_problems("gateway.public", &gateway.public);
    if !problems.is_empty() {
        return Err(Refusal::bad("invalid_record", problems.join("\n")));
    }
    distances(&gateway.rtt_ms)?;
    let announced = shared.registry.announce(name, &gateway, lease, shared.now()).await?;
    shared.registry.found_region(&gateway.region).await?;
    tracing::info!(gateway = name, region = gateway.region, "a gateway joined");
    Ok(status_page(StatusCode::CREATED, &leased(announced.lease, lease)))
}

async fn renew(shared: &Arc<Shared>, name: &str, said: Renew) -> Answered {
    let lease = parse(&said.lease)?;
    distances(&said.rtt_ms)?;
    for replica in said.replicas.keys() {
        Key::replica(replica)?;
    }
    let ttl = shared.registry.keep(name, lease).await?;
    // In a task of its own: a gateway that does not wait for the answer must not leave a report half
    // stored.
    let stored = tokio::spawn(store(shared.clone(), name.to_owned(), lease, said)).await;
    match stored.unwrap_or_else(|died| Err(Error::Failed(died.to_string()).into())) {
        Ok(()) => {}
        // The lease was renewed, so the gateway is alive, and its next report may fit.
        Err(refused) if refused != Refused::Store(Error::NoLease(lease)) => {
            shared.reports().forget(name);
            tracing::warn!(gateway = name, %refused, "a gateway's report cannot be stored");
        }
        Err(refused) => return Err(refused.into()),
    }
    Ok(page(&leased(lease, ttl)))
}

/// Stores what a report changes, and in a store of several control planes the report itself.
async fn store(
    shared: Arc<Shared>,
    name: String,
    lease: LeaseId,
    said: Renew,
) -> Result<(), Refused> {
    let name = name.as_str();
    write_distances(&shared, name, lease, &said.rtt_ms).await?;
    let is_shared = shared.registry.store().is_shared();
    // Another control plane may have stored something else since.
    let there = is_shared.then(|| shared.observed().stored_of(name));
    let taken = shared.reports().take(name, lease, said, shared.now(), there);
    if !taken.differs.is_empty() {
        shared.registry.observe(name, lease, &taken.differs).await?;
    }
    match taken.due.filter(|_| is_shared) {
        Some(report) => shared.registry.report(name, lease, &report).await,
        None => Ok(()),
    }
}

/// Stores measured round trips in the gateway's record, but only if they differ notably: every
/// follower computes its assignment from them, so small variations must not change them.
async fn write_distances(
    shared: &Shared,
    name: &str,
    lease: LeaseId,
    measured: &BTreeMap<String, f64>,
) -> Result<(), Refused> {
    if measured.is_empty() {
        return Ok(());
    }
    let mut known = shared.registry.gateway(name, lease).await?.rtt_ms;
    let mut is_new = false;
    for (region, ms) in measured {
        let differs = known.get(region).is_none_or(|old| {
            let by = (old - ms).abs();
            by > DIFFERS.0 * old && by > DIFFERS.1
        });
        if differs {
            known.insert(region.clone(), *ms);
            is_new = true;
        }
    }
    if is_new {
        shared.registry.measured(name, lease, &known).await?;
    }
    Ok(())
}

fn distances(rtt_ms: &BTreeMap<String, f64>) -> Result<(), Refusal> {
    for (region, ms) in rtt_ms {
        region_name(region)?;
        if !(ms.is_finite() && (0.0..=60_000.0).contains(ms)) {
            let message =
                format!("rtt_ms.{region}: {ms} is not a round-trip time; use 0 to 60000 ms");
            return Err(Refusal::bad("invalid_record", message));
        }
    }
    Ok(())
}

fn parse(lease: &str) -> Result<LeaseId, Refusal> {
    u64::from_str_radix(lease, 16).map(LeaseId).map_err(|_| {
        let shown: String = lease.chars().take(40).collect();
        let message = format!("lease: `{shown}` is not a lease; send it as it was granted");
        Refusal::bad("invalid_lease", message)
    })
}

fn leased(lease: LeaseId, ttl: Duration) -> Leased {
    let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    Leased { lease: lease.to_string(), ttl_ms }
}
