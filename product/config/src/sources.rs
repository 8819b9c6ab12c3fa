//! Sources of replicas besides the gateway's own file: a list in another file that may change, names
//! in the DNS, and Kubernetes.

mod kubernetes;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use meridian_base::residency::Labels;
use meridian_routing::MOST_REPLICA_IDS;

pub use self::kubernetes::{Kubernetes, KubernetesPort};
use super::ports::identity;
use super::residency::check_labels;
use super::{ConfigError, Format, base_url, file, from_problems, pool_problems};
use meridian_protocol::admin::{AddReplica, EngineName, RoleName, TransferName};
use meridian_protocol::peer::label;

/// Most sources of a gateway: each is a label of metrics.
const MOST: usize = 64;

/// One source of replicas: exactly one of `file`, `dns`, `srv` and `kubernetes`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// A file with a list in the form of `replicas`, as YAML or JSON; reloaded when it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// `name:port`: one replica per address of the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<String>,
    /// A name with SRV records: one replica per address of each target, at its port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub srv: Option<String>,
    /// A Service or pods of a Kubernetes cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<Kubernetes>,
    /// For `dns` and `srv`: the name server to query; the system's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<SocketAddr>,
    /// For all but `file`: the engine of the replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineName>,
    /// Name of the credentials for them, in the section `credentials`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
    /// Their region, if not the gateway's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Their labels for residency rules, in addition to their region's.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// The models they serve; read from `/v1/models` when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Their KV cache size in tokens, if the engine does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_tokens: Option<u64>,
    /// Most requests they run at once, if the engine does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    /// Their part of a request: `both`, `prefill` or `decode`.
    #[serde(default, skip_serializing_if = "RoleName::is_both")]
    pub role: RoleName,
    /// How they hand over KV, if that is not their engine's usual way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferName>,
}

impl Source {
    /// Its name in logs, status and metrics.
    #[must_use]
    pub fn label(&self) -> String {
        match (&self.file, &self.dns, &self.kubernetes, &self.srv) {
            (Some(file), ..) => format!("file {}", file.display()),
            (_, Some(name), ..) => format!("dns {name}"),
            (.., Some(kubernetes), _) => kubernetes.label(),
            (.., name) => format!("srv {}", name.as_deref().unwrap_or_default()),
        }
    }

    /// The replica at an address that the source found.
    #[must_use]
    pub fn replica(&self, address: SocketAddr, weight: u32) -> AddReplica {
        AddReplica {
            credentials: self.credentials.clone(),
            engine: self.engine.unwrap_or_default(),
            models: self.models.clone(),
            kv_tokens: self.kv_tokens,
            slots: self.slots,
            role: self.role,
            transfer: self.transfer,
            weight,
            region: self.region.clone(),
            labels: self.labels.clone(),
            ..AddReplica::at(format!("http://{address}"))
        }
    }

    fn check(&self, at: usize, check: &mut impl FnMut(bool, String)) {
        let given = [
            self.file.is_some(),
            self.dns.is_some(),
            self.srv.is_some(),
            self.kubernetes.is_some(),
        ];
        check(
            given.iter().filter(|given| **given).count() == 1,
            format!("discovery[{at}]: needs exactly one of file, dns, srv and kubernetes"),
        );
        if let Some(kubernetes) = &self.kubernetes {
            kubernetes.check(&format!("discovery[{at}].kubernetes"), check);
            check(
                self.server.is_none(),
                format!("discovery[{at}].server: is for dns and srv; remove it"),
            );
        }
        check(
            self.file.as_ref().is_none_or(|file| file.file_name().is_some()),
            format!(
                "discovery[{at}].file: is not a file name; name a file with a list of replicas"
            ),
        );
        check(
            self.server.is_none_or(|server| server.port() > 0),
            format!("discovery[{at}].server: 0 is not a port; name servers have 53"),
        );
        if let Some(name) = &self.dns {
            check(
                name_and_port(name).is_some(),
                format!(
                    "discovery[{at}].dns: `{name}` is not a name with a port; write name:port, as in vllm.local:8000"
                ),
            );
        }
        if let Some(name) = &self.srv {
            check(
                is_name(name),
                format!(
                    "discovery[{at}].srv: `{name}` is not a name; write it as _service._tcp.domain"
                ),
            );
        }
        for problem in pool_problems(&self.replica(([0, 0, 0, 0], 0).into(), 1)) {
            check(false, format!("discovery[{at}].{problem}"));
        }
        let of_names = self.server.is_some()
            || self.engine.is_some()
            || self.region.is_some()
            || !self.labels.is_empty()
            || !self.models.is_empty()
            || self.kv_tokens.is_some()
            || !self.role.is_both()
            || self.transfer.is_some()
            || self.credentials.is_some()
            || self.slots.is_some();
        check(
            self.file.is_none() || !of_names,
            format!(
                "discovery[{at}]: the file describes its replicas; move {} into the file",
                "engine, credentials, region, labels, models, kv_tokens and slots"
            ),
        );
        if let Some(Err(error)) = self.region.as_ref().map(|r| label("region", r)) {
            check(false, format!("discovery[{at}].{error}"));
        }
        check_labels(&format!("discovery[{at}].labels"), &self.labels, check);
    }
}

