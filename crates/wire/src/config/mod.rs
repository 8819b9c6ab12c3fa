//! A gateway's configuration: one YAML file, strict, versioned, with units in the values.
//!
//! Reading fails at the first thing that is no configuration at all (syntax, an unknown key, a
//! wrong type) with its line; checking finds everything else at once.

mod admin_access;
mod control;
mod cors;
pub(crate) mod file;
mod peers;
mod policy;
mod residency;
mod sources;
mod tenants;
mod tls;
mod topology;
mod units;

use std::net::SocketAddr;

use meridian_routing::{Admission, BreakerConfig, Config, HeldConfig, ProbeConfig};
use serde::{Deserialize, Serialize};

pub use admin_access::{AdminAccess, AdminTls};
pub use control::{Control, Registry};
pub use cors::Cors;
pub use file::changed_sections;
pub use peers::{Accept, MOST_PEERS, Peer, Peers};
pub use policy::{Policy, Scalar};
pub use residency::{Residency, ResidencyRule};
pub(crate) use sources::from_problems;
pub use sources::{Source, name_and_port, replica_list};
pub use tenants::{KeyHash, PriorityClass, Tenant, TenantLimits};
pub use tls::{MutualTls, Tls};
pub use topology::Topology;
pub use units::{Size, Span};

pub use crate::admin::AddReplica;
use crate::peer::label;

/// The schema version that this program reads.
pub const VERSION: u32 = 1;
/// Most decisions that can be kept: some hundred bytes each.
const MOST_EXPLAINED: usize = 1_000_000;
/// Most threads that serve: more than any machine has cores.
const MOST_THREADS: usize = 1024;

/// One gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// Schema version: 1.
    pub version: u32,
    /// The region's name: in certificates, residency rules, metrics and status.
    #[serde(default = "defaults::region")]
    pub region: String,
    /// Where clients connect. Port 0: any free one.
    #[serde(default = "defaults::listen")]
    pub listen: SocketAddr,
    /// Where operators and scrapers connect. Keep it off the public network.
    #[serde(default = "defaults::admin")]
    pub admin: SocketAddr,
    /// Access to that port.
    #[serde(default, skip_serializing_if = "AdminAccess::is_empty")]
    pub admin_access: AdminAccess,
    /// Clients come over TLS; in plain HTTP without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Which web pages may send requests and read answers; none without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cors: Option<Cors>,
    /// The policy.
    #[serde(default)]
    pub policy: Policy,
    /// When a replica may be given another request; the policy's own mode by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<AdmissionMode>,
    /// Replicas known from the start.
    #[serde(default)]
    pub replicas: Vec<AddReplica>,
    /// Where replicas are found beside those.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub discovery: Vec<Source>,
    /// Engine paths passed through beside the OpenAI ones, as exact paths (`/generate`).
    #[serde(default)]
    pub paths: Vec<String>,
    /// Affinity and tenants.
    #[serde(default)]
    pub keys: Keys,
    /// Who may send requests, by key; anybody where nobody is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<Tenant>,
    /// What replicas ask for as `Authorization: Bearer ...`; without it they get the client's own,
    /// or none where tenants are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_key: Option<String>,
    /// Where requests may be served.
    #[serde(default, skip_serializing_if = "Residency::is_empty")]
    pub residency: Residency,
    /// Prefix sharing between tenants.
    #[serde(default)]
    pub isolation: Isolation,
    /// What answers tell clients of the fleet; by default all, and nothing where tenants are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tell_clients: Option<TellClients>,
    /// What becomes of fields and headers that only engines send each other.
    #[serde(default)]
    pub engine_fields: EngineFields,
    /// The fleet's secret, which keys the fingerprints; random at each start when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Bounds in time.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Bounds in size and number.
    #[serde(default)]
    pub limits: Limits,
    /// The held queue.
    #[serde(default)]
    pub held: Held,
    /// Attempts a request gets, the first included.
    #[serde(default = "defaults::attempts")]
    pub attempts: u32,
    /// Going on elsewhere with streams that break after their first byte; they end with an error
    /// without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
    /// Circuit breakers.
    #[serde(default)]
    pub breaker: Breaker,
    /// Probes.
    #[serde(default)]
    pub probe: Probe,
    /// Prefill time to start from, ms a token; answers teach better.
    #[serde(default = "defaults::ms_per_token")]
    pub ms_per_token: f64,
    /// Decisions kept for `meridian explain`.
    #[serde(default = "defaults::explain_keep")]
    pub explain_keep: usize,
    /// Threads that serve; 0 for one a core.
    #[serde(default)]
    pub threads: usize,
    /// Which other regions a request may be sent on to, and when.
    #[serde(default)]
    pub topology: Topology,
    /// Gateways of other regions; a region stands alone without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<Peers>,
    /// The control plane that is followed; replicas and policy are this file's own without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Registry>,
}

