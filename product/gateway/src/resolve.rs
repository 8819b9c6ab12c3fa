//! Names in the DNS: the system's name servers or a given one, and how long an answer holds.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;

/// Answers are valid for at least this long, whatever their TTL,
pub(crate) const SHORTEST: Duration = Duration::from_secs(1);
/// and at most this long.
const LONGEST: Duration = Duration::from_secs(300);
/// Timeout of one query to one name server.
const PATIENCE: Duration = Duration::from_secs(2);

/// Queries `server`, or the system's name servers.
pub(crate) fn resolver(server: Option<SocketAddr>) -> Result<TokioResolver, String> {
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

/// The addresses of a name, and their validity.
pub(crate) async fn addresses(
    resolver: &TokioResolver,
    name: &str,
) -> Result<(Vec<IpAddr>, Instant), String> {
    let answer = resolver.lookup_ip(name).await;
    let answer = answer.map_err(|error| format!("{name}: {error}"))?;
    Ok((answer.iter().collect(), answer.valid_until()))
}

/// How long to use answers that are valid until then.
pub(crate) fn holds(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now()).clamp(SHORTEST, LONGEST)
}

/// The pause after a failed query: as long as answers would be valid, and longer with each failure.
pub(crate) fn pause_after_failure(pause: Duration) -> Duration {
    (pause * 2).clamp(SHORTEST, Duration::from_secs(30))
}
