//! Replicas in a Kubernetes cluster.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest name of a Service or a namespace (RFC 1123).
const MOST_NAME: usize = 63;
/// Longest key of a label: a domain of 253 characters, a slash and 63 more.
const MOST_KEY: usize = 317;

/// Replicas in a Kubernetes cluster: exactly one of `service` and `selector`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Kubernetes {
    /// The name of a Service: one replica per endpoint of its EndpointSlices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// A label selector, as in `app=vllm,tier!=batch`: one replica per pod that it matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Their namespace; the gateway's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name or number of their port; may be absent if they have only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<KubernetesPort>,
    /// The label with the role of a pod, whose value is `prefill`, `decode` or `both`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role_label: Option<String>,
    /// The label with the rank of a pod in its group, of which only rank 0 serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank_label: Option<String>,
    /// The label with the revision of a pod. Prefill and decode replicas pair within a revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_label: Option<String>,
    /// A file in kubectl's form that names the cluster. If absent, kubectl's own file if there is one,
    /// or else the cluster in which the gateway runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
}

/// A port of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum KubernetesPort {
    Number(u16),
    Name(String),
}

impl Kubernetes {
    /// Its name in logs, status and metrics. Two entries with one name are the same source.
    pub(super) fn label(&self) -> String {
        let namespace = self.namespace.as_ref().map(|name| format!("{name}/")).unwrap_or_default();
        let of = match (&self.service, &self.selector) {
            (Some(service), _) => service.clone(),
            (None, selector) => format!("pods {}", selector.as_deref().unwrap_or_default()),
        };
        let port = match &self.port {
            Some(KubernetesPort::Number(number)) => format!(":{number}"),
            Some(KubernetesPort::Name(name)) => format!(":{name}"),
            None => String::new(),
        };
        let file = self.kubeconfig.as_ref().map(|path| format!(" of {}", path.display()));
        format!("kubernetes {namespace}{of}{port}{}", file.unwrap_or_default())
    }

    pub(super) fn check(&self, at: &str, check: &mut impl FnMut(bool, String)) {
        check(
            self.service.is_some() != self.selector.is_some(),
            format!("{at}: needs exactly one of service and selector"),
        );
        for (key, name) in [("service", &self.service), ("namespace", &self.namespace)] {
            check(
                name.as_deref().is_none_or(is_name),
                format!(
                    "{at}.{key}: `{}` is not a name in Kubernetes; use small letters, digits and -, at most {MOST_NAME}",
                    name.as_deref().unwrap_or_default()
                ),
            );
        }
        check(
            self.selector.as_deref().is_none_or(|selector| !selector.trim().is_empty()),
            format!(
                "{at}.selector: is empty and would match every pod; write labels, as in app=vllm"
            ),
        );
        let port = match &self.port {
            Some(KubernetesPort::Number(0)) => Some("0".to_owned()),
            Some(KubernetesPort::Name(name)) if !is_port(name) => Some(name.clone()),
            _ => None,
        };
        if let Some(port) = port {
            check(
                false,
                format!(
                    "{at}.port: `{port}` is not a port; write its name or its number, as in 8000"
                ),
            );
        }
        let labels = [
            ("role_label", &self.role_label),
            ("rank_label", &self.rank_label),
            ("revision_label", &self.revision_label),
        ];
        for (key, label) in labels {
            check(
                label.as_deref().is_none_or(is_label),
                format!(
                    "{at}.{key}: `{}` is not the key of a label; write it as in app.kubernetes.io/name",
                    label.as_deref().unwrap_or_default()
                ),
            );
        }
    }
}

fn is_name(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=MOST_NAME).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// The name of a port: at most 15 characters with a letter among them.
fn is_port(text: &str) -> bool {
    is_name(text) && text.len() <= 15 && text.bytes().any(|b| b.is_ascii_lowercase())
}

fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"-_./".contains(&b);
    (1..=MOST_KEY).contains(&text.len())
        && text.bytes().all(inner)
        && text.matches('/').count() <= 1
        && !text.starts_with('/')
        && !text.ends_with('/')
}

#[cfg(test)]
mod tests {
    use crate::Gateway;

    // A Service or a selector, with ports and labels. Each mistake is reported with its remedy.
    #[test]
    fn problems() {
        let read = |yaml: &str| Gateway::read(&format!("version: 1\ndiscovery:\n{yaml}\n"));
        let good = "- {kubernetes: {service: llama, namespace: serving, port: http}, models: [m]}\n\
            - {kubernetes: {service: llama, namespace: serving, port: 8001}}\n\
            - kubernetes: {selector: \"app=vllm\", role_label: llm-d.ai/role, revision_label: pod-template-hash}";
        let config = read(good).expect("is valid");
        assert_eq!(Gateway::read(&config.print().expect("prints")).expect("reads back"), config);
        let labels: Vec<_> = config.discovery.iter().map(crate::Source::label).collect();
        let expected = [
            "kubernetes serving/llama:http",
            "kubernetes serving/llama:8001",
            "kubernetes pods app=vllm",
        ];
        assert_eq!(labels, expected);
        for (yaml, part) in [
            (
                "- kubernetes: {}",
                "discovery[0].kubernetes: needs exactly one of service and selector",
            ),
            (
                "- kubernetes: {service: a, selector: b}",
                "needs exactly one of service and selector",
            ),
            (
                "- kubernetes: {service: Llama}",
                "discovery[0].kubernetes.service: `Llama` is not a name",
            ),
            (
                "- kubernetes: {service: a, namespace: b/c}",
                "kubernetes.namespace: `b/c` is not a name",
            ),
            ("- kubernetes: {selector: \" \"}", "kubernetes.selector: is empty"),
            ("- kubernetes: {service: a, port: 0}", "kubernetes.port: `0` is not a port"),
            ("- kubernetes: {service: a, port: \"80\"}", "kubernetes.port: `80` is not a port"),
            ("- kubernetes: {service: a, role_label: \"a b\"}", "role_label: `a b` is not the key"),
            (
                "- {kubernetes: {service: a}, dns: \"b:1\"}",
                "exactly one of file, dns, srv and kubernetes",
            ),
            (
                "- {kubernetes: {service: a}, server: \"127.0.0.1:53\"}",
                "discovery[0].server: is for dns and srv",
            ),
            (
                "- kubernetes: {service: a}\n- kubernetes: {service: a}",
                "is the same as discovery[0]",
            ),
            ("- kubernetes: {services: a}", "services"),
        ] {
            let found = read(yaml).expect_err("cannot work").to_string();
            assert!(found.contains(part), "{part} is missing in {found}");
        }
    }
}