/// `blind`, `{outstanding: 24}`, `pending` or `pending_kv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdmissionMode {
    /// Push on arrival.
    Blind,
    /// At most so many outstanding requests a replica.
    Outstanding(u32),
    /// Nothing pending by the engine's report.
    Pending,
    /// The prompt fits the KV that is free.
    PendingKv,
}

/// Where affinity and tenant come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Keys {
    /// Request headers tried for the affinity key, in order, before the body's own keys.
    pub headers: Vec<String>,
    /// Request header that names the tenant.
    pub tenant_header: String,
}

/// Who may share cached prefixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// Everybody with everybody.
    #[default]
    Shared,
    /// Tenants with themselves alone, in this gateway's matches and in the caches of engines that
    /// read a salt.
    Tenant,
}

/// What answers tell clients of prefix matches and of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TellClients {
    /// Which replica answered, why, and what it had cached; dry runs show all candidates.
    All,
    /// None of that; dry runs are refused.
    Nothing,
}

impl Gateway {
    /// What answers tell clients.
    #[must_use]
    pub fn tells_clients(&self) -> TellClients {
        self.tell_clients.unwrap_or(match self.tenants.is_empty() {
            true => TellClients::All,
            false => TellClients::Nothing,
        })
    }
}

/// What becomes of fields and headers that only engines send each other (`kv_transfer_params`,
/// `bootstrap_room`), where a client sends one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineFields {
    /// They are taken out and counted.
    #[default]
    Strip,
    /// The request is refused.
    Strict,
}

/// Bounds in time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// To connect to a replica.
    pub connect: Span,
    /// From a request sent to the first byte of its answer.
    pub first_byte: Span,
    /// Between two bytes of an answer.
    pub idle: Span,
    /// The same, of an answer whose replica is down.
    pub down: Span,
    /// For a client to send its headers and its body.
    pub client: Span,
    /// For requests in flight to end after SIGTERM.
    pub drain: Span,
    /// For a probe.
    pub probe: Span,
}

/// Bounds in size and number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// A request's body.
    pub body: Size,
    /// All headers of a request.
    pub headers: Size,
    /// Clients' connections.
    pub connections: usize,
    /// Requests in the gateway at once, held ones included.
    pub requests: usize,
    /// Bytes of bodies in the gateway at once.
    pub bodies: Size,
    /// Replicas.
    pub replicas: u16,
}

/// The held queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Held {
    /// Most requests held.
    pub max: u32,
    /// Most requests held for one tenant.
    pub max_per_tenant: u32,
    /// Longest time held.
    pub max_wait: Span,
    /// How many from the front are looked at when room appears.
    pub look_ahead: u32,
    /// After this long the oldest of the tenant that was served least goes before better fits.
    pub patience: Span,
    /// After this long who fits nowhere is promised the next room of a full replica.
    pub promise: Span,
}

