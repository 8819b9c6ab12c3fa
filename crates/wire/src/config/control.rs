//! The control plane's configuration, and the gateway's section about it.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::admin_access::check_hosts;
use super::{ConfigError, MutualTls, Span, VERSION, file};
use crate::peer::label;

/// Shortest lease: a third of it is what a renewal may take.
const LEAST_LEASE: Span = Span::secs(1);
/// Longest lease: so long nobody would adopt.
const MOST_LEASE: Span = Span::secs(3600);

/// One control plane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// Schema version: 1.
    pub version: u32,
    /// The store's file; made when it is not there.
    pub store: PathBuf,
    /// Where operators and scrapers connect, and gateways of this machine. Port 0: any free one.
    #[serde(default = "admin")]
    pub admin: SocketAddr,
    /// Names under which the admin port is asked, besides IP addresses and localhost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admin_hosts: Vec<String>,
    /// What every request that changes something has to bring as `Authorization: Bearer ...`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Who connects shows a certificate of the fleet, and so does this; plain HTTP without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<MutualTls>,
    /// The mean use of replicas that the number needed aims at, above 0 and at most 1.
    #[serde(default = "target")]
    pub target: f64,
}

/// The gateway's control plane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registry {
    /// `http://host:port` of its admin port, or `https://host:port`.
    pub url: String,
    /// This gateway's name in the fleet; with `peers` the certificate says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The control plane's token, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The certificates that it is asked with over https; those of `peers` where none are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<MutualTls>,
    /// How long others take this gateway for alive without news of it.
    #[serde(default = "lease")]
    pub lease: Span,
    /// The file in which the gateway keeps its newest view, for a start without the control plane;
    /// it keeps none without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<PathBuf>,
}

fn admin() -> SocketAddr {
    (std::net::Ipv4Addr::LOCALHOST, 8090).into()
}
fn target() -> f64 {
    0.7
}
fn lease() -> Span {
    Span::secs(5)
}

impl Control {
    /// Whether a file is a control plane's configuration rather than a gateway's: it names a store.
    #[must_use]
    pub fn is_in(yaml: &str) -> bool {
        file::parse::<serde_json::Value>(yaml).is_ok_and(|value| value.get("store").is_some())
    }

    /// Reads a configuration without checking it: [`Control::problems`] does.
    ///
    /// # Errors
    /// Where it is none: syntax, an unknown key, a wrong type.
    pub fn parse(yaml: &str) -> Result<Control, ConfigError> {
        file::parse(yaml)
    }

    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn read(yaml: &str) -> Result<Control, ConfigError> {
        file::read(yaml, Control::problems)
    }

    /// The whole configuration as it is in force, defaults written out, the token left out.
    ///
    /// # Errors
    /// Never for a configuration that was read; the serializer's own otherwise.
    pub fn print(&self) -> Result<String, ConfigError> {
        let token = self.token.as_ref().map(|_| "(set)".to_owned());
        let shown = Control { token, ..self.clone() };
        file::print(&shown)
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
        check(
            !self.store.as_os_str().is_empty(),
            "store: is empty; name the file that the registry is kept in".to_owned(),
        );
        check(
            self.target > 0.0 && self.target <= 1.0,
            format!("target: {} is no share; use a number above 0, at most 1", self.target),
        );
        let open = self.admin.ip().is_loopback() || self.token.is_some() || self.tls.is_some();
        check(
            open,
            format!(
                "token: is missing, and admin is {}; set tls or a token, or keep admin on 127.0.0.1",
                self.admin
            ),
        );
        check_hosts("admin_hosts", &self.admin_hosts, &mut check);
        if let Some(tls) = &self.tls {
            tls.check("tls", &mut check);
        }
        check_token("token", self.token.as_deref(), &mut check);
        found
    }
}

