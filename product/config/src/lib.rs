//! A gateway's configuration: one YAML file, strict, versioned, with units in the values.
//!
//! An error reports all problems at once, each with its line, field, value and remedy.

mod address;
mod admin_access;
mod admission;
mod check;
mod control;
mod control_urls;
mod cors;
mod credentials;
mod defaults;
mod dns;
mod etcd;
pub mod file;
mod held;
mod hints;
mod keys;
mod models;
mod oidc;
mod peers;
pub mod policies;
mod policy;
mod policy_file;
mod ports;
mod problem;
mod public;
mod record;
mod reload;
mod residency;
mod route53;
mod schema;
mod secret;
mod shadow;
mod sources;
mod tenants;
mod tls;
mod topology;
mod traces;
mod twice;
mod yaml;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use meridian_routing::{Admission, BreakerConfig, Config, ProbeConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use meridian_protocol::address::{base_url, with_scheme};
pub(crate) use meridian_protocol::admin::{AddReplica, from_problems, pool_problems};
pub(crate) use meridian_protocol::policy::Policy;
pub(crate) use meridian_protocol::units::{Size, Span};
pub(crate) use meridian_protocol::{closest, suggest};

pub use address::cannot_listen;
pub(crate) use address::listening;
pub use admin_access::{AdminAccess, AdminTls};
pub use admission::AdmissionMode;
pub use control::{Control, Registry, TARGET};
pub use control_urls::{ControlUrls, MOST_CONTROL_PLANES};
pub use cors::Cors;
pub use credentials::{Credentials, unknown_credentials};
pub use dns::Dns;
pub use etcd::{Etcd, EtcdTls};
pub use file::{ConfigError, changed_sections, locate, read};
pub use held::Held;
pub use keys::{Key, keys};
pub use models::{ModelLimits, ModelSettings, Models};
pub use oidc::{Claims, Issuer, TokenAlgorithm, UnknownTenants, issuer_url};
pub use peers::{Accept, MOST_PEERS, Peer, Peers, SiblingDiscovery};
pub use policy::{resolve, scalar};
pub use policy_file::PolicyFile;
pub use ports::identity;
pub use problem::Problem;
pub use public::public_problems;
pub use record::{AccessLog, Journal, LogFormat, Rotate};
pub use reload::{AT_START, changed_keys};
pub use residency::{Residency, ResidencyRule};
pub use route53::{HealthCheck, Route53, Scheme};
pub use schema::replica_list_schema;
pub use secret::Secret;
pub use sources::{Kubernetes, KubernetesPort, Source, beyond_limit, name_and_port, replica_list};
pub use tenants::{KeyHash, PriorityClass, Tenant, TenantLimits};
pub use tls::{MutualTls, Tls};
pub use topology::Topology;
pub use traces::{OtlpProtocol, Traces};
pub use yaml::Format;

/// The schema version that this program reads.
pub const VERSION: u32 = 1;

/// One gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// Schema version: 1.
    #[schemars(range(min = VERSION, max = VERSION))]
    pub version: u32,
    /// The region's name: in certificates, residency rules, metrics and status.
    #[serde(default = "defaults::region")]
    pub region: String,
    /// Address for clients. Port 0: any free one.
    #[serde(default = "defaults::listen", deserialize_with = "listening")]
    pub listen: SocketAddr,
    /// Address for operators and scrapers. Keep it off the public network.
    #[serde(default = "defaults::admin", deserialize_with = "listening")]
    pub admin: SocketAddr,
    /// Access to the admin port.
    #[serde(default, skip_serializing_if = "AdminAccess::is_empty")]
    pub admin_access: AdminAccess,
    /// TLS for clients; plain HTTP if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Web pages that may send requests and read answers (CORS); none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cors: Option<Cors>,
    /// The policy.
    #[serde(default)]
    #[schemars(with = "schema::PolicyForm")]
    pub policy: Policy,
    /// When a replica can take another request; the policy's own mode by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<AdmissionMode>,
    /// A second policy that decides too and is never followed; its decisions are only recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::PolicyForm>")]
    pub shadow: Option<Policy>,
    /// Replicas known from the start.
    #[serde(default)]
    pub replicas: Vec<AddReplica>,
    /// Sources of further replicas (service discovery).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub discovery: Vec<Source>,
    /// Engine paths to pass through besides the OpenAI ones, as exact paths (`/generate`).
    #[serde(default)]
    pub paths: Vec<String>,
    /// Models by the name that requests use: aliases, fallbacks and limits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: Models,
    /// Sources of the affinity key and the tenant.
    #[serde(default)]
    pub keys: Keys,
    /// Tenants that may send requests, by key. If none is configured, any client may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<Tenant>,
    /// Issuers whose tokens clients may send instead of keys (OIDC); none if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub oidc: Vec<Issuer>,
    /// Key that the gateway sends to replicas as `Authorization: Bearer ...`. Without it they get
    /// the client's own header, or none if tenants or issuers are configured.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "secret::given")]
    pub engine_key: Option<Secret>,
    /// Credentials of replicas that need others, by the name that `credentials` of a replica has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub credentials: BTreeMap<String, Credentials>,
    /// Where requests may be served (residency rules).
    #[serde(default, skip_serializing_if = "Residency::is_empty")]
    pub residency: Residency,
    /// Prefix sharing between tenants.
    #[serde(default)]
    pub isolation: Isolation,
    /// Information about the fleet in answers. By default all, or none if tenants are configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tell_clients: Option<TellClients>,
    /// How to treat fields and headers that are only for engines.
    #[serde(default)]
    pub engine_fields: EngineFields,
    /// The fleet's secret, which keys the fingerprints. If absent, each start draws a random one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "secret::given")]
    pub secret: Option<Secret>,
    /// Timeouts.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Limits on size and number.
    #[serde(default)]
    pub limits: Limits,
    /// The gateway's queue.
    #[serde(default)]
    pub held: Held,
    /// Attempts per request, including the first.
    #[serde(default = "defaults::attempts")]
    pub attempts: u32,
    /// Resuming streams on another replica when they break after their first byte. If absent, such
    /// streams end with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
    /// Interval of comments to clients that wait for a stream, from when the request was read: they
    /// keep proxies from closing a connection that looks dead. Refusals after the first comment are
    /// error events with status 200. If absent, none are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_keep_alive: Option<Span>,
    /// How long the engines keep KV for a decode replica (vLLM's `kv_lease_duration`). KV is used
    /// within half of it.
    #[serde(default = "defaults::kv_lease")]
    pub kv_lease: Span,
    /// Circuit breakers.
    #[serde(default)]
    pub breaker: Breaker,
    /// Probes.
    #[serde(default)]
    pub probe: Probe,
    /// Initial prefill time, ms a token; the gateway learns better values from answers.
    #[serde(default = "defaults::ms_per_token")]
    pub ms_per_token: f64,
    /// Decisions, and times of as many requests, kept for `meridian explain`.
    #[serde(default = "defaults::explain_keep")]
    pub explain_keep: usize,
    /// Serving threads; 0 for one per core.
    #[serde(default)]
    pub threads: usize,
    /// Regions to which requests may be forwarded, and when.
    #[serde(default)]
    pub topology: Topology,
    /// Gateways of other regions. If absent, the region works alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<Peers>,
    /// The control plane to follow. If absent, replicas and policy come from this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Registry>,
    /// One line for each request. If absent, there is no access log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_log: Option<AccessLog>,
    /// The requests as a trace that can be replayed. If absent, none is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<Journal>,
    /// Traces for an OpenTelemetry collector. If absent, none are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces: Option<Traces>,
}