/// The parts of `name:port`.
#[must_use]
pub fn name_and_port(text: &str) -> Option<(&str, u16)> {
    let (name, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    is_name(name).then_some((name, port))
}

fn is_name(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let text = text.strip_suffix('.').unwrap_or(text);
    text.len() <= 253 && text.split('.').all(label)
}

pub(super) fn check_all(sources: &[Source], check: &mut impl FnMut(bool, String)) {
    check(
        sources.len() <= MOST,
        format!("discovery: {} sources are listed; use at most {MOST}", sources.len()),
    );
    for (at, source) in sources.iter().enumerate() {
        source.check(at, check);
        let twin = sources[..at].iter().position(|other| other.label() == source.label());
        if let Some(twin) = twin {
            check(false, format!("discovery[{at}]: is the same as discovery[{twin}]; remove one"));
        }
    }
}

/// The problem of a list with more replicas than `limits.replicas`, without the list's name.
#[must_use]
pub fn beyond_limit(replicas: usize, limit: u16) -> Option<String> {
    (replicas > usize::from(limit)).then(|| {
        format!(
            "{replicas} replicas are listed, and limits.replicas is {limit}; raise that limit (to at most {MOST_REPLICA_IDS}), or list fewer"
        )
    })
}

/// Reads a list of replicas of any length.
///
/// # Errors
/// Every problem of the list. A file without a list is an error, too: it may be half written.
pub fn replica_list(text: &str) -> Result<Vec<AddReplica>, ConfigError> {
    if text.trim().is_empty() {
        return Err(vec!["the list is empty; write [] for no replicas".to_owned()].into());
    }
    file::read(text, Format::Replicas, |list: &Vec<AddReplica>| {
        let mut found = Vec::new();
        check_list("", list, &mut |ok, text| {
            if !ok {
                found.push(text);
            }
        });
        found
    })
}

/// Checks the list of replicas under `name`.
pub(super) fn check_list(name: &str, list: &[AddReplica], check: &mut impl FnMut(bool, String)) {
    let (mut first, mut named) = (BTreeMap::new(), BTreeMap::new());
    for (i, replica) in list.iter().enumerate() {
        if let Err(problem) = base_url(&replica.url) {
            check(false, format!("{name}[{i}].url: {problem}"));
        }
        for problem in from_problems(&replica.from) {
            check(false, format!("{name}[{i}].{problem}"));
        }
        check(
            replica.weight > 0,
            format!("{name}[{i}].weight: 0 would never get a request; use 1 or more"),
        );
        if let Some(Err(error)) = replica.region.as_ref().map(|r| label("region", r)) {
            check(false, format!("{name}[{i}].{error}"));
        }
        check_labels(&format!("{name}[{i}].labels"), &replica.labels, check);
        for problem in pool_problems(replica) {
            check(false, format!("{name}[{i}].{problem}"));
        }
        if let Some(given) = &replica.name {
            let j = *named.entry(given).or_insert(i);
            check(
                j == i,
                format!("{name}[{i}].name: `{given}` is also {name}[{j}]; give each its own"),
            );
        }
        let url = &replica.url;
        let j = *first.entry(identity(url).unwrap_or_else(|| url.clone())).or_insert(i);
        if j < i {
            check(false, format!("{name}[{i}].url: `{url}` is also {name}[{j}]; remove one"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gateway;

    // A source is one of three kinds. Each mistake is reported with its remedy.
    #[test]
    fn problems() {
        let read = |yaml: &str| Gateway::read(&format!("version: 1\ndiscovery:\n{yaml}\n"));
        let good = "- file: r.yaml\n- {dns: \"vllm.local:8000\", engine: vllm}\n- {srv: _http._tcp.vllm.local., server: \"127.0.0.1:53\"}";
        let config = read(good).expect("is valid");
        assert_eq!(Gateway::read(&config.print().expect("prints")).expect("reads back"), config);
        let labels: Vec<_> = config.discovery.iter().map(Source::label).collect();
        assert_eq!(labels, ["file r.yaml", "dns vllm.local:8000", "srv _http._tcp.vllm.local."]);
        for (yaml, part) in [
            ("- {}", "discovery[0]: needs exactly one of file, dns, srv and kubernetes"),
            (
                "- {file: a, srv: b}",
                "discovery[0]: needs exactly one of file, dns, srv and kubernetes",
            ),
            ("- dns: vllm.local", "discovery[0].dns: `vllm.local` is not a name with a port"),
            ("- dns: \"vllm.local:0\"", "is not a name with a port"),
            ("- dns: \"http://vllm:80\"", "is not a name with a port"),
            ("- srv: a..b", "discovery[0].srv: `a..b` is not a name"),
            ("- {file: a, engine: vllm}", "the file describes its replicas"),
            ("- file: a\n- file: a", "discovery[1]: is the same as discovery[0]"),
            ("- {file: a, weight: 2}", "weight"),
        ] {
            let found = read(yaml).expect_err("cannot work").to_string();
            assert!(found.contains(part), "{part} is missing in {found}");
        }
    }

    // A list may be YAML or JSON; all its problems are reported at once.
    #[test]
    fn lists() {
        let json = r#"[{"url":"http://a:1"},{"url":"http://b:1","engine":"vllm","weight":2}]"#;
        let yaml = "- url: http://a:1\n- {url: http://b:1, engine: vllm, weight: 2}\n";
        let read = |text: &str| replica_list(text).expect("is a list");
        assert_eq!(read(json), read(yaml));
        assert_eq!(read("[]"), []);
        for (text, part) in [
            ("", "the list is empty; write [] for no replicas"),
            ("url: http://a:1", "line 1"),
            ("- url: http://a:1\n- ur", "line 2"),
            ("- {url: http://a:1, port: 2}", "port"),
            ("- url: a:1\n- {url: http://b:1, weight: 0}", "[1].weight: 0"),
            ("- {url: http://a:1, from: {eu: a}}", "[0].from.eu: `a` has no scheme"),
            ("- url: http://a:1\n- url: http://a:1", "[1].url: `http://a:1` is also [0]"),
        ] {
            let found = replica_list(text).expect_err("is not a list").to_string();
            assert!(found.contains(part), "{part} is missing in {found}");
        }
    }

    // A configuration may list as many replicas as its limit. One more is a problem with the field,
    // its line, both values and the remedy.
    #[test]
    fn more_replicas_than_the_limit() {
        let read = |listed: u32| {
            let replicas: String = (0..listed).map(|n| format!("\n- url: http://a{n}:1")).collect();
            Gateway::read(&format!("version: 1\nlimits: {{replicas: 3}}\nreplicas:{replicas}\n"))
        };
        assert_eq!(read(3).expect("is valid").replicas.len(), 3);
        let found = read(4).expect_err("is too long").to_string();
        let says = "replicas: 4 replicas are listed, and limits.replicas is 3; raise that limit (to at most 65535), or list fewer (line 3)";
        assert_eq!(found, says);
        assert_eq!(beyond_limit(usize::from(MOST_REPLICA_IDS), MOST_REPLICA_IDS), None);
        assert!(beyond_limit(usize::from(MOST_REPLICA_IDS) + 1, MOST_REPLICA_IDS).is_some());
    }
}