impl Registry {
    /// Whether it is asked over TLS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.url.starts_with("https://")
    }

    /// Host and port; none for a URL that [`super::Gateway::problems`] tells of.
    #[must_use]
    pub fn authority(&self) -> Option<http::uri::Authority> {
        let rest =
            self.url.strip_prefix("https://").or_else(|| self.url.strip_prefix("http://"))?;
        let authority: http::uri::Authority =
            rest.strip_suffix('/').unwrap_or(rest).parse().ok()?;
        let fits = !authority.host().is_empty()
            && authority.port_u16().is_some_and(|port| port > 0)
            && !authority.as_str().contains('@');
        fits.then_some(authority)
    }

    pub(super) fn check(&self, has_peers: bool, check: &mut impl FnMut(bool, String)) {
        check(
            self.authority().is_some(),
            format!("control.url: `{}` is no address; write it as http://127.0.0.1:8090", self.url),
        );
        check(
            self.name.is_some() || has_peers,
            "control.name: is missing; give this gateway a name that no other one of the fleet has"
                .to_owned(),
        );
        if let Some(Err(error)) = self.name.as_ref().map(|name| label("name", name)) {
            check(false, format!("control.{error}"));
        }
        check_token("control.token", self.token.as_deref(), check);
        check(
            !self.is_https() || self.tls.is_some() || has_peers,
            "control.tls: is missing; name the certificates to ask it with, or those of peers"
                .to_owned(),
        );
        if let Some(tls) = &self.tls {
            tls.check("control.tls", check);
            check(
                self.is_https(),
                format!("control.tls: is named, and control.url is `{}`; write https://", self.url),
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
                "control.view: `{}` is no file; name one for this gateway alone, as /var/lib/meridian/us-1.view",
                self.view.as_deref().unwrap_or_else(|| "".as_ref()).display()
            ),
        );
    }
}

/// A token is sent in a header, and its value is never shown.
fn check_token(field: &str, token: Option<&str>, check: &mut impl FnMut(bool, String)) {
    let fits = |t: &str| (16..=512).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_graphic());
    check(
        token.is_none_or(fits),
        format!("{field}: is no token; use 16 to 512 printable characters without spaces"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Gateway;

    // The short form is enough and prints as one that reads back; a token is not printed.
    #[test]
    fn control_form() {
        let config = Control::read("version: 1\nstore: fleet.redb\n").unwrap();
        assert_eq!(config.admin.port(), 8090);
        assert_eq!(Control::read(&config.print().unwrap()).unwrap(), config);
        let kept = "version: 1\nstore: a\ntoken: 0123456789abcdef\n";
        let printed = Control::read(kept).unwrap().print().unwrap();
        assert!(printed.contains("(set)") && !printed.contains("0123"), "{printed}");
    }

    // What can't work is told at once, each with field, value and remedy; an unknown key with its
    // line.
    #[test]
    fn control_problems() {
        let yaml = "version: 2\nstore: ''\nadmin: 0.0.0.0:8090\ntarget: 1.5\n";
        let ConfigError::Invalid(problems) = Control::read(yaml).unwrap_err() else {
            panic!("is readable");
        };
        for part in [
            "version: 2 is not known",
            "store: is empty",
            "target: 1.5 is no share",
            "token: is missing, and admin is 0.0.0.0:8090",
        ] {
            assert!(problems.iter().any(|p| p.contains(part)), "{part}: {problems:#?}");
        }
        let error = Control::read("version: 1\nstroe: a\n").unwrap_err().to_string();
        assert!(error.contains("stroe") && error.contains("line 2"), "{error}");
        let error = Control::read("version: 1\nstore: a\ntoken: short\n").unwrap_err().to_string();
        assert!(error.starts_with("token: is no token") && !error.contains("short"), "{error}");
    }

    // The gateway's section, good and bad.
    #[test]
    fn section() {
        let read = |text: &str| Gateway::read(&format!("version: 1\ncontrol: {text}\n"));
        let control = read("{url: 'http://127.0.0.1:8090', name: us-1}").unwrap().control.unwrap();
        assert_eq!(control.authority().unwrap().as_str(), "127.0.0.1:8090");
        assert_eq!((control.lease, control.view), (Span::secs(5), None));
        let error = read("{url: 'https://c', name: US, lease: 10ms, view: ''}");
        let error = error.unwrap_err().to_string();
        for part in [
            "control.url: `https://c`",
            "control.tls: is missing",
            "control.name: `US`",
            "control.lease: 10ms is",
            "control.view: `` is no file",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        for url in ["c:1", "http://c", "ftp://c:1", "http://c:1/x", "http://a@c:1"] {
            let error = read(&format!("{{url: '{url}', name: us-1}}")).unwrap_err().to_string();
            assert!(error.contains(&format!("control.url: `{url}` is no address")), "{error}");
        }
        let error = read("{url: 'http://c:1'}").unwrap_err().to_string();
        assert!(error.contains("control.name: is missing"), "{error}");
    }
}