/// Sources of the affinity key and the tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Keys {
    /// Request headers tried for the session, in order, before the body's own keys; the defaults are today's agents'.
    pub headers: Vec<String>,
    /// Request header that names the tenant.
    pub tenant_header: String,
}

/// Which tenants share cached prefixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// All tenants.
    #[default]
    Shared,
    /// None: each tenant matches only its own prefixes, in this gateway and in the caches of
    /// engines that read a salt.
    Tenant,
}

/// The information about prefix matches and the fleet in answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TellClients {
    /// The replica that answered, the reason, and its cached tokens; dry runs show all candidates.
    All,
    /// Nothing; dry runs are refused.
    Nothing,
}

impl Gateway {
    /// Whether clients need a key or a token.
    #[must_use]
    pub fn identifies_clients(&self) -> bool {
        !self.tenants.is_empty() || !self.oidc.is_empty()
    }

    /// The information that answers give to clients.
    #[must_use]
    pub fn tells_clients(&self) -> TellClients {
        self.tell_clients.unwrap_or(match self.identifies_clients() {
            false => TellClients::All,
            true => TellClients::Nothing,
        })
    }
}

/// How to treat fields and headers that are only for engines (`kv_transfer_params`,
/// `bootstrap_room`) when a client sends one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineFields {
    /// Remove and count them.
    #[default]
    Strip,
    /// Refuse the request.
    Strict,
}

/// Timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// To connect to a replica.
    pub connect: Span,
    /// From sending a request to the first content of its answer; without `stream`, to its end.
    pub first_byte: Span,
    /// Between two bytes of an answer.
    pub idle: Span,
    /// Between two bytes of an answer whose replica is down.
    pub down: Span,
    /// For a client to send its headers and its body.
    pub client: Span,
    /// For running requests to end after SIGTERM.
    pub drain: Span,
    /// For a probe.
    pub probe: Span,
}

/// Limits on size and number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// A request's body.
    pub body: Size,
    /// All headers of a request.
    pub headers: Size,
    /// Clients' connections.
    pub connections: usize,
    /// Requests in the gateway at once, including queued ones.
    pub requests: usize,
    /// Bytes of bodies in the gateway at once.
    pub bodies: Size,
    /// Replicas, from all sources together.
    pub replicas: u16,
}

/// Resuming broken streams on another replica.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Resume {
    /// Most bytes of an answer's text to keep; a longer answer is not resumed.
    pub text: Size,
}

/// Circuit breakers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Breaker {
    /// Failures in a row that open one.
    pub failures: u32,
    /// Share of failures among recent attempts that opens one, from `failures` of them on, if another
    /// replica takes requests.
    pub share: f64,
    /// Time constant of what is recent: an attempt this long ago weighs 37 %.
    pub window: Span,
    /// How long it stays open the first time.
    pub open: Span,
    /// The longest it stays open.
    pub open_max: Span,
}

/// Probes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Probe {
    /// Interval for a replica in use.
    pub busy: Span,
    /// Interval for an idle replica.
    pub idle: Span,
    /// Consecutive failed probes after which a replica is down.
    pub down_after: u32,
    /// Policies ignore a report older than this.
    pub stale: Span,
}

impl Gateway {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// All its problems.
    pub fn read(yaml: &str) -> Result<Gateway, ConfigError> {
        Gateway::examine(yaml, Gateway::problems)
    }

    /// Reads a configuration and checks it with `problems`, such as a check of the files that it
    /// names.
    ///
    /// # Errors
    /// All its problems.
    pub fn examine(
        yaml: &str,
        problems: impl FnOnce(&Gateway) -> Vec<String>,
    ) -> Result<Gateway, ConfigError> {
        file::read(yaml, Format::Gateway, problems)
    }

    /// The whole effective configuration, with defaults written out and without the values of secrets.
    ///
    /// # Errors
    /// Never for a configuration that was read; otherwise the serializer's own error.
    pub fn print(&self) -> Result<String, ConfigError> {
        file::print(self)
    }

    /// The same with the values of secrets, as a file for a gateway.
    ///
    /// # Errors
    /// As of [`Gateway::print`].
    pub fn print_with_secrets(&self) -> Result<String, ConfigError> {
        secret::revealed(|| file::print(self))
    }

    /// The routing machine's configuration.
    ///
    /// # Errors
    /// The policy's problems; none for a configuration that was read.
    pub fn routing(&self) -> Result<Config, ConfigError> {
        let (policy, params) = resolve(&self.policy).map_err(ConfigError::from)?;
        let shadow = self.shadow_beside(policy, &params).map_err(ConfigError::from)?;
        let topology = self.topology.resolve().map_err(|e| ConfigError::from(vec![e]))?;
        Ok(Config {
            admission: self.admission.map_or(policy.admission, Admission::from),
            params,
            topology,
            peering: self.peers.as_ref().map(Peers::peering).unwrap_or_default(),
            has_siblings: self.peers.as_ref().is_some_and(|p| p.has_siblings(&self.region)),
            held: self.held.bounds(),
            attempts: self.attempts,
            breaker: BreakerConfig {
                failures: self.breaker.failures,
                share: self.breaker.share,
                window: self.breaker.window.0,
                open: self.breaker.open.0,
                open_max: self.breaker.open_max.0,
            },
            probe: ProbeConfig {
                busy: self.probe.busy.0,
                idle: self.probe.idle.0,
                down_after: self.probe.down_after,
                stale: self.probe.stale.0,
            },
            ms_per_token: self.ms_per_token,
            max_replicas: self.limits.replicas,
            explain_keep: self.explain_keep,
            shadow,
            ..Config::new(policy)
        })
    }
}

#[cfg(test)]
mod mistakes;
#[cfg(test)]
mod tests;