/// Going on elsewhere with broken streams.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Resume {
    /// Most bytes of an answer's text that are kept for it; a longer answer is not gone on with.
    pub text: Size,
}

/// Circuit breakers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Breaker {
    /// Failures in a row that open one.
    pub failures: u32,
    /// How long it stays open at first.
    pub open: Span,
    /// And at most.
    pub open_max: Span,
}

/// Probes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Probe {
    /// Between probes of a replica in use.
    pub busy: Span,
    /// Between probes of an idle one.
    pub idle: Span,
    /// Misses in a row after which a replica is down.
    pub down_after: u32,
    /// A report older than this is not steered by.
    pub stale: Span,
}

mod defaults {
    use std::net::{Ipv4Addr, SocketAddr};

    pub(super) fn region() -> String {
        "local".to_owned()
    }
    pub(super) fn listen() -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 8080).into()
    }
    pub(super) fn admin() -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 8081).into()
    }
    pub(super) fn attempts() -> u32 {
        3
    }
    pub(super) fn ms_per_token() -> f64 {
        0.1
    }
    pub(super) fn explain_keep() -> usize {
        1024
    }
}

impl Default for Keys {
    fn default() -> Self {
        Keys {
            headers: vec!["x-session-id".to_owned(), "x-hash-key".to_owned()],
            tenant_header: "x-tenant-id".to_owned(),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: Span::secs(1),
            first_byte: Span::secs(600),
            idle: Span::secs(120),
            down: Span::secs(3),
            client: Span::secs(30),
            drain: Span::secs(30),
            probe: Span::secs(1),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body: Size::mib(32),
            headers: Size::kib(64),
            connections: 8192,
            requests: 8192,
            bodies: Size::mib(1024),
            replicas: 1024,
        }
    }
}

impl Default for Held {
    fn default() -> Self {
        let h = HeldConfig::default();
        Held {
            max: h.max,
            max_per_tenant: h.max_per_tenant,
            max_wait: Span(h.max_wait),
            look_ahead: h.look_ahead,
            patience: Span(h.patience),
            promise: Span(h.promise),
        }
    }
}

impl Default for Resume {
    fn default() -> Self {
        Resume { text: Size::kib(256) }
    }
}

impl Default for Breaker {
    fn default() -> Self {
        let b = BreakerConfig::default();
        Breaker { failures: b.failures, open: Span(b.open), open_max: Span(b.open_max) }
    }
}

impl Default for Probe {
    fn default() -> Self {
        let p = ProbeConfig::default();
        Probe {
            busy: Span(p.busy),
            idle: Span(p.idle),
            down_after: p.down_after,
            stale: Span(p.stale),
        }
    }
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not a configuration: syntax, an unknown key, a wrong type.
    #[error("{0}")]
    Unreadable(String),
    /// Read, but cannot work; every reason, each with its field and remedy.
    #[error("{}", .0.join("\n"))]
    Invalid(Vec<String>),
}

impl Gateway {
    /// Reads a configuration without checking it: [`Gateway::problems`] does.
    ///
    /// # Errors
    /// Where it is none: syntax, an unknown key, a wrong type.
    pub fn parse(yaml: &str) -> Result<Gateway, ConfigError> {
        file::parse(yaml)
    }

    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn read(yaml: &str) -> Result<Gateway, ConfigError> {
        file::read(yaml, Gateway::problems)
    }

    /// The whole configuration as it is in force, defaults written out.
    ///
    /// # Errors
    /// Never for a configuration that was read; the serializer's own otherwise.
    pub fn print(&self) -> Result<String, ConfigError> {
        file::print(self)
    }

