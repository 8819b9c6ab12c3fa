//! Checks a gateway's configuration, one function for each section. Sections with a file of their
//! own are checked there.

use super::admission::admission_problem;
use super::policy::resolve;
use super::twice::{exact, twice};
use super::{
    Breaker, Gateway, Keys, Limits, Probe, Resume, Span, Timeouts, VERSION, credentials, models,
    oidc, record, sources, tenants, unknown_credentials,
};
use meridian_protocol::peer::label;

/// Most decisions that can be kept; each takes some hundred bytes.
const MOST_EXPLAINED: usize = 1_000_000;
/// Most attempts of a request: a body that ends engines would end as many.
const MOST_ATTEMPTS: u32 = 100;
/// Most serving threads: more than any machine has cores.
const MOST_THREADS: usize = 1024;
/// The shortest lease of KV: half of it has to be enough to connect and to send a request.
const LEAST_LEASE: Span = Span::secs(1);
/// The shortest interval of comments to clients that wait.
const LEAST_KEEP_ALIVE: Span = Span::secs(1);
/// The smallest limit of a request's head that usual requests fit into.
pub(super) const LEAST_HEADERS: usize = 8192;

impl Gateway {
    /// Every problem of the configuration.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut check = |ok: bool, text: String| {
            if !ok {
                found.push(text);
            }
        };
        self.check_identity(&mut check);
        self.check_paths(&mut check);
        self.keys.check(&mut check);
        self.check_secrets(&mut check);
        self.check_numbers(&mut check);
        self.timeouts.check(&mut check);
        self.limits.check(&mut check);
        self.held.check(&mut check);
        self.breaker.check(&mut check);
        self.probe.check(&mut check);
        self.check_options(&mut check);
        self.check_lists(&mut check);
        match resolve(&self.policy) {
            Ok((policy, params)) => {
                found.extend(self.shadow_beside(policy, &params).err().into_iter().flatten())
            }
            Err(errors) => found.extend(errors),
        }
        found
    }

    fn check_identity(&self, check: &mut impl FnMut(bool, String)) {
        check(
            self.version == VERSION,
            format!("version: {} is unknown; use {VERSION}", self.version),
        );
        if let Err(error) = label("region", &self.region) {
            check(false, error.to_string());
        }
        self.check_ports(check);
    }

    fn check_paths(&self, check: &mut impl FnMut(bool, String)) {
        twice("paths", &self.paths, check);
        for (i, path) in self.paths.iter().enumerate() {
            check(
                path.starts_with('/'),
                format!("paths[{i}]: `{path}` is not a path; start it with /"),
            );
            exact(&format!("paths[{i}]"), path, check);
            check(
                !path.starts_with('/') || is_path(path),
                format!(
                    "paths[{i}]: `{path}` matches no request; write the path as clients send it, without a query"
                ),
            );
        }
    }

    fn check_secrets(&self, check: &mut impl FnMut(bool, String)) {
        check(
            self.engine_key.as_ref().is_none_or(|key| credentials::is_sendable(key.expose())),
            "engine_key: has spaces or special characters; use printable characters without spaces"
                .to_owned(),
        );
        credentials::check_all(&self.credentials, check);
        self.admin_access.check(self.admin, check);
    }

    /// The numbers that belong to no section.
    fn check_numbers(&self, check: &mut impl FnMut(bool, String)) {
        let attempts = self.attempts;
        check(attempts >= 1, "attempts: 0 would send no request; use 1 or more".to_owned());
        check(
            attempts <= MOST_ATTEMPTS,
            format!("attempts: {attempts} is too large; use at most {MOST_ATTEMPTS}"),
        );
        check(
            self.ms_per_token > 0.0 && self.ms_per_token.is_finite(),
            format!(
                "ms_per_token: {} is not a prefill time; use a number above 0",
                self.ms_per_token
            ),
        );
        check(
            self.kv_lease >= LEAST_LEASE,
            format!(
                "kv_lease: {} ms leaves no time to use KV; use the engines' kv_lease_duration, 1s or more",
                self.kv_lease.0.as_millis()
            ),
        );
        for (name, n, most) in [
            ("explain_keep", self.explain_keep, MOST_EXPLAINED),
            ("threads", self.threads, MOST_THREADS),
        ] {
            check(n <= most, format!("{name}: {n} is too large; use at most {most}"));
        }
        if let Some(problem) = self.admission.and_then(admission_problem) {
            check(false, problem);
        }
    }

    /// The sections that may be absent.
    fn check_options(&self, check: &mut impl FnMut(bool, String)) {
        if let Some(every) = self.stream_keep_alive {
            check_keep_alive("stream_keep_alive", every, check);
        }
        if let Some(resume) = &self.resume {
            resume.check(check);
        }
        if let Some(peers) = &self.peers {
            peers.check(self.control.as_ref(), check);
        }
        if let Some(control) = &self.control {
            control.check(self.peers.as_ref(), check);
        }
        self.topology.check(self.peers.as_ref(), check);
        if let Some(tls) = &self.tls {
            tls.check("tls", check);
        }
        if let Some(cors) = &self.cors {
            cors.check(check);
        }
        record::check(self.access_log.as_ref(), self.journal.as_ref(), check);
        if let Some(traces) = &self.traces {
            traces.check(check);
        }
    }

    /// The lists of replicas, their sources, models, tenants, issuers, and residency rules.
    fn check_lists(&self, check: &mut impl FnMut(bool, String)) {
        let long = sources::beyond_limit(self.replicas.len(), self.limits.replicas);
        check(long.is_none(), format!("replicas: {}", long.unwrap_or_default()));
        sources::check_list("replicas", &self.replicas, check);
        let replicas = self.replicas.iter().map(|one| ("replicas", &one.credentials)).enumerate();
        let sources = self.discovery.iter().map(|one| ("discovery", &one.credentials)).enumerate();
        for (i, (list, name)) in replicas.chain(sources) {
            let unknown =
                name.as_ref().and_then(|name| unknown_credentials(name, &self.credentials));
            check(unknown.is_none(), format!("{list}[{i}].{}", unknown.unwrap_or_default()));
        }
        sources::check_all(&self.discovery, check);
        models::check(&self.models, check);
        self.check_models_beside(check);
        tenants::check(&self.tenants, check);
        self.check_keys(check);
        oidc::check(&self.oidc, &self.tenants, check);
        self.residency.check(&self.tenants, check);
        self.check_rules_of_aliases(check);
    }

    /// Keys beside other sections.
    fn check_keys(&self, check: &mut impl FnMut(bool, String)) {
        let has_keys = self.tenants.iter().any(|tenant| !tenant.keys.is_empty());
        // Tenants may be there for the rules of requests that come from elsewhere.
        let comes = !self.oidc.is_empty() || self.peers.is_some() || self.control.is_some();
        check(
            self.tenants.is_empty() || has_keys || comes,
            "tenants: none has keys, so every client gets a 401; add hashes that `meridian tenant-key` prints, or remove `tenants`"
                .to_owned(),
        );
        for (i, token) in self.admin_access.tokens.iter().enumerate() {
            let tenant = self.tenants.iter().find(|tenant| tenant.keys.contains(token));
            check(
                tenant.is_none(),
                format!(
                    "admin_access.tokens[{i}]: is also a key of the tenant {}, whose clients could control the gateway; make another token",
                    tenant.map_or("", |tenant| &tenant.name)
                ),
            );
        }
    }

    /// Models beside other sections.
    fn check_models_beside(&self, check: &mut impl FnMut(bool, String)) {
        for (name, model) in &self.models {
            let Some(after) = model.fallback_after else { continue };
            check(
                after < self.timeouts.first_byte,
                format!(
                    "models.{name}.fallback_after: is not shorter than timeouts.first_byte, which ends a request first; use a shorter time"
                ),
            );
        }
        for (i, replica) in self.replicas.iter().enumerate() {
            for (n, name) in replica.models.iter().enumerate() {
                let target = self.models.get(name).and_then(|model| model.alias.as_deref());
                check(
                    target.is_none(),
                    format!(
                        "replicas[{i}].models[{n}]: requests for `{name}` go to `{}`, of which it is an alias in `models`; remove one of the two",
                        target.unwrap_or_default()
                    ),
                );
            }
        }
    }

    /// Rules see the model that engines serve, so a rule for an alias would match nothing.
    fn check_rules_of_aliases(&self, check: &mut impl FnMut(bool, String)) {
        for (i, rule) in self.residency.rules.iter().enumerate() {
            for (n, name) in rule.models.iter().enumerate() {
                let target = self.models.get(name).and_then(|model| model.alias.as_deref());
                check(
                    target.is_none(),
                    format!(
                        "residency.rules[{i}].models[{n}]: `{name}` is an alias; write `{}`",
                        target.unwrap_or_default()
                    ),
                );
            }
        }
    }
}

