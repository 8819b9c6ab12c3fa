//! The traces that a gateway sends to an OpenTelemetry collector.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::with_scheme;

/// Longest service name.
const MOST_NAME: usize = 128;

/// Traces: the hops of sampled requests, sent to a collector over OTLP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Traces {
    /// Address of the collector, as in `http://127.0.0.1:4317`.
    pub endpoint: String,
    /// How the collector is spoken to.
    #[serde(default)]
    pub protocol: OtlpProtocol,
    /// Share of the requests that are traced, 0 to 1. A request that comes with a `traceparent` is
    /// traced if its sender says so.
    #[serde(default = "all")]
    pub sample: f64,
    /// The gateway's `service.name`.
    #[serde(default = "service")]
    pub service_name: String,
}

/// The transport of OTLP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OtlpProtocol {
    /// gRPC, usually on port 4317.
    #[default]
    Grpc,
    /// Protobuf over HTTP, usually on port 4318.
    Http,
}

fn all() -> f64 {
    1.0
}

fn service() -> String {
    "meridian".to_owned()
}

impl Traces {
    pub(super) fn check(&self, check: &mut impl FnMut(bool, String)) {
        let problem = problem(&self.endpoint);
        check(problem.is_none(), format!("traces.endpoint: {}", problem.unwrap_or_default()));
        check(
            (0.0..=1.0).contains(&self.sample),
            format!("traces.sample: {} is not a share; use 0 to 1", self.sample),
        );
        let name = &self.service_name;
        check(
            (1..=MOST_NAME).contains(&name.len()) && !name.chars().any(char::is_control),
            format!("traces.service_name: `{name}` is not a name; use 1 to {MOST_NAME} bytes"),
        );
    }
}

/// Why an address is not a collector's, with the remedy.
fn problem(endpoint: &str) -> Option<String> {
    let example = "write http://host:4317 for grpc, or http://host:4318 for http";
    let uri: http::Uri = match endpoint.parse() {
        // A password is not repeated.
        Ok(_) | Err(_) if endpoint.contains('@') => {
            return Some(format!("has a user name or a password; {example}"));
        }
        Ok(uri) => uri,
        Err(_) => return Some(format!("`{endpoint}` is not a URL; {example}")),
    };
    match uri.scheme_str() {
        Some("http") if uri.port_u16().is_some() => {}
        Some("http") => return Some(format!("`{endpoint}` has no port; {example}")),
        Some("https") => {
            return Some(format!(
                "`{endpoint}`: https is not supported; write `{}` of a collector in the gateway's own network, which sends the spans on over TLS",
                with_scheme(endpoint.trim_start_matches("https://"))
            ));
        }
        _ => return Some(format!("`{endpoint}` is not an http address; {example}")),
    }
    let has_path = uri.path() != "/" || uri.query().is_some();
    has_path.then(|| {
        format!("`{endpoint}` has a path; write `{}`: OTLP sets the path", with_scheme(endpoint))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConfigError, Gateway};

    fn read(yaml: &str) -> Result<Gateway, ConfigError> {
        Gateway::read(&format!("version: 1\n{yaml}\n"))
    }

    // The section with its defaults and with every field; the printed form reads back as the same.
    #[test]
    fn section() {
        assert_eq!(read("").unwrap().traces, None);
        let config = read("traces: {endpoint: 'http://localhost:4317'}").unwrap();
        let traces = config.traces.unwrap();
        assert_eq!((traces.protocol, traces.sample), (OtlpProtocol::Grpc, 1.0));
        assert_eq!(traces.service_name, "meridian");
        let config = read(
            "traces: {endpoint: 'http://[::1]:4318', protocol: http, sample: 0.25, service_name: eu}",
        )
        .unwrap();
        assert_eq!(Gateway::read(&config.print().unwrap()).unwrap(), config);
    }

    // Each mistake is reported with its field, its value and the remedy. A password is not shown.
    #[test]
    fn mistakes() {
        for (fields, says) in [
            ("endpoint: collector", "traces.endpoint: `collector` is not an http address; write"),
            ("endpoint: 'http://a b'", "traces.endpoint: `http://a b` is not a URL"),
            (
                "endpoint: 'http://c'",
                "traces.endpoint: `http://c` has no port; write http://host:4",
            ),
            ("endpoint: 'https://c:4317'", "https is not supported; write `http://c:4317` of a"),
            ("endpoint: 'grpc://c:4317'", "traces.endpoint: `grpc://c:4317` is not an http"),
            ("endpoint: 'http://c:4318/v1/traces'", "has a path; write `http://c:4318`"),
            ("endpoint: 'http://me:secret@c:1'", "traces.endpoint: has a user name or a password"),
            (
                "endpoint: 'http://c:1', sample: 1.5",
                "traces.sample: 1.5 is not a share; use 0 to 1",
            ),
            ("endpoint: 'http://c:1', sample: .nan", "traces.sample: NaN is not a share"),
            ("endpoint: 'http://c:1', service_name: ''", "traces.service_name: `` is not a name"),
            ("endpoint: 'http://c:1', protocol: udp", "traces.protocol"),
            ("endpoint: 'http://c:1', sampel: 1", "sampel"),
        ] {
            let error = read(&format!("traces: {{{fields}}}")).expect_err(fields).to_string();
            assert!(error.contains(says), "{says} is missing in {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