    /// Everything that keeps it from working.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut check = |ok: bool, text: String| {
            if !ok {
                found.push(text);
            }
        };
        check(
            self.version == VERSION,
            format!("version: {} is not known; use {VERSION}", self.version),
        );
        if let Err(error) = label("region", &self.region) {
            check(false, error.to_string());
        }
        check(self.attempts >= 1, "attempts: 0 would send nothing; use 1 or more".to_owned());
        check(
            self.ms_per_token > 0.0 && self.ms_per_token.is_finite(),
            format!("ms_per_token: {} is no prefill time; use a number above 0", self.ms_per_token),
        );
        let same = self.listen == self.admin && self.listen.port() != 0;
        check(!same, format!("admin: {} is listen's address too; use another port", self.admin));
        for (i, path) in self.paths.iter().enumerate() {
            check(
                path.starts_with('/'),
                format!("paths[{i}]: `{path}` is no path; begin it with /"),
            );
            check(
                !path.starts_with('/') || is_path(path),
                format!(
                    "paths[{i}]: `{path}` is in no request; use a path as it is sent, without a query"
                ),
            );
        }
        for (i, name) in self.keys.headers.iter().enumerate() {
            check(
                http::HeaderName::from_bytes(name.as_bytes()).is_ok(),
                format!(
                    "keys.headers[{i}]: `{name}` is no header; use letters, digits and hyphens"
                ),
            );
        }
        let tenant = &self.keys.tenant_header;
        check(
            tenant.is_empty() || http::HeaderName::from_bytes(tenant.as_bytes()).is_ok(),
            format!("keys.tenant_header: `{tenant}` is no header; use letters, digits and hyphens"),
        );
        check(
            self.secret.as_deref() != Some(""),
            "secret: is empty; use a long random text, or leave it out".to_owned(),
        );
        self.admin_access.check(self.admin, &mut check);
        self.check_bounds(&mut check);
        let limit = usize::from(self.limits.replicas);
        sources::check_list("replicas", &self.replicas, limit, &mut check);
        sources::check_all(&self.discovery, &mut check);
        if let Some(peers) = &self.peers {
            peers.check(&mut check);
        }
        if let Some(control) = &self.control {
            control.check(self.peers.is_some(), &mut check);
        }
        self.topology.check(self.peers.as_ref(), &mut check);
        if let Some(tls) = &self.tls {
            tls.check("tls", &mut check);
        }
        if let Some(cors) = &self.cors {
            cors.check(&mut check);
        }
        tenants::check(&self.tenants, &mut check);
        self.residency.check(&self.tenants, &mut check);
        let sendable = |key: &String| !key.is_empty() && key.bytes().all(|b| b.is_ascii_graphic());
        check(
            self.engine_key.as_ref().is_none_or(sendable),
            "engine_key: is no key; use printable characters without spaces".to_owned(),
        );
        if let Err(errors) = self.policy.resolve() {
            found.extend(errors);
        }
        found
    }

    fn check_bounds(&self, check: &mut impl FnMut(bool, String)) {
        let spans = [
            ("timeouts.connect", self.timeouts.connect),
            ("timeouts.first_byte", self.timeouts.first_byte),
            ("timeouts.idle", self.timeouts.idle),
            ("timeouts.down", self.timeouts.down),
            ("timeouts.client", self.timeouts.client),
            ("timeouts.probe", self.timeouts.probe),
            ("held.max_wait", self.held.max_wait),
            ("breaker.open", self.breaker.open),
            ("probe.busy", self.probe.busy),
            ("probe.idle", self.probe.idle),
            ("probe.stale", self.probe.stale),
        ];
        for (name, span) in spans {
            check(
                !span.0.is_zero(),
                format!("{name}: 0 would end everything at once; use a time above 0"),
            );
        }
        let counts = [
            ("limits.connections", self.limits.connections),
            ("limits.requests", self.limits.requests),
            ("limits.body", self.limits.body.bytes()),
            ("limits.headers", self.limits.headers.bytes()),
            ("limits.bodies", self.limits.bodies.bytes()),
            ("limits.replicas", usize::from(self.limits.replicas)),
            ("breaker.failures", self.breaker.failures as usize),
            ("probe.down_after", self.probe.down_after as usize),
            ("held.look_ahead", self.held.look_ahead as usize),
        ];
        for (name, n) in counts {
            check(n > 0, format!("{name}: 0 would admit nothing; use 1 or more"));
        }
        for (name, n, most) in [
            ("explain_keep", self.explain_keep, MOST_EXPLAINED),
            ("threads", self.threads, MOST_THREADS),
        ] {
            check(n <= most, format!("{name}: {n} is too many; use at most {most}"));
        }
        check(
            self.limits.headers.bytes() >= 8192,
            format!(
                "limits.headers: {} bytes is too small to serve; use 8KiB or more",
                self.limits.headers.0
            ),
        );
        check(
            self.breaker.open <= self.breaker.open_max,
            "breaker.open_max: is below breaker.open; use at least as much".to_owned(),
        );
        if self.resume.is_some_and(|resume| resume.text.bytes() == 0) {
            check(false, "resume.text: 0 would keep nothing to go on with; use 1KiB or more, or leave `resume` out".to_owned());
        }
        if self.admission == Some(AdmissionMode::Outstanding(0)) {
            check(false, "admission.outstanding: 0 would admit nothing; use 1 or more".to_owned());
        }
    }

    /// The machine's configuration.
    ///
    /// # Errors
    /// The policy's problems; none for a configuration that was read.
    pub fn routing(&self) -> Result<Config, ConfigError> {
        let (policy, params) = self.policy.resolve().map_err(ConfigError::Invalid)?;
        let mode = self.admission.map(Admission::from);
        let topology = self.topology.resolve().map_err(|e| ConfigError::Invalid(vec![e]))?;
        Ok(Config {
            admission: mode.unwrap_or(policy.admission),
            params,
            topology,
            peering: self.peers.as_ref().map(Peers::peering).unwrap_or_default(),
            held: HeldConfig {
                max: self.held.max,
                max_per_tenant: self.held.max_per_tenant,
                max_wait: self.held.max_wait.0,
                look_ahead: self.held.look_ahead,
                patience: self.held.patience.0,
                promise: self.held.promise.0,
            },
            attempts: self.attempts,
            breaker: BreakerConfig {
                failures: self.breaker.failures,
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
            ..Config::new(policy)
        })
    }
}