impl Keys {
    fn check(&self, check: &mut impl FnMut(bool, String)) {
        let lower: Vec<String> = self.headers.iter().map(|name| name.to_lowercase()).collect();
        twice("keys.headers", &lower, check);
        let listed = self.headers.iter().enumerate();
        let listed = listed.map(|(i, name)| (format!("headers[{i}]"), name));
        let tenant = Some(&self.tenant_header).filter(|name| !name.is_empty());
        let tenant = tenant.map(|name| ("tenant_header".to_owned(), name));
        for (key, name) in listed.chain(tenant) {
            check(
                http::HeaderName::from_bytes(name.as_bytes()).is_ok(),
                format!(
                    "keys.{key}: `{name}` is not a header name; use letters, digits and hyphens"
                ),
            );
        }
    }
}

impl Timeouts {
    /// `drain` may be 0: then a shutdown waits for no request.
    fn check(&self, check: &mut impl FnMut(bool, String)) {
        let Timeouts { connect, first_byte, idle, down, client, drain: _, probe } = *self;
        above_zero("timeouts.connect", connect, check);
        above_zero("timeouts.first_byte", first_byte, check);
        above_zero("timeouts.idle", idle, check);
        above_zero("timeouts.down", down, check);
        above_zero("timeouts.client", client, check);
        above_zero("timeouts.probe", probe, check);
    }
}

