//! Names in the DNS: a replica for each address of a name, or for each address of each target of
//! SRV records. Resolved again when the first of the answers expires.
//!
//! Of SRV records, those of the lowest priority count (RFC 2782), and a record's weight becomes the
//! replica's, if it has one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::proto::rr::RData;
use meridian_config::name_and_port;
use meridian_protocol::admin::AddReplica;

use super::source::Source;
use crate::resolve::{self, SHORTEST, holds, pause_after_failure, resolver};

/// Addresses with the weight of their replica.
type Addresses = BTreeMap<SocketAddr, u32>;

/// The result of a lookup.
struct NameFound {
    replicas: Vec<AddReplica>,
    /// Its validity.
    holds: Duration,
}

pub(super) async fn keep(source: Arc<Source>) {
    let mut pause = SHORTEST;
    loop {
        // Made again each time: the system's configuration may have changed.
        let found = match resolver(source.config.server) {
            Ok(resolver) => look(&resolver, &source).await,
            Err(why) => Err(why),
        };
        pause = match found {
            Ok(found) => {
                source.found(found.replicas);
                found.holds
            }
            Err(why) => {
                if source.failed(&why) {
                    source.log_trouble(&why);
                }
                pause_after_failure(pause)
            }
        };
        source.rest(pause).await;
    }
}

async fn look(resolver: &TokioResolver, source: &Source) -> Result<NameFound, String> {
    let config = &source.config;
    let mut addresses = Addresses::new();
    let until = match (&config.dns, &config.srv) {
        (Some(dns), _) => {
            let (name, port) = name_and_port(dns).ok_or("it is not a name with a port")?;
            of_name(resolver, name, port, 1, &mut addresses).await?
        }
        (None, Some(name)) => of_services(resolver, name, &mut addresses).await?,
        (None, None) => return Err("it has no name".to_owned()),
    };
    if addresses.is_empty() {
        return Err("the answer has no addresses".to_owned());
    }
    let replicas = addresses.into_iter().map(|(at, weight)| config.replica(at, weight)).collect();
    Ok(NameFound { replicas, holds: holds(until) })
}

/// The addresses of a name, and their validity.
async fn of_name(
    resolver: &TokioResolver,
    name: &str,
    port: u16,
    weight: u32,
    addresses: &mut Addresses,
) -> Result<Instant, String> {
    let (ips, until) = resolve::addresses(resolver, name).await?;
    addresses.extend(ips.into_iter().map(|ip| (SocketAddr::new(ip, port), weight)));
    Ok(until)
}

/// The addresses of the targets of a name's SRV records.
async fn of_services(
    resolver: &TokioResolver,
    name: &str,
    addresses: &mut Addresses,
) -> Result<Instant, String> {
    let answer = resolver.srv_lookup(name).await;
    let answer = answer.map_err(|error| format!("{name}: {error}"))?;
    let mut until = answer.valid_until();
    let records = || {
        answer.answers().iter().filter_map(|record| match &record.data {
            RData::SRV(srv) => Some(srv),
            _ => None,
        })
    };
    let first = records().map(|srv| srv.priority).min();
    for srv in records().filter(|srv| Some(srv.priority) == first) {
        let (target, weight) = (srv.target.to_utf8(), u32::from(srv.weight.max(1)));
        let held = of_name(resolver, &target, srv.port, weight, addresses).await?;
        until = until.min(held);
    }
    Ok(until)
}
