//! The control plane's configuration, and the gateway's section for it.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::admin_access::check_hosts;
use super::ports::conflict;
use super::{
    ConfigError, ControlUrls, Dns, Etcd, Format, MutualTls, Peers, Route53, Secret, Span, VERSION,
    file, public_problems,
};
use meridian_protocol::peer::label;

/// Shortest lease: a renewal may take a third of it.
const LEAST_LEASE: Span = Span::secs(1);
/// Longest lease: with a longer one, adoption would come too late.
const MOST_LEASE: Span = Span::secs(3600);

/// One control plane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// Schema version: 1.
    #[schemars(range(min = VERSION, max = VERSION))]
    pub version: u32,
    /// The registry's file, created if missing. Either this or `etcd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<PathBuf>,
    /// The registry in etcd, for several control planes. Either this or `store`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<Etcd>,
    /// Address for operators, scrapers and the gateways of this machine. Port 0: any free one.
    #[serde(default = "admin", deserialize_with = "super::listening")]
    pub admin: SocketAddr,
    /// Names of the admin port, besides IP addresses and localhost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admin_hosts: Vec<String>,
    /// Token that every request but health checks needs, as `Authorization: Bearer ...`. With `tls`,
    /// parties of the fleet read without it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::secret::given"
    )]
    pub token: Option<Secret>,
    /// Mutual TLS: both sides show a certificate of the fleet. Plain HTTP if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<MutualTls>,
    /// One name for all regions; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<Dns>,
    /// One name for all regions in a hosted zone of AWS Route 53; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route53: Option<Route53>,
    /// Mean utilisation that the number of needed replicas aims at, above 0 and at most 1.
    #[serde(default = "target")]
    pub target: f64,
}

/// The gateway's control plane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Registry {
    /// `http://host:port` of its admin port, or `https://host:port`; a list of these, the nearest
    /// first, if several control planes serve the registry.
    pub url: ControlUrls,
    /// This gateway's name in the fleet; with `peers` it comes from the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The control plane's token, if it has one.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::secret::given"
    )]
    pub token: Option<Secret>,
    /// Client certificates for https; those of `peers` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<MutualTls>,
    /// How long other gateways consider this one alive without news from it.
    #[serde(default = "lease")]
    pub lease: Span,
    /// File with the gateway's newest view, for a start without the control plane. If absent, no
    /// view is saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<PathBuf>,
    /// IP addresses at which clients reach this gateway, if they differ from the one it listens on.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "super::public::addresses"
    )]
    pub public: Vec<IpAddr>,
}

fn admin() -> SocketAddr {
    (std::net::Ipv4Addr::LOCALHOST, 8090).into()
}

/// Utilisation for which needed replicas are counted, unless a control plane's `target` sets
/// another.
pub const TARGET: f64 = 0.7;

fn target() -> f64 {
    const { assert!(TARGET > 0.0 && TARGET <= 1.0, "a utilisation is a share") };
    TARGET
}
fn lease() -> Span {
    const LEASE: Span = Span::secs(5);
    assert!(LEASE >= LEAST_LEASE && LEASE <= MOST_LEASE, "the default is within its limits");
    LEASE
}

impl Control {
    /// Whether a file is a control plane's configuration rather than a gateway's: it has a `store`,
    /// or an `etcd`.
    #[must_use]
    pub fn is_in(yaml: &str) -> bool {
        ["store", "etcd"].iter().any(|field| file::has_field(yaml, field))
    }

    /// Where the registry is, for people.
    #[must_use]
    pub fn place(&self) -> String {
        match (&self.store, &self.etcd) {
            (Some(file), _) => file.display().to_string(),
            (None, Some(etcd)) => format!("etcd at {}", etcd.endpoints.join(", ")),
            (None, None) => String::new(),
        }
    }

    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// All its problems.
    pub fn read(yaml: &str) -> Result<Control, ConfigError> {
        Control::examine(yaml, Control::problems)
    }

    /// Reads a configuration and checks it with `problems`, such as a check of the files that it
    /// names.
    ///
    /// # Errors
    /// All its problems.
    pub fn examine(
        yaml: &str,
        problems: impl FnOnce(&Control) -> Vec<String>,
    ) -> Result<Control, ConfigError> {
        file::read(yaml, Format::Control, problems)
    }

    /// The whole effective configuration with defaults written out, without the values of
    /// secrets.
    ///
    /// # Errors
    /// Never for a configuration that was read; otherwise the serializer's own error.
    pub fn print(&self) -> Result<String, ConfigError> {
        file::print(self)
    }

    /// Every problem of the configuration.
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
            format!("version: {} is unknown; use {VERSION}", self.version),
        );
        self.check_store(&mut check);
        check(
            self.target > 0.0 && self.target <= 1.0,
            format!("target: {} is not a share; use a number above 0 and at most 1", self.target),
        );
        let open = self.admin.ip().is_loopback() || self.token.is_some() || self.tls.is_some();
        check(
            open,
            format!(
                "admin: {} accepts connections from other machines, and neither token nor tls is set; set one, or use 127.0.0.1",
                self.admin
            ),
        );
        check_hosts("admin_hosts", &self.admin_hosts, &mut check);
        if let Some(tls) = &self.tls {
            tls.check("tls", &mut check);
        }
        check_token("token", self.token.as_ref(), &mut check);
        if let Some(dns) = &self.dns {
            dns.check(&mut check);
            for (i, listen) in dns.listen.iter().enumerate() {
                check(
                    !conflict(*listen, self.admin),
                    format!(
                        "dns.listen[{i}]: {listen} is the address of `admin`; use another port"
                    ),
                );
            }
        }
        if let Some(route53) = &self.route53 {
            route53.check(&mut check);
        }
        found
    }

    fn check_store(&self, check: &mut impl FnMut(bool, String)) {
        let missing = "name the file of the registry, as in /var/lib/meridian/fleet.redb";
        check(
            self.store.as_ref().is_none_or(|file| !file.as_os_str().is_empty()),
            format!("store: is empty; {missing}"),
        );
        check(
            self.store.is_some() || self.etcd.is_some(),
            format!("store: is missing; {missing}, or set etcd"),
        );
        check(
            self.store.is_none() || self.etcd.is_none(),
            "store: is set, and etcd is, too; remove one of the two".to_owned(),
        );
        if let Some(etcd) = &self.etcd {
            etcd.check(check);
        }
    }
}