impl Limits {
    fn check(&self, check: &mut impl FnMut(bool, String)) {
        let Limits { body, headers, connections, requests, bodies, replicas } = *self;
        at_least_one("limits.connections", connections, check);
        at_least_one("limits.requests", requests, check);
        at_least_one("limits.body", body.bytes(), check);
        at_least_one("limits.headers", headers.bytes(), check);
        at_least_one("limits.bodies", bodies.bytes(), check);
        at_least_one("limits.replicas", usize::from(replicas), check);
        check(
            body <= bodies,
            format!(
                "limits.bodies: {} bytes is less than limits.body, so a body of that size would never be taken; use as much or more",
                bodies.0
            ),
        );
        check(
            headers.bytes() >= LEAST_HEADERS,
            format!(
                "limits.headers: {} bytes is too small for usual requests; use 8KiB or more",
                headers.0
            ),
        );
    }
}

impl Breaker {
    fn check(&self, check: &mut impl FnMut(bool, String)) {
        let Breaker { failures, share, window, open, open_max } = *self;
        at_least_one("breaker.failures", failures as usize, check);
        check(
            share > 0.0 && share <= 1.0,
            format!("breaker.share: {share} is not a share; use a number above 0 and at most 1"),
        );
        above_zero("breaker.window", window, check);
        above_zero("breaker.open", open, check);
        check(
            open <= open_max,
            "breaker.open_max: is shorter than breaker.open; use the same time or a longer one"
                .to_owned(),
        );
    }
}

impl Probe {
    fn check(&self, check: &mut impl FnMut(bool, String)) {
        let Probe { busy, idle, down_after, stale } = *self;
        above_zero("probe.busy", busy, check);
        above_zero("probe.idle", idle, check);
        above_zero("probe.stale", stale, check);
        at_least_one("probe.down_after", down_after as usize, check);
        check(
            stale >= busy,
            "probe.stale: is shorter than probe.busy, so every report would be too old; use a longer time"
                .to_owned(),
        );
    }
}

impl Resume {
    fn check(&self, check: &mut impl FnMut(bool, String)) {
        check(
            self.text.bytes() > 0,
            "resume.text: 0 would keep no text to resume from; use 1KiB or more, or remove `resume`"
                .to_owned(),
        );
    }
}

pub(super) fn above_zero(name: &str, span: Span, check: &mut impl FnMut(bool, String)) {
    check(
        !span.0.is_zero(),
        format!("{name}: 0 would end every request at once; use a time above 0"),
    );
}

pub(super) fn at_least_one(name: &str, n: usize, check: &mut impl FnMut(bool, String)) {
    check(n > 0, format!("{name}: 0 would refuse every request; use 1 or more"));
}

/// Whether this can be the path of a request.
fn is_path(path: &str) -> bool {
    let parsed: Option<http::uri::PathAndQuery> = path.parse().ok();
    parsed.is_some_and(|parsed| parsed.as_str() == path && parsed.query().is_none())
}

/// Checks the interval of comments to waiting clients.
pub(super) fn check_keep_alive(at: &str, every: Span, check: &mut impl FnMut(bool, String)) {
    check(
        every >= LEAST_KEEP_ALIVE,
        format!(
            "{at}: {} ms would send more comments than content; use 1s or more, below the 60s that many proxies allow",
            every.0.as_millis()
        ),
    );
}
