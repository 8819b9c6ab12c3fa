//! Settings that work and are probably a mistake. `meridian check` prints them and accepts the file; a
//! start logs them.

use std::collections::BTreeSet;
use std::time::Duration;

use super::tenants::KeyHash;
use super::{Gateway, Isolation};

/// The usual intervals of probes: more often costs the engine, more rarely finds a dead one late.
const PROBES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_mins(1));

impl Gateway {
    /// Each with its field, value and remedy.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut hint = |is_odd: bool, text: String| {
            if is_odd {
                found.push(text);
            }
        };
        let span = |span: super::Span| humantime::format_duration(span.0);
        let (wait, first) = (self.held.max_wait, self.timeouts.first_byte);
        hint(
            wait > first,
            format!(
                "held.max_wait: {} is longer than timeouts.first_byte, {}: a request may wait in the queue for longer than for its answer; use a shorter time",
                span(wait),
                span(first)
            ),
        );
        let (down, idle) = (self.timeouts.down, self.timeouts.idle);
        hint(
            down > idle,
            format!(
                "timeouts.down: {} is longer than timeouts.idle, {}, which ends an answer first; use a shorter time",
                span(down),
                span(idle)
            ),
        );
        let probe = &self.probe;
        hint(
            probe.busy > probe.idle,
            format!(
                "probe.busy: {} is longer than probe.idle, {}: a replica in use would be probed less often than an idle one; exchange the two",
                span(probe.busy),
                span(probe.idle)
            ),
        );
        for (name, every) in [("probe.busy", probe.busy), ("probe.idle", probe.idle)] {
            hint(
                every.0 < PROBES.0 || every.0 > PROBES.1,
                format!(
                    "{name}: {} is an unusual interval of probes; use {} to {}",
                    span(every),
                    humantime::format_duration(PROBES.0),
                    humantime::format_duration(PROBES.1)
                ),
            );
        }
        hint(
            self.shadow.as_ref() == Some(&self.policy),
            "shadow: is the policy in force, so it shows nothing; name another one, or remove it"
                .to_owned(),
        );
        self.tenant_hints(&mut hint);
        for (name, model) in &self.models {
            let most = model.limits.requests.unwrap_or(0);
            hint(
                most > self.limits.requests,
                format!(
                    "models.{name}.limits.requests: {most} is more than limits.requests, {}, which applies first; use less, or raise that",
                    self.limits.requests
                ),
            );
        }
        found
    }

    fn tenant_hints(&self, hint: &mut impl FnMut(bool, String)) {
        let names = !self.keys.tenant_header.is_empty() || self.identifies_clients();
        hint(
            self.isolation == Isolation::Tenant && !names,
            "isolation: `tenant` separates no requests, since nothing names a tenant; set keys.tenant_header, tenants or oidc".to_owned(),
        );
        for tenant in &self.tenants {
            hint(
                tenant.keys.iter().any(KeyHash::is_example),
                format!(
                    "tenants: a key of {} is the hash of an example; print that of a real key with `meridian tenant-key`",
                    tenant.name
                ),
            );
        }
        let has_keys = self.tenants.iter().any(|tenant| !tenant.keys.is_empty());
        hint(
            !self.tenants.is_empty() && !has_keys && self.oidc.is_empty(),
            "tenants: none has keys, so every client of this gateway gets a 401; add hashes that `meridian tenant-key` prints".to_owned(),
        );
    }

    /// Places of residency rules where no replica stands, as far as the file tells: a request that such
    /// a rule alone permits there is refused. Empty if replicas may come from elsewhere.
    #[must_use]
    pub fn unknown_places(&self) -> Vec<String> {
        let learns = self.discovery.iter().any(|source| source.file.is_some());
        if learns || self.control.is_some() || self.peers.is_some() {
            return Vec::new();
        }
        let known = self.places();
        let mut found = Vec::new();
        for (i, rule) in self.residency.rules.iter().enumerate() {
            for place in rule.run_in.iter().filter(|place| !known.contains(*place)) {
                found.push(format!(
                    "residency.rules[{i}].run_in: no replica stands in `{place}`; correct the name, or give replicas that region or label"
                ));
            }
            for region in rule.from.iter().filter(|region| **region != self.region) {
                found.push(format!(
                    "residency.rules[{i}].from: no gateway of `{region}` is known here, and this one is in `{}`; correct the name, or add `peers`",
                    self.region
                ));
            }
        }
        found
    }

    /// Regions and labels of the replicas of the file, as rules write them.
    fn places(&self) -> BTreeSet<String> {
        let listed = self.replicas.iter().map(|one| (one.region.as_ref(), Some(&one.labels)));
        let sources = self.discovery.iter().map(|one| (one.region.as_ref(), Some(&one.labels)));
        let mut known = BTreeSet::new();
        for (region, labels) in listed.chain(sources).chain([(None, None)]) {
            let region = region.unwrap_or(&self.region);
            let of_region = self.residency.labels.get(region);
            let labels = labels.into_iter().chain(of_region).flatten();
            known.extend(labels.map(|(name, value)| format!("{name}={value}")));
            known.insert(region.clone());
        }
        known
    }
}