impl From<AdmissionMode> for Admission {
    fn from(mode: AdmissionMode) -> Admission {
        match mode {
            AdmissionMode::Blind => Admission::Blind,
            AdmissionMode::Outstanding(max) => Admission::Outstanding { max },
            AdmissionMode::Pending => Admission::Pending,
            AdmissionMode::PendingKv => Admission::PendingKv,
        }
    }
}

/// Whether a request can have this path.
fn is_path(path: &str) -> bool {
    let parsed: Option<http::uri::PathAndQuery> = path.parse().ok();
    parsed.is_some_and(|parsed| parsed.as_str() == path && parsed.query().is_none())
}

/// Checks a replica's base address.
///
/// # Errors
/// What is wrong with it, and the remedy.
pub fn base_url(url: &str) -> Result<http::Uri, String> {
    let uri: http::Uri =
        url.parse().map_err(|_| format!("`{url}` is no URL; write http://host:port"))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some(other) => {
            return Err(format!(
                "`{url}`: {other} is not spoken to replicas; write http://host:port"
            ));
        }
        None => return Err(format!("`{url}` has no scheme; write http://host:port")),
    }
    if uri.path() != "/" || uri.query().is_some() {
        return Err(format!("`{url}`: give the base address only, without a path"));
    }
    Ok(uri)
}

/// Host and port of a replica's address; none where it is no address.
#[must_use]
pub fn authority(url: &str) -> Option<String> {
    let uri = base_url(url).ok()?;
    uri.authority().map(|authority| authority.as_str().to_owned())
}

#[cfg(test)]
mod tests;
