//! Names in the DNS: a replica for each address of a name, or for each address of each target of
//! SRV records. Resolved again when the first of the answers expires.
//!
//! Of SRV records, those of the lowest priority count (RFC 2782), and a record's weight becomes the
//! replica's, if it has one.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use meridian_config::name_and_port;
use meridian_protocol::admin::AddReplica;

use super::source::Source;

/// Answers are valid for at least this long, whatever their TTL,
const SHORTEST: Duration = Duration::from_secs(1);
/// and at most this long.
const LONGEST: Duration = Duration::from_secs(300);
/// Timeout of one query to one name server.
const PATIENCE: Duration = Duration::from_secs(2);

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
                // As long as the answers would be valid, and longer with each failure.
                (pause * 2).clamp(SHORTEST, Duration::from_secs(30))
            }
        };
        source.rest(pause).await;
    }
}

/// Queries `server`, or the system's name servers.
fn resolver(server: Option<SocketAddr>) -> Result<TokioResolver, String> {
    let mut builder = match server {
        None => TokioResolver::builder_tokio()
            .map_err(|error| format!("/etc/resolv.conf cannot be used: {error}; set `server`"))?,
        Some(server) => {
            let mut connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
            connections.iter_mut().for_each(|connection| connection.port = server.port());
            let asked = NameServerConfig::new(server.ip(), true, connections.to_vec());
            let config = ResolverConfig::from_parts(None, vec![], vec![asked]);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        }
    };
    let options = builder.options_mut();
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.timeout = PATIENCE;
    // Names are resolved again only after an answer has expired, so a cache is useless.
    options.cache_size = 0;
    builder.build().map_err(|error| error.to_string())
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
    let holds = until.saturating_duration_since(Instant::now()).clamp(SHORTEST, LONGEST);
    Ok(NameFound { replicas, holds })
}

/// The addresses of a name, and their validity.
async fn of_name(
    resolver: &TokioResolver,
    name: &str,
    port: u16,
    weight: u32,
    addresses: &mut Addresses,
) -> Result<Instant, String> {
    let answer = resolver.lookup_ip(name).await;
    let answer = answer.map_err(|error| format!("{name}: {error}"))?;
    addresses.extend(answer.iter().map(|ip: IpAddr| (SocketAddr::new(ip, port), weight)));
    Ok(answer.valid_until())
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