impl Registry {
    pub(super) fn check(&self, peers: Option<&Peers>, check: &mut impl FnMut(bool, String)) {
        let has_files = peers.is_some_and(|peers| peers.files().is_some());
        self.url.check(check);
        for problem in public_problems("control.public", &self.public) {
            check(false, problem);
        }
        check(
            self.name.is_some() || peers.is_some(),
            "control.name: is missing; give this gateway a name that no other gateway of the fleet has"
                .to_owned(),
        );
        if let Some(Err(error)) = self.name.as_ref().map(|name| label("name", name)) {
            check(false, format!("control.{error}"));
        }
        check_token("control.token", self.token.as_ref(), check);
        check(
            !self.url.is_https() || self.tls.is_some() || has_files,
            "control.tls: is missing, and control.url is https; add the client certificates here, or under peers"
                .to_owned(),
        );
        if let Some(tls) = &self.tls {
            tls.check("control.tls", check);
            check(
                self.url.is_https(),
                format!(
                    "control.tls: is set, and control.url is `{}`; write https:// there, or remove tls",
                    self.url
                ),
            );
        }
        check(
            (LEAST_LEASE..=MOST_LEASE).contains(&self.lease),
            format!(
                "control.lease: {} is out of range; use 1s to 1h",
                humantime::format_duration(self.lease.0)
            ),
        );
        check(
            self.view.as_ref().is_none_or(|file| file.file_name().is_some()),
            format!(
                "control.view: `{}` is not a file name; use a file of this gateway alone, as in /var/lib/meridian/us-1.view",
                self.view.as_deref().unwrap_or_else(|| "".as_ref()).display()
            ),
        );
    }
}

/// A token is sent in a header. Errors never show it.
fn check_token(field: &str, token: Option<&Secret>, check: &mut impl FnMut(bool, String)) {
    let fits = |t: &str| (16..=512).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_graphic());
    check(
        token.is_none_or(|token| fits(token.expose())),
        format!(
            "{field}: does not have the form of a token; use 16 to 512 printable characters without spaces"
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gateway;

    // The short form is enough, and the printed form reads back. A token is not printed.
    #[test]
    fn control_form() {
        let config = Control::read("version: 1\nstore: fleet.redb\n").unwrap();
        assert_eq!(config.admin.port(), 8090);
        assert_eq!(Control::read(&config.print().unwrap()).unwrap(), config);
        let kept = "version: 1\nstore: a\ntoken: 0123456789abcdef\n";
        let printed = Control::read(kept).unwrap().print().unwrap();
        assert!(printed.contains("(set)") && !printed.contains("0123"), "{printed}");
    }

    // All problems are reported at once, each with field, value and remedy; an unknown key with its
    // line.
    #[test]
    fn control_problems() {
        let yaml = "version: 2\nstore: ''\nadmin: 0.0.0.0:8090\ntarget: 1.5\n";
        let problems = Control::read(yaml).unwrap_err().problems;
        for part in [
            "version: 2 is unknown",
            "store: is empty",
            "target: 1.5 is not a share",
            "admin: 0.0.0.0:8090 accepts connections from other machines",
        ] {
            assert!(problems.iter().any(|p| p.text.contains(part)), "{part}: {problems:#?}");
        }
        let error = Control::read("version: 1\nstroe: a\n").unwrap_err().to_string();
        assert!(error.contains("stroe") && error.contains("line 2"), "{error}");
        let error = Control::read("version: 1\nstore: a\ntoken: short\n").unwrap_err().to_string();
        assert!(
            error.starts_with("token: does not have the form") && !error.contains("short"),
            "{error}"
        );
    }

    // The gateway's section, valid and invalid.
    #[test]
    fn section() {
        let read = |text: &str| Gateway::read(&format!("version: 1\ncontrol: {text}\n"));
        let control = read("{url: 'http://127.0.0.1:8090', name: us-1}").unwrap().control.unwrap();
        assert_eq!(control.url.authorities(), ["127.0.0.1:8090"]);
        assert_eq!((control.lease, control.view), (Span::secs(5), None));
        let error = read("{url: 'https://c', name: US, lease: 10ms, view: ''}");
        let error = error.unwrap_err().to_string();
        for part in [
            "control.url: `https://c`",
            "control.tls: is missing",
            "control.name: `US`",
            "control.lease: 10ms is",
            "control.view: `` is not a file name",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        for url in ["c:1", "http://c", "ftp://c:1", "http://c:1/x", "http://a@c:1"] {
            let error = read(&format!("{{url: '{url}', name: us-1}}")).unwrap_err().to_string();
            assert!(error.contains(&format!("control.url: `{url}` is not an address")), "{error}");
        }
        let error = read("{url: 'http://c:1'}").unwrap_err().to_string();
        assert!(error.contains("control.name: is missing"), "{error}");
    }
}
